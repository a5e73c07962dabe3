package writer

import (
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAllTasksRunAndFewAtATime(t *testing.T) {
	var tasks Tasks
	var running, peak, done atomic.Int64
	for range 1000 {
		tasks.Go(workerBytes/10, func() {
			n := running.Add(1)
			for m := peak.Load(); n > m && !peak.CompareAndSwap(m, n); m = peak.Load() {
			}
			runtime.Gosched()
			running.Add(-1)
			done.Add(1)
		})
	}
	tasks.Wait()
	require.EqualValues(t, 1000, done.Load())
	require.LessOrEqual(t, peak.Load(), int64(runtime.GOMAXPROCS(0)))
}

func TestFewBytesWakeNoThreadUntilSomebodyWaits(t *testing.T) {
	var tasks Tasks
	done := 0
	for range 3 {
		tasks.Go(100, func() { done++ })
	}
	require.Zero(t, tasks.workers)
	tasks.Wait()
	require.Equal(t, 3, done)
}

// A data map's Digest may do that.
func TestATaskThatEndsItsGoroutineDoesNotStopTheOthers(t *testing.T) {
	var tasks Tasks
	var done atomic.Int64
	for range 100 {
		tasks.Go(workerBytes/10, func() {
			done.Add(1)
			runtime.Goexit()
		})
	}
	tasks.Wait()
	require.EqualValues(t, 100, done.Load())
}

// The digest of a large tensor must not delay that of the next one.
func TestATaskDoesNotWaitForABusyWorker(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	var tasks Tasks
	begun, release := make(chan struct{}), make(chan struct{})
	tasks.Go(workerBytes, func() { close(begun); <-release })
	<-begun
	tasks.Go(workerBytes, func() { <-release })
	tasks.mu.Lock()
	workers := tasks.workers
	tasks.mu.Unlock()
	close(release)
	tasks.Wait()
	require.Equal(t, 2, workers)
}
