//go:build linux && cgo

package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What messages call the XNNPACKs whose weights caches have structs of these sizes.
const (
	oldest = "XNNPACK from before November 2025 (look-up key of 24 bytes, provider of 56)"
	newest = "XNNPACK of March 2026 or later (look-up key of 32 bytes, provider of 64)"
)

// ages returns the age of the XNNPACK that the tests are linked with, and of otherXNNPACK's header.
func ages(t *testing.T) (linked, compiled string) {
	t.Helper()
	header, err := os.ReadFile(filepath.Join(otherXNNPACK(t), "xnnpack.h"))
	require.NoError(t, err)
	if strings.Contains(string(header), "(*alias_data)") {
		return oldest, newest
	}
	return newest, oldest
}

// requireRefusedByLinker checks the linker's message for a host of another XNNPACK.
func requireRefusedByLinker(t *testing.T, err error) {
	t.Helper()
	names := map[string]string{oldest: "key24_provider56", newest: "key32_provider64"}
	sizes := map[string][2]string{oldest: {"24", "56"}, newest: {"32", "64"}}
	linked, compiled := ages(t)
	require.ErrorContains(t, err, "undefined reference to `xpwc_open_xnnpack_"+names[compiled]+"'")
	require.ErrorContains(t, err, "libxpwc was built for an XNNPACK whose look-up key has "+sizes[linked][0]+
		" bytes and whose provider has "+sizes[linked][1])
	require.ErrorContains(t, err,
		"this program is compiled for one with "+sizes[compiled][0]+" and "+sizes[compiled][1])
}

func TestAHostOfAnotherXNNPACKDoesNotLink(t *testing.T) {
	t.Parallel()
	tree, header := filepath.Join(installed(t), prefix), "-I"+otherXNNPACK(t)
	for _, c := range compilers {
		for _, l := range linkages {
			for _, level := range []string{"-O0", "-O2", "-O3"} {
				t.Run(c.command+" "+string(l)+" "+level, func(t *testing.T) {
					t.Parallel()
					if c.missing() {
						t.Skip("it is not installed")
					}
					build := func(headers ...string) error {
						args := append([]string{level, "-o", filepath.Join(t.TempDir(), "host")}, warnings...)
						args = append(append(args, c.flags...), headers...)
						args = append(append(args, "-I"+filepath.Join(tree, "include")), settings(t, "CGO_CFLAGS")...)
						args = append(args, "testdata/opening.c", "-x", "none")
						return tool("", nil, c.command, append(args, l.flags(t, filepath.Join(tree, "lib"))...)...)
					}
					require.NoError(t, build())
					requireRefusedByLinker(t, build(header))
				})
			}
		}
	}
}

func TestAHostOfAnotherXNNPACKDoesNotLinkHoweverItFindsTheLibrary(t *testing.T) {
	t.Parallel()
	tree, header := filepath.Join(installed(t), prefix), "-I"+otherXNNPACK(t)
	linked, _ := ages(t)
	for _, name := range []string{"xpwc", "xpwc-static"} {
		t.Run("pkg-config "+name, func(t *testing.T) {
			t.Parallel()
			ask := pkgConfig(t, tree, name)
			require.Equal(t, linked, ask("--variable=xnnpack"))
			args := []string{"-O2", header, "-o", filepath.Join(t.TempDir(), "host"), "testdata/opening.c"}
			args = append(append(args, strings.Fields(ask("--cflags"))...), settings(t, "CGO_CFLAGS")...)
			args = append(append(args, strings.Fields(ask("--libs"))...), settings(t, "CGO_LDFLAGS")...)
			requireRefusedByLinker(t, tool("", nil, "gcc", append(args, xnnpackLibraries...)...))
		})
	}
	for _, shared := range []string{"OFF", "ON"} {
		t.Run("CMake XPWC_SHARED="+shared, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath("cmake"); err != nil {
				t.Skip("there is no cmake")
			}
			build := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(build, "CMakeLists.txt"), []byte(`
cmake_minimum_required(VERSION 3.16)
project(host LANGUAGES C CXX)
find_package(xpwc REQUIRED)
message(STATUS "built for ${xpwc_XNNPACK}")
add_executable(host "${SOURCE}")
target_link_libraries(host PRIVATE xpwc::xpwc ${XNNPACK_LIBRARIES})
`), 0o600))
			source, err := filepath.Abs("testdata/opening.c")
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), timeLimit)
			defer cancel()
			configure := command(ctx, "", nil, "cmake", "-S", build, "-B", build, "-DSOURCE="+source,
				"-DCMAKE_PREFIX_PATH="+tree, "-DXPWC_SHARED="+shared,
				"-DCMAKE_C_FLAGS="+strings.Join(append([]string{header}, settings(t, "CGO_CFLAGS")...), " "),
				"-DCMAKE_EXE_LINKER_FLAGS="+strings.Join(settings(t, "CGO_LDFLAGS"), " "),
				"-DXNNPACK_LIBRARIES="+strings.Join(xnnpackLibraries, ";"))
			out, err := configure.CombinedOutput()
			require.NoError(t, err, "%s", out)
			require.Contains(t, string(out), "built for "+linked)
			requireRefusedByLinker(t, tool("", nil, "cmake", "--build", build))
		})
	}
}

