//go:build linux && cgo

package main

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
)

// headerDefines returns what the header defines a macro as.
func headerDefines(t *testing.T, macro string) string {
	t.Helper()
	header, err := os.ReadFile("include/xpwc.h")
	require.NoError(t, err)
	match := regexp.MustCompile(`(?m)^#define ` + macro + ` "?([^"\n]*)"?$`).FindSubmatch(header)
	require.NotNil(t, match)
	return string(match[1])
}

func version(t *testing.T) string {
	t.Helper()
	return headerDefines(t, "XPWC_VERSION")
}

// soname is the shared library's: it has the minor version until 1.0.
func soname(t *testing.T) string {
	t.Helper()
	parts := strings.Split(version(t), ".")
	if parts[0] == "0" {
		return "libxpwc.so.0." + parts[1]
	}
	return "libxpwc.so." + parts[0]
}

func TestEverythingHasTheSameVersion(t *testing.T) {
	t.Parallel()
	require.Equal(t, xpwc.Version, version(t), "the header's is the module's")

	var major, minor, patch int
	_, err := fmt.Sscanf(version(t), "%d.%d.%d", &major, &minor, &patch)
	require.NoError(t, err)
	require.Equal(t, fmt.Sprint(major*10000+minor*100+patch), headerDefines(t, "XPWC_VERSION_NUMBER"))

	changes, err := os.ReadFile("../CHANGELOG.md")
	require.NoError(t, err)
	newest := regexp.MustCompile(`(?m)^## (.*)$`).FindSubmatch(changes)
	require.NotNil(t, newest)
	require.Equal(t, xpwc.Version, string(newest[1]), "the changelog begins with it")

	f, err := elf.Open(filepath.Join(installed(t), prefix, "lib", "libxpwc.so"))
	require.NoError(t, err)
	defer f.Close()
	name, err := f.DynString(elf.DT_SONAME)
	require.NoError(t, err)
	require.Equal(t, []string{soname(t)}, name)

	xpwcTool := filepath.Join(t.TempDir(), "xpwc")
	require.NoError(t, tool("../cmd/xpwc", nil, "go", "build", "-o", xpwcTool, "."))
	out, err := exec.Command(xpwcTool, "--version").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Regexp(t, "^xpwc version "+regexp.QuoteMeta(xpwc.Version)+"(, commit [0-9a-f]+\\+?)?\n", string(out))
}

// The library reports the version that it was built with, whatever header the host has.
func TestTheLibraryReportsItsVersion(t *testing.T) {
	t.Parallel()
	eachWay(t, "version.c", func(t *testing.T, p program) {
		require.Equal(t, version(t)+" "+headerDefines(t, "XPWC_VERSION_NUMBER")+"\n", p.run(t, nil))
	})
}
