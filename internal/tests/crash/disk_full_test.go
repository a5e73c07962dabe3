//go:build linux || darwin

package crash

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/store"
	"xpwc/internal/tests/harness"
)

// What is in the file when its disk is full, and what is packed then. The sizes are no multiples of anything.
func tensorsBefore() harness.OneModel { return fullModel(0, "old") }

func tensorsAfter() harness.OneModel { return fullModel(3, "new") }

// fullModel has three tensors that stay, three with the content of a version, and others that are new.
func fullModel(others int, version string) harness.OneModel {
	m := harness.OneModel{}
	for i := range 3 {
		m[fmt.Sprint("kept ", i)] = harness.Content("kept", 1000+2100*i)
		m[fmt.Sprint("changed ", i)] = harness.Content(version, 700+900*i)
	}
	for i := range others {
		m[fmt.Sprint("added ", i)] = harness.Content("added", 3000*i+1111)
	}
	return m
}

// An outcome is what a process reports of its work on a disk that may be full.
type outcome struct {
	Hits, Packed, Private int64
	Full                  bool   // the reason counted, and the error behind it
	Err                   string // of Save or Compact
	Compactions           int64
}

// noSpace reports whether an error is one of a disk that is full, a quota or a limit.
func noSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}

// packOnFullDisk packs the new tensors, tolerates errors of a full disk, and reports the outcome. An error is any other
// failure.
func packOnFullDisk(path string) (o outcome, err error) {
	c, err := xpwc.Open(path, nil)
	if err != nil {
		return o, err
	}
	s, _, err := tensorsAfter().Pack(c)
	if err != nil {
		return o, err
	}
	saveErr := c.Save()
	stats := c.Stats()
	o = outcome{Hits: stats.Hits.Entries, Packed: stats.Packed.Entries, Private: stats.Private[xpwc.ReasonDisk].Entries}
	if saveErr != nil {
		o.Err = saveErr.Error()
		if !noSpace(saveErr) {
			return o, saveErr
		}
	}
	o.Full = noSpace(stats.LastError)
	for _, e := range harness.User(s).Used() { // committed or not, it stays what it is
		if !inModel(tensorsAfter(), e.Data) {
			return o, fmt.Errorf("%s has changed", e.Name())
		}
	}
	err = s.Close()
	if closeErr := c.Close(); !noSpace(closeErr) {
		err = errors.Join(err, closeErr)
	}
	return o, err
}

func inModel(m harness.OneModel, packed []byte) bool {
	for _, content := range m {
		if string(harness.PackedFrom(content)) == string(packed) {
			return true
		}
	}
	return false
}

// compactOnFullDisk compacts the cache of the old tensors and looks whether all are there afterwards.
func compactOnFullDisk(path string) (o outcome, err error) {
	c, err := xpwc.Open(path, nil)
	if err != nil {
		return o, err
	}
	s, _, err := tensorsBefore().Pack(c)
	if err != nil {
		return o, err
	}
	if err := c.Compact(); err != nil {
		o.Err = err.Error()
		if !noSpace(err) {
			return o, err
		}
	}
	repeated, hits, err := tensorsBefore().Pack(c)
	if err != nil {
		return o, err
	}
	stats := c.Stats()
	o.Hits, o.Packed, o.Compactions = int64(hits), stats.Packed.Entries, stats.Compactions
	return o, errors.Join(s.Close(), repeated.Close(), c.Close())
}

// onFullDisk is what a child does.
func onFullDisk(path, work string) error {
	do := packOnFullDisk
	if work == "compact" {
		do = compactOnFullDisk
	}
	o, err := do(path)
	if err != nil {
		return err
	}
	line, err := json.Marshal(o)
	fmt.Println("outcome", string(line))
	return err
}

// makeCache writes a cache of the old tensors, with dead bytes among them.
func makeCache(t *testing.T, path string) {
	t.Helper()
	c := harness.Open(t, path, nil)
	for _, m := range []harness.OneModel{fullModel(0, "older"), tensorsBefore()} {
		s, _, err := m.Pack(c)
		require.NoError(t, err)
		require.NoError(t, s.Close())
		require.NoError(t, c.Save())
	}
	require.NoError(t, c.Close())
	require.Greater(t, c.Stats().DeadBytes, int64(3000))
	require.Zero(t, c.Stats().Compactions)
}

