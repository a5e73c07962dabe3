package xpwc

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"xpwc/internal/store"
	"xpwc/internal/tests/testkit"
	"xpwc/internal/writer"
)

// A Child is this test binary, running one of its tests in a process of its own. What it says goes line by line over
// its standard output.
type Child struct {
	*exec.Cmd
	Input io.WriteCloser // its standard input, unless that was given
	lines *bufio.Scanner
	said  []string
	errs  bytes.Buffer
	ended bool
}

// StartChild starts a test again with these variables in its environment. input is its standard input; nil gives it a
// pipe of its own.
func StartChild(t testing.TB, test string, input *os.File, env ...string) *Child {
	t.Helper()
	c := &Child{Cmd: testkit.Command("-test.run=^"+test+"$", "-test.count=1")}
	// The race detector waits a second at the end of every process otherwise.
	c.Env = append(append(os.Environ(), "GORACE="+os.Getenv("GORACE")+" atexit_sleep_ms=0"), env...)
	c.Stderr = &c.errs
	var err error
	if input != nil {
		c.Stdin = input
	} else {
		c.Input, err = c.StdinPipe()
		require.NoError(t, err)
	}
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	c.lines = bufio.NewScanner(out)
	require.NoError(t, c.Start())
	t.Cleanup(func() {
		if !c.ended {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	})
	return c
}

// Line returns the next line the child says; false when it has ended.
func (c *Child) Line() (string, bool) {
	if !c.lines.Scan() {
		return "", false
	}
	c.said = append(c.said, c.lines.Text())
	return c.lines.Text(), true
}

// Await returns the rest of the first line that begins with the word.
func (c *Child) Await(t testing.TB, word string) string {
	t.Helper()
	for {
		line, ok := c.Line()
		require.True(t, ok, "the child ended without saying %q:\n%s", word, c)
		if rest, found := strings.CutPrefix(line, word); found {
			return strings.TrimSpace(rest)
		}
	}
}

// End waits until the child has ended and returns how.
func (c *Child) End() *os.ProcessState {
	for {
		if _, ok := c.Line(); !ok {
			break
		}
	}
	c.ended = true
	_ = c.Wait()
	return c.ProcessState
}

// Pass waits until the child has ended and requires that its test passed.
func (c *Child) Pass(t testing.TB) {
	t.Helper()
	require.True(t, c.End().Success(), "the child failed (%v):\n%s", c.ProcessState, c)
}

// KillNow kills the child.
func (c *Child) KillNow(t testing.TB) {
	t.Helper()
	require.NoError(t, c.Process.Kill())
	c.End()
	require.True(t, wasKilled(c), "it ended by itself (%v):\n%s", c.ProcessState, c)
}

// KillAtRandom kills the child a few microseconds to milliseconds after one of its next lines.
func (c *Child) KillAtRandom(t testing.TB, random *rand.Rand, lines int) {
	t.Helper()
	for range 1 + random.IntN(lines) {
		if _, ok := c.Line(); !ok {
			break
		}
	}
	const longest = 10_000 // microseconds; short ones are as likely as long ones
	time.Sleep(time.Duration(math.Exp(random.Float64()*math.Log(longest))) * time.Microsecond)
	c.KillNow(t)
}

// Saved returns the last round that the child said was saved, or the one given.
func (c *Child) Saved(t testing.TB, round int) int {
	t.Helper()
	for _, line := range c.said {
		if rest, found := strings.CutPrefix(line, "saved "); found {
			var err error
			round, err = strconv.Atoi(rest)
			require.NoError(t, err)
		}
	}
	return round
}

// String returns all that the child said.
func (c *Child) String() string { return strings.Join(c.said, "\n") + "\n" + c.errs.String() }

// A OneModel is a data map of tensors that all come from one model, so that what changes supersedes what was packed
// before.
type OneModel map[string][]byte

// Tensor returns a copy of the named tensor.
func (m OneModel) Tensor(name string) (Tensor, error) {
	tensor, err := MapOf(m).Tensor(name)
	tensor.Identity.Source = "model"
	return tensor, err
}

// tensorsOfRound is a model some of whose tensors change with every round.
func tensorsOfRound(round int) OneModel {
	m := OneModel{}
	for i, size := range []int{10, 900, 5_000, 17_000, 40_000, 130_000} {
		m[fmt.Sprint("tensor ", i)] = contentOf(fmt.Sprintf("tensor %d, version %d", i, (round+i)/3), size)
	}
	return m
}

// pack has a session find or pack all tensors and returns it finalized, with how many it found.
func (m OneModel) pack(c *Cache) (s *Session, found int, err error) {
	if s, err = c.NewSession(m); err != nil {
		return nil, 0, err
	}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		content, err := s.Load(name, Believe())
		if err != nil {
			return s, 0, err
		}
		want := packedFrom(m[name])
		address := lookUp(s, 1, addressTo(content), 0)
		if address != missing {
			found++
		} else {
			space := reserve(s, uint64(len(want)))
			if space == nil {
				return s, 0, fmt.Errorf("no space for %s", name)
			}
			copy(space, want)
			address = insert(s, 1, addressTo(content), 0, addressTo(space), uint64(len(want)))
		}
		if err := m.check(s, name, address); err != nil {
			return s, 0, err
		}
	}
	err = s.Finalize()
	return s, found, err
}

