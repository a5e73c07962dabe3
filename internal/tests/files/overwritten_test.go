//go:build !windows

package files

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/tests/harness"
)

// A session would compute with bytes that are copied over a file in use, in place. It reports them before outputs are
// used. Commits of other processes, and another file under the name, do not affect it.
func TestASessionReportsAnOverwrittenFile(t *testing.T) {
	old, extra := harness.Tensors(2, 5000), harness.Tensors(4, 5000)
	file := func(tensors ...map[string][]byte) []byte {
		path := harness.Path(t)
		for _, m := range tensors { // a generation each
			c := harness.Open(t, path, nil)
			harness.PackTensors(t, c, m).MustClose(t)
			require.NoError(t, c.Close())
		}
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		return content
	}
	first, another := file(old), file(extra)
	overwrite := func(content []byte) func(path string) error {
		return func(path string) error { return os.WriteFile(path, content, 0o600) }
	}
	later := func(tensors map[string][]byte) func(path string) error {
		return func(path string) error { // as another process does
			next := filepath.Join(t.TempDir(), "link")
			require.NoError(t, os.Link(path, next))
			c := harness.Open(t, next, nil)
			harness.PackTensors(t, c, tensors).MustClose(t)
			return c.Close()
		}
	}
	for name, c := range map[string]struct {
		change func(path string) error
		lost   bool
	}{
		"another":              {overwrite(another), true},
		"the beginning of one": {overwrite(another[:5000]), true},
		"what is no cache":     {overwrite(make([]byte, 1<<16)), true},
		"nothing":              {overwrite(nil), true},
		"cut off":              {func(path string) error { return os.Truncate(path, int64(len(first))-1) }, true},
		"itself":               {overwrite(first), false},
		"a later generation":   {later(extra), false},
		"two of them": {func(path string) error {
			require.NoError(t, later(extra)(path))
			return later(harness.Tensors(6, 5000))(path)
		}, false},
		"renamed into place": {func(path string) error {
			require.NoError(t, os.WriteFile(path+".new", another, 0o600))
			return os.Rename(path+".new", path)
		}, false},
		"removed": {os.Remove, false},
	} {
		t.Run(name, func(t *testing.T) {
			path := harness.Path(t)
			require.NoError(t, os.WriteFile(path, first, 0o600))
			cache := harness.Open(t, path, nil)
			s := harness.PackTensors(t, cache, old)
			require.NoError(t, s.Err())
			require.NoError(t, c.change(path))
			if !c.lost {
				require.NoError(t, s.Err())
				s.Check(t)
			} else {
				err := s.Err()
				require.ErrorIs(t, err, xpwc.ErrLost)
				require.ErrorContains(t, err, "by renaming it (mv)")
				require.EqualValues(t, len(old), cache.Stats().LostPayloads)
				repeated, err := cache.NewSession(xpwc.MapOf(old))
				require.NoError(t, err)
				harness.PackUnfinalized(t, repeated, old).Check(t)
				require.NoError(t, repeated.Finalize())
				require.NoError(t, repeated.Err(), "the next packs again")
				require.NoError(t, repeated.Close())
				require.ErrorIs(t, s.Err(), xpwc.ErrLost)
			}
			require.NoError(t, s.Close())
			require.NoError(t, cache.Close())
		})
	}

	// A copy that went its own way is another file, also where it has later generations.
	path := harness.Path(t)
	require.NoError(t, os.WriteFile(path, first, 0o600))
	fork := filepath.Join(t.TempDir(), "fork")
	require.NoError(t, os.WriteFile(fork, first, 0o600))
	require.NoError(t, later(extra)(path))
	cache := harness.Open(t, path, nil)
	s := harness.PackTensors(t, cache, extra)
	for n := 5; n < 9; n++ {
		require.NoError(t, later(harness.Tensors(n, 3000))(fork))
	}
	content, err := os.ReadFile(fork)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, content, 0o600))
	require.ErrorIs(t, s.Err(), xpwc.ErrLost)
	require.NoError(t, s.Close())
	require.NoError(t, cache.Close())
}

// A session that only finds out when the next one begins has lost its weights, too.
func TestTheNextSessionReportsAnOverwrittenFile(t *testing.T) {
	path := harness.Path(t)
	m := harness.Tensors(2, 5000)
	c := harness.Open(t, path, nil)
	s := harness.PackTensors(t, c, m)
	require.NoError(t, c.Save())
	require.NoError(t, os.Truncate(path, 0))
	next, err := c.NewSession(xpwc.MapOf(m))
	require.NoError(t, err)
	require.ErrorIs(t, s.Err(), xpwc.ErrLost)
	require.NoError(t, next.Err())
	require.NoError(t, next.Close())
	require.NoError(t, s.Close())
	require.NoError(t, c.Close())
}

func TestAnotherSessionHasLostItsWeightsOnceOneLookedAtTheFile(t *testing.T) {
	path := harness.Path(t)
	m := harness.Tensors(2, 5000)
	c := harness.Open(t, path, nil)
	first, second := harness.PackTensors(t, c, m), harness.PackTensors(t, c, m)
	require.NoError(t, c.Save())
	require.NoError(t, os.Truncate(path, 0))
	require.NoError(t, second.Lost(), "nobody has looked")
	require.ErrorIs(t, first.Err(), xpwc.ErrLost)
	require.ErrorIs(t, second.Lost(), xpwc.ErrLost)
	require.NoError(t, first.Close())
	require.NoError(t, second.Close())
	require.NoError(t, c.Close())
}
