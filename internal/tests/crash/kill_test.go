package crash

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/store"
	"xpwc/internal/tests/harness"
	"xpwc/internal/tests/testkit"
	"xpwc/internal/writer"
)

// tensorsOfRound is a model some of whose tensors change with every round.
func tensorsOfRound(round int) harness.OneModel {
	m := harness.OneModel{}
	for i, size := range []int{10, 900, 5_000, 17_000, 40_000, 130_000} {
		m[fmt.Sprint("tensor ", i)] = harness.Content(fmt.Sprintf("tensor %d, version %d", i, (round+i)/3), size)
	}
	return m
}

// packUntilKilled is what the child does.
func packUntilKilled(path string, round int) error {
	for {
		c, err := xpwc.Open(path, &xpwc.Options{WriterWait: -1})
		if err != nil {
			return err
		}
		for range 3 {
			fmt.Println("packing", round)
			s, _, err := tensorsOfRound(round).Pack(c)
			if err != nil {
				return err
			}
			fmt.Println("saving", round)
			if err := c.Save(); err != nil {
				return err
			}
			if n := c.Stats().Private; len(n) > 0 {
				return fmt.Errorf("round %d: private memory %v: %w", round, n, c.Stats().LastError)
			}
			fmt.Println("saved", round)
			if err := s.Close(); err != nil {
				return err
			}
			if round%2 == 0 {
				fmt.Println("compacting", round)
				if err := c.Compact(); err != nil {
					return err
				}
			}
			round++
		}
		if err := c.Close(); err != nil {
			return err
		}
	}
}

// Killed at any moment of packing, committing and compacting, a process loses nothing that it saved.
func TestNothingSavedIsLostToAKill(t *testing.T) {
	if path := os.Getenv(harness.EnvChild); path != "" {
		round, err := strconv.Atoi(os.Getenv(harness.EnvRound))
		require.NoError(t, err)
		require.NoError(t, packUntilKilled(path, round))
		return
	}
	kills := 1040
	if testing.Short() {
		kills = 104
	}
	const files = 4 // worked on in parallel
	seed := testkit.Seed(t)
	var (
		mu    sync.Mutex
		total killed
	)
	t.Run("files", func(t *testing.T) {
		for i := range files {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				random := rand.New(rand.NewPCG(seed, uint64(i)))
				var k killed
				for k.Kills < kills/files {
					k.repeatedly(t, harness.Path(t), random, 26)
				}
				mu.Lock()
				defer mu.Unlock()
				total.add(k)
			})
		}
	})
	t.Logf("%+v", total)
	require.Equal(t, kills, total.Kills)
	if testing.Short() {
		return
	}
	for moment, n := range map[string]int{
		"before the first commit":             total.BeforeFirst,
		"while packing":                       total.Tails,
		"between a commit and its report":     total.Unreported,
		"between compacting and the new name": total.Compacting,
	} {
		require.NotZero(t, n, "no kill came %s", moment)
	}
}

// killed counts kills, and at what moments they came.
type killed struct{ Kills, BeforeFirst, Tails, Unreported, Compacting int }

func (k *killed) add(sum killed) {
	k.Kills += sum.Kills
	k.BeforeFirst += sum.BeforeFirst
	k.Tails += sum.Tails
	k.Unreported += sum.Unreported
	k.Compacting += sum.Compacting
}

// repeatedly has children work on one file, each from where the one before was killed.
func (k *killed) repeatedly(t *testing.T, path string, random *rand.Rand, kills int) {
	saved := -1
	lines := 1 // the first kill is likely to come before anything is committed
	for i := range kills {
		child := harness.StartChild(t, "TestNothingSavedIsLostToAKill", nil,
			harness.EnvChild+"="+path, harness.EnvRound+"="+strconv.Itoa(saved+1))
		child.KillAtRandom(t, random, lines)
		lines = 9
		k.Kills++
		reported := child.Saved(t, saved)
		saved = inForce(t, path, reported)
		if saved < 0 {
			k.BeforeFirst++
		}
		if saved > reported {
			k.Unreported++
		}
		if _, err := os.Stat(path + ".compact"); err == nil {
			k.Compacting++
		}
		if lostTail(t, path) > 0 {
			k.Tails++
		}
		if i%10 == 9 {
			saved++
			goOn(t, path, saved)
		}
	}
}