// check compares what is at an address with what the tensor packs into.
func (m OneModel) check(s *Session, name string, address uintptr) error {
	for _, e := range userOf(s).Used() {
		if addressTo(e.Data) == address && bytes.Equal(e.Data, packedFrom(m[name])) {
			return nil
		}
	}
	return fmt.Errorf("the packed bytes of %s are wrong", name)
}

const (
	envChild = "XPWC_TEST_CHILD" // the cache file that a child works on
	envRound = "XPWC_TEST_ROUND" // the round it begins with
)

// packUntilKilled is what the child does.
func packUntilKilled(path string, round int) error {
	for {
		c, err := Open(path, &Options{WriterWait: -1})
		if err != nil {
			return err
		}
		for range 3 {
			fmt.Println("packing", round)
			s, _, err := tensorsOfRound(round).pack(c)
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
	if path := os.Getenv(envChild); path != "" {
		round, err := strconv.Atoi(os.Getenv(envRound))
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
					k.repeatedly(t, filepath.Join(t.TempDir(), "cache"), random, 26)
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
	for what, n := range map[string]int{
		"before the first commit":             total.BeforeFirst,
		"while packing":                       total.Tails,
		"between a commit and saying so":      total.Unsaid,
		"between compacting and the new name": total.Compacting,
	} {
		require.NotZero(t, n, "no kill came %s", what)
	}
}

// killed counts kills, and at what moments they came.
type killed struct{ Kills, BeforeFirst, Tails, Unsaid, Compacting int }

func (k *killed) add(other killed) {
	k.Kills += other.Kills
	k.BeforeFirst += other.BeforeFirst
	k.Tails += other.Tails
	k.Unsaid += other.Unsaid
	k.Compacting += other.Compacting
}

// repeatedly has children work on one file, each from where the one before was killed.
func (k *killed) repeatedly(t *testing.T, path string, random *rand.Rand, kills int) {
	saved := -1
	lines := 1 // the first kill is likely to come before anything is committed
	for i := range kills {
		child := StartChild(t, "TestNothingSavedIsLostToAKill", nil,
			envChild+"="+path, envRound+"="+strconv.Itoa(saved+1))
		child.KillAtRandom(t, random, lines)
		lines = 9
		k.Kills++
		said := child.Saved(t, saved)
		saved = inForce(t, path, said)
		if saved < 0 {
			k.BeforeFirst++
		}
		if saved > said {
			k.Unsaid++
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
		c := mustOpen(t, path, &Options{ReadOnly: true, Strict: true})
		if round < 0 {
			generation := c.Stats().Generation
			require.NoError(t, c.Close())
			if generation == 0 {
				return round
			}
			continue
		}
		tensors := tensorsOfRound(round)
		s, found, err := tensors.pack(c)
		require.NoError(t, err)
		require.NoError(t, s.Close())
		stats := c.Stats()
		require.NoError(t, c.Close())
		require.NoError(t, stats.Damaged)
		require.Zero(t, stats.DamagedPayloads)
		if found == len(tensors) {
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
	c := mustOpen(t, path, &Options{ReadOnly: true, Strict: true})
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
	c := mustOpen(t, path, &Options{Strict: true, WriterWait: -1})
	s, _, err := tensorsOfRound(round).pack(c)
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
	left, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, left, 1, "nothing lies beside the cache")
	require.Equal(t, round, inForce(t, path, round))
}

// Committed memory is read-only: a stray write ends the process that does it and does not reach the file.
func TestAStrayWriteFaultsInsteadOfReachingTheFile(t *testing.T) {
	if path := os.Getenv(envChild); path != "" {
		c := mustOpen(t, path, nil)
		o := open(t, c, someTensors(3, 10_000))
		if os.Getenv(envRound) == "packed" {
			require.NoError(t, c.Save())
		}
		fmt.Println("saved 1")
		for _, p := range o.at {
			p.bytes[17] ^= 0xff
			break
		}
		fmt.Println("written")
		return
	}
	path := filepath.Join(t.TempDir(), "cache")
	for _, how := range []string{"packed", "found"} {
		child := StartChild(t, "TestAStrayWriteFaultsInsteadOfReachingTheFile", nil,
			envChild+"="+path, envRound+"="+how)
		require.False(t, child.End().Success())
		require.Equal(t, 1, child.Saved(t, 0), child)
		require.NotContains(t, child.String(), "written")
		require.Contains(t, child.String(), accessViolation)

		c := mustOpen(t, path, &Options{Strict: true, Verify: VerifyOnUse})
		open(t, c, someTensors(3, 10_000)).close(t)
		stats := c.Stats()
		require.EqualValues(t, 3, stats.Verified.Entries)
		require.Zero(t, stats.Misses)
		require.NoError(t, c.Close())
	}
}
