package files

import (
	"fmt"
	"os"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/format"
	"xpwc/internal/osdisk"
	"xpwc/internal/store"
	"xpwc/internal/tests/harness"
	"xpwc/internal/writer"
	"xpwc/xnnpack/packing"
)

// versioned distinguishes a data map's tensors by a stamp and names their source, as a model's file does.
type versioned struct {
	xpwc.DataMap
	version map[string]int
	digests *atomic.Int64 // how many were computed
}

func (d versioned) Tensor(name string) (xpwc.Tensor, error) {
	t, err := d.DataMap.Tensor(name)
	digest := t.Identity.Digest
	t.Identity = xpwc.Identity{Source: "model", Stamp: fmt.Sprint(name, d.version[name]), Digest: func() (xpwc.Digest,
		error) {
		if d.digests != nil {
			d.digests.Add(1)
		}
		return digest()
	}}
	return t, err
}

// use has a session pack or find the tensors, under stamps of their versions.
func use(t testing.TB, c *xpwc.Cache, tensors map[string][]byte, version map[string]int) {
	t.Helper()
	s, err := c.NewSession(versioned{xpwc.MapOf(tensors), version, nil})
	require.NoError(t, err)
	harness.PackSession(t, s, tensors).MustClose(t)
}

func TestAThousandChangesKeepTheFileSmall(t *testing.T) {
	path := harness.Path(t)
	tensors, version := harness.Tensors(8, 20_000), map[string]int{}
	c := harness.Open(t, path, nil)
	for i := range max(1000/harness.SampleStep(), 120) {
		name := fmt.Sprint("tensor ", i%8)
		tensors[name] = harness.Content(fmt.Sprint(name, i), 20_000)
		version[name]++
		use(t, c, tensors, version)
		if i%100 == 0 {
			require.NoError(t, c.Close())
			c = harness.Open(t, path, nil)
		}
		require.NoError(t, c.Save())
		s := c.Stats()
		require.Less(t, float64(s.FileBytes), 1.5*8*20_100, "after %d changes", i)
		require.NoError(t, s.LastError)
	}
	require.Positive(t, c.Stats().Compactions)
	require.NoError(t, c.Close())
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Less(t, float64(info.Size()), 1.5*8*20_100)
}

func TestCompactingKeepsLiveEntriesAndRunningModels(t *testing.T) {
	path := harness.Path(t)
	original, rewritten := harness.Tensors(6, 9000), harness.Tensors(6, 9000)
	for name := range rewritten {
		rewritten[name] = harness.Content(name+"!", 9000)
	}
	c := harness.Open(t, path, nil)
	use(t, c, original, nil)
	running, err := c.NewSession(versioned{xpwc.MapOf(original), nil, nil})
	require.NoError(t, err)
	old := harness.PackSession(t, running, original)
	rewritten["tensor 5"] = original["tensor 5"]
	use(t, c, rewritten, map[string]int{"tensor 0": 1, "tensor 1": 1, "tensor 2": 1, "tensor 3": 1, "tensor 4": 1})
	require.NoError(t, c.Save())
	require.NoError(t, c.Compact())
	require.Positive(t, c.Stats().Compactions)
	require.Zero(t, c.Stats().DeadBytes)
	require.Equal(t, 6, c.Stats().Entries)
	old.Check(t)
	use(t, c, rewritten, map[string]int{"tensor 0": 1, "tensor 1": 1, "tensor 2": 1, "tensor 3": 1, "tensor 4": 1})
	old.MustClose(t)
	misses := c.Stats().Misses
	require.NoError(t, c.Close())
	require.NoFileExists(t, path+".compact")

	c = harness.Open(t, path, &xpwc.Options{Strict: true, Verify: xpwc.VerifyOnUse})
	harness.PackTensors(t, c, rewritten).MustClose(t)
	require.EqualValues(t, 6, c.Stats().Hits.Entries)
	require.NoError(t, c.Close())
	require.EqualValues(t, 6+5, misses, "what was compacted was found")
}

func TestEqualWeightsOfSeveralNamesAreStoredOnce(t *testing.T) {
	const size = 20_000
	path := harness.Path(t)
	content := harness.Content("content", size)
	named := func(names ...string) map[string][]byte {
		tensors := map[string][]byte{}
		for _, name := range names {
			tensors[name] = content
		}
		return tensors
	}
	c := harness.Open(t, path, nil)
	for _, names := range [][]string{{"prefill"}, {"decode"}, {"verify", "train"}} {
		use(t, c, named(names...), nil)
		require.NoError(t, c.Save())
		require.NoError(t, c.Close()) // the next is another process
		c = harness.Open(t, path, nil)
	}
	require.Equal(t, 4, c.Stats().Entries)
	require.Less(t, c.Stats().FileBytes, int64(2*size))
	harness.PackTensors(t, c, named("prefill", "decode", "verify", "train")).MustClose(t)
	require.EqualValues(t, 4, c.Stats().Hits.Entries)
	require.Zero(t, c.Stats().Packed.Entries)
	require.NoError(t, c.Close())
}

