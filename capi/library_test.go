//go:build linux && cgo

package main

import (
	"debug/elf"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// library builds the library with settings added ahead of make env's, and returns the directory it is in.
func library(t *testing.T, name string, env ...string) string {
	t.Helper()
	return buildOnce(t, "library "+name, func(dir string) error {
		for i, variable := range env {
			name, value, _ := strings.Cut(variable, "=")
			env[i] = name + "=" + strings.TrimSpace(value+" "+strings.Join(settings(t, name), " "))
		}
		return tool("..", env, "scripts/with-xnnpack", "scripts/build-lib", dir)
	})
}

// declared returns the functions of the installed header.
func declared(t *testing.T) []string {
	t.Helper()
	header, err := os.ReadFile(filepath.Join(installed(t), prefix, "include", "xpwc.h"))
	require.NoError(t, err)
	var names []string
	function := regexp.MustCompile(`(?m)^(?:const char\*|void|uint32_t|xpwc_status) (xpwc_\w+)\(`)
	for _, match := range function.FindAllSubmatch(header, -1) {
		names = append(names, string(match[1]))
	}
	slices.Sort(names)
	require.Contains(t, names, "xpwc_open")
	require.Contains(t, names, "xpwc_names_free")
	require.Contains(t, names, "xpwc_session_load")
	return names
}

func TestTheSharedLibraryExportsWhatTheHeaderDeclares(t *testing.T) {
	t.Parallel()
	f, err := elf.Open(filepath.Join(installed(t), prefix, "lib", "libxpwc.so"))
	require.NoError(t, err)
	defer f.Close()
	symbols, err := f.DynamicSymbols()
	require.NoError(t, err)
	var exported, wanted []string
	for _, s := range symbols {
		if strings.Contains(s.Name, "_xnnpack_key") {
			continue // xpwc_open and xpwc_open_fd again
		}
		if s.Section != elf.SHN_UNDEF {
			exported = append(exported, s.Name)
		} else {
			wanted = append(wanted, s.Name)
		}
	}
	slices.Sort(exported)
	require.Equal(t, declared(t), exported)
	require.Contains(t, wanted, "xnn_initialize", "XNNPACK is the host's")

	needed, err := f.ImportedLibraries()
	require.NoError(t, err)
	for _, name := range needed {
		require.NotRegexp(t, `(?i)xnnpack|pthreadpool|cpuinfo|microkernels`, name)
	}
	for _, tag := range []elf.DynTag{elf.DT_RPATH, elf.DT_RUNPATH} {
		paths, err := f.DynString(tag)
		require.NoError(t, err)
		require.Empty(t, paths)
	}
}
