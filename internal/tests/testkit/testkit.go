// Package testkit has what tests of several packages share.
package testkit

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"xpwc/internal/mapped"
)

const seedVariable = "XPWC_TEST_SEED"

// Complete reports whether everything is to be tested (make test-all): then a test that lacks a program fails.
func Complete() bool { return os.Getenv("XPWC_TEST_ALL") != "" }

// Program returns the path of a program. Without it the test is skipped, or fails where everything is to be tested.
func Program(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		Lacks(t, err)
	}
	return path
}

// Lacks ends a test that needs something the machine lacks: it is skipped, or fails where everything must be tested.
func Lacks(t testing.TB, err error) {
	t.Helper()
	if Complete() {
		require.NoError(t, err, "everything is to be tested (XPWC_TEST_ALL)")
	}
	t.Skipf("%v: third_party/install-tools installs programs", err)
}

// SkipIfShort skips a test that takes long, unless everything is to be tested.
func SkipIfShort(t testing.TB) {
	t.Helper()
	if testing.Short() && !Complete() {
		t.Skip("it takes long: make test-all runs it")
	}
}

// Seed returns the number that a test draws its cases from: a new one, or that of XPWC_TEST_SEED. A test that fails
// prints it.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed := uint64(rand.Uint32())
	if value := os.Getenv(seedVariable); value != "" {
		var err error
		seed, err = strconv.ParseUint(value, 10, 64)
		require.NoError(t, err, seedVariable)
	}
	t.Logf("drawn with %s=%d", seedVariable, seed)
	return seed
}

// Random returns what a test draws its cases with.
func Random(t testing.TB) *rand.Rand {
	t.Helper()
	return rand.New(rand.NewPCG(Seed(t), 0))
}

// Drawn returns all, or with -short one of them, for a test that would take too long with each.
func Drawn[T any](t testing.TB, values []T) []T {
	t.Helper()
	if !testing.Short() {
		return values
	}
	i := Seed(t) % uint64(len(values))
	return values[i : i+1]
}

// NeedsWholeCPU skips a test that chooses a level of CPU where all programs are on a lesser one (make test-masked).
func NeedsWholeCPU(t testing.TB) {
	t.Helper()
	if level := os.Getenv("LESSER_CPU"); level != "" {
		t.Skip("all programs are on a lesser CPU already: level ", level)
	}
}

// Race reports whether this is a build with the race detector, which makes everything about ten times as slow.
func Race() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// SkipWithRace skips a test whose work is done by processes of its own, one after the other. The race detector finds
// nothing in these, and the test runs without it too.
func SkipWithRace(t testing.TB) {
	t.Helper()
	if Race() {
		t.Skip("it is about processes: it runs without the race detector")
	}
}

// Settled waits until the file at path, written a moment ago, has a stamp for every later opening. It returns path.
func Settled(t testing.TB, path string) string {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	if time.Since(info.ModTime()) < time.Minute { // on overlayfs a file whose two times are one has none
		earlier := time.Now().Add(-time.Hour)
		require.NoError(t, os.Chtimes(path, earlier, earlier))
	}
	f, err := mapped.Open(path)
	require.NoError(t, err)
	changed, err := f.Changed() // it waits until another change would show
	require.NoError(t, err)
	require.False(t, changed)
	require.NoError(t, f.Close())
	return path
}

// Sparse makes a file of so many bytes at path, of which only the parts take space on the disk, by their offsets.
func Sparse(t testing.TB, path string, size int64, parts map[int64][]byte) {
	t.Helper()
	f, err := os.Create(path)
	require.NoError(t, err)
	for offset, b := range parts {
		_, err := f.WriteAt(b, offset)
		require.NoError(t, err)
	}
	require.NoError(t, f.Truncate(size))
	require.NoError(t, f.Close())
}