// A host and its library may be compiled with the header of one XNNPACK and linked with another. A program in Go, whose
// build cache does not see that a header changed, fails alike: the library is such a program.
func TestALibraryThatMeetsAnotherXNNPACKOpensNothing(t *testing.T) {
	t.Parallel()
	linked, compiled := ages(t)
	header := "-I" + otherXNNPACK(t)
	lib := library(t, "of another XNNPACK", "CGO_CFLAGS="+header)
	for name, p := range map[string]program{
		"static": {linkage: static, flags: []string{header}},
		"shared": {linkage: shared, flags: []string{header}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p.source, p.compiler, p.lib = "opening.c", compilersFor("opening.c")[0], lib
			path := filepath.Join(t.TempDir(), "cache")
			out := p.run(t, nil, path)
			require.Equal(t, 3, strings.Count(out, "XPWC_STATUS_OTHER_XNNPACK"), "%s", out)
			require.Contains(t, out, "compiled for "+compiled)
			require.Contains(t, out, "linked with "+linked)
			info, err := os.Stat(path) // as the host has made it, for xpwc_open_fd
			require.NoError(t, err)
			require.Zero(t, info.Size())
		})
	}
	t.Run("right", func(t *testing.T) {
		t.Parallel()
		p := program{source: "opening.c", compiler: compilersFor("opening.c")[0], linkage: shared}
		require.Equal(t, strings.Repeat("XPWC_STATUS_OK\n", 3)+"\n", p.run(t, nil, filepath.Join(t.TempDir(), "cache")))
	})
}

func TestTheLibraryReportsItsXNNPACK(t *testing.T) {
	t.Parallel()
	linked, _ := ages(t)
	p := program{source: "xnnpack.c", compiler: compilersFor("xnnpack.c")[0], linkage: shared}
	require.Equal(t, linked+"\n", p.run(t, nil))
}

func TestAReaderThatMeetsAnotherXNNPACKOpensNothing(t *testing.T) {
	t.Parallel()
	linked, compiled := ages(t)
	tree := filepath.Join(installed(t), prefix)
	host := filepath.Join(t.TempDir(), "reads")
	args := []string{"-o", host, "testdata/reads.c", filepath.Join(tree, "share", "xpwc", "reader", "xpwc_reader.c"),
		"-I" + otherXNNPACK(t), "-I" + filepath.Join(tree, "include")}
	args = append(append(args, settings(t, "CGO_CFLAGS")...), settings(t, "CGO_LDFLAGS")...)
	require.NoError(t, tool("", nil, "gcc", append(args, xnnpackLibraries...)...))
	out, err := exec.Command(host, "../internal/format/testdata/version4.golden").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "XPWC_STATUS_OTHER_XNNPACK")
	require.Contains(t, string(out), "compiled for "+compiled)
	require.Contains(t, string(out), "linked with "+linked)
}
