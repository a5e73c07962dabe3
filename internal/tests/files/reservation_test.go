package files

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/tests/harness"
)

// A reservation that nothing was packed into leaves no trace, wherever it lay.
func TestAbandonedReservationsAreReleased(t *testing.T) {
	path := harness.Path(t)
	c := harness.Open(t, path, nil)
	s, err := c.NewSession(xpwc.MapOf(map[string][]byte{"a": harness.Content("a", 100)}))
	require.NoError(t, err)
	content, err := s.Load("a", xpwc.Believe())
	require.NoError(t, err)
	require.Equal(t, harness.NotFound, harness.LookUp(s, 1, harness.Address(content), 0))
	require.NotNil(t, harness.Reserve(s, 1<<20))
	require.NoError(t, s.Close(), "its runtime's creation failed")
	harness.PackTensors(t, c, harness.Tensors(2, 1000)).MustClose(t)
	require.NoError(t, c.Close())
	require.Equal(t, 2, c.Stats().Entries)
	require.Less(t, c.Stats().FileBytes, int64(20_000))
}

func TestAnInsertWithoutAReservationIsAHarmlessError(t *testing.T) {
	c := harness.Open(t, "", nil)
	s, err := c.NewSession(nil)
	require.NoError(t, err)
	stray := make([]byte, 64)
	require.Equal(t, harness.Address(stray), harness.Insert(s, 1, 2, 0, harness.Address(stray), 64))
	err = s.Finalize()
	require.ErrorContains(t, err, "not reserved")
	require.NoError(t, s.Close())
	require.NoError(t, c.Close())
}

// The trailer stays the very last of the file.
func TestUnusedReservedSpaceIsReleased(t *testing.T) {
	path := harness.Path(t)
	c := harness.Open(t, path, nil)
	harness.PackTensors(t, c, harness.Tensors(1, 1000)).MustClose(t)
	require.NoError(t, c.Save())
	count := c.Stats().FileBytes
	s := harness.NewSession(t, c, map[string][]byte{"a": harness.Content("a", 100)})
	require.Equal(t, harness.NotFound, harness.LookUp(s, 1, harness.Load(t, s, "a"), 0))
	require.NotNil(t, harness.Reserve(s, 1000))
	require.NoError(t, s.Close()) // the runtime's creation failed
	require.NoError(t, c.Close())
	infoAfter, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, count, infoAfter.Size())
}

func TestTwoReservationsWithoutLookUpAreBothKept(t *testing.T) {
	c := harness.Open(t, harness.Path(t), nil)
	s := harness.NewSession(t, c, map[string][]byte{"v": harness.Content("v", 100), "w": harness.Content("w", 100)})
	v, w := harness.Load(t, s, "v", xpwc.Eager()), harness.Load(t, s, "w", xpwc.Eager())
	a, b := harness.Reserve(s, 100), harness.Reserve(s, 100)
	copy(a, bytes.Repeat([]byte{1}, 100))
	copy(b, bytes.Repeat([]byte{2}, 100))
	harness.Insert(s, 7, v, 0, harness.Address(a), 100)
	harness.Insert(s, 7, w, 0, harness.Address(b), 100)
	harness.Finish(t, s)
	require.NoError(t, c.Save())
	require.Equal(t, 2, c.Stats().Entries)
	require.NoError(t, c.Close())
}