// Another process goes on with the file it has mapped, and finds the new one with its next session.
func TestAnotherProcessFollowsACompaction(t *testing.T) {
	path := harness.Path(t)
	tensors := harness.Tensors(4, 3000)
	c := harness.Open(t, path, nil)
	harness.PackTensors(t, c, tensors).MustClose(t)
	require.NoError(t, c.Save())
	theirs := harness.OpenProcess(t, path)
	o := harness.PackTensors(t, theirs, tensors)
	require.NoError(t, c.Compact())
	o.Check(t)
	extra := harness.Tensors(5, 3000)
	harness.PackTensors(t, theirs, extra).MustClose(t)
	require.EqualValues(t, 1, theirs.Stats().Packed.Entries)
	o.MustClose(t)
	require.NoError(t, theirs.Close())
	harness.PackTensors(t, c, extra).MustClose(t)
	require.Equal(t, 5, c.Stats().Entries)
	require.NoError(t, c.Close())
}

func TestTheSizeCapEvictsTheLeastRecentlyUsed(t *testing.T) {
	path := harness.Path(t)
	const maxBytes = 100_000
	c := harness.Open(t, path, &xpwc.Options{MaxBytes: maxBytes})
	clock := int64(1000)
	harness.Probe(c).SetClock(func() int64 { clock++; return clock })
	for i := range 20 {
		name := fmt.Sprint("t", i)
		harness.PackTensors(t, c, map[string][]byte{name: harness.Content(name, 20_000)}).MustClose(t)
		require.NoError(t, c.Save())
		require.LessOrEqual(t, c.Stats().FileBytes, int64(maxBytes))
	}
	require.NoError(t, c.Close())
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.LessOrEqual(t, info.Size(), int64(maxBytes))

	c = harness.Open(t, path, &xpwc.Options{ReadOnly: true, Strict: true})
	harness.PackTensors(t, c, map[string][]byte{"t19": harness.Content("t19", 20_000), "t18": harness.Content("t18",
		20_000)}).MustClose(t)
	require.EqualValues(t, 2, c.Stats().Hits.Entries, "the newest are there")
	harness.PackTensors(t, c, map[string][]byte{"t0": harness.Content("t0", 20_000)}).MustClose(t)
	require.EqualValues(t, 1, c.Stats().Misses, "the oldest is not")
	require.NoError(t, c.Close())
}

func TestUnchangedContentWithANewStampIsNotRepacked(t *testing.T) {
	path := harness.Path(t)
	tensors := harness.Tensors(3, 3000)
	run := func(version map[string]int) (xpwc.Stats, int64) {
		c := harness.Open(t, path, nil)
		var digests atomic.Int64
		s, err := c.NewSession(versioned{xpwc.MapOf(tensors), version, &digests})
		require.NoError(t, err)
		harness.PackSession(t, s, tensors).MustClose(t)
		require.NoError(t, c.Close())
		return c.Stats(), digests.Load()
	}
	s, digests := run(nil)
	require.EqualValues(t, 3, s.Packed.Entries)
	require.EqualValues(t, 3, digests)

	s, digests = run(nil)
	require.EqualValues(t, 3, s.Hits.Entries)
	require.Zero(t, digests, "equal stamps say it all")

	s, digests = run(map[string]int{"tensor 1": 1})
	require.EqualValues(t, 3, s.Hits.Entries)
	require.Zero(t, s.Packed.Entries)
	require.EqualValues(t, 1, digests, "one stamp changed")

	s, digests = run(map[string]int{"tensor 1": 1})
	require.EqualValues(t, 3, s.Hits.Entries)
	require.Zero(t, digests, "the new stamp was kept")
	require.Zero(t, s.WrittenBytes)
}

func TestCompactingWhileTheSameProcessPacksEndsInAnError(t *testing.T) {
	c := harness.Open(t, harness.Path(t), &xpwc.Options{WriterWait: -1})
	s := harness.NewSession(t, c, harness.Tensors(1, 100))
	for name := range harness.Tensors(1, 100) {
		require.Equal(t, harness.NotFound, harness.LookUp(s, 7, harness.Load(t, s, name), 0))
	}
	require.NotNil(t, harness.Reserve(s, 100))
	require.ErrorIs(t, c.Compact(), xpwc.ErrBusy)
	harness.Finish(t, s)
	require.NoError(t, c.Compact())
}