// requireFound requires that a strictly opened cache has all of the tensors, and that its directory has no other file.
func requireFound(t *testing.T, path string, m harness.OneModel) {
	t.Helper()
	c := harness.Open(t, path, &xpwc.Options{Strict: true, ReadOnly: true, Verify: xpwc.VerifyOnUse})
	s, hits, err := m.Pack(c)
	require.NoError(t, err)
	require.Equal(t, len(m), hits)
	require.NoError(t, s.Close())
	require.NoError(t, c.Close())
	require.NoFileExists(t, path+".compact")
	require.NoFileExists(t, path+".damaged")
}

// requireBridged requires that a process that packed on a disk that may have been full lost and hid nothing. before is
// what was in the file before, or nil.
func requireBridged(t *testing.T, path string, o outcome, prior harness.OneModel) {
	t.Helper()
	total := int64(len(tensorsAfter()))
	require.Equal(t, total, o.Hits+o.Packed+o.Private)
	if o.Packed > 0 {
		require.Empty(t, o.Err, "there is room for the index of what was packed into the file")
	}
	if prior != nil {
		require.EqualValues(t, 3, o.Hits)
	}
	if o.Private > 0 || o.Err != "" {
		require.True(t, o.Full, "the reason is given")
	}
	c := harness.Open(t, path, &xpwc.Options{Strict: true, ReadOnly: true, Verify: xpwc.VerifyOnUse})
	if o.Err == "" {
		s, hits, err := tensorsAfter().Pack(c)
		require.NoError(t, err)
		require.EqualValues(t, o.Hits+o.Packed, hits, "what is not private is in the file")
		require.NoError(t, s.Close())
	}
	require.NoError(t, c.Close())
	if prior != nil && (o.Err != "" || o.Packed == 0) {
		requireFound(t, path, prior)
	}
	if info, err := os.Stat(path); err == nil {
		require.LessOrEqual(t, info.Size(), max(4096, c.Stats().FileBytes), "space that is not used is given back")
	}
}

// requirePersists requires that with space again the next start packs what is missing, and the one after nothing.
func requirePersists(t *testing.T, path string) {
	t.Helper()
	c := harness.Open(t, path, &xpwc.Options{Strict: true})
	s, _, err := tensorsAfter().Pack(c)
	require.NoError(t, err)
	require.NoError(t, c.Save())
	require.Empty(t, c.Stats().Private)
	require.NoError(t, s.Close())
	require.NoError(t, c.Close())
	requireFound(t, path, tensorsAfter())
}

// The limit on the size of files, from nothing to everything. The system sends SIGXFSZ to a process that exceeds it.
func TestAFileSizeLimitIsSurvived(t *testing.T) {
	if path := os.Getenv(harness.EnvChild); path != "" {
		var limit syscall.Rlimit
		require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit))
		work, size, _ := strings.Cut(os.Getenv(harness.EnvRound), " ")
		n, err := strconv.ParseUint(size, 10, 64)
		require.NoError(t, err)
		limit.Cur = n
		require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit))
		require.NoError(t, onFullDisk(path, work))
		return
	}
	const step = 1024
	points := atEveryPoint(t, t.TempDir(), step, func(path, work string, limit int) outcome {
		return startOnFullDisk(t, "TestAFileSizeLimitIsSurvived", path, fmt.Sprint(work, " ", limit))
	})
	t.Logf("%d limits", points)
}

func startOnFullDisk(t *testing.T, test, path, request string) (o outcome) {
	t.Helper()
	child := harness.StartChild(t, test, nil, harness.EnvChild+"="+path, harness.EnvRound+"="+request)
	line := child.Await(t, "outcome")
	child.Pass(t)
	require.NoError(t, json.Unmarshal([]byte(line), &o))
	return o
}

