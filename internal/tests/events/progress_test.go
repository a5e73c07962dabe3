package events

import (
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/tests/harness"
)

// A host that loads everything before anything is packed, for packing alone, still needs the progress of packing.
func TestProgressCountsPackedNotLoadedWeights(t *testing.T) {
	var reported []xpwc.Progress
	note := func(p xpwc.Progress) { reported = append(reported, p) }
	c := harness.Open(t, harness.Path(t), &xpwc.Options{Progress: note})
	tensors := map[string][]byte{"a": harness.Content("a", 100), "b": harness.Content("b", 2000),
		"c": harness.Content("c", 3)}
	s, err := c.NewSession(xpwc.MapOf(tensors))
	require.NoError(t, err)
	for name := range tensors {
		_, err := s.Load(name, xpwc.PackOnly(), xpwc.Believe())
		require.NoError(t, err)
	}
	_, err = s.Load("c", xpwc.Retain(), xpwc.Believe())
	require.NoError(t, err)
	o := harness.PackSession(t, s, tensors)
	require.Len(t, reported, 3)
	done := int64(0)
	for _, p := range reported {
		require.EqualValues(t, 2100, p.Total)
		if p.Name != "c" {
			done += int64(len(tensors[p.Name]))
		}
		require.Equal(t, done, p.Done)
	}
	require.EqualValues(t, 2100, done)
	o.MustClose(t)
	require.NoError(t, c.Close())
}
