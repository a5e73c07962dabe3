package xpwc

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"xpwc/internal/osdisk"
	"xpwc/internal/store"
)

func TestWhatWasPackedIsFoundByTheNextCache(t *testing.T) {
	for _, size := range []int{1, 100, 5000, 1 << 20, 9 << 20} {
		path := filepath.Join(t.TempDir(), "cache")
		tensors := someTensors(3, size)
		c := mustOpen(t, path, nil)
		open(t, c, tensors).close(t)
		require.NoError(t, c.Close())
		c = mustOpen(t, path, &Options{Strict: true})
		open(t, c, tensors).close(t)
		require.EqualValues(t, 3, c.Stats().Hits.Entries)
		require.Zero(t, c.Stats().Misses)
		require.NoError(t, c.Close())
	}
}

// Whoever loads everything before anything is packed, and says that only packing reads it, still wants to see how far
// packing is.
func TestProgressTellsWhatIsPackedNotWhatIsLoaded(t *testing.T) {
	var reported []Progress
	note := func(p Progress) { reported = append(reported, p) }
	c := mustOpen(t, filepath.Join(t.TempDir(), "cache"), &Options{Progress: note})
	tensors := map[string][]byte{"a": contentOf("a", 100), "b": contentOf("b", 2000), "c": contentOf("c", 3)}
	s, err := c.NewSession(MapOf(tensors))
	require.NoError(t, err)
	for name := range tensors {
		_, err := s.Load(name, PackOnly(), Believe())
		require.NoError(t, err)
	}
	_, err = s.Load("c", Retain(), Believe())
	require.NoError(t, err)
	o := packAll(t, s, tensors)
	require.Len(t, reported, 3)
	done := int64(0)
	for _, p := range reported {
		require.EqualValues(t, 2100, p.Total)
		if p.Name != "c" {
			done += int64(len(tensors[p.Name]))
		}
		require.Equal(t, done, p.Done)
	}
	require.EqualValues(t, 2100, done)
	o.close(t)
	require.NoError(t, c.Close())
}

// A session that goes on packing while another's commit is written keeps its memory, and both end up in the file.
func TestCommitsWhileAnotherSessionIsPacking(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	c := mustOpen(t, path, nil)
	slow, err := c.NewSession(MapOf(map[string][]byte{
		"slow":  contentOf("slow", 300),
		"later": contentOf("later", 300),
	}))
	require.NoError(t, err)
	content, err := slow.Load("slow", Believe())
	require.NoError(t, err)
	require.Equal(t, missing, lookUp(slow, 1, addressTo(content), 0))
	space := reserve(slow, 300)

	for i := range 3 {
		name := fmt.Sprint("quick ", i)
		open(t, c, map[string][]byte{name: contentOf(name, 6<<20)}).close(t)
		require.NoError(t, c.Save())
	}

	copy(space, content) // its segment must still be there, and writable
	insert(slow, 1, addressTo(content), 0, addressTo(space), 300)
	content, err = slow.Load("later", Believe())
	require.NoError(t, err)
	require.Equal(t, missing, lookUp(slow, 1, addressTo(content), 0))
	space = reserve(slow, 300)
	copy(space, content)
	insert(slow, 1, addressTo(content), 0, addressTo(space), 300)
	require.NoError(t, slow.Finalize())
	require.NoError(t, slow.Close())
	require.NoError(t, c.Close())
	require.Equal(t, 5, c.Stats().Entries)
	require.EqualValues(t, 4, c.Stats().Generation)

	c = mustOpen(t, path, &Options{Strict: true})
	for _, e := range []string{"slow", "later"} {
		s, err := c.NewSession(MapOf(map[string][]byte{e: contentOf(e, 300)}))
		require.NoError(t, err)
		content, err := s.Load(e, Believe())
		require.NoError(t, err)
		address := lookUp(s, 1, addressTo(content), 0)
		require.NotEqual(t, missing, address)
		require.Equal(t, contentOf(e, 300), bytesAt(t, s, address, 300))
		require.NoError(t, s.Close())
	}
	require.NoError(t, c.Close())
}

