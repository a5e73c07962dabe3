package harness

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
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/tests/testkit"
)

// A Child is this test binary, running one of its tests in a process of its own. It reports line by line on its
// standard output.
type Child struct {
	*exec.Cmd
	Input  io.WriteCloser // its standard input, unless that was given
	lines  *bufio.Scanner
	output []string
	errs   bytes.Buffer
	ended  bool
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

// Line returns the next line of the child's output; false when it has ended.
func (c *Child) Line() (string, bool) {
	if !c.lines.Scan() {
		return "", false
	}
	c.output = append(c.output, c.lines.Text())
	return c.lines.Text(), true
}

// Await returns the rest of the first line that begins with the word.
func (c *Child) Await(t testing.TB, word string) string {
	t.Helper()
	for {
		line, ok := c.Line()
		require.True(t, ok, "the child ended without saying %q:\n%s", word, c)
		if rest, cached := strings.CutPrefix(line, word); cached {
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

// Saved returns the last round that the child reported as saved, or the argument if there is none.
func (c *Child) Saved(t testing.TB, round int) int {
	t.Helper()
	for _, line := range c.output {
		if rest, cached := strings.CutPrefix(line, "saved "); cached {
			var err error
			round, err = strconv.Atoi(rest)
			require.NoError(t, err)
		}
	}
	return round
}

// String returns the child's output so far.
func (c *Child) String() string { return strings.Join(c.output, "\n") + "\n" + c.errs.String() }

// A OneModel is a data map of tensors that all come from one model, so that what changes supersedes what was packed
// before.
type OneModel map[string][]byte

// Tensor returns a copy of the named tensor.
func (m OneModel) Tensor(name string) (xpwc.Tensor, error) {
	tensor, err := xpwc.MapOf(m).Tensor(name)
	tensor.Identity.Source = "model"
	return tensor, err
}

// Pack has a session find or pack all tensors and returns it finalized, with how many it found.
func (m OneModel) Pack(c *xpwc.Cache) (s *xpwc.Session, hits int, err error) {
	if s, err = c.NewSession(m); err != nil {
		return nil, 0, err
	}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		content, err := s.Load(name, xpwc.Believe())
		if err != nil {
			return s, 0, err
		}
		want := PackedFrom(m[name])
		address := LookUp(s, 1, Address(content), 0)
		if address != NotFound {
			hits++
		} else {
			space := Reserve(s, uint64(len(want)))
			if space == nil {
				return s, 0, fmt.Errorf("no space for %s", name)
			}
			copy(space, want)
			address = Insert(s, 1, Address(content), 0, Address(space), uint64(len(want)))
		}
		if err := m.check(s, name, address); err != nil {
			return s, 0, err
		}
	}
	err = s.Finalize()
	return s, hits, err
}

// check compares the bytes at an address with the tensor's packed weights.
func (m OneModel) check(s *xpwc.Session, name string, address uintptr) error {
	for _, e := range User(s).Used() {
		if Address(e.Data) == address && bytes.Equal(e.Data, PackedFrom(m[name])) {
			return nil
		}
	}
	return fmt.Errorf("the packed bytes of %s are wrong", name)
}

const (
	EnvChild = "XPWC_TEST_CHILD" // the cache file that a child works on
	EnvRound = "XPWC_TEST_ROUND" // the round it begins with
)
