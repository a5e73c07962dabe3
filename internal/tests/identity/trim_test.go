package identity

import (
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/tests/harness"
)

func TestTrimmingACacheInMemoryEvictsUnusedEntries(t *testing.T) {
	c := harness.Open(t, "", nil)
	retained, dropped := harness.Tensors(2, 500_000), map[string][]byte{"other": harness.Content("other", 500_000)}
	harness.PackTensors(t, c, dropped).MustClose(t)
	used := harness.PackTensors(t, c, retained)
	require.Len(t, c.Names(), 3)
	require.NoError(t, c.Trim())
	require.Len(t, c.Names(), 2)
	used.Check(t)
	harness.PackTensors(t, c, retained).MustClose(t)
	require.EqualValues(t, 2, c.Stats().Hits.Entries, "what is in use is still found")
	harness.PackTensors(t, c, dropped).MustClose(t)
	require.EqualValues(t, 4, c.Stats().Packed.Entries, "what was forgotten is packed again")
	used.MustClose(t)
	require.NoError(t, c.Trim())
	require.Empty(t, c.Names())
}

func TestTrimmingACacheWithAFileLosesNothing(t *testing.T) {
	path, tensors := harness.Path(t), harness.Tensors(3, 100_000)
	c := harness.Open(t, path, nil)
	used := harness.PackTensors(t, c, tensors)
	require.NoError(t, c.Trim())
	used.Check(t)
	used.MustClose(t)
	names := c.Names()
	require.Len(t, names, 3)
	require.NoError(t, c.Trim())
	require.Equal(t, names, c.Names())
	harness.PackTensors(t, c, tensors).MustClose(t)
	require.EqualValues(t, 3, c.Stats().Packed.Entries)
	require.EqualValues(t, 3, c.Stats().Hits.Entries)
	require.NoError(t, c.Close())
	require.ErrorIs(t, c.Trim(), xpwc.ErrClosed)
}

func TestAHostsCopyHasTheOriginalsName(t *testing.T) {
	path := harness.Path(t)
	tensors := map[string][]byte{"w": harness.Content("w", 100)}
	for _, cached := range []bool{false, true} {
		c := harness.Open(t, path, nil)
		s := harness.NewSession(t, c, tensors)
		w, err := s.Load("w", xpwc.Eager(), xpwc.Believe())
		require.NoError(t, err)
		copied := make([]byte, 200)
		copy(copied, harness.Content("w, widened", 200))
		require.NoError(t, s.Alias(copied, w, "widened"))
		require.NoError(t, s.Alias(copied, w, "widened"), "telling it twice is harmless")
		_, hit := harness.PackWeight(t, s, 7, harness.Address(copied), 0, harness.PackedFrom(tensors["w"]))
		require.Equal(t, cached, hit)
		harness.Finish(t, s)
		require.NoError(t, c.Close())
	}
}

func TestAnInvalidAliasIsAnError(t *testing.T) {
	c := harness.Open(t, "", nil)
	s := harness.NewSession(t, c, map[string][]byte{"w": harness.Content("w", 100)})
	w, err := s.Load("w", xpwc.Believe())
	require.NoError(t, err)
	alias := make([]byte, 100)
	require.ErrorIs(t, s.Alias(alias, alias, ""), xpwc.ErrUnknownTensor)
	require.ErrorIs(t, s.Alias(alias, w, ""), xpwc.ErrNotEager)
	require.NoError(t, s.Finalize())
	require.ErrorIs(t, s.Alias(alias, w, ""), xpwc.ErrFinalized)
	require.NoError(t, s.Close())
	require.ErrorIs(t, s.Alias(alias, w, ""), xpwc.ErrClosed)
}
