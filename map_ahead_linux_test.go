package xpwc

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"xpwc/internal/reexec"

	"xpwc/internal/osdisk"
)

// largeTensors are some of several MiB.
func largeTensors() map[string][]byte { return someTensors(6, 1_500_000) }

func packedLarge(t *testing.T) (path string, size int64) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "cache")
	c := mustOpen(t, path, nil)
	open(t, c, largeTensors()).close(t)
	require.NoError(t, c.Close())
	info, err := os.Stat(path)
	require.NoError(t, err)
	return path, info.Size()
}

// mappedPages returns how many pages of packed weights this process has mapped.
func mappedPages(t *testing.T, s *Session) (n int) {
	t.Helper()
	f, err := os.Open("/proc/self/pagemap")
	require.NoError(t, err)
	defer f.Close()
	page := uintptr(os.Getpagesize())
	for _, e := range s.user.Used() {
		first, last := addressOf(e.Data)/page, (addressOf(e.Data)+uintptr(len(e.Data))-1)/page
		entries := make([]byte, 8*(last-first+1))
		_, err := f.ReadAt(entries, int64(first)*8)
		require.NoError(t, err)
		for entry := range slices.Chunk(entries, 8) {
			n += int(entry[7] >> 7) // present: proc_pid_pagemap(5)
		}
	}
	return n
}

// Whoever computes while a commit flushes the file meets no page faults.
func TestACommitHasWhatIsReadMappedWhenItFlushes(t *testing.T) {
	if os.Getenv(reexec.Emulator) != "" {
		t.Skip("the emulator ignores that pages are to be mapped")
	}
	c, h := openHooked(t, filepath.Join(t.TempDir(), "cache"), nil)
	var packed atomic.Pointer[Session]
	mapped := make(chan int, 10)
	h.flush = func(string) error {
		if s := packed.Load(); s != nil {
			mapped <- mappedPages(t, s)
		}
		return nil
	}
	tensors := someTensors(6, 8_000_000)
	s, err := c.NewSession(MapOf(tensors))
	require.NoError(t, err)
	o := pack(t, s, tensors)
	packed.Store(s)
	require.NoError(t, s.Finalize())
	require.NoError(t, c.Save())
	size := 0
	for _, e := range o.user.Used() {
		size += len(e.Data)
	}
	require.Greater(t, <-mapped, size/os.Getpagesize()*9/10) // the system may have taken some away
	o.close(t)
	require.NoError(t, c.Close())
}

// lookAllUp finds all that is packed, reads nothing of it, and returns when nothing more is mapped in the background.
func lookAllUp(t *testing.T, c *Cache) *Session {
	t.Helper()
	tensors := largeTensors()
	s, err := c.NewSession(MapOf(tensors))
	require.NoError(t, err)
	for name := range tensors {
		require.NotEqual(t, notFound, s.lookUp(lookUpKey{seed: 42, kernel: load(t, s, name)}))
	}
	require.NoError(t, s.Finalize())
	c.writer.Probe().AwaitMapped()
	return s
}

func TestAWarmStartHasWhatIsInThePageCacheMapped(t *testing.T) {
	if runtime.GOMAXPROCS(0) == 1 {
		t.Skip("nothing is mapped ahead where there is only one processor")
	}
	if os.Getenv(reexec.Emulator) != "" {
		t.Skip("the emulator ignores that pages are to be mapped")
	}
	path, size := packedLarge(t)
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	most := int(size) / os.Getpagesize() * 9 / 10
	mapped, cached := 0, int64(0)
	for range 20 { // the system may take pages out of the page cache meanwhile
		_, err := os.ReadFile(path)
		require.NoError(t, err)
		c := mustOpen(t, path, nil)
		s := lookAllUp(t, c)
		mapped = mappedPages(t, s)
		cached, err = osdisk.CachedPages(f, 0, size)
		require.NoError(t, errors.Join(s.Close(), c.Close()))
		if mapped > most {
			return
		}
		if err != nil {
			t.Skipf("what is in the page cache cannot be asked: %v", err)
		}
	}
	require.LessOrEqual(t, cached, int64(most), "in the page cache, and %d pages are mapped", mapped)
}

func TestWhatIsNotInThePageCacheIsNotReadAhead(t *testing.T) {
	path, size := packedLarge(t)
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED))
	before, err := osdisk.CachedPages(f, 0, size)
	if err != nil || before > 10 {
		t.Skipf("the page cache still has %d pages: %v", before, err)
	}
	c := mustOpen(t, path, &Options{Verify: VerifyStructure})
	s := lookAllUp(t, c)
	after, err := osdisk.CachedPages(f, 0, size)
	require.NoError(t, err)
	require.Less(t, after, size/int64(os.Getpagesize())/2)
	require.NoError(t, s.Close())
	require.NoError(t, c.Close())
}

// Whatever is closed, committed or packed meanwhile, nothing touches memory that is not the cache's any more.
func TestClosingWaitsForWhatIsMappedAhead(t *testing.T) {
	path, _ := packedLarge(t)
	rounds := 10
	if testing.Short() {
		rounds = 3
	}
	var group sync.WaitGroup
	for worker := range 4 {
		group.Go(func() {
			for range rounds {
				c := mustOpen(t, path, nil)
				o := open(t, c, largeTensors())
				if worker%2 == 0 {
					open(t, c, someTensors(3, 700_000+worker)).close(t)
				}
				o.close(t)
				require.NoError(t, c.Close())
			}
		})
	}
	group.Wait()
}
