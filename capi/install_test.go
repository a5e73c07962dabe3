//go:build linux && cgo

package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// trees are the installed tree, where it was installed and where it was moved.
func trees(t *testing.T) map[string]string {
	t.Helper()
	moved := buildOnce(t, "moved", func(path string) error {
		return os.CopyFS(path, os.DirFS(filepath.Join(installed(t), prefix)))
	})
	return map[string]string{"installed": filepath.Join(installed(t), prefix), "moved": moved}
}

// filesOf returns the paths of all files in a tree.
func filesOf(t *testing.T, tree string) (files []string) {
	t.Helper()
	require.NoError(t, filepath.Walk(tree, func(path string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() {
			name, relErr := filepath.Rel(tree, path)
			files, err = append(files, name), relErr
		}
		return err
	}))
	return files
}

func TestInstallInstallsThese(t *testing.T) {
	t.Parallel()
	tree := installed(t)
	var files, pages, libraries, licences []string
	for _, name := range filesOf(t, tree) {
		switch {
		case strings.HasPrefix(name, "usr/share/man/man1/xpwc-"):
			pages = append(pages, name)
		case strings.HasPrefix(name, "usr/libexec/xpwc/"):
			libraries = append(libraries, name)
		case strings.HasPrefix(name, "usr/share/doc/xpwc/third_party/"):
			licences = append(licences, name)
		default:
			files = append(files, name)
		}
	}
	require.ElementsMatch(t, []string{
		"usr/include/xpwc.h", "usr/include/xpwc.hpp", "usr/include/xpwc_packing.hpp", "usr/include/xpwc_executorch.hpp",
		"usr/lib/libxpwc.a", "usr/lib/libxpwc.so", "usr/lib/" + soname(t),
		"usr/lib/pkgconfig/xpwc.pc", "usr/lib/pkgconfig/xpwc-static.pc", "usr/lib/pkgconfig/xpwc-reader.pc",
		"usr/lib/cmake/xpwc/xpwc-config.cmake", "usr/lib/cmake/xpwc/xpwc-config-version.cmake",
		"usr/share/xpwc/executorch/constants.cc", "usr/share/xpwc/executorch/constants.h",
		"usr/share/xpwc/executorch/graph.cc", "usr/share/xpwc/executorch/graph.h",
		"usr/share/xpwc/executorch/names.cc", "usr/share/xpwc/executorch/names.h",
		"usr/share/xpwc/executorch/provider.cc", "usr/share/xpwc/executorch/provider.h",
		"usr/share/xpwc/executorch/manager.cc", "usr/share/xpwc/executorch/runtime.h",
		"usr/share/xpwc/executorch/weights_cache.cc",
		"usr/include/xpwc_reader.h", "usr/include/xpwc_reader_executorch.hpp",
		"usr/share/xpwc/reader/xpwc_reader.c",
		"usr/share/xpwc/reader/digest.h", "usr/share/xpwc/reader/identity.h", "usr/share/xpwc/reader/status.h",
		"usr/share/xpwc/reader/internal/ask/abi.c", "usr/share/xpwc/reader/internal/ask/ask.h",
		"usr/share/xpwc/reader/internal/ask/build_identifier.c", "usr/share/xpwc/reader/internal/ask/key.h",
		"usr/share/xpwc/reader/internal/ask/layout.c", "usr/share/xpwc/reader/internal/ask/node.c",
		"usr/share/xpwc/reader/internal/ask/node.h", "usr/share/xpwc/reader/internal/ask/packed_size.c",
		"usr/share/xpwc/reader/internal/ask/processor.c",
		"usr/bin/xpwc", "usr/share/man/man1/xpwc.1", "usr/share/doc/xpwc/LICENSE", "usr/share/doc/xpwc/NOTICE",
		"usr/share/bash-completion/completions/xpwc", "usr/share/zsh/site-functions/_xpwc",
		"usr/share/fish/vendor_completions.d/xpwc.fish",
	}, files)
	require.Contains(t, pages, "usr/share/man/man1/xpwc-inspect.1")
	require.Contains(t, licences, "usr/share/doc/xpwc/third_party/go/LICENSE")
	require.Contains(t, licences, "usr/share/doc/xpwc/third_party/github.com/spf13/cobra/LICENSE.txt")
	if len(libraries) > 0 { // of third_party
		require.Regexp(t, `/libxnnpack[0-9.]+/copyright|/executorch/LICENSE`, strings.Join(licences, " "))
	}
	for _, name := range files {
		if strings.HasPrefix(name, "usr/lib/libxpwc") || name == "usr/bin/xpwc" ||
			strings.HasPrefix(name, "usr/share/doc/") {
			continue
		}
		content, err := os.ReadFile(filepath.Join(tree, name))
		require.NoError(t, err)
		require.NotContains(t, string(content), tree)
		require.NotRegexp(t, "@[A-Z_]+@", string(content))
	}
}

