//go:build linux && cgo

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheHeaderCompilesAloneInEveryLanguage(t *testing.T) {
	t.Parallel()
	standards := map[string][]string{
		"c":   {"c99", "c11", "c17", "gnu99", "gnu2x"},
		"c++": {"c++11", "c++14", "c++17", "c++20", "gnu++20"},
	}
	for _, c := range compilers {
		if c.missing() {
			continue
		}
		language := c.flags[1]
		for _, standard := range standards[language] {
			t.Run(c.command+" "+standard, func(t *testing.T) {
				t.Parallel()
				source := filepath.Join(t.TempDir(), "alone."+language)
				require.NoError(t, os.WriteFile(source, []byte("#include <xpwc.h>\n#include <xpwc.h>\n"), 0o600))
				args := append([]string{"-fsyntax-only", "-x", language, "-std=" + standard}, warnings...)
				args = append(args, "-I"+filepath.Join(installed(t), prefix, "include"))
				args = append(args, settings(t, "CGO_CFLAGS")...)
				require.NoError(t, tool("", nil, c.command, append(args, source)...))
			})
		}
	}
}

func TestWithoutXNNPACKTheHeadersSayHowToGiveItAndNothingElse(t *testing.T) {
	t.Parallel()
	for header, compiler := range map[string]string{"xpwc.h": "gcc", "xpwc.hpp": "g++"} {
		source := filepath.Join(t.TempDir(), "alone.cc")
		require.NoError(t, os.WriteFile(source, []byte("#include <"+header+">\n"), 0o600))
		err := tool("", nil, compiler, "-fsyntax-only", "-std=c++17",
			"-I"+filepath.Join(installed(t), prefix, "include"), source)
		if err == nil {
			t.Skip("the compiler finds an XNNPACK by itself")
		}
		require.ErrorContains(t, err, "XNNPACK is not found")
		require.ErrorContains(t, err, "-I/its/include")
		require.NotContains(t, err.Error(), "xnn_datatype", "what follows from the mistake hides it")
	}
}

func TestBelowCXX17TheHeaderSaysSoAndNothingElse(t *testing.T) {
	t.Parallel()
	source := filepath.Join(t.TempDir(), "alone.cc")
	require.NoError(t, os.WriteFile(source, []byte("#include <xpwc.hpp>\n"), 0o600))
	for _, c := range compilersFor("alone.cc") {
		args := append([]string{"-fsyntax-only", "-std=c++14", "-I" + filepath.Join(installed(t), prefix, "include")},
			settings(t, "CGO_CFLAGS")...)
		err := tool("", nil, c.command, append(args, source)...)
		require.ErrorContains(t, err, "xpwc.hpp needs C++17: compile with -std=c++17")
		require.NotContains(t, err.Error(), "optional", "what follows from the mistake hides it")
	}
}

// Sessions in a std::optional, as hosts have them, make GCC look for members that are not initialised.
func TestHostsCompileWithoutWarningsHoweverTheyAreOptimised(t *testing.T) {
	t.Parallel()
	for _, c := range compilersFor("optional.cc") {
		for _, level := range []string{"-Og", "-O2", "-O3"} {
			args := append([]string{"-c", "-o", "/dev/null", level}, warnings...)
			args = append(append(args, c.flags...), "-I"+filepath.Join(installed(t), prefix, "include"))
			args = append(append(args, settings(t, "CGO_CFLAGS")...), filepath.Join("testdata", "optional.cc"))
			require.NoError(t, tool("", nil, c.command, args...))
		}
	}
}

// xnnpackHeader returns the path of the xnnpack.h at hand.
func xnnpackHeader(t *testing.T) string {
	t.Helper()
	cmd := exec.Command("gcc", append(settings(t, "CGO_CFLAGS"), "-M", "-x", "c", "-")...)
	cmd.Stdin = strings.NewReader("#include <xnnpack.h>\n")
	out, err := cmd.Output()
	require.NoError(t, err)
	for _, path := range strings.Fields(string(out)) {
		if filepath.Base(path) == "xnnpack.h" {
			return path
		}
	}
	require.Fail(t, "no xnnpack.h", "%s", out)
	return ""
}

// newer returns a flag that finds an xnnpack.h of March 2026 or later, made of the one at hand; none if that is as new.
func newer(t *testing.T) (flags []string) {
	t.Helper()
	header, err := os.ReadFile(xnnpackHeader(t))
	require.NoError(t, err)
	if bytes.Contains(header, []byte("(*alias_data)")) {
		return nil
	}
	dir := buildOnce(t, "newer", func(dir string) error {
		for _, member := range []struct{ last, added string }{
			{"  const void* bias;\n};\n", "  uint32_t fingerprint_id;\n"},
			{
				"  enum xnn_status (*delete_cache)(void* context);\n};\n",
				"  enum xnn_status (*alias_data)(void* context, void* alias, void* original);\n",
			},
		} {
			if bytes.Contains(header, []byte(member.added)) {
				continue // it is that new
			}
			require.Equal(t, 1, bytes.Count(header, []byte(member.last)), "xnnpack.h has no place for %s", member.added)
			end := strings.TrimSuffix(member.last, "};\n")
			header = bytes.Replace(header, []byte(member.last), []byte(end+member.added+"};\n"), 1)
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, "xnnpack.h"), header, 0o600)
	})
	return []string{"-I" + dir, "-DPLAYS_NEWER_XNNPACK"}
}

// otherXNNPACK returns the directory of an xnnpack.h whose weights cache has other structs than the one at hand.
func otherXNNPACK(t *testing.T) string {
	t.Helper()
	if flags := newer(t); flags != nil {
		return strings.TrimPrefix(flags[0], "-I")
	}
	return buildOnce(t, "older", func(dir string) error {
		header, err := os.ReadFile(xnnpackHeader(t))
		if err != nil {
			return err
		}
		for _, member := range []string{`uint32_t fingerprint_id;`, `enum xnn_status \(\*alias_data\)\([^)]*\);`} {
			pattern := regexp.MustCompile(`(?m)^  ` + member + `$`)
			require.Len(t, pattern.FindAll(header, -1), 1, member)
			header = pattern.ReplaceAll(header, nil)
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, "xnnpack.h"), header, 0o600)
	})
}

// newerLibrary returns the library built with the flag of newer; "" without one, for the current library.
func newerLibrary(t *testing.T, flags []string) string {
	t.Helper()
	if flags == nil {
		return ""
	}
	return library(t, "newer", "CGO_CFLAGS="+flags[0])
}

func TestTheLibraryServesANewerXNNPACK(t *testing.T) {
	t.Parallel()
	flags := newer(t)
	lib := newerLibrary(t, flags)
	for _, c := range append(compilersFor("newer.c"), compilersFor("newer.cc")...) {
		t.Run(c.command, func(t *testing.T) {
			p := program{source: "newer.c", compiler: c, linkage: static, flags: flags, lib: lib}
			p.run(t, nil, t.TempDir())
		})
	}
}
