package store_test

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/format"
	"xpwc/internal/store"
	"xpwc/internal/tests/memdisk"
)

func newDir(t *testing.T) *memdisk.Dir {
	dir := memdisk.New()
	t.Cleanup(dir.Free)
	return dir
}

func mustOpen(t *testing.T, files store.Files) *writer {
	t.Helper()
	w, err := openOn(files)
	require.NoError(t, err)
	return w
}

func requireContent(t *testing.T, dir *memdisk.Dir, want map[string][]byte) {
	t.Helper()
	w := mustOpen(t, dir.Process())
	got, err := w.content()
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.NoError(t, w.Close())
}

var (
	payloadA = map[string][]byte{"a": bytes.Repeat([]byte{1}, 500)}
	payloadB = map[string][]byte{"b": bytes.Repeat([]byte{2}, 700)}
)

func TestAStoreWithoutAFileIsEmpty(t *testing.T) {
	w := mustOpen(t, newDir(t).Process())
	require.Nil(t, w.Loaded())
	require.Nil(t, w.Index())
	require.Zero(t, w.Slot().Generation)
	require.NoError(t, w.Close())
}

func TestOneProcessWritesAtATime(t *testing.T) {
	dir := newDir(t)
	mine, theirs := mustOpen(t, dir.Process()), mustOpen(t, dir.Process())
	require.NoError(t, mine.commit(payloadA))
	require.True(t, mine.Writing())
	require.NoError(t, theirs.Refresh())
	ok, err := theirs.Begin()
	require.NoError(t, err)
	require.False(t, ok)

	require.NoError(t, mine.EndWriting())
	require.False(t, mine.Writing())
	require.NoError(t, theirs.commit(payloadB), "and what the first has committed is loaded")
	require.NoError(t, errors.Join(mine.Close(), theirs.Close()))
	requireContent(t, dir, map[string][]byte{"a": payloadA["a"], "b": payloadB["b"]})
}

func TestRefreshFollowsThePath(t *testing.T) {
	dir := newDir(t)
	mine, theirs := mustOpen(t, dir.Process()), mustOpen(t, dir.Process())
	require.NoError(t, mine.commit(payloadA))
	require.NoError(t, mine.EndWriting())
	require.NoError(t, theirs.Refresh())
	first := theirs.ID()
	require.Equal(t, mine.ID(), first)

	require.NoError(t, mine.rewrite())
	require.NoError(t, theirs.Refresh())
	require.Equal(t, mine.ID(), theirs.ID())
	require.NotEqual(t, first, theirs.ID())
	got, err := theirs.content()
	require.NoError(t, err)
	require.Equal(t, payloadA, got)
	require.NoError(t, errors.Join(mine.Close(), theirs.Close()))
}

// sizeAsked is a disk on which something happens after each time that its size was asked.
type sizeAsked struct {
	store.File
	then func()
}

func (d sizeAsked) Size() (int64, error) {
	size, err := d.File.Size()
	d.then()
	return size, err
}

func TestAFileThatGrowsWhileItIsLoadedIsNotDamaged(t *testing.T) {
	dir := newDir(t)
	mine, theirs := mustOpen(t, dir.Process()), mustOpen(t, dir.Process())
	require.NoError(t, mine.commit(payloadA))
	require.NoError(t, theirs.Refresh())
	size := 100
	theirs.Intercept(nil, func(d store.File) store.File {
		return sizeAsked{d, func() {
			size *= 2
			require.NoError(t, mine.commit(map[string][]byte{"b": bytes.Repeat([]byte{2}, size)}))
		}}
	})
	for range 3 {
		require.NoError(t, theirs.Refresh())
	}
	require.NoError(t, errors.Join(mine.Close(), theirs.Close()))
}

