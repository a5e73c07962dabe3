package sharing

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/osdisk"
	"xpwc/internal/tests/harness"
)

func TestPackedWeightsAreFoundByTheNextCache(t *testing.T) {
	for _, size := range []int{1, 100, 5000, 1 << 20, 9 << 20} {
		path := harness.Path(t)
		tensors := harness.Tensors(3, size)
		c := harness.Open(t, path, nil)
		harness.PackTensors(t, c, tensors).MustClose(t)
		require.NoError(t, c.Close())
		c = harness.Open(t, path, &xpwc.Options{Strict: true})
		harness.PackTensors(t, c, tensors).MustClose(t)
		require.EqualValues(t, 3, c.Stats().Hits.Entries)
		require.Zero(t, c.Stats().Misses)
		require.NoError(t, c.Close())
	}
}

// A session that goes on packing while another's commit is written keeps its memory, and both end up in the file.
func TestCommitsWhileAnotherSessionIsPacking(t *testing.T) {
	path := harness.Path(t)
	c := harness.Open(t, path, nil)
	slow, err := c.NewSession(xpwc.MapOf(map[string][]byte{
		"slow":  harness.Content("slow", 300),
		"later": harness.Content("later", 300),
	}))
	require.NoError(t, err)
	content, err := slow.Load("slow", xpwc.Believe())
	require.NoError(t, err)
	require.Equal(t, harness.NotFound, harness.LookUp(slow, 1, harness.Address(content), 0))
	space := harness.Reserve(slow, 300)

	for i := range 3 {
		name := fmt.Sprint("quick ", i)
		harness.PackTensors(t, c, map[string][]byte{name: harness.Content(name, 6<<20)}).MustClose(t)
		require.NoError(t, c.Save())
	}

	copy(space, content) // its segment must still be there, and writable
	harness.Insert(slow, 1, harness.Address(content), 0, harness.Address(space), 300)
	content, err = slow.Load("later", xpwc.Believe())
	require.NoError(t, err)
	require.Equal(t, harness.NotFound, harness.LookUp(slow, 1, harness.Address(content), 0))
	space = harness.Reserve(slow, 300)
	copy(space, content)
	harness.Insert(slow, 1, harness.Address(content), 0, harness.Address(space), 300)
	require.NoError(t, slow.Finalize())
	require.NoError(t, slow.Close())
	require.NoError(t, c.Close())
	require.Equal(t, 5, c.Stats().Entries)
	require.EqualValues(t, 4, c.Stats().Generation)

	c = harness.Open(t, path, &xpwc.Options{Strict: true})
	for _, e := range []string{"slow", "later"} {
		s, err := c.NewSession(xpwc.MapOf(map[string][]byte{e: harness.Content(e, 300)}))
		require.NoError(t, err)
		content, err := s.Load(e, xpwc.Believe())
		require.NoError(t, err)
		address := harness.LookUp(s, 1, harness.Address(content), 0)
		require.NotEqual(t, harness.NotFound, address)
		require.Equal(t, harness.Content(e, 300), harness.EntryBytes(t, s, address, 300))
		require.NoError(t, s.Close())
	}
	require.NoError(t, c.Close())
}

// Other processes see a commit when their next session begins.
func TestASessionSeesCommitsOfAnotherProcess(t *testing.T) {
	path := harness.Path(t)
	tensors := harness.Tensors(2, 1000)
	mine, theirs := harness.Open(t, path, nil), harness.OpenProcess(t, path)
	harness.PackTensors(t, theirs, tensors).MustClose(t)
	require.NoError(t, theirs.Close())
	o := harness.PackTensors(t, mine, tensors)
	require.EqualValues(t, 2, mine.Stats().Hits.Entries)
	theirs = harness.OpenProcess(t, path)
	harness.PackTensors(t, theirs, harness.Tensors(3, 1000)).MustClose(t)
	require.NoError(t, theirs.Close())
	o.Check(t)
	harness.PackTensors(t, mine, harness.Tensors(3, 1000)).MustClose(t)
	require.Zero(t, mine.Stats().Misses)
	require.EqualValues(t, 2, mine.Stats().Generation)
	o.MustClose(t)
	require.NoError(t, mine.Close())
}

func TestWeightsArePrivateWhileAnotherProcessPacks(t *testing.T) {
	path := harness.Path(t)
	theirs := harness.OpenProcess(t, path)
	s, err := theirs.NewSession(xpwc.MapOf(map[string][]byte{"x": harness.Content("x", 50)}))
	require.NoError(t, err)
	content, err := s.Load("x", xpwc.Believe())
	require.NoError(t, err)
	require.Equal(t, harness.NotFound, harness.LookUp(s, 1, harness.Address(content), 0))

	mine := harness.OpenProcess(t, path)
	o := harness.PackTensors(t, mine, harness.Tensors(2, 1000))
	require.EqualValues(t, 2, mine.Stats().Private[xpwc.ReasonBusy].Entries)
	o.MustClose(t)
	require.NoError(t, s.Close())
	require.NoError(t, theirs.Save())
	harness.PackTensors(t, mine, harness.Tensors(2, 1000)).MustClose(t)
	require.NoError(t, mine.Close())
	require.Equal(t, 2, mine.Stats().Entries, "and the next session persists them")
	require.NoError(t, theirs.Close())
}

// A process that waited in vain for another one does not wait again for each session.
func TestASessionWaitsOnceForABusyFile(t *testing.T) {
	path := harness.Path(t)
	theirs := harness.OpenProcess(t, path)
	holding := harness.NewSession(t, theirs, map[string][]byte{"x": harness.Content("x", 50)})
	require.Equal(t, harness.NotFound, harness.LookUp(holding, 1, harness.Load(t, holding, "x"), 0))

	var l harness.Listener
	o := &xpwc.Options{Logger: slog.New(&l), WriterWait: time.Second} // which a first try never takes
	mine, err := harness.OpenAlone(path, o, osdisk.Files{})
	require.NoError(t, err)
	for i := range 3 {
		harness.PackTensors(t, mine, map[string][]byte{fmt.Sprint(i): harness.Content(fmt.Sprint(i), 100)}).MustClose(t)
	}
	waits := 0
	for _, message := range l.Messages(mine) {
		if strings.HasPrefix(message, "waiting for another process") {
			waits++
		}
	}
	require.Equal(t, 1, waits)
	require.EqualValues(t, 3, mine.Stats().Private[xpwc.ReasonBusy].Entries)

	require.NoError(t, holding.Close())
	require.NoError(t, theirs.Close())
	harness.PackTensors(t, mine, harness.Tensors(1, 100)).MustClose(t)
	require.NoError(t, mine.Close())
	require.Equal(t, 1, mine.Stats().Entries, "and without waiting it is tried each time")
}
