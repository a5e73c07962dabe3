//go:build linux && cgo

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

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

func TestInstallInstallsThese(t *testing.T) {
	t.Parallel()
	tree := installed(t)
	var files []string
	require.NoError(t, filepath.Walk(tree, func(path string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() {
			name, relErr := filepath.Rel(tree, path)
			files, err = append(files, name), relErr
		}
		return err
	}))
	require.ElementsMatch(t, []string{
		"usr/include/xpwc.h", "usr/include/xpwc.hpp", "usr/include/xpwc_packing.hpp", "usr/include/xpwc_executorch.hpp",
		"usr/lib/libxpwc.a", "usr/lib/libxpwc.so", "usr/lib/" + soname(t),
		"usr/lib/pkgconfig/xpwc.pc", "usr/lib/pkgconfig/xpwc-static.pc",
		"usr/lib/cmake/xpwc/xpwc-config.cmake", "usr/lib/cmake/xpwc/xpwc-config-version.cmake",
		"usr/share/xpwc/executorch/constants.cc", "usr/share/xpwc/executorch/constants.h",
		"usr/share/xpwc/executorch/names.cc", "usr/share/xpwc/executorch/names.h",
		"usr/share/xpwc/executorch/provider.cc", "usr/share/xpwc/executorch/provider.h",
		"usr/share/xpwc/executorch/manager.cc", "usr/share/xpwc/executorch/runtime.h",
		"usr/share/xpwc/executorch/weights_cache.cc",
	}, files)
	for _, name := range files {
		if strings.HasPrefix(name, "usr/lib/libxpwc") {
			continue
		}
		content, err := os.ReadFile(filepath.Join(tree, name))
		require.NoError(t, err)
		require.NotContains(t, string(content), tree)
		require.NotContains(t, string(content), "@")
	}
}

// requireWarm runs a consumer, which is warm.c, twice.
func requireWarm(t *testing.T, consumer string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cache")
	require.NoError(t, tool("", nil, consumer, path, "cold", "callbacks"))
	require.NoError(t, tool("", nil, consumer, path, "warm", "callbacks"))
}

func TestPkgConfigFindsTheLibrary(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("pkg-config"); err != nil {
		t.Skip("there is no pkg-config")
	}
	for where, tree := range trees(t) {
		for _, name := range []string{"xpwc", "xpwc-static"} {
			t.Run(where+" "+name, func(t *testing.T) {
				t.Parallel()
				ask := func(args ...string) string {
					cmd := exec.Command("pkg-config", append(args, name)...)
					cmd.Env = append(os.Environ(), "PKG_CONFIG_PATH="+filepath.Join(tree, "lib", "pkgconfig"))
					out, err := cmd.CombinedOutput()
					require.NoError(t, err, "%s", out)
					return strings.TrimSpace(string(out))
				}
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
	configure := func(build, tree string, more ...string) error {
		return tool("", nil, "cmake", append([]string{
			"-S", "testdata/consumer", "-B", build, "-DCMAKE_PREFIX_PATH=" + tree,
			"-DCMAKE_C_FLAGS=" + flags, "-DCMAKE_CXX_FLAGS=" + flags,
			"-DCMAKE_EXE_LINKER_FLAGS=" + strings.Join(settings(t, "CGO_LDFLAGS"), " "),
			"-DXNNPACK_LIBRARIES=" + strings.Join(xnnpackLibraries, ";"),
			"-DEXECUTORCH_INCLUDE=" + torch + "/include;" +
				torch + "/include/executorch/runtime/core/portable_type/c10",
			"-DEXECUTORCH_LIBRARY=" + torch + "/lib/libexecutorch.so",
		}, more...)...)
	}
	series := version(t)[:strings.LastIndex(version(t), ".")]
	for where, tree := range trees(t) {
		for _, linkage := range []string{"OFF", "ON"} {
			t.Run(where+" XPWC_SHARED="+linkage, func(t *testing.T) {
				t.Parallel()
				build := t.TempDir()
				require.NoError(t, configure(build, tree, "-DXPWC_SHARED="+linkage, "-DXPWC_WANTED="+series))
				require.NoError(t, tool("", nil, "cmake", "--build", build))
				requireWarm(t, filepath.Join(build, "consumer"))
				require.NoError(t, tool("", nil, filepath.Join(build, "dropin")))
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