// A reservation that nothing was packed into leaves no trace, wherever it lay.
func TestAbandonedReservationsAreGivenBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	c := mustOpen(t, path, nil)
	s, err := c.NewSession(MapOf(map[string][]byte{"a": contentOf("a", 100)}))
	require.NoError(t, err)
	content, err := s.Load("a", Believe())
	require.NoError(t, err)
	require.Equal(t, missing, lookUp(s, 1, addressTo(content), 0))
	require.NotNil(t, reserve(s, 1<<20))
	require.NoError(t, s.Close(), "its runtime's creation failed")
	open(t, c, someTensors(2, 1000)).close(t)
	require.NoError(t, c.Close())
	require.Equal(t, 2, c.Stats().Entries)
	require.Less(t, c.Stats().FileBytes, int64(20_000))
}

func TestWhatXNNPACKHandsInWithoutReservingIsAnErrorThatHarmsNothing(t *testing.T) {
	c := mustOpen(t, "", nil)
	s, err := c.NewSession(nil)
	require.NoError(t, err)
	stray := make([]byte, 64)
	require.Equal(t, addressTo(stray), insert(s, 1, 2, 0, addressTo(stray), 64))
	err = s.Finalize()
	require.ErrorContains(t, err, "not reserved")
	require.NoError(t, s.Close())
	require.NoError(t, c.Close())
}

// Other processes see a commit when their next session begins.
func TestASessionSeesWhatAnotherProcessCommitted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	tensors := someTensors(2, 1000)
	mine, theirs := mustOpen(t, path, nil), otherProcess(t, path)
	open(t, theirs, tensors).close(t)
	require.NoError(t, theirs.Close())
	o := open(t, mine, tensors)
	require.EqualValues(t, 2, mine.Stats().Hits.Entries)
	theirs = otherProcess(t, path)
	open(t, theirs, someTensors(3, 1000)).close(t)
	require.NoError(t, theirs.Close())
	o.check(t)
	open(t, mine, someTensors(3, 1000)).close(t)
	require.Zero(t, mine.Stats().Misses)
	require.EqualValues(t, 2, mine.Stats().Generation)
	o.close(t)
	require.NoError(t, mine.Close())
}

func TestWhileAnotherProcessPacksWeightsArePrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	theirs := otherProcess(t, path)
	s, err := theirs.NewSession(MapOf(map[string][]byte{"x": contentOf("x", 50)}))
	require.NoError(t, err)
	content, err := s.Load("x", Believe())
	require.NoError(t, err)
	require.Equal(t, missing, lookUp(s, 1, addressTo(content), 0))

	mine := otherProcess(t, path)
	o := open(t, mine, someTensors(2, 1000))
	require.EqualValues(t, 2, mine.Stats().Private[ReasonBusy].Entries)
	o.close(t)
	require.NoError(t, s.Close())
	require.NoError(t, theirs.Save())
	open(t, mine, someTensors(2, 1000)).close(t)
	require.NoError(t, mine.Close())
	require.Equal(t, 2, mine.Stats().Entries, "and the next session persists them")
	require.NoError(t, theirs.Close())
}

// Who waited in vain for another process does not wait again with each session.
func TestABusyFileIsWaitedForOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	theirs := otherProcess(t, path)
	holding := newSession(t, theirs, map[string][]byte{"x": contentOf("x", 50)})
	require.Equal(t, missing, lookUp(holding, 1, load(t, holding, "x"), 0))

	var l listener
	o := &Options{Logger: slog.New(&l), WriterWait: time.Second} // which a first try never takes
	mine, err := openAlone(path, o, osdisk.Files{})
	require.NoError(t, err)
	for i := range 3 {
		open(t, mine, map[string][]byte{fmt.Sprint(i): contentOf(fmt.Sprint(i), 100)}).close(t)
	}
	waits := 0
	for _, message := range l.messages(mine) {
		if strings.HasPrefix(message, "waiting for another process") {
			waits++
		}
	}
	require.Equal(t, 1, waits)
	require.EqualValues(t, 3, mine.Stats().Private[ReasonBusy].Entries)

	require.NoError(t, holding.Close())
	require.NoError(t, theirs.Close())
	open(t, mine, someTensors(1, 100)).close(t)
	require.NoError(t, mine.Close())
	require.Equal(t, 1, mine.Stats().Entries, "and without waiting it is tried each time")
}