// inForce returns the round whose tensors the file has, all of them: the last one saved, or the next if its commit was
// not acknowledged any more.
func inForce(t *testing.T, path string, saved int) int {
	t.Helper()
	for _, round := range []int{saved, saved + 1} {
		c := harness.Open(t, path, &xpwc.Options{ReadOnly: true, Strict: true})
		if round < 0 {
			generation := c.Stats().Generation
			require.NoError(t, c.Close())
			if generation == 0 {
				return round
			}
			continue
		}
		tensors := tensorsOfRound(round)
		s, hits, err := tensors.Pack(c)
		require.NoError(t, err)
		require.NoError(t, s.Close())
		stats := c.Stats()
		require.NoError(t, c.Close())
		require.NoError(t, stats.Damaged)
		require.Zero(t, stats.DamagedPayloads)
		if hits == len(tensors) {
			require.Zero(t, stats.Misses)
			return round
		}
	}
	t.Fatalf("neither round %d, which was saved, nor the one after is in the file", saved)
	return 0
}

// lostTail returns how many bytes lie behind the end of the generation in force: no more than one writer reserves.
func lostTail(t *testing.T, path string) int64 {
	t.Helper()
	c := harness.Open(t, path, &xpwc.Options{ReadOnly: true, Strict: true})
	end := c.Stats().FileBytes
	require.NoError(t, c.Close())
	info, err := os.Stat(path)
	if os.IsNotExist(err) {
		return 0
	}
	require.NoError(t, err)
	tail := info.Size() - max(end, 4096)
	require.LessOrEqual(t, tail, int64(store.FirstSegment+1<<20))
	return tail
}

// goOn packs a round into the file and requires that it takes up no more space than it must.
func goOn(t *testing.T, path string, round int) {
	t.Helper()
	size := func() int64 {
		info, err := os.Stat(path)
		require.NoError(t, err)
		return info.Size()
	}
	c := harness.Open(t, path, &xpwc.Options{Strict: true, WriterWait: -1})
	s, _, err := tensorsOfRound(round).Pack(c)
	require.NoError(t, err)
	require.NoError(t, c.Save())
	stats := c.Stats()
	if runtime.GOOS != "windows" { // where that waits until the file is closed
		require.Equal(t, stats.FileBytes, size(), "the lost tail is cut off")
	}
	require.LessOrEqual(t, stats.DeadBytes, max(stats.PayloadBytes/4, writer.MinDeadBytes))
	require.Empty(t, stats.Private)
	require.NoError(t, s.Close())
	require.NoError(t, c.Compact())
	require.NoError(t, c.Close())
	stats = c.Stats()
	require.Equal(t, len(tensorsOfRound(round)), stats.Entries)
	require.Zero(t, stats.DeadBytes)
	require.Equal(t, stats.FileBytes, size())
	remains, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, remains, 1, "nothing lies beside the cache")
	require.Equal(t, round, inForce(t, path, round))
}

// Committed memory is read-only: a stray write ends the process that does it and does not reach the file.
func TestAStrayWriteFaultsInsteadOfReachingTheFile(t *testing.T) {
	if path := os.Getenv(harness.EnvChild); path != "" {
		c := harness.Open(t, path, nil)
		o := harness.PackTensors(t, c, harness.Tensors(3, 10_000))
		if os.Getenv(harness.EnvRound) == "packed" {
			require.NoError(t, c.Save())
		}
		fmt.Println("saved 1")
		for _, p := range o.Entries {
			p.Bytes[17] ^= 0xff
			break
		}
		fmt.Println("written")
		return
	}
	path := harness.Path(t)
	for _, mode := range []string{"packed", "found"} {
		child := harness.StartChild(t, "TestAStrayWriteFaultsInsteadOfReachingTheFile", nil,
			harness.EnvChild+"="+path, harness.EnvRound+"="+mode)
		require.False(t, child.End().Success())
		require.Equal(t, 1, child.Saved(t, 0), child)
		require.NotContains(t, child.String(), "written")
		require.Contains(t, child.String(), harness.AccessViolation)

		c := harness.Open(t, path, &xpwc.Options{Strict: true, Verify: xpwc.VerifyOnUse})
		harness.PackTensors(t, c, harness.Tensors(3, 10_000)).MustClose(t)
		stats := c.Stats()
		require.EqualValues(t, 3, stats.Verified.Entries)
		require.Zero(t, stats.Misses)
		require.NoError(t, c.Close())
	}
}
