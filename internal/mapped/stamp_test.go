package mapped

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestATimeThatSaysNothingIsNoStamp(t *testing.T) {
	clock := time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)
	for name, c := range map[string]struct {
		changed time.Time
		dated   bool
	}{
		"a while ago":                   {clock.Add(-time.Hour), true},
		"just before a tick":            {clock.Add(-tick), true},
		"within a tick":                 {clock.Add(-tick + 1), false},
		"now":                           {clock, false},
		"in the future":                 {clock.Add(time.Hour), false},
		"the epoch":                     {time.Unix(0, 0), false},
		"near the epoch":                {time.Unix(86_400, 1), false},
		"before the epoch":              {time.Unix(-1, 1), false},
		"the epoch of FAT":              {time.Date(1980, 1, 1, 0, 0, 0, 1, time.UTC), false},
		"a whole second, as images":     {time.Date(2009, 1, 1, 0, 0, 0, 0, time.UTC), false},
		"the first that is plausible":   {time.Unix(0, plausible+1), true},
		"the last that is not":          {time.Unix(0, plausible-1), false},
		"what no system has kept (0 s)": {time.Time{}, false},
	} {
		require.Equal(t, c.dated, State{Changed: c.changed.UnixNano()}.dated(clock), name)
	}
}

func TestAStateSettlesWhenAChangeWillShow(t *testing.T) {
	clock := time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)
	whole := clock.Truncate(time.Second)
	for name, c := range map[string]struct {
		last   time.Time
		settle time.Duration // from last on; 0 if it is settled
	}{
		"a while ago":                          {clock.Add(-time.Hour), 0},
		"a tick ago":                           {clock.Add(-tick), 0},
		"just now":                             {clock.Add(-time.Millisecond), tick},
		"whole seconds, just now":              {whole, 2 * time.Second},
		"whole seconds, a while ago":           {whole.Add(-2 * time.Second), 0},
		"a clock that is ahead":                {clock.Add(tick), tick},
		"a clock that is far ahead":            {clock.Add(time.Hour), 0},
		"an epoch":                             {time.Unix(0, 0), 0},
		"whole seconds of a clock that is off": {whole.Add(time.Hour), 0},
	} {
		last := c.last.UnixNano()
		for _, s := range []State{{Changed: last}, {Modified: last, Changed: last - 1}} {
			wait := s.unsettled(clock)
			if c.settle == 0 {
				require.LessOrEqual(t, wait, time.Duration(0), name)
			} else {
				require.Equal(t, c.last.Add(c.settle).Sub(clock), wait, name)
			}
		}
	}
}

// Every way to write to a file that is open, and every way to put another in its place.
func TestAFileTellsWhetherItsContentChanged(t *testing.T) {
	earlier := time.Now().Add(-time.Hour)
	for name, c := range map[string]struct {
		change  func(t *testing.T, path string)
		changed bool
	}{
		"nothing": {func(*testing.T, string) {}, false},
		"one byte overwritten": {func(t *testing.T, path string) {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			require.NoError(t, err)
			_, err = f.WriteAt([]byte{99}, 5)
			require.NoError(t, err)
			require.NoError(t, f.Close())
		}, true},
		"overwritten, and its time put back": {func(t *testing.T, path string) {
			old, err := os.Stat(path)
			require.NoError(t, err)
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			require.NoError(t, err)
			_, err = f.WriteAt([]byte{99}, 5)
			require.NoError(t, err)
			require.NoError(t, f.Close())
			require.NoError(t, os.Chtimes(path, old.ModTime(), old.ModTime()))
		}, true},
		"appended to": {func(t *testing.T, path string) {
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
			require.NoError(t, err)
			_, err = f.Write([]byte{99})
			require.NoError(t, err)
			require.NoError(t, f.Close())
		}, true},
		"another file in its place": {func(t *testing.T, path string) {
			away(t, path)
			require.NoError(t, os.WriteFile(path, make([]byte, 100), 0o600))
			require.NoError(t, os.Chtimes(path, earlier, earlier))
		}, awayIsAChange},
		"gone": {away, awayIsAChange},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "file")
			require.NoError(t, os.WriteFile(path, make([]byte, 100), 0o600))
			require.NoError(t, os.Chtimes(path, earlier, earlier))
			f, err := Open(path)
			require.NoError(t, err)
			changed, err := f.Changed()
			require.NoError(t, err)
			require.False(t, changed)
			c.change(t, path)
			changed, err = f.Changed()
			require.NoError(t, err)
			require.Equal(t, c.changed, changed)
			require.NoError(t, f.Close())
			_, err = f.Changed()
			require.ErrorIs(t, err, os.ErrClosed)
			require.ErrorContains(t, err, path)
		})
	}
}