// TestWhatIsInstalledNeedsNothingOfTheClone hides the clone, where the system allows that.
func TestWhatIsInstalledNeedsNothingOfTheClone(t *testing.T) {
	t.Parallel()
	tree := t.TempDir()
	dirs := []string{"PREFIX=" + tree, "LIBDIR=" + filepath.Join(tree, "lib", "here"), "DESTDIR="}
	require.NoError(t, tool("..", nil, "make", append([]string{"-s", "install"}, dirs...)...))
	clone, err := filepath.Abs("..")
	require.NoError(t, err)
	for _, name := range filesOf(t, tree) {
		content, err := os.ReadFile(filepath.Join(tree, name))
		require.NoError(t, err)
		require.NotContains(t, string(content), clone, name)
	}
	model, err := os.ReadFile("../third_party/models/face_detection_short_range.tflite")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(tree, "model.tflite"), model, 0o600))
	t.Run("the tool", func(t *testing.T) {
		hide := func(then string) error {
			return tool("/", nil, "unshare", "--mount", "--map-root-user", "sh", "-c",
				`mount -t tmpfs none "$0" && [ -z "$(ls "$0")" ] && `+then, clone, tree)
		}
		const use = `cd "$1" && bin/xpwc pack model.tflite -o model.xpwc && ` +
			`bin/xpwc run model.tflite --cache model.xpwc`
		if err := hide("true"); err != nil {
			t.Logf("the clone cannot be hidden here: %v", err)
			require.NoError(t, tool("/", nil, "sh", "-c", use, "sh", tree))
			return
		}
		require.NoError(t, hide(use))
	})
	t.Run("its pages", func(t *testing.T) {
		page, err := os.ReadFile(filepath.Join(tree, "share", "man", "man1", "xpwc-pack.1"))
		require.NoError(t, err)
		require.NotContains(t, string(page), "Not in this build")
	})
	t.Run("the library", func(t *testing.T) {
		cmd := exec.Command("pkg-config", "--cflags", "--libs", "xpwc-static")
		cmd.Env = append(os.Environ(), "PKG_CONFIG_PATH="+filepath.Join(tree, "lib", "here", "pkgconfig"))
		out, err := cmd.Output()
		if errors.Is(err, exec.ErrNotFound) {
			t.Skip("there is no pkg-config")
		}
		require.NoError(t, err)
		for _, flag := range strings.Fields(string(out)) {
			if path := strings.TrimPrefix(flag, "-I"); strings.HasPrefix(path, "/") {
				_, err := os.Stat(path)
				require.NoError(t, err)
			}
		}
	})
	require.NoError(t, os.RemoveAll(filepath.Join(tree, "model.tflite")))
	require.NoError(t, os.RemoveAll(filepath.Join(tree, "model.xpwc")))
	require.NoError(t, tool("..", nil, "make", append([]string{"-s", "uninstall"}, dirs...)...))
	require.Empty(t, filesOf(t, tree))
}

// TestInstallLeavesOutOtherSettings is about a shell that has what make env printed in another clone, or for another
// XNNPACK.
func TestInstallLeavesOutOtherSettings(t *testing.T) {
	t.Parallel()
	foreign := filepath.Join(t.TempDir(), "third_party", "amd64", "usr")
	flags := "-L" + foreign + " -Wl,--disable-new-dtags,-rpath," + foreign +
		" -Wl,--dynamic-linker=" + foreign + "/ld.so"
	env := []string{"CGO_CFLAGS=-O1 -I" + foreign, "CGO_LDFLAGS=" + flags + " -Wl,-O1",
		"XPWC_FLAGS=-I" + foreign + " " + flags}
	for _, xnnpack := range []string{"debian", "executorch"} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		settings, err := command(ctx, "..", append(env, "XNNPACK="+xnnpack), "scripts/with-xnnpack", "--print").Output()
		require.NoError(t, err)
		require.Contains(t, string(settings), "-Wl,-O1") // the user's own
		require.Contains(t, string(settings), "-O1 -I")
		require.NotContains(t, string(settings), foreign)
	}
}

// requireWarm runs a consumer, which is warm.c, twice.
func requireWarm(t *testing.T, consumer string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cache")
	require.NoError(t, tool("", nil, consumer, path, "cold", "callbacks"))
	require.NoError(t, tool("", nil, consumer, path, "warm", "callbacks"))
}

// requireReads runs a consumer, which is reads.c: it needs nothing of the library.
func requireReads(t *testing.T, consumer string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "golden")
	golden, err := os.ReadFile("../internal/format/testdata/version4.golden")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, golden, 0o600))
	out, err := exec.Command(consumer, file).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, "5 entries\n", string(out))
}

