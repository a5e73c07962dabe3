package writer

import (
	"io"
	"log/slog"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"xpwc/internal/entries"
	"xpwc/internal/format"
	"xpwc/internal/osdisk"
)

func newWriter(t *testing.T) (*Writer, *Handle) {
	t.Helper()
	return openWriter(t, filepath.Join(t.TempDir(), "cache"))
}

// openWriter returns a writer of a file, which is to others as one of another process.
func openWriter(t *testing.T, path string) (*Writer, *Handle) {
	t.Helper()
	w, err := New(osdisk.Files{}, Options{
		Path:   path,
		Report: func(slog.Level, string, ...slog.Attr) {},
	})
	require.NoError(t, err)
	h, err := w.Open(nil)
	require.NoError(t, err)
	return w, h
}

// newPacker returns a writer with a user that packs.
func newPacker(t *testing.T) (*Writer, *Handle, *User) {
	t.Helper()
	w, h := newWriter(t)
	u, err := h.NewUser()
	require.NoError(t, err)
	_, reason := u.StartWriting()
	require.Empty(t, reason)
	return w, h, u
}

// What is lost while a handle is being closed is reported to it as well.
func TestAHandleThatIsBeingClosedLearnsOfALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, staying := newWriter(t)
		leaving, _ := w.Open(nil)
		w.activity = committing // of entries of other processes
		result := make(chan error, 1)
		go func() {
			_, err := leaving.Close()
			result <- err
		}()
		synctest.Wait()
		w.locked(func() { w.loseLocked(io.ErrUnexpectedEOF) })
		w.endRound(&round{}, nil)
		require.ErrorIs(t, <-result, io.ErrUnexpectedEOF)
		last, err := staying.Close()
		require.True(t, last)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	})
}

// Whichever call returns first, what was packed is on the disk by then, and the file is closed.
func TestAHandleIsClosedTwiceAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, h := newWriter(t)
		w.activity = committing
		returned := atomic.Int32{}
		for range 2 {
			go func() {
				_, _ = h.Close()
				returned.Add(1)
			}()
		}
		synctest.Wait()
		require.Zero(t, returned.Load(), "the commit has not ended")
		w.endRound(&round{}, nil)
		synctest.Wait()
		require.EqualValues(t, 2, returned.Load())
		require.Equal(t, closed, w.phase)
	})
}

// Save returns although another session goes on packing large weights.
func TestACommitWaitsForNoSumOfASessionThatStillPacks(t *testing.T) {
	w, h := newWriter(t)
	packing := &entries.Entry{Contents: entries.Contents{Kernel: &entries.Content{}}, Packer: &entries.Owner{}}
	w.summing[packing] = true
	require.NoError(t, h.Save())
	delete(w.summing, packing)
	_, err := h.Close()
	require.NoError(t, err)
}

// A handle that is opened too late does not open, map or lock the file again.
func TestAClosedWriterStaysClosed(t *testing.T) {
	w, h := newWriter(t)
	require.Empty(t, w.begin(nil))
	w.leave(nil)
	w.giveUpWriting()
	u, err := h.NewUser()
	require.NoError(t, err)
	u.Close()
	_, err = h.Close()
	require.NoError(t, err)
	_, err = h.NewUser()
	require.ErrorIs(t, err, ErrClosed)
	require.Nil(t, w.file.st.Loaded())
	w.commitAtOnce() // as the verifier does that found damage
	require.False(t, w.tryBegin(nil).ok)
	require.Nil(t, w.file.st.Loaded())
}

// A session that has just finished does not take the writer's lock from a compaction that begins.
func TestACompactionKeepsTheLock(t *testing.T) {
	w, h, u := newPacker(t)
	w.leave(u)
	require.NoError(t, w.beginCompaction())
	require.Empty(t, w.begin(nil))
	w.giveUpWriting() // the session's
	require.True(t, w.file.st.Writing())
	w.leave(nil)
	w.giveUpWriting()
	require.False(t, w.file.st.Writing())
	w.locked(w.restLocked)
	u.Close()
	_, err := h.Close()
	require.NoError(t, err)
}

// Compactions one after the other keep no session from packing.
func TestASessionThatWaitsToPackIsBeforeTheNextCompaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, h := newWriter(t)
		w.options.Wait = 5 * time.Second
		u, err := h.NewUser()
		require.NoError(t, err)
		require.NoError(t, w.beginCompaction())
		packs, next := make(chan string, 1), make(chan error, 1)
		go func() {
			_, reason := u.StartWriting()
			packs <- reason
		}()
		synctest.Wait()
		go func() { next <- w.beginCompaction() }()
		synctest.Wait()
		w.locked(w.restLocked)
		require.Empty(t, <-packs)
		synctest.Wait()
		require.Empty(t, next)
		u.StopWriting()
		require.NoError(t, <-next)
		w.locked(w.restLocked)
		u.Close()
		_, err = h.Close()
		require.NoError(t, err)
	})
}

// readAs is the digest of a tensor.
type readAs format.Digest

func (r readAs) ReadDigest() (format.Digest, error) { return format.Digest(r), nil }

// content returns what a tensor that was read has, of one source.
func content(stamp byte) *entries.Content {
	c := &entries.Content{
		Stamp: format.Digest{stamp}, Origin: &entries.Origin{Source: format.Digest{1}}, Reader: readAs{1},
	}
	_, _ = c.Digest()
	return c
}

// look returns a query all of whose records are in memory.
func look(t *testing.T, u *User, name string) *Query {
	t.Helper()
	q := &Query{Key: format.Key{Kernel: name, Layout: format.Digest{1}}}
	views, err := u.Retain(q)
	require.NoError(t, err)
	u.Release(views)
	return q
}