func TestACommitSaysThatItsFileWasReplaced(t *testing.T) {
	dir := newDir(t)
	process := dir.Process()
	w := mustOpen(t, process)
	require.NoError(t, w.begin())
	require.NoError(t, process.Remove(cachePath))
	require.ErrorIs(t, w.commit(payloadA), store.ErrReplaced)
	_, err := w.End()
	require.NoError(t, errors.Join(err, w.Reopen()))
	require.Nil(t, w.Loaded())
	w.packed = nil
	require.NoError(t, w.commit(payloadB))
	require.NoError(t, w.Close())
	requireContent(t, dir, payloadB)
}

// A commit whose flush failed is not in force. Its file is set aside with all that it has, and still this process' own;
// another takes its place at once.
func TestAFailedFlushEndsTheFile(t *testing.T) {
	dir := newDir(t)
	dir.Record()
	process := dir.Process()
	w, theirs := mustOpen(t, process), mustOpen(t, dir.Process())
	require.NoError(t, w.commit(payloadA))
	r, err := w.reserve("b", 700)
	require.NoError(t, err)
	copy(r.Data, payloadB["b"])
	r.Region.Retain()
	require.NoError(t, w.handIn("b", r))
	late, err := w.reserve("c", 100)
	require.NoError(t, err)
	require.NoError(t, theirs.Refresh())
	fails := func(string) *memdisk.FlushFailure {
		return &memdisk.FlushFailure{Lost: memdisk.LeaveAll, Reclaimed: false, Random: rand.New(rand.NewPCG(1, 1))}
	}
	process.Fails = fails
	require.ErrorIs(t, w.commit(nil), syscall.EIO)
	process.Fails = nil
	size := dir.Size(cachePath)
	newPath, err := w.End()
	require.NoError(t, err)
	require.Equal(t, cachePath+".damaged", newPath)
	require.Nil(t, w.Loaded())
	require.Equal(t, size, dir.Size(newPath), "nothing is cut off")
	require.Equal(t, payloadB["b"], r.Data)
	require.True(t, late.Region.Lost(), "what was still being packed")

	_, err = theirs.Begin()
	require.ErrorIs(t, err, store.ErrReplaced, "nobody waits for the file that ended")
	require.NoError(t, theirs.Reopen())
	require.NoError(t, theirs.commit(payloadB))
	require.Equal(t, size, dir.Size(newPath))
	require.NoError(t, errors.Join(r.Region.Release(), w.Cancel(late), w.Close(), theirs.Close()))
	requireContent(t, dir, payloadB)
}

func TestPackingBeginsWithoutAFlush(t *testing.T) {
	dir := newDir(t)
	dir.Record()
	process := dir.Process()
	flushes := 0
	process.Fails = func(string) *memdisk.FlushFailure { flushes++; return nil }
	w := mustOpen(t, process)
	require.NoError(t, w.begin())
	r, err := w.reserve("a", 500)
	require.NoError(t, err)
	require.Zero(t, flushes, "a flush of a slow disk would delay the first answer")
	copy(r.Data, payloadA["a"])
	require.NoError(t, w.handIn("a", r))
	require.NoError(t, w.commit(nil))
	require.NotZero(t, flushes)
	require.NoError(t, w.Close())
	requireContent(t, dir, payloadA)
}

func TestAFileWhoseHeaderAPowerFailureLostIsSetAside(t *testing.T) {
	dir := newDir(t)
	zeros := make([]byte, 1<<20)
	dir.Put(cachePath, nil, int64(len(zeros)))
	w, err := openOn(dir.Process())
	require.ErrorIs(t, err, format.ErrDamaged)
	require.ErrorContains(t, err, "power failure")
	require.NoError(t, w.commit(payloadA))
	require.NoError(t, w.Close())
	requireContent(t, dir, payloadA)
	require.True(t, dir.HasContent(cachePath+".damaged", zeros), "nothing of it is lost")
}

// unsyncedDirectory is a directory that its user may not read.
type unsyncedDirectory struct{ store.Files }

func (unsyncedDirectory) SyncDir(string) error { return fs.ErrPermission }

