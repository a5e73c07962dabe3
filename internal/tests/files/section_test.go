package files

import (
	"bytes"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/osdisk"
	"xpwc/internal/tests/harness"
)

const everySystems = 64 << 10

// embedded packs tensors into a cache file, and returns a file that has it at an offset, with other bytes before and
// behind it.
func embedded(t *testing.T, tensors map[string][]byte, offset int) (path string, size int64) {
	t.Helper()
	dir := t.TempDir()
	c := harness.Open(t, filepath.Join(dir, "cache"), nil)
	harness.PackTensors(t, c, tensors).MustClose(t)
	require.NoError(t, c.Close())
	image, err := os.ReadFile(filepath.Join(dir, "cache"))
	require.NoError(t, err)
	path = filepath.Join(dir, "model")
	content := append(append(bytes.Repeat([]byte{0xa5}, offset), image...), "what comes behind"...)
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return path, int64(len(image))
}

func mustOpenSection(t *testing.T, path string, offset, size int64, o *xpwc.Options) *xpwc.Cache {
	t.Helper()
	c, err := xpwc.OpenSection(path, offset, size, o)
	require.NoError(t, err)
	return c
}

func TestACacheInASectionServesItsEntries(t *testing.T) {
	for _, elements := range []int{100, 1 << 20} {
		tensors := harness.Tensors(3, elements)
		for _, offset := range []int{everySystems, 3 * everySystems, 0} {
			path, size := embedded(t, tensors, offset)
			original, err := os.ReadFile(path)
			require.NoError(t, err)
			for _, o := range []*xpwc.Options{nil, {Strict: true, Prefetch: true, Verify: xpwc.VerifyOnUse}} {
				c := mustOpenSection(t, path, int64(offset), size, o)
				harness.PackTensors(t, c, tensors).MustClose(t)
				s := c.Stats()
				require.EqualValues(t, 3, s.Hits.Entries)
				require.Zero(t, s.Misses)
				require.Empty(t, s.Private)
				require.Equal(t, size, s.FileBytes)
				require.NoError(t, c.Close())
			}
			rewritten, err := os.ReadFile(path)
			require.NoError(t, err)
			require.True(t, bytes.Equal(original, rewritten))
		}
	}
}

func TestASectionIsNeverWrittenTo(t *testing.T) {
	tensors := harness.Tensors(2, 5000)
	path, size := embedded(t, tensors, everySystems)
	original, err := os.ReadFile(path)
	require.NoError(t, err)
	c := mustOpenSection(t, path, everySystems, size, nil)
	tensors["new"] = harness.Content("new", 300)
	tensors["tensor 1"] = harness.Content("changed", 5001)
	harness.PackTensors(t, c, tensors).MustClose(t)
	s := c.Stats()
	require.EqualValues(t, 1, s.Hits.Entries)
	require.EqualValues(t, 2, s.Private[xpwc.ReasonReadOnly].Entries)
	require.Zero(t, s.WrittenBytes)
	require.ErrorIs(t, c.Compact(), xpwc.ErrReadOnly)
	require.NoError(t, c.Trim())
	require.NoError(t, c.Save())
	require.NoError(t, c.Close())
	rewritten, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, bytes.Equal(original, rewritten))
	remains, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, remains, 2, "the file and the cache it was made of")
}

func TestHandlesOfOneSectionShareOneCache(t *testing.T) {
	path, size := embedded(t, harness.Tensors(1, 100), everySystems)
	single := mustOpenSection(t, path, everySystems, size, nil)
	shared := mustOpenSection(t, filepath.Join(filepath.Dir(path), ".", "model"), everySystems, size,
		&xpwc.Options{ReadOnly: true})
	require.Same(t, harness.Writer(single), harness.Writer(shared))
	_, err := xpwc.OpenSection(path, everySystems, size, &xpwc.Options{Strict: true})
	require.ErrorIs(t, err, xpwc.ErrOtherOptions)
	_, err = xpwc.Open(path, nil)
	require.ErrorIs(t, err, xpwc.ErrNotCache, "the whole is another place")
	require.NoError(t, single.Close())
	require.NoError(t, shared.Close())
	repeated := mustOpenSection(t, path, everySystems, size, nil)
	require.NotSame(t, harness.Writer(single), harness.Writer(repeated))
	require.NoError(t, repeated.Close())
}