// pack packs something into the file, of a tensor with a stamp.
func pack(t *testing.T, u *User, name string, stamp byte) *entries.Entry {
	t.Helper()
	_, reason := u.StartWriting()
	require.Empty(t, reason)
	space, err := u.Reserve(64, uint64(len(name)))
	require.NoError(t, err)
	p := Packed{Contents: entries.Contents{Kernel: content(stamp)}, Space: space, InFile: true}
	e, created := u.Insert(look(t, u, name), &p, nil, nil)
	require.True(t, created)
	return e
}

// use has a session use what the file has.
func use(t *testing.T, u *User, name string) *entries.Entry {
	t.Helper()
	views, err := u.LookUp(look(t, u, name))
	require.NoError(t, err)
	require.NotEmpty(t, views)
	require.True(t, u.Use(&views[0]))
	return views[0].Entry
}

// record returns the record of an entry in the file.
func record(t *testing.T, path, name string) format.Record {
	t.Helper()
	w, h := openWriter(t, path)
	u, err := h.NewUser()
	require.NoError(t, err)
	r := use(t, u, name).Record
	u.Close()
	_, err = h.Close()
	require.NoError(t, err)
	require.Nil(t, w.file.st.Loaded())
	return r
}

// A process does not repeat a change to an entry after another process has changed it again.
func TestACommitTakesBackNothingThatAnotherProcessCommitted(t *testing.T) {
	w, h := newWriter(t)
	u, err := h.NewUser()
	require.NoError(t, err)
	u.Finish(Ending{Variants: []*entries.Entry{pack(t, u, "shared", 1)}})
	require.NoError(t, h.Save())

	_, secondHandle := openWriter(t, w.options.Path) // the model was written anew meanwhile
	second, err := secondHandle.NewUser()
	require.NoError(t, err)
	second.Finish(Ending{Restamps: []Sourced{{use(t, second, "shared"), entries.Contents{Kernel: content(2)}}}})
	second.Close()
	_, err = secondHandle.Close()
	require.NoError(t, err)
	require.Equal(t, format.Digest{2}, record(t, w.options.Path, "shared").Stamps.Kernel)

	next, err := h.NewUser()
	require.NoError(t, err)
	pack(t, next, "more", 2)
	next.Finish(Ending{})
	require.NoError(t, h.Save())
	rec := record(t, w.options.Path, "shared")
	require.Equal(t, format.Digest{2}, rec.Stamps.Kernel)
	require.NotZero(t, rec.Flags&format.Variant)
	u.Close()
	next.Close()
	_, err = h.Close()
	require.NoError(t, err)
}

// What a process uses was not used longest ago, though it was packed long ago.
func TestEachCommitSaysOfWhatIsInUseThatItIsUsed(t *testing.T) {
	w, h := newWriter(t)
	seconds := int64(100)
	w.clock = func() int64 { return seconds }
	u, err := h.NewUser()
	require.NoError(t, err)
	pack(t, u, "in use", 1)
	u.Finish(Ending{})
	require.NoError(t, h.Save())
	seconds = 200
	next, err := h.NewUser()
	require.NoError(t, err)
	pack(t, next, "more", 1)
	next.Finish(Ending{})
	require.NoError(t, h.Save())
	rec := record(t, w.options.Path, "in use")
	require.EqualValues(t, 100, rec.PackedAt)
	require.EqualValues(t, 200, rec.UsedAt)
	u.Close()
	next.Close()
	_, err = h.Close()
	require.NoError(t, err)
}

// Concurrent calls of Save and Close do not deadlock.
func TestSaveReturnsThoughTheFileIsClosedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, h := newWriter(t)
		w.activity = committing // what another Save asked for
		saved := make(chan error, 1)
		go func() { saved <- h.Save() }()
		synctest.Wait()
		require.NoError(t, w.close())
		w.endRound(&round{}, nil)
		require.NoError(t, <-saved)
	})
}

// A look-up decides without the lock. What it decided on may have changed when it takes an entry.
func TestAnEntryThatChangedSinceItWasSeenDoesNotAnswer(t *testing.T) {
	for name, change := range map[string]func(w *Writer, e *entries.Entry){
		"it is one of several": func(w *Writer, e *entries.Entry) { w.setFlagLocked(e, format.Variant) },
		"it is damaged":        func(w *Writer, e *entries.Entry) { w.damagedPayloadLocked(e) },
	} {
		t.Run(name, func(t *testing.T) {
			w, h := newWriter(t)
			u, err := h.NewUser()
			require.NoError(t, err)
			e := pack(t, u, "shared", 1)
			views, err := u.LookUp(look(t, u, "shared"))
			require.NoError(t, err)
			require.True(t, u.Use(&views[0]))
			w.locked(func() { change(w, e) })
			require.False(t, u.Use(&views[0]))
			u.Finish(Ending{})
			u.Close()
			_, err = h.Close()
			require.NoError(t, err)
		})
	}
}

// A session that packs a small weight and is finalized while a commit begins does not hold that commit up for good.
func TestACommitStartsTheSumsThatItWaitsFor(t *testing.T) {
	w, h, u := newPacker(t)
	r, err := u.Reserve(100, 1)
	require.NoError(t, err)
	done := make(chan struct{})
	w.mu.Lock()
	go func() {
		defer close(done)
		w.awaitSums()
	}()
	for range 10_000 { // until it waits for the lock
		runtime.Gosched()
	}
	w.sumLocked(&entries.Entry{Data: r.Data, Region: r.Region})
	w.unlock()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("nobody starts the sum")
	}
	u.Cancel(r)
	u.StopWriting()
	u.Close()
	_, err = h.Close()
	require.NoError(t, err)
}