func TestACommitIsInForceAlthoughItsDirectoryCannotBeFlushed(t *testing.T) {
	dir := newDir(t)
	w := mustOpen(t, unsyncedDirectory{dir.Process()})
	require.ErrorIs(t, w.commit(payloadA), fs.ErrPermission)
	require.EqualValues(t, 1, w.Slot().Generation)
	require.NoError(t, w.Close())
	requireContent(t, dir, payloadA)
}

func TestARewritingLeavesOutDamagedPayloads(t *testing.T) {
	dir := newDir(t)
	w := mustOpen(t, dir.Process())
	require.NoError(t, w.commit(payloadA))
	require.NoError(t, w.commit(payloadB))
	require.NoError(t, w.Close())
	content := dir.Content(cachePath)
	content[bytes.Index(content, payloadA["a"])] ^= 1
	w = mustOpen(t, dir.Process())
	require.NoError(t, w.rewrite())
	require.NoError(t, w.Close())
	requireContent(t, dir, payloadB)
	require.Equal(t, []string{cachePath}, dir.Names())
}

func TestARewritingDoesNotTakeThePlaceOfAFileThatItIsNotMadeOf(t *testing.T) {
	dir := newDir(t)
	process := dir.Process()
	w := mustOpen(t, process)
	require.NoError(t, w.commit(payloadA))
	rewriting, err := w.Rewrite(nil, func([]format.Record) []format.Layout { return nil })
	require.NoError(t, err)
	require.NoError(t, process.Rename(cachePath, "elsewhere"))
	theirs := mustOpen(t, dir.Process())
	require.NoError(t, theirs.commit(payloadB))
	require.NoError(t, theirs.Close())
	require.ErrorIs(t, rewriting.TakePlace(), store.ErrReplaced)
	require.NoError(t, w.Close())
	require.Equal(t, []string{cachePath, "elsewhere"}, dir.Names())
	requireContent(t, dir, payloadB)
}

// A page that the file's end lies in is a small one.
func TestASegmentEndsWithAWholeStep(t *testing.T) {
	w := mustOpen(t, newDir(t).Process())
	require.NoError(t, w.begin())
	for _, size := range []int{100, 3 << 20, 9 << 20, 1<<20 + 5} {
		r, err := w.reserve("x", size)
		require.NoError(t, err)
		end := r.Region.Offset() + uint64(len(r.Region.Data()))
		require.Zero(t, end%(256<<10), "%d bytes at %d", size, r.Offset())
		require.NoError(t, w.Cancel(r))
	}
	require.NoError(t, w.Close())
}

// A supplier records which parts of a file get their pages ahead.
type supplier struct {
	store.File
	supplied map[int64]bool // pages
}

func (s *supplier) Supply(offset, size int64) error {
	for page := offset >> 12; page < (offset+size)>>12; page++ {
		s.supplied[page] = true
	}
	return s.File.Supply(offset, size)
}

func TestAReservationHasItsPagesAndKeepsWhatIsPackedAroundIt(t *testing.T) {
	dir := newDir(t)
	w := mustOpen(t, dir.Process())
	require.NoError(t, w.begin())
	recorded := &supplier{supplied: map[int64]bool{}}
	w.Intercept(nil, func(d store.File) store.File { recorded.File = d; return recorded })
	want := map[string][]byte{}
	for i, size := range []int{100, 300 << 10, 5000, 3 << 20, 1, 64 << 10, 2 << 20, 77} {
		name := strconv.Itoa(i)
		want[name] = bytes.Repeat([]byte{byte(i + 1)}, size)
		r, err := w.reserve(name, size)
		require.NoError(t, err)
		// The page that it begins in may have bytes of the one before.
		for page := (r.Offset() + 4095) >> 12; page <= (r.Offset()+uint64(size)-1)>>12; page++ {
			require.True(t, recorded.supplied[int64(page)], "page %d of %d bytes at %d", page, size, r.Offset())
		}
		copy(r.Data, want[name])
		require.NoError(t, w.handIn(name, r))
		if i%3 == 2 { // the next one lies in a new segment
			require.NoError(t, w.commit(nil))
		}
	}
	require.NoError(t, w.commit(nil))
	require.NoError(t, w.Close())
	requireContent(t, dir, want)
}