func TestAnInvalidSectionIsAnError(t *testing.T) {
	path, size := embedded(t, harness.Tensors(2, 100), everySystems)
	info, err := os.Stat(path)
	require.NoError(t, err)
	for _, c := range []struct {
		path         string
		offset, size int64
		want         error
	}{
		{path, everySystems + 1, size, xpwc.ErrMisaligned},
		{path, 128, size, xpwc.ErrMisaligned},
		{path, -everySystems, size, xpwc.ErrDamaged},
		{path, everySystems, 0, xpwc.ErrDamaged},
		{path, everySystems, -1, xpwc.ErrDamaged},
		{path, everySystems, info.Size() - everySystems + 1, xpwc.ErrDamaged},
		{path, everySystems, math.MaxInt64, xpwc.ErrDamaged},
		{path, math.MaxInt64 / everySystems * everySystems, size, xpwc.ErrDamaged},
		{path, 0, size, xpwc.ErrNotCache},
		{path + ".missing", everySystems, size, fs.ErrNotExist},
		{filepath.Dir(path), everySystems, size, xpwc.ErrNotCache},
	} {
		_, err := xpwc.OpenSection(c.path, c.offset, c.size, nil)
		require.ErrorIs(t, err, c.want, "%d bytes at %d", c.size, c.offset)
	}
	_, err = xpwc.OpenSection(path, 128, size, nil)
	require.ErrorContains(t, err, "65536", "it says what to do")
	require.ErrorContains(t, err, path)
}

func TestADamagedSectionIsRepackedPrivately(t *testing.T) {
	tensors := harness.Tensors(2, 5000)
	path, size := embedded(t, tensors, everySystems)
	for name, s := range map[string]int64{"cut off": size / 2, "whole": size} {
		if name == "whole" { // the header block's slots and the index behind the payloads
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			require.NoError(t, err)
			_, err = f.WriteAt(bytes.Repeat([]byte{1}, 64), everySystems+16)
			require.NoError(t, err)
			require.NoError(t, f.Close())
		}
		_, err := xpwc.OpenSection(path, everySystems, s, &xpwc.Options{Strict: true})
		require.ErrorIs(t, err, xpwc.ErrDamaged, name)
		c := mustOpenSection(t, path, everySystems, s, nil)
		require.ErrorIs(t, c.Stats().Damaged, xpwc.ErrDamaged)
		harness.PackTensors(t, c, tensors).MustClose(t)
		require.EqualValues(t, 2, c.Stats().Private[xpwc.ReasonReadOnly].Entries)
		require.NoError(t, c.Close())
	}
	remains, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, remains, 2, "nothing is renamed")
}

func TestAReplacedSectionIsFollowed(t *testing.T) {
	tensors := harness.Tensors(2, 5000)
	path, size := embedded(t, tensors, everySystems)
	c := mustOpenSection(t, path, everySystems, size, nil)
	first := harness.PackTensors(t, c, tensors)
	reopened, otherSize := embedded(t, tensors, everySystems)
	require.Equal(t, size, otherSize)
	require.NoError(t, osdisk.Files{}.Rename(reopened, path))
	second := harness.PackTensors(t, c, tensors)
	require.EqualValues(t, 4, c.Stats().Hits.Entries)
	first.MustClose(t)
	second.MustClose(t)
	require.NoError(t, os.Rename(path, path+".away"))
	third := harness.PackTensors(t, c, tensors)
	require.EqualValues(t, 2, c.Stats().Private[xpwc.ReasonReadOnly].Entries)
	third.MustClose(t)
	require.NoError(t, c.Close())
}