// Whatever call fails, the bytes are right or nobody is to use them; what was committed stays, if only where it is set
// aside, and the next process persists the rest.
func TestAFailureOfTheDiskIsBridged(t *testing.T) {
	first, all := someTensors(2, 3000), someTensors(4, 3000)
	for _, fault := range []error{syscall.ENOSPC, syscall.EIO} {
		for at := int64(1); ; at++ {
			require.Less(t, at, int64(100))
			path := filepath.Join(t.TempDir(), "cache")
			c := mustOpen(t, path, nil)
			open(t, c, first).close(t)
			require.NoError(t, c.Close())

			var calls atomic.Int64
			c = mustOpen(t, path, nil)
			setDisk(c, faultyDisk{diskOf(c), &calls, at, fault})
			setFiles(c, faultyFiles{filesOf(c), &calls, at, fault})
			o := open(t, c, all)
			saveErr := c.Save()
			lost := o.Err()
			o.close(t)
			closeErr := c.Close()
			if calls.Load() < at {
				break // there was no such call: all have been tried
			}
			s := c.Stats()
			require.True(t, errors.Join(saveErr, closeErr, s.LastError) != nil || s.Entries == 4,
				"call %d failed silently", at)

			committed := 2
			if _, err := os.Stat(path + ".damaged"); err == nil {
				require.True(t, lost == nil || errors.Is(lost, ErrLost))
				require.Error(t, s.LastError)
				committed = 0
			} else {
				require.NoError(t, lost, "after %v at call %d", fault, at)
			}
			c = mustOpen(t, path, &Options{Strict: true})
			open(t, c, first).close(t)
			require.EqualValues(t, committed, c.Stats().Hits.Entries, "after %v at call %d", fault, at)
			open(t, c, all).close(t)
			require.NoError(t, c.Close())
			require.Equal(t, 4, c.Stats().Entries)
		}
	}
}

func TestAnEmptyFileThatCannotBeGrownIsNoError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	c := mustOpen(t, path, nil)
	var calls atomic.Int64
	setFiles(c, faultyFiles{filesOf(c), &calls, 3, syscall.ENOSPC})
	o := open(t, c, someTensors(2, 100))
	require.EqualValues(t, 2, c.Stats().Private[ReasonDisk].Entries)
	require.ErrorIs(t, c.Stats().LastError, syscall.ENOSPC)
	o.close(t)
	require.NoError(t, c.Close())
}

// A committed segment is read-only: a stray write faults instead of reaching the file.
func TestCommittedMemoryIsReadOnly(t *testing.T) {
	c := mustOpen(t, filepath.Join(t.TempDir(), "cache"), nil)
	o := open(t, c, someTensors(1, 100))
	require.NoError(t, c.Save())
	for _, e := range userOf(o.Session).Used() {
		require.True(t, e.Region.Sealed())
	}
	o.close(t)
	require.NoError(t, c.Close())
}

// What a mapped file cannot give back it keeps until it is closed, and what is packed meanwhile uses it.
func TestWhereAMappedFileCannotBeCutOffItIsWhenItIsClosed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	size := func() int64 {
		info, err := os.Stat(path)
		require.NoError(t, err)
		return info.Size()
	}
	c := mustOpen(t, path, nil)
	setFiles(c, mappedFiles{filesOf(c), new(atomic.Int64)})
	o := open(t, c, someTensors(2, 3000))
	require.NoError(t, c.Save())
	require.GreaterOrEqual(t, size(), int64(store.FirstSegment))
	open(t, c, someTensors(3, 3000)).close(t)
	require.NoError(t, c.Save())
	require.Less(t, size(), int64(store.FirstSegment+1<<20), "the space that is there is used")
	o.close(t)
	require.NoError(t, c.Close())
	require.Equal(t, c.Stats().FileBytes, size())
	c = mustOpen(t, path, &Options{Strict: true, Verify: VerifyOnUse})
	open(t, c, someTensors(3, 3000)).close(t)
	require.Zero(t, c.Stats().Misses)
	require.NoError(t, c.Close())
}

// What no index can list stays in memory, and keeps nothing else from the file.
func TestNamesThatNoIndexCanListKeepNothingElseFromTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	c := mustOpen(t, path, nil)
	open(t, c, map[string][]byte{strings.Repeat("n", 65<<20): contentOf("n", 500)}).close(t)
	require.NoError(t, c.Save())
	require.EqualValues(t, 1, c.Stats().Private[ReasonDisk].Entries)
	require.ErrorIs(t, c.Stats().LastError, store.ErrLongNames)
	open(t, c, someTensors(3, 500)).close(t)
	require.NoError(t, c.Close())
	require.Equal(t, 3, c.Stats().Entries)
}