func TestEntriesWithFutureDatesAreEvictedFirst(t *testing.T) {
	const clock, size = 1_700_000_000, 1 << 20
	records := []format.Record{
		{Offset: 1, Size: size, UsedAt: clock - 1000}, {Offset: 2, Size: size, UsedAt: clock + 1<<30},
		{Offset: 3, Size: size, UsedAt: clock + 60}, {Offset: 4, Size: size, UsedAt: clock - 2000},
	}
	var retained []uint64
	for _, r := range writer.UsedLast(records, 3*size+size/2, clock) {
		retained = append(retained, r.Offset)
	}
	require.Equal(t, []uint64{1, 3, 4}, retained)
}

func TestASharedPayloadCountsOnceTowardsTheFileSize(t *testing.T) {
	const clock, size = 1_700_000_000, 1 << 20
	records := []format.Record{
		{Offset: 1, Size: size, UsedAt: clock}, {Offset: 1, Size: size, UsedAt: clock - 1},
		{Offset: 1, Size: size, UsedAt: clock - 2}, {Offset: 2, Size: size, UsedAt: clock - 3},
	}
	require.Len(t, writer.UsedLast(records, 2*size+size/2, clock), 4)
}

func TestFlagsSetWhileACompactionCopiesAreKept(t *testing.T) {
	path := harness.Path(t)
	m := map[string][]byte{"w": harness.Content("w", 1000)}
	p := harness.PackedFrom(m["w"])
	c := harness.Open(t, path, nil)
	s := harness.NewSession(t, c, m)
	harness.PackWeight(t, s, 7, harness.Load(t, s, "w", xpwc.PackedAs(packing.Opaque(nil))), 0, p)
	harness.Finish(t, s)
	require.NoError(t, c.Save())
	atCopy, copyOn := make(chan bool), make(chan bool)
	harness.SetFiles(c, harness.WrappedFiles{Files: osdisk.Files{}, Wrap: func(d store.File, err error) (store.File,
		error) {
		atCopy <- true
		<-copyOn
		return d, err
	}})
	compacted := make(chan error)
	go func() { compacted <- c.Compact() }()
	<-atCopy
	s = harness.NewSession(t, c, m)
	harness.PackWeight(t, s, 7, harness.Load(t, s, "w", xpwc.PackedAs(packing.Opaque(nil))), 0, p)
	harness.PackWeight(t, s, 7, harness.Load(t, s, "w", xpwc.PackedAs(packing.Opaque(nil))), 0, p) // tied
	harness.Finish(t, s)
	close(copyOn)
	require.NoError(t, <-compacted)
	s = harness.NewSession(t, c, m)
	harness.PackWeight(t, s, 7, harness.Load(t, s, "w", xpwc.PackedAs(packing.Opaque(nil))), 0, p)
	_, hit := harness.PackWeight(t, s, 7, harness.Load(t, s, "w", xpwc.PackedAs(packing.Opaque(nil))), 0, p)
	require.True(t, hit)
	harness.Finish(t, s)
	require.NoError(t, c.Close())
}

// A compaction does not put its file in the place of one it has not copied.
func TestACompactionDoesNotReplaceANewFile(t *testing.T) {
	path := harness.Path(t)
	c := harness.Open(t, path, nil)
	harness.PackTensors(t, c, harness.Tensors(2, 1000)).MustClose(t)
	require.NoError(t, c.Save())
	harness.SetFiles(c, harness.WrappedFiles{Files: osdisk.Files{}, Wrap: func(d store.File, err error) (store.File,
		error) {
		require.NoError(t, os.Rename(path, path+".moved"))
		theirs := harness.OpenProcess(t, path)
		harness.PackTensors(t, theirs, map[string][]byte{"theirs": harness.Content("t", 100)}).MustClose(t)
		require.NoError(t, theirs.Close())
		return d, err
	}})
	require.ErrorIs(t, c.Compact(), xpwc.ErrReplaced)
	require.NoError(t, c.Close())
	require.NoFileExists(t, path+".compact")
	c = harness.Open(t, path, &xpwc.Options{Strict: true})
	harness.PackTensors(t, c, map[string][]byte{"theirs": harness.Content("t", 100)}).MustClose(t)
	require.EqualValues(t, 1, c.Stats().Hits.Entries)
	require.NoError(t, c.Close())
}