// atEveryPoint tries a new cache, one with an earlier generation, and compacting, each with the disk full at every
// point, in steps of so many bytes (with -short, of at least 8 KiB), until everything fits. run does the work with so
// much space. It returns the number of points.
func atEveryPoint(t *testing.T, dir string, step int, run func(path, work string, space int) outcome) (points int) {
	if testing.Short() {
		step = max(step, 8<<10)
	}
	path := filepath.Join(dir, "cache")
	requireFits := func(space int) {
		require.Less(t, space, 1<<20, "it never fits")
		points++
	}
	for _, prior := range []harness.OneModel{nil, tensorsBefore()} {
		fitted := 0
		for space := 0; fitted < 3; space += step {
			requireFits(space)
			if prior != nil {
				makeCache(t, path)
			}
			o := run(path, "pack", space)
			requireBridged(t, path, o, prior)
			if o.Private == 0 && o.Err == "" {
				fitted++
			}
			if space == 0 {
				require.Zero(t, fitted)
			}
			requirePersists(t, path)
			require.NoError(t, os.Remove(path))
		}
	}
	fitted := 0
	for space := 0; fitted < 3; space += step {
		requireFits(space)
		makeCache(t, path)
		o := run(path, "compact", space)
		require.EqualValues(t, len(tensorsBefore()), o.Hits)
		require.Zero(t, o.Packed)
		require.Equal(t, o.Err == "", o.Compactions == 1)
		if o.Err == "" {
			fitted++
		}
		if space == 0 {
			require.Zero(t, fitted)
		}
		requireFound(t, path, tensorsBefore())
		requirePersists(t, path)
		require.NoError(t, os.Remove(path))
	}
	return points
}

// A sparseDisk promises space that there need not be.
type sparseDisk struct{ store.File }

func (d sparseDisk) Allocate(offset, size int64) error {
	current, err := d.Size()
	if err != nil || current >= offset+size {
		return err
	}
	return d.Truncate(offset + size)
}

func TestAFileBeyondFourGiB(t *testing.T) {
	if strconv.IntSize < 64 {
		t.Skip("no address space for it")
	}
	const beyond = 5 << 30
	path := harness.Path(t)
	low, complete := harness.Tensors(2, 5000), harness.Tensors(5, 5000)
	c := harness.OpenProcess(t, path)
	harness.PackTensors(t, c, low).MustClose(t)
	require.NoError(t, c.Save())

	harness.Probe(c).File(func(st *store.Store) {
		ok, err := st.Begin()
		require.True(t, ok)
		require.NoError(t, err)
		st.Intercept(nil, func(d store.File) store.File { return sparseDisk{d} })
		r, err := st.Reserve(beyond, 0)
		require.NoError(t, err)
		store.Filled(r)
		require.NoError(t, r.Region.Release())
	})
	harness.Probe(c).Pack(1) // so much is dead now that it would be compacted at once
	harness.PackTensors(t, c, complete).MustClose(t)
	require.NoError(t, c.Save())
	require.Greater(t, c.Stats().FileBytes, int64(beyond))
	harness.Probe(c).Pack(-1)
	harness.Probe(c).GiveUp()
	require.NoError(t, c.Close())

	c = harness.Open(t, path, &xpwc.Options{Strict: true, ReadOnly: true, Verify: xpwc.VerifyOnUse})
	o := harness.PackTensors(t, c, complete)
	behind := 0
	for _, e := range harness.User(o.Session).Used() {
		if e.Record.Offset > math.MaxUint32 {
			behind++
		}
	}
	require.Equal(t, 3, behind)
	o.MustClose(t)
	stats := c.Stats()
	require.EqualValues(t, 5, stats.Verified.Entries)
	require.Zero(t, stats.Misses)
	require.Greater(t, stats.FileBytes, int64(beyond))
	require.NoError(t, c.Close())

	c = harness.Open(t, path, nil)
	extra := harness.Tensors(6, 5000)
	o = harness.PackTensors(t, c, extra) // is packed behind the others
	for _, e := range harness.User(o.Session).Used() {
		if e.Region.Reader() == nil { // it was packed here
			require.Greater(t, e.Record.Offset, uint64(beyond))
		}
	}
	require.NoError(t, c.Compact())
	o.Check(t)
	o.MustClose(t)
	require.NoError(t, c.Close())
	require.Less(t, c.Stats().FileBytes, int64(1<<20))

	c = harness.Open(t, path, &xpwc.Options{Strict: true})
	harness.PackTensors(t, c, extra).MustClose(t)
	require.Zero(t, c.Stats().Misses)
	require.NoError(t, c.Close())
}

