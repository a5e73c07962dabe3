package sharing

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/tests/harness"
)

func TestFlagsThatAnotherProcessSetAreKept(t *testing.T) {
	path := harness.Path(t)
	m := map[string][]byte{"w": harness.Content("w", 100), "x": harness.Content("x", 100)}
	p1, p2 := bytes.Repeat([]byte{1}, 200), bytes.Repeat([]byte{2}, 200)
	mine := harness.Open(t, path, nil)
	inUse := harness.NewSession(t, mine, m)
	harness.PackWeight(t, inUse, 7, harness.Load(t, inUse, "w"), 0, p1)
	err := inUse.Finalize()
	require.NoError(t, err)
	require.NoError(t, mine.Save())

	useTwice := func(c *xpwc.Cache) {
		s := harness.NewSession(t, c, m)
		got, _ := harness.PackWeight(t, s, 7, harness.Load(t, s, "w"), 0, p1)
		require.Equal(t, p1, got)
		got, _ = harness.PackWeight(t, s, 7, harness.Load(t, s, "w"), 0, p2)
		require.Equal(t, p2, got)
		harness.Finish(t, s)
	}
	theirs := harness.OpenProcess(t, path)
	useTwice(theirs) // both are variants now
	require.NoError(t, theirs.Close())
	only2 := func(c *xpwc.Cache) []byte {
		s := harness.NewSession(t, c, m)
		got, _ := harness.PackWeight(t, s, 7, harness.Load(t, s, "w"), 0, p2)
		harness.Finish(t, s)
		return got
	}
	theirs = harness.OpenProcess(t, path)
	require.Equal(t, p2, only2(theirs), "as long as the flags are there")
	require.NoError(t, theirs.Close())

	t.Run("here", func(t *testing.T) { require.Equal(t, p2, only2(mine)) })
	s := harness.NewSession(t, mine, m)
	harness.PackWeight(t, s, 7, harness.Load(t, s, "x"), 0, p1) // anything to commit
	harness.Finish(t, s)
	require.NoError(t, inUse.Close())
	require.NoError(t, mine.Close())
	theirs = harness.OpenProcess(t, path)
	require.Equal(t, p2, only2(theirs), "in the file")
	require.NoError(t, theirs.Close())
}

// A stamp that could not be noted in the file because another process was writing to it is noted when that process has
// ended.
func TestAStampIsCommittedAfterAnotherWriterHasEnded(t *testing.T) {
	path := harness.Path(t)
	use := func(c *xpwc.Cache, stamp string) (hit bool) {
		s, hit := harness.UseStamped(t, c, stamp)
		harness.Finish(t, s)
		return hit
	}
	c := harness.Open(t, path, nil)
	require.False(t, use(c, "old"))
	require.NoError(t, c.Save())

	theirs := harness.OpenProcess(t, path)
	packs := harness.NewSession(t, theirs, map[string][]byte{"b": harness.Content("b", 3000)})
	space, err := harness.BeginPacking(packs, "b", 3000)
	require.NoError(t, err)
	require.True(t, use(c, "new"))
	require.NoError(t, c.Save())
	harness.EndPacking(packs, "b", space)
	harness.Finish(t, packs)
	require.NoError(t, theirs.Close())

	require.True(t, use(c, "new"))
	require.NoError(t, c.Save())
	require.EqualValues(t, 3, c.Stats().Generation)
	require.NoError(t, c.Close())
	c = harness.Open(t, path, nil)
	require.True(t, use(c, "new"))
	require.NoError(t, c.Save())
	require.Zero(t, c.Stats().WrittenBytes, "the file has the new stamp")
}

// Releasing the writer's lock, as a look-up does that finds an entry of another process, does not wait for a flush.
func TestReleasingTheWriterLockDoesNotWaitForAFlush(t *testing.T) {
	c, h := harness.OpenHooked(t, harness.Path(t), nil)
	o := harness.PackTensors(t, c, harness.Tensors(1, 3000))
	harness.HoldCommits(c)
	s := harness.NewSession(t, c, nil)
	h.Flush = func(string) error {
		changed, _ := harness.User(s).StartWriting()
		require.True(t, changed)
		harness.User(s).StopWriting()
		return nil
	}
	require.NoError(t, c.Save())
	h.Flush = nil
	require.False(t, harness.Store(c).Writing())
	o.MustClose(t)
	require.NoError(t, s.Close())
}

// A process that uses an entry, and commits something else, keeps changes that another process has made to it since.
func TestACommitLeavesTheStampsOfAnotherProcess(t *testing.T) {
	path := harness.Path(t)
	c := harness.Open(t, path, nil)
	s, _ := harness.UseStamped(t, c, "old")
	harness.Finish(t, s)
	require.NoError(t, c.Save())
	require.NoError(t, c.Close())
	c = harness.Open(t, path, nil)
	uses, hit := harness.UseStamped(t, c, "old")
	require.True(t, hit)
	require.NoError(t, uses.Finalize())

	theirs := harness.OpenProcess(t, path)
	s, hit = harness.UseStamped(t, theirs, "new")
	require.True(t, hit)
	harness.Finish(t, s)
	require.NoError(t, theirs.Close())

	harness.PackTensors(t, c, map[string][]byte{"b": harness.Content("b", 3000)}).MustClose(t)
	require.NoError(t, c.Save())
	require.NoError(t, uses.Close())
	require.NoError(t, c.Close())
	c = harness.Open(t, path, nil)
	s, hit = harness.UseStamped(t, c, "new")
	require.True(t, hit)
	harness.Finish(t, s)
	require.NoError(t, c.Save())
	require.Zero(t, c.Stats().WrittenBytes, "the file has the new stamp")
}

// What changes while a commit is written is committed after it.
func TestAStampNotedDuringACommitIsCommitted(t *testing.T) {
	path := harness.Path(t)
	c, h := harness.OpenHooked(t, path, nil)
	s, _ := harness.UseStamped(t, c, "old")
	harness.Finish(t, s)
	require.NoError(t, c.Save())
	harness.PackTensors(t, c, map[string][]byte{"b": harness.Content("b", 3000)}).MustClose(t)
	harness.HoldCommits(c)
	h.Flush = func(string) error {
		h.Flush = nil
		s, _ := harness.UseStamped(t, c, "new")
		harness.Finish(t, s)
		return nil
	}
	require.NoError(t, c.Save())
	require.NoError(t, c.Close())
	c = harness.Open(t, path, nil)
	s, hit := harness.UseStamped(t, c, "new")
	require.True(t, hit)
	harness.Finish(t, s)
	require.NoError(t, c.Save())
	require.Zero(t, c.Stats().WrittenBytes, "the file has the new stamp")
}