func TestAReservationHasItsPagesAfterOneThatWasGivenBackWithTheFile(t *testing.T) {
	w := mustOpen(t, newDir(t).Process())
	recorded := &supplier{}
	for range 2 {
		require.NoError(t, w.begin())
		recorded.supplied = map[int64]bool{}
		w.Intercept(nil, func(d store.File) store.File { recorded.File = d; return recorded })
		r, err := w.reserve("x", 1<<20)
		require.NoError(t, err)
		require.True(t, recorded.supplied[int64(r.Offset()>>12)+1])
		require.NoError(t, w.Cancel(r))
		require.NoError(t, w.EndWriting())
		w.Intercept(nil, func(store.File) store.File { return recorded.File })
	}
	require.NoError(t, w.Close())
}

func TestADiskThatCannotSupplyPagesIsAnError(t *testing.T) {
	w := mustOpen(t, newDir(t).Process())
	require.NoError(t, w.begin())
	w.Intercept(nil, func(d store.File) store.File { return unsupplied{d} })
	_, err := w.reserve("x", 100)
	require.ErrorIs(t, err, syscall.EIO)
	w.Intercept(nil, func(d store.File) store.File { return d.(unsupplied).File })
	require.NoError(t, w.commit(payloadA))
	require.NoError(t, w.Close())
}

// An unsupplied disk fails to supply pages.
type unsupplied struct{ store.File }

func (unsupplied) Supply(_, _ int64) error { return syscall.EIO }

// What was reserved and not packed into leaves no trace.
func TestWhatIsCancelledIsGivenBack(t *testing.T) {
	dir := newDir(t)
	w := mustOpen(t, dir.Process())
	require.NoError(t, w.begin())
	first, err := w.reserve("x", 1<<20)
	require.NoError(t, err)
	require.NoError(t, w.Cancel(first))
	second, err := w.reserve("a", 500)
	require.NoError(t, err)
	require.Equal(t, first.Offset(), second.Offset())
	copy(second.Data, payloadA["a"])
	require.NoError(t, w.handIn("a", second))
	require.NoError(t, w.commit(nil))
	end := int64(w.Slot().End)
	require.NoError(t, w.Close())
	require.Equal(t, end, dir.Size(cachePath))
	requireContent(t, dir, payloadA)
}

// A tightDisk has limited space. Like XFS, it wants as much free space again to allocate space that is allocated.
type tightDisk struct {
	store.File
	space, used int64
}

func (d *tightDisk) Allocate(offset, size int64) error {
	if d.used+size > d.space {
		return syscall.ENOSPC
	}
	d.used = max(d.used, offset+size)
	return d.File.Allocate(offset, size)
}

func (d *tightDisk) Truncate(size int64) error {
	d.used = size
	return d.File.Truncate(size)
}

func TestWhatFitsOnAFullDiskIsCommitted(t *testing.T) {
	const space = 10 << 20
	dir := newDir(t)
	w := mustOpen(t, dir.Process())
	require.NoError(t, w.begin())
	w.Intercept(nil, func(d store.File) store.File { return &tightDisk{File: d, space: space} })
	want, size := map[string][]byte{}, 0
	for i := range 10_000 {
		name, payload := strconv.Itoa(i), bytes.Repeat([]byte{byte(i)}, 5000)
		r, err := w.reserve(name, len(payload))
		if err != nil {
			require.ErrorIs(t, err, syscall.ENOSPC)
			break
		}
		want[name], size = payload, size+len(payload)
		copy(r.Data, payload)
		require.NoError(t, w.handIn(name, r))
	}
	require.Greater(t, size, space/10*9)
	require.NoError(t, w.commit(nil))
	require.NoError(t, w.Close())
	requireContent(t, dir, want)
}
