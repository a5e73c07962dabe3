//go:build cgo

package tflite_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"xpwc/internal/tests/testkit"
	"xpwc/models/inference"
	"xpwc/models/tflite"
)

// A process that loads a model under a limit of addresses (ulimit -v) has these variables.
const (
	envLimit = "XPWC_TEST_LIMIT" // how many more bytes it may take
	envCache = "XPWC_TEST_CACHE" // its cache file, or none
)

var heavy = filepath.Join("..", "..", "third_party", "models", "pose_landmark_heavy.tflite")

// A mapped cache replaces the memory that XNNPACK would pack into; it adds nothing.
func TestACacheRunsUnderTheLimitOfAddressesThatIsEnoughWithoutOne(t *testing.T) {
	if testkit.Race() || os.Getenv(testkit.Emulator) != "" {
		t.Skip("the race detector and emulators have limits of their own")
	}
	runs := func(limit uint64, cache string) (string, bool) {
		cmd := testkit.Command("-test.run=^TestNodeLoadsAModelUnderALimit$", "-test.count=1")
		// Which thread has a heap of its own in C's library, of 64 MB, is chance.
		cmd.Env = append(os.Environ(), fmt.Sprint(envLimit, "=", limit), envCache+"="+cache, "MALLOC_ARENA_MAX=1")
		said, err := cmd.CombinedOutput()
		return string(said), err == nil
	}
	low, high := uint64(0), uint64(1)<<30
	said, enough := runs(high, "")
	require.True(t, enough, said)
	for high-low > 1<<18 {
		middle := (low + high) / 2
		if _, enough := runs(middle, ""); enough {
			high = middle
		} else {
			low = middle
		}
	}
	require.NotZero(t, low, "there is a limit that is too low")

	cache := filepath.Join(t.TempDir(), "cache")
	for _, start := range []string{"first", "next"} {
		said, enough := runs(high+high/8, cache) // it has an index, too, and threads that flush
		require.True(t, enough, "the %s start with %d bytes: %s", start, high, said)
	}
	info, err := os.Stat(cache)
	require.NoError(t, err)
	require.Greater(t, uint64(info.Size()), high/4, "the cache is no small part of it")
}

// TestNodeLoadsAModelUnderALimit is such a process.
func TestNodeLoadsAModelUnderALimit(t *testing.T) {
	limit, err := strconv.ParseUint(os.Getenv(envLimit), 10, 64)
	if err != nil {
		t.Skip("it is a part of another test")
	}
	takeWhatGoTakes()
	size, err := os.ReadFile("/proc/self/statm")
	require.NoError(t, err)
	pages, err := strconv.ParseUint(string(bytes.Fields(size)[0]), 10, 64)
	require.NoError(t, err)
	budget := pages*uint64(os.Getpagesize()) + limit
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_AS, &unix.Rlimit{Cur: budget, Max: budget}))
	r, err := tflite.Load(heavy, os.Getenv(envCache), &tflite.Options{Options: inference.Options{Threads: 1}})
	require.NoError(t, err)
	_, err = r.Run(t.Context(), make([]float32, 256*256*3))
	require.NoError(t, err)
	require.NoError(t, r.Close())
}

// takeWhatGoTakes has Go's runtime start threads and take memory, which it does by chance otherwise, with a cache or
// without.
func takeWhatGoTakes() {
	var started, ended sync.WaitGroup
	done := make(chan struct{})
	for range 16 {
		started.Add(1)
		ended.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			started.Done()
			<-done
		})
	}
	started.Wait()
	close(done)
	ended.Wait()
	runtime.KeepAlive(make([]byte, 48<<20))
	runtime.GC()
}