// Room for the index is reserved together with its payloads. If the disk cannot free the surplus, nothing is lost, and
// the next commit lists everything.
func TestACommitThatCannotBeLaidOutLosesNothing(t *testing.T) {
	path := harness.Path(t)
	c := harness.Open(t, path, nil)
	tensors := harness.Tensors(4, 3000)
	o := harness.PackTensors(t, c, tensors)
	harness.HoldCommits(c)
	full := &refusingDisk{File: harness.Disk(c), refusals: 1}
	harness.SetDisk(c, full)
	require.ErrorIs(t, c.Save(), syscall.EIO)
	require.NoError(t, o.Err())
	o.Check(t)
	theirs := harness.OpenProcess(t, path)
	private := harness.PackTensors(t, theirs, tensors)
	require.EqualValues(t, 4, theirs.Stats().Private[xpwc.ReasonBusy].Entries, "the space is this process' own")
	o.Check(t)
	private.MustClose(t)
	require.NoError(t, theirs.Close())

	require.NoError(t, c.Save(), "the disk takes it by now")
	o.Check(t)
	o.MustClose(t)
	require.NoError(t, c.Close())
	c = harness.Open(t, path, &xpwc.Options{Strict: true, Verify: xpwc.VerifyOnUse})
	harness.PackTensors(t, c, tensors).MustClose(t)
	require.Zero(t, c.Stats().Misses)
	require.NoError(t, c.Close())
}

// A refusingDisk refuses to cut its file off, some times.
type refusingDisk struct {
	store.File
	refusals int
}

func (d *refusingDisk) Truncate(size int64) error {
	if d.refusals > 0 {
		d.refusals--
		return syscall.EIO
	}
	return d.File.Truncate(size)
}

// What a session packed lies before the index of a commit that another session's end brought about meanwhile. That the
// disk has no room for the next index must not cost what was committed.
func TestNoRoomForTheIndexKeepsCommittedEntries(t *testing.T) {
	path := harness.Path(t)
	c, h := harness.OpenHooked(t, path, nil)
	early := map[string][]byte{"a": harness.Content("a", 5000), "b": harness.Content("b", 5000),
		"c": harness.Content("c", 5000)}
	s := harness.NewSession(t, c, early)
	for _, name := range []string{"a", "b", "c"} {
		kernel := harness.Load(t, s, name)
		require.Equal(t, harness.NotFound, harness.LookUp(s, 42, kernel, 0))
		packed := harness.PackedFrom(early[name])
		space := harness.Reserve(s, uint64(len(packed)))
		require.NotNil(t, space)
		copy(space, packed)
		harness.Insert(s, 42, kernel, 0, harness.Address(space), uint64(len(packed)))
	}
	committed := harness.Tensors(3, 5000)
	harness.PackTensors(t, c, committed).MustClose(t)
	require.NoError(t, c.Save())
	end := int64(harness.Store(c).Slot().End)

	require.NoError(t, s.Finalize())
	harness.HoldCommits(c)
	h.Allocate = func(int64, int64) error { return syscall.ENOSPC }
	require.ErrorIs(t, c.Save(), syscall.ENOSPC)
	harness.RequireRight(t, s, early)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.GreaterOrEqual(t, info.Size(), end)
	elsewhere := harness.OpenProcess(t, path)
	harness.PackTensors(t, elsewhere, committed).MustClose(t)
	require.EqualValues(t, 3, elsewhere.Stats().Hits.Entries)

	h.Allocate = nil
	require.NoError(t, c.Save())
	require.NoError(t, s.Close())
	harness.PackTensors(t, elsewhere, early).MustClose(t)
	require.EqualValues(t, 6, elsewhere.Stats().Hits.Entries)
}