func TestPkgConfigFindsTheReader(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("pkg-config"); err != nil {
		t.Skip("there is no pkg-config")
	}
	for name, tree := range trees(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ask := pkgConfig(t, tree, "xpwc-reader")
			require.Equal(t, version(t), ask("--modversion"))
			consumer := filepath.Join(t.TempDir(), "reads")
			args := append([]string{"-std=c99"}, warnings...)
			args = append(args, "-o", consumer, "testdata/reads.c",
				filepath.Join(ask("--variable=reader"), "xpwc_reader.c"))
			args = append(append(args, strings.Fields(ask("--cflags"))...), settings(t, "CGO_CFLAGS")...)
			args = append(append(args, settings(t, "CGO_LDFLAGS")...), xnnpackLibraries...)
			require.NoError(t, tool("", nil, "gcc", args...))
			requireReads(t, consumer)
		})
	}
}

// pkgConfig returns a function that asks pkg-config about a package of an installed tree. The test is skipped where
// there is no pkg-config.
func pkgConfig(t *testing.T, tree, name string) (ask func(args ...string) string) {
	t.Helper()
	if _, err := exec.LookPath("pkg-config"); err != nil {
		t.Skip("there is no pkg-config")
	}
	return func(args ...string) string {
		cmd := exec.Command("pkg-config", append(args, name)...)
		cmd.Env = append(os.Environ(), "PKG_CONFIG_PATH="+filepath.Join(tree, "lib", "pkgconfig"))
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return strings.TrimSpace(string(out))
	}
}

func TestPkgConfigFindsTheLibrary(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("pkg-config"); err != nil {
		t.Skip("there is no pkg-config")
	}
	for place, tree := range trees(t) {
		for _, name := range []string{"xpwc", "xpwc-static"} {
			t.Run(place+" "+name, func(t *testing.T) {
				t.Parallel()
				ask := pkgConfig(t, tree, name)
				require.Equal(t, version(t), ask("--modversion"))
				require.FileExists(t, filepath.Join(ask("--variable=executorch"), "weights_cache.cc"))
				consumer := filepath.Join(t.TempDir(), "consumer")
				args := []string{"-std=c99", "-o", consumer, "testdata/warm.c"}
				args = append(args, strings.Fields(ask("--cflags"))...)
				args = append(args, settings(t, "CGO_CFLAGS")...)
				args = append(append(args, strings.Fields(ask("--libs"))...), "-Wl,-rpath,"+filepath.Join(tree, "lib"))
				args = append(append(args, settings(t, "CGO_LDFLAGS")...), xnnpackLibraries...)
				require.NoError(t, tool("", nil, "gcc", args...))
				requireWarm(t, consumer)
			})
		}
	}
}

func TestCMakeFindsTheLibrary(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("cmake"); err != nil {
		t.Skip("there is no cmake")
	}
	flags := strings.Join(settings(t, "CGO_CFLAGS"), " ")
	torch := executorch(t)
	configure := func(build, tree string, args ...string) error {
		return tool("", nil, "cmake", append([]string{
			"-S", "testdata/consumer", "-B", build, "-DCMAKE_PREFIX_PATH=" + tree,
			"-DCMAKE_C_FLAGS=" + flags, "-DCMAKE_CXX_FLAGS=" + flags,
			"-DCMAKE_EXE_LINKER_FLAGS=" + strings.Join(settings(t, "CGO_LDFLAGS"), " "),
			"-DXNNPACK_LIBRARIES=" + strings.Join(xnnpackLibraries, ";"),
			"-DEXECUTORCH_INCLUDE=" + torch + "/include;" +
				torch + "/include/executorch/runtime/core/portable_type/c10",
			"-DEXECUTORCH_LIBRARY=" + torch + "/lib/libexecutorch.so",
		}, args...)...)
	}
	series := version(t)[:strings.LastIndex(version(t), ".")]
	for name, tree := range trees(t) {
		for _, linkage := range []string{"OFF", "ON"} {
			t.Run(name+" XPWC_SHARED="+linkage, func(t *testing.T) {
				t.Parallel()
				build := t.TempDir()
				require.NoError(t, configure(build, tree, "-DXPWC_SHARED="+linkage, "-DXPWC_WANTED="+series))
				require.NoError(t, tool("", nil, "cmake", "--build", build, "--target", "consumer"))
				requireWarm(t, filepath.Join(build, "consumer"))
				require.NoError(t, tool("", nil, "cmake", "--build", build, "--target", "reads"))
				requireReads(t, filepath.Join(build, "reads"))
				if name == "moved" && linkage == "ON" { // once: it takes ten times as long
					require.NoError(t, tool("", nil, "cmake", "--build", build))
					require.NoError(t, tool("", nil, filepath.Join(build, "dropin")))
				}
			})
		}
	}
	t.Run("a version that it is not", func(t *testing.T) {
		t.Parallel()
		for _, wanted := range []string{"0.1", "99.0", series + ".999"} {
			err := configure(t.TempDir(), filepath.Join(installed(t), prefix), "-DXPWC_WANTED="+wanted)
			require.Error(t, err)
			require.Regexp(t, `compatible\s+with\s+requested\s+version\s+"`+regexp.QuoteMeta(wanted), err.Error())
		}
	})
}
