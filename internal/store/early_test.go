package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/store"
)

// begun is what a disk was asked to begin to write.
type begun struct {
	mu     sync.Mutex
	ends   []int64 // of the parts, which follow each other
	under  bool    // one of them is being taken
	wrong  error
	err    error      // of each call
	taking chan bool  // a call goes on when it can receive
	calls  chan int64 // the offset of each
}

type earlyDisk struct {
	store.File
	*begun
}

type earlyFiles struct {
	store.Files
	*begun
}

func (f earlyFiles) Create(path string) (store.File, error) {
	d, err := f.Files.Create(path)
	return earlyDisk{d, f.begun}, err
}

func (f earlyFiles) Open(path string, writable bool) (store.File, error) {
	d, err := f.Files.Open(path, writable)
	return earlyDisk{d, f.begun}, err
}

func (d earlyDisk) BeginWriting(offset, size int64) error {
	d.mu.Lock()
	d.under = true
	d.mu.Unlock()
	d.calls <- offset
	<-d.taking
	d.mu.Lock()
	defer d.mu.Unlock()
	d.under = false
	d.ends = append(d.ends, offset+size)
	return d.err
}

func (d earlyDisk) Flush() error {
	d.mu.Lock()
	if d.under {
		d.wrong = errors.New("flushed while the system was given something to write")
	}
	d.mu.Unlock()
	return d.File.Flush()
}

func openEarly(t *testing.T, files store.Files, early bool) (*writer, *begun) {
	t.Helper()
	b := &begun{taking: make(chan bool), calls: make(chan int64, 100)}
	o := store.Options{Early: early}
	w := &writer{store.New(cachePath, earlyFiles{files, b}, o), nil}
	require.NoError(t, w.Load())
	return w, b
}

// packEarly packs n payloads, one to a segment.
func (w *writer) packEarly(t *testing.T, first, n int) map[string][]byte {
	t.Helper()
	const size = 5 << 19
	all := map[string][]byte{}
	for i := first; i < first+n; i++ {
		name := fmt.Sprint("payload ", i)
		all[name] = bytes.Repeat([]byte{byte(i + 1)}, size)
		r, err := w.reserve(name, size)
		require.NoError(t, err)
		copy(r.Data, all[name])
		require.NoError(t, w.handIn(name, r))
	}
	return all
}

func TestASegmentBeginsToBeWrittenWhenItIsComplete(t *testing.T) {
	dir := newDir(t)
	w, b := openEarly(t, dir.Process(), true)
	require.NoError(t, w.begin())
	open, err := w.reserve("open", 1<<20)
	require.NoError(t, err)
	first := open.Region
	want := w.packEarly(t, 0, 2) // in the first segment, and in the second
	require.Empty(t, b.calls, "something is still packed into the first segment")
	require.False(t, first.Sealed())
	want["open"] = bytes.Repeat([]byte{9}, 1<<20)
	copy(open.Data, want["open"])
	require.NoError(t, w.handIn("open", open))
	maps.Copy(want, w.packEarly(t, 2, 1)) // in the third
	require.Less(t, <-b.calls, int64(1<<20), "the first segment")
	require.True(t, first.Sealed())
	b.taking <- true
	require.Greater(t, <-b.calls, int64(3<<20), "the second")
	close(b.taking)
	require.NoError(t, w.commit(nil))
	require.NoError(t, w.Close())
	require.NoError(t, b.wrong)
	require.Len(t, b.ends, 2, "the last segment is left to the flush")
	require.Less(t, b.ends[0], b.ends[1])
	require.Less(t, b.ends[1], int64(7<<20))
	requireContent(t, dir, want)
}

func TestACommitWaitsForWhatBeganToBeWritten(t *testing.T) {
	dir := newDir(t)
	w, b := openEarly(t, dir.Process(), true)
	require.NoError(t, w.begin())
	want := w.packEarly(t, 0, 2)
	<-b.calls
	ended := make(chan error)
	go func() { ended <- w.commit(nil) }()
	b.taking <- true
	require.NoError(t, <-ended)
	require.NoError(t, b.wrong)
	require.NoError(t, w.Close())
	requireContent(t, dir, want)
}

func TestNothingBeginsToBeWrittenUnlessItIsAskedFor(t *testing.T) {
	w, b := openEarly(t, newDir(t).Process(), false)
	require.NoError(t, w.begin())
	w.packEarly(t, 0, 3)
	require.NoError(t, w.commit(nil))
	require.NoError(t, w.Close())
	require.Empty(t, b.calls)
}

// What the system says when it begins to write, it may not say again when the file is flushed.
func TestWritingThatFailsToBeginIsAFlushThatFailed(t *testing.T) {
	for _, c := range []struct {
		err   error
		fails bool
	}{
		{syscall.EIO, true},
		{fmt.Errorf("a file system without it: %w", errors.ErrUnsupported), false},
	} {
		t.Run(c.err.Error(), func(t *testing.T) {
			dir := newDir(t)
			w, b := openEarly(t, dir.Process(), true)
			b.err = c.err
			close(b.taking)
			require.NoError(t, w.begin())
			want := w.packEarly(t, 0, 2)
			<-b.calls
			maps.Copy(want, w.packEarly(t, 2, 1))
			err := w.commit(nil)
			require.Len(t, b.ends, 1, "it is not asked again")
			if c.fails {
				require.ErrorIs(t, err, c.err)
				_, err = w.End()
				require.NoError(t, errors.Join(err, w.Close()))
				requireContent(t, dir, map[string][]byte{})
				return
			}
			require.NoError(t, err)
			require.NoError(t, w.Close())
			requireContent(t, dir, want)
		})
	}
}
