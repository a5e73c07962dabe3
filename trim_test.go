package xpwc

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTrimmingACacheInMemoryForgetsWhatNobodyUses(t *testing.T) {
	c := mustOpen(t, "", nil)
	kept, dropped := someTensors(2, 500_000), map[string][]byte{"other": contentOf("other", 500_000)}
	open(t, c, dropped).close(t)
	used := open(t, c, kept)
	require.Len(t, c.Names(), 3)
	require.NoError(t, c.Trim())
	require.Len(t, c.Names(), 2)
	used.check(t)
	open(t, c, kept).close(t)
	require.EqualValues(t, 2, c.Stats().Hits.Entries, "what is in use is still found")
	open(t, c, dropped).close(t)
	require.EqualValues(t, 4, c.Stats().Packed.Entries, "what was forgotten is packed again")
	used.close(t)
	require.NoError(t, c.Trim())
	require.Empty(t, c.Names())
}

func TestTrimmingACacheWithAFileLosesNothing(t *testing.T) {
	path, tensors := filepath.Join(t.TempDir(), "cache"), someTensors(3, 100_000)
	c := mustOpen(t, path, nil)
	used := open(t, c, tensors)
	require.NoError(t, c.Trim())
	used.check(t)
	used.close(t)
	names := c.Names()
	require.Len(t, names, 3)
	require.NoError(t, c.Trim())
	require.Equal(t, names, c.Names())
	open(t, c, tensors).close(t)
	require.EqualValues(t, 3, c.Stats().Packed.Entries)
	require.EqualValues(t, 3, c.Stats().Hits.Entries)
	require.NoError(t, c.Close())
	require.ErrorIs(t, c.Trim(), ErrClosed)
}

func TestACopyTheHostMadeGoesByTheOriginalsName(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	tensors := map[string][]byte{"w": contentOf("w", 100)}
	for _, found := range []bool{false, true} {
		c := mustOpen(t, path, nil)
		s := newSession(t, c, tensors)
		w, err := s.Load("w", Eager(), Believe())
		require.NoError(t, err)
		copied := make([]byte, 200)
		copy(copied, contentOf("w, widened", 200))
		require.NoError(t, s.Alias(copied, w, "widened"))
		require.NoError(t, s.Alias(copied, w, "widened"), "telling it twice is harmless")
		_, hit := packWeight(t, s, 7, addressTo(copied), 0, packedFrom(tensors["w"]))
		require.Equal(t, found, hit)
		finish(t, s)
		require.NoError(t, c.Close())
	}
}

func TestAnAliasThatCannotBeIsAnError(t *testing.T) {
	c := mustOpen(t, "", nil)
	s := newSession(t, c, map[string][]byte{"w": contentOf("w", 100)})
	w, err := s.Load("w", Believe())
	require.NoError(t, err)
	alias := make([]byte, 100)
	require.ErrorIs(t, s.Alias(alias, alias, ""), ErrUnknownTensor)
	require.ErrorIs(t, s.Alias(alias, w, ""), ErrNotEager)
	require.NoError(t, s.Finalize())
	require.ErrorIs(t, s.Alias(alias, w, ""), ErrFinalized)
	require.NoError(t, s.Close())
	require.ErrorIs(t, s.Alias(alias, w, ""), ErrClosed)
}
