package xpwc

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/format"
	"xpwc/internal/writer"
)

// versioned distinguishes a data map's tensors by a stamp and names their source, as a model's file does.
type versioned struct {
	DataMap
	version map[string]int
	digests *atomic.Int64 // how many were computed
}

func (d versioned) Tensor(name string) (Tensor, error) {
	t, err := d.DataMap.Tensor(name)
	digest := t.Identity.Digest
	t.Identity = Identity{Source: "model", Stamp: fmt.Sprint(name, d.version[name]), Digest: func() (Digest, error) {
		if d.digests != nil {
			d.digests.Add(1)
		}
		return digest()
	}}
	return t, err
}

// use has a session pack or find the tensors, under stamps of their versions.
func use(t testing.TB, c *Cache, tensors map[string][]byte, version map[string]int) {
	t.Helper()
	s, err := c.NewSession(versioned{MapOf(tensors), version, nil})
	require.NoError(t, err)
	packAll(t, s, tensors).close(t)
}

func TestAThousandChangesKeepTheFileSmall(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	tensors, version := someTensors(8, 20_000), map[string]int{}
	c := mustOpen(t, path, nil)
	for i := range max(1000/oneOf(), 120) {
		name := fmt.Sprint("tensor ", i%8)
		tensors[name] = contentOf(fmt.Sprint(name, i), 20_000)
		version[name]++
		use(t, c, tensors, version)
		if i%100 == 0 {
			require.NoError(t, c.Close())
			c = mustOpen(t, path, nil)
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

func TestCompactingKeepsWhatLivesAndWhatRuns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	before, after := someTensors(6, 9000), someTensors(6, 9000)
	for name := range after {
		after[name] = contentOf(name+"!", 9000)
	}
	c := mustOpen(t, path, nil)
	use(t, c, before, nil)
	running, err := c.NewSession(versioned{MapOf(before), nil, nil})
	require.NoError(t, err)
	old := packAll(t, running, before)
	after["tensor 5"] = before["tensor 5"]
	use(t, c, after, map[string]int{"tensor 0": 1, "tensor 1": 1, "tensor 2": 1, "tensor 3": 1, "tensor 4": 1})
	require.NoError(t, c.Save())
	require.NoError(t, c.Compact())
	require.Positive(t, c.Stats().Compactions)
	require.Zero(t, c.Stats().DeadBytes)
	require.Equal(t, 6, c.Stats().Entries)
	old.check(t)
	use(t, c, after, map[string]int{"tensor 0": 1, "tensor 1": 1, "tensor 2": 1, "tensor 3": 1, "tensor 4": 1})
	old.close(t)
	misses := c.Stats().Misses
	require.NoError(t, c.Close())
	require.NoFileExists(t, path+".compact")

	c = mustOpen(t, path, &Options{Strict: true, Verify: VerifyOnUse})
	open(t, c, after).close(t)
	require.EqualValues(t, 6, c.Stats().Hits.Entries)
	require.NoError(t, c.Close())
	require.EqualValues(t, 6+5, misses, "what was compacted was found")
}

func TestEqualWeightsOfSeveralNamesAreStoredOnce(t *testing.T) {
	const size = 20_000
	path := filepath.Join(t.TempDir(), "cache")
	content := contentOf("content", size)
	named := func(names ...string) map[string][]byte {
		tensors := map[string][]byte{}
		for _, name := range names {
			tensors[name] = content
		}
		return tensors
	}
	c := mustOpen(t, path, nil)
	for _, names := range [][]string{{"prefill"}, {"decode"}, {"verify", "train"}} {
		use(t, c, named(names...), nil)
		require.NoError(t, c.Save())
		require.NoError(t, c.Close()) // the next is another process
		c = mustOpen(t, path, nil)
	}
	require.Equal(t, 4, c.Stats().Entries)
	require.Less(t, c.Stats().FileBytes, int64(2*size))
	open(t, c, named("prefill", "decode", "verify", "train")).close(t)
	require.EqualValues(t, 4, c.Stats().Hits.Entries)
	require.Zero(t, c.Stats().Packed.Entries)
	require.NoError(t, c.Close())
}

// Another process goes on with the file it has mapped, and finds the new one with its next session.
func TestAnotherProcessFollowsACompaction(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	tensors := someTensors(4, 3000)
	c := mustOpen(t, path, nil)
	open(t, c, tensors).close(t)
	require.NoError(t, c.Save())
	theirs := otherProcess(t, path)
	o := open(t, theirs, tensors)
	require.NoError(t, c.Compact())
	o.check(t)
	more := someTensors(5, 3000)
	open(t, theirs, more).close(t)
	require.EqualValues(t, 1, theirs.Stats().Packed.Entries)
	o.close(t)
	require.NoError(t, theirs.Close())
	open(t, c, more).close(t)
	require.Equal(t, 5, c.Stats().Entries)
	require.NoError(t, c.Close())
}

func TestTheSizeCapDropsWhatWasUsedLongestAgo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	const maxBytes = 100_000
	c := mustOpen(t, path, &Options{MaxBytes: maxBytes})
	clock := int64(1000)
	probe(c).SetClock(func() int64 { clock++; return clock })
	for i := range 20 {
		name := fmt.Sprint("t", i)
		open(t, c, map[string][]byte{name: contentOf(name, 20_000)}).close(t)
		require.NoError(t, c.Save())
		require.LessOrEqual(t, c.Stats().FileBytes, int64(maxBytes))
	}
	require.NoError(t, c.Close())
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.LessOrEqual(t, info.Size(), int64(maxBytes))

	c = mustOpen(t, path, &Options{ReadOnly: true, Strict: true})
	open(t, c, map[string][]byte{"t19": contentOf("t19", 20_000), "t18": contentOf("t18", 20_000)}).close(t)
	require.EqualValues(t, 2, c.Stats().Hits.Entries, "the newest are there")
	open(t, c, map[string][]byte{"t0": contentOf("t0", 20_000)}).close(t)
	require.EqualValues(t, 1, c.Stats().Misses, "the oldest is not")
	require.NoError(t, c.Close())
}

func TestAnUnchangedContentUnderANewStampIsNotPackedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	tensors := someTensors(3, 3000)
	run := func(version map[string]int) (Stats, int64) {
		c := mustOpen(t, path, nil)
		var digests atomic.Int64
		s, err := c.NewSession(versioned{MapOf(tensors), version, &digests})
		require.NoError(t, err)
		packAll(t, s, tensors).close(t)
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
	c := mustOpen(t, filepath.Join(t.TempDir(), "cache"), &Options{WriterWait: -1})
	s := newSession(t, c, someTensors(1, 100))
	for name := range someTensors(1, 100) {
		require.Equal(t, missing, lookUp(s, 7, load(t, s, name), 0))
	}
	require.NotNil(t, reserve(s, 100))
	require.ErrorIs(t, c.Compact(), ErrBusy)
	finish(t, s)
	require.NoError(t, c.Compact())
}

func TestEntriesOfADateToComeAreDroppedFirst(t *testing.T) {
	const now, size = 1_700_000_000, 1 << 20
	records := []format.Record{
		{Offset: 1, Size: size, UsedAt: now - 1000}, {Offset: 2, Size: size, UsedAt: now + 1<<30},
		{Offset: 3, Size: size, UsedAt: now + 60}, {Offset: 4, Size: size, UsedAt: now - 2000},
	}
	var kept []uint64
	for _, r := range writer.UsedLast(records, 3*size+size/2, now) {
		kept = append(kept, r.Offset)
	}
	require.Equal(t, []uint64{1, 3, 4}, kept)
}

func TestAPayloadOfSeveralEntriesCountsOnceTowardsTheSizeOfTheFile(t *testing.T) {
	const now, size = 1_700_000_000, 1 << 20
	records := []format.Record{
		{Offset: 1, Size: size, UsedAt: now}, {Offset: 1, Size: size, UsedAt: now - 1},
		{Offset: 1, Size: size, UsedAt: now - 2}, {Offset: 2, Size: size, UsedAt: now - 3},
	}
	require.Len(t, writer.UsedLast(records, 2*size+size/2, now), 4)
}
