//go:build linux && cgo

package main

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/tests/testkit"
)

// examples/host, built as its README shows.

const example = "../examples/host"

// requireStarts runs the host twice: it has to find what it packed. Its two methods share all weights.
func requireStarts(t *testing.T, host string) {
	t.Helper()
	out, err := exec.Command(host).CombinedOutput()
	var exit *exec.ExitError
	require.True(t, errors.As(err, &exit), "%v\n%s", err, out)
	require.Equal(t, 2, exit.ExitCode())
	require.Contains(t, string(out), "usage: host")
	dir := t.TempDir()
	first, err := exec.Command(host, dir).CombinedOutput()
	require.NoError(t, err, "%s", first)
	require.Contains(t, string(first), "packed 30, found 30\n")
	next, err := exec.Command(host, dir).CombinedOutput()
	require.NoError(t, err, "%s", next)
	require.Equal(t, strings.Replace(string(first), "packed 30, found 30", "packed 0, found 60", 1), string(next))
}

// A short test tries one way to build it: compiling it takes half a minute.
func TestTheExampleBuildsAsItsReadmeSays(t *testing.T) {
	t.Parallel()
	for _, build := range testkit.Drawn(t, []func(*testing.T){buildsWithCMake, buildsWithPkgConfig}) {
		build(t)
	}
}

func buildsWithCMake(t *testing.T) {
	requireStarts(t, filepath.Join(cmake(t, example), "host"))
}

// Its benchmarks take long (make bench-host): here one has to run. It is compiling them that takes half a minute.
func TestTheBenchmarksOfTheExampleRun(t *testing.T) {
	t.Parallel()
	testkit.SkipIfShort(t)
	measure := filepath.Join(cmake(t, "../internal/bench/host"), "measure")
	out, err := exec.Command(measure, "starts", filepath.Join(t.TempDir(), "starts"), "1").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, 2, strings.Count(string(out), "next start"), "%s", out)
}

// cmake builds what is in a directory, and returns where.
func cmake(t *testing.T, source string) string {
	t.Helper()
	if _, err := exec.LookPath("cmake"); err != nil {
		t.Skip("there is no cmake")
	}
	header := filepath.Dir(filepath.Dir(xnnpackHeader(t)))
	build := t.TempDir()
	require.NoError(t, tool("", nil, "cmake", "-S", source, "-B", build,
		"-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_FLAGS=-Werror",
		"-DCMAKE_PREFIX_PATH="+filepath.Join(installed(t), prefix), "-DXNNPACK_ROOT="+header,
		"-DCMAKE_EXE_LINKER_FLAGS="+strings.Join(settings(t, "CGO_LDFLAGS"), " ")))
	require.NoError(t, tool("", nil, "cmake", "--build", build))
	return build
}

func buildsWithPkgConfig(t *testing.T) {
	if _, err := exec.LookPath("pkg-config"); err != nil {
		t.Skip("there is no pkg-config")
	}
	lib := filepath.Join(installed(t), prefix, "lib")
	build := t.TempDir()
	require.NoError(t, tool(example, nil, "make", "BUILD="+build, "XPWC=xpwc", "CXXFLAGS=-O0 -Werror",
		"PKG_CONFIG_PATH="+filepath.Join(lib, "pkgconfig"),
		"XNNPACK_CFLAGS="+strings.Join(settings(t, "CGO_CFLAGS"), " "),
		"LDFLAGS=-Wl,-rpath,"+lib+" "+strings.Join(settings(t, "CGO_LDFLAGS"), " ")))
	requireStarts(t, filepath.Join(build, "host"))
}
