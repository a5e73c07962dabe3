package files

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/digest"
	"xpwc/internal/entries"
	"xpwc/internal/format"
	"xpwc/internal/mapped"
	"xpwc/internal/osdisk"
	"xpwc/internal/store"
	"xpwc/internal/tests/harness"
	"xpwc/internal/tests/testkit"
)

// openQuickly opens a cache that verifies as soon as a session is finalized.
func openQuickly(t *testing.T, path string, o *xpwc.Options) *xpwc.Cache {
	t.Helper()
	c := harness.Open(t, path, o)
	harness.Probe(c).VerifyAtOnce()
	return c
}

// awaitVerified returns when the cache's verifier has ended, as it does when nothing is left.
func awaitVerified(c *xpwc.Cache) {
	harness.Probe(c).AwaitVerified()
}

// flippedFile has packed weights of tensors, one of which has a bit that is not as it was written.
func flippedFile(t *testing.T, tensors map[string][]byte) (path string) {
	t.Helper()
	content, _ := harness.SmallFile(t, tensors)
	content[format.HeaderSize+100] ^= 4
	path = harness.Path(t)
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return path
}

// find has a session find all tensors, whatever the file has of them, and finalizes it.
func find(t *testing.T, c *xpwc.Cache, tensors map[string][]byte) *xpwc.Session {
	t.Helper()
	s := lookUpAll(t, c, tensors)
	err := s.Finalize()
	require.NoError(t, err)
	return s
}

func lookUpAll(t *testing.T, c *xpwc.Cache, tensors map[string][]byte) *xpwc.Session {
	t.Helper()
	s := harness.NewSession(t, c, tensors)
	for name := range tensors {
		require.NotEqual(t, harness.NotFound, harness.LookUp(s, 42, harness.Load(t, s, name), 0))
	}
	return s
}

func TestByDefaultADamagedPayloadIsFoundInTheBackground(t *testing.T) {
	tensors := harness.Tensors(3, 5000)
	path := flippedFile(t, tensors)
	var l harness.Listener
	c := openQuickly(t, path, &xpwc.Options{Logger: slog.New(&l)})
	first := find(t, c, tensors)
	awaitVerified(c)
	require.NoError(t, c.Save())
	s := c.Stats()
	require.EqualValues(t, 1, s.DamagedPayloads)
	require.EqualValues(t, 2, s.Verified.Entries)
	require.Zero(t, s.Unverified)
	require.ErrorIs(t, s.LastError, xpwc.ErrDamaged)
	require.Zero(t, s.Misses)
	require.Equal(t, 2, s.Entries, "the file is rid of it although nothing was packed")
	heard := l.Events(c)
	require.Equal(t, "damaged payload is packed afresh", heard[0].Message)
	require.Equal(t, slog.LevelWarn, heard[0].Level)
	require.Contains(t, tensors, heard[0].Attributes["name"].String())
	require.EqualValues(t, 1, heard[0].Attributes["sessions"].Int64())

	second := harness.PackTensors(t, c, tensors)
	require.EqualValues(t, 1, c.Stats().Misses)
	second.MustClose(t)
	require.NoError(t, first.Close())
	require.NoError(t, c.Close())

	c = harness.Open(t, path, &xpwc.Options{Verify: xpwc.VerifyOnUse, Strict: true})
	harness.PackTensors(t, c, tensors).MustClose(t)
	require.NoError(t, c.Close())
	require.Zero(t, c.Stats().DamagedPayloads)
	require.EqualValues(t, 3, c.Stats().Verified.Entries)
}

func TestADamagedPayloadStaysOutOfLaterCommits(t *testing.T) {
	tensors := harness.Tensors(3, 5000)
	path := flippedFile(t, tensors)
	c := openQuickly(t, path, &xpwc.Options{WriterWait: -1})
	theirs := harness.OpenProcess(t, path)
	packing, err := theirs.NewSession(xpwc.MapOf(map[string][]byte{"x": harness.Content("x", 50)}))
	require.NoError(t, err)
	harness.PackWeight(t, packing, 1, harness.Load(t, packing, "x"), 0, harness.Content("x", 50)) // they are the writer
	first := find(t, c, tensors)
	awaitVerified(c)
	require.EqualValues(t, 1, c.Stats().DamagedPayloads)
	require.NoError(t, packing.Close())
	require.NoError(t, theirs.Close()) // with a generation of their own, which has the damaged one

	harness.PackTensors(t, c, tensors).MustClose(t)
	require.NoError(t, first.Close())
	require.NoError(t, c.Close())
	require.EqualValues(t, 1, c.Stats().Misses)
	c = harness.Open(t, path, &xpwc.Options{Verify: xpwc.VerifyOnUse, Strict: true})
	harness.PackTensors(t, c, tensors).MustClose(t)
	require.NoError(t, c.Close())
	require.Zero(t, c.Stats().DamagedPayloads)
}

func TestPayloadsAreVerifiedOncePerProcess(t *testing.T) {
	tensors := harness.Tensors(5, 3000)
	path := harness.Path(t)
	c := openQuickly(t, path, nil)
	packed := harness.PackTensors(t, c, tensors)
	awaitVerified(c)
	require.NoError(t, c.Save())
	harness.PackTensors(t, c, tensors).MustClose(t)
	awaitVerified(c)
	require.Zero(t, c.Stats().Verified, "it was packed here")
	packed.MustClose(t)
	require.NoError(t, c.Close())

	original, err := os.ReadFile(path)
	require.NoError(t, err)
	c = openQuickly(t, path, &xpwc.Options{Strict: true})
	first := harness.PackTensors(t, c, tensors)
	awaitVerified(c)
	s := c.Stats()
	require.EqualValues(t, 5, s.Verified.Entries)
	require.Equal(t, s.MappedBytes, s.Verified.Bytes)
	harness.PackTensors(t, c, tensors).MustClose(t)
	awaitVerified(c)
	require.Equal(t, s.Verified, c.Stats().Verified)
	first.MustClose(t)
	require.NoError(t, c.Close())
	require.Zero(t, c.Stats().WrittenBytes)
	rewritten, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, original, rewritten)
}

// A verifier that waits for the first inference has a list of the entries in use.
func TestUnusedEntriesAreNotVerified(t *testing.T) {
	tensors := harness.Tensors(5, 3000)
	content, _ := harness.SmallFile(t, tensors)
	path := harness.Path(t)
	require.NoError(t, os.WriteFile(path, content, 0o600))
	c := harness.Open(t, path, nil)
	first, second := harness.PackTensors(t, c, tensors), harness.PackTensors(t, c,
		map[string][]byte{"tensor 1": tensors["tensor 1"]})
	s := c.Stats()
	require.EqualValues(t, 5, s.Unverified.Entries)
	require.Equal(t, s.MappedBytes, s.Unverified.Bytes)
	first.MustClose(t)
	require.EqualValues(t, 1, c.Stats().Unverified.Entries)
	second.MustClose(t)
	require.Zero(t, c.Stats().Unverified)
	require.NoError(t, c.Close())
	require.False(t, harness.Probe(c).Verifies())
	require.Zero(t, c.Stats().Verified)
}

func TestEntriesInUseOfAReplacedFileAreVerified(t *testing.T) {
	tensors := harness.Tensors(3, 5000)
	path := flippedFile(t, tensors)
	others := map[string][]byte{"x": harness.Content("x", 50)}
	content, _ := harness.SmallFile(t, others)
	c := openQuickly(t, path, nil)
	s := lookUpAll(t, c, tensors)
	require.NoError(t, os.WriteFile(path+".new", content, 0o600))
	require.NoError(t, osdisk.Files{}.Rename(path+".new", path))
	harness.PackTensors(t, c, others).MustClose(t) // and the cache has followed
	err := s.Finalize()
	require.NoError(t, err)
	awaitVerified(c)
	require.EqualValues(t, 1, c.Stats().DamagedPayloads)
	require.GreaterOrEqual(t, c.Stats().Verified.Entries, int64(2))
	require.NoError(t, s.Close())
	require.NoError(t, c.Close())
}

func TestPayloadsOfASectionAreVerified(t *testing.T) {
	tensors := harness.Tensors(3, 5000)
	path, size := embedded(t, tensors, everySystems)
	for _, damaged := range []int64{0, 1} {
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		content[everySystems+format.HeaderSize+100] ^= byte(damaged)
		require.NoError(t, os.WriteFile(path, content, 0o600))
		c := mustOpenSection(t, path, everySystems, size, nil)
		harness.Probe(c).VerifyAtOnce()
		s := find(t, c, tensors)
		awaitVerified(c)
		require.NoError(t, s.Close())
		require.Equal(t, damaged, c.Stats().DamagedPayloads)
		require.Equal(t, 3-damaged, c.Stats().Verified.Entries)
		require.NoError(t, c.Close())
	}
}

func TestOnlyTheDefaultVerifiesInTheBackground(t *testing.T) {
	tensors := harness.Tensors(3, 5000)
	for _, verify := range []xpwc.Verify{xpwc.VerifyStructure, xpwc.VerifyOnUse} {
		content, _ := harness.SmallFile(t, tensors)
		path := harness.Path(t)
		require.NoError(t, os.WriteFile(path, content, 0o600))
		c := openQuickly(t, path, &xpwc.Options{Verify: verify})
		s := harness.PackTensors(t, c, tensors)
		require.Zero(t, c.Stats().Unverified)
		require.False(t, harness.Probe(c).Verifies())
		s.MustClose(t)
		require.NoError(t, c.Close())
	}
}

// The hash that reads a file slowly is the one of the format, wherever its pieces, blocks and stripes end.
func TestPayloadsAreHashedAsTheFormatSays(t *testing.T) {
	const piece = 256 << 10
	random := testkit.Random(t)
	content := make([]byte, 3*piece+5000)
	for i := range content {
		content[i] = byte(random.Uint32())
	}
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	d, err := osdisk.Files{}.Open(path, false)
	require.NoError(t, err)
	var payloads [][2]uint64
	add := func(offset, size int) { payloads = append(payloads, [2]uint64{uint64(offset), uint64(size)}) }
	for size := 1; size < 2200; size++ {
		add(random.IntN(3000), size)
	}
	for _, whole := range []int{piece, 2 * piece, 3 * piece} {
		for _, extra := range []int{-1025, -1024, -1023, -65, -64, -63, -1, 0, 1, 63, 64, 65, 1023, 1024, 1025} {
			add(random.IntN(3000), whole+extra)
		}
	}
	slices.Reverse(payloads)
	add(len(content)-300, 300)
	readable := len(payloads)
	add(len(content)-300, 301)
	add(len(content)-10, 11)
	add(len(content)+7, 4*piece)
	working, stop := context.WithCancel(t.Context())
	var hasher store.Hasher
	for i, p := range payloads {
		sum, err := hasher.Sum(working, d, p[0], p[1])
		if i >= readable {
			require.Error(t, err, "%d bytes at %d", p[1], p[0])
			continue
		}
		require.NoError(t, err)
		require.Equal(t, digest.Of(content[p[0]:p[0]+p[1]]), sum, "%d bytes at %d", p[1], p[0])
	}
	stop()
	_, err = hasher.Sum(working, d, 0, 10)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, d.Close())
}

// Bytes of a mapping that are not in the file any more end a process that touches them.
func TestMissingPayloadBytesAreDamage(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows cuts no file off that is mapped")
	}
	tensors := harness.Tensors(5, 30_000)
	if path := os.Getenv(harness.EnvChild); path != "" { // in a process of its own
		c := openQuickly(t, path, nil)
		s := lookUpAll(t, c, tensors)
		require.NoError(t, os.Truncate(path, 70_000))
		var cut []*entries.Entry
		for _, e := range harness.User(s).Used() {
			if e.Record.Offset+e.Record.Size <= 69_632 {
				continue
			}
			cut = append(cut, e)
			_, err := osdisk.Sum(e.Data)
			require.ErrorContains(t, err, "cannot be read")
			err = mapped.Faultless(func() { _ = digest.Of(e.Data) })
			require.ErrorContains(t, err, "cannot be read")
		}
		require.Len(t, cut, 3)
		err := s.Finalize()
		require.NoError(t, err)
		awaitVerified(c)
		require.LessOrEqual(t, c.Stats().Verified.Entries, int64(2))
		require.NoError(t, s.Close())
		harness.PackTensors(t, c, tensors).MustClose(t)
		require.NoError(t, c.Close())
		for _, e := range cut { // the verifier withholds them, or a load that finds the file truncated first
			require.ErrorIs(t, e.Withheld, format.ErrDamaged)
		}
		fmt.Println("survived")
		return
	}
	path := harness.Path(t)
	c := harness.Open(t, path, nil)
	harness.PackTensors(t, c, tensors).MustClose(t)
	require.NoError(t, c.Close())
	child := harness.StartChild(t, "TestMissingPayloadBytesAreDamage", nil, harness.EnvChild+"="+path)
	child.Await(t, "survived")
	child.Pass(t)
}

// Caches are closed, and sessions with them, at any moment of verifying; what is being read is then given up.
func TestCachesAreClosedWhileTheyVerify(t *testing.T) {
	tensors := harness.Tensors(20, 200_000)
	content, _ := harness.SmallFile(t, tensors)
	path := harness.Path(t)
	require.NoError(t, os.WriteFile(path, content, 0o600))
	for round := range 30 {
		c := openQuickly(t, path, &xpwc.Options{Strict: true})
		s := harness.PackTensors(t, c, tensors)
		if round%2 == 0 {
			for c.Stats().Verified.Entries < int64(round%10) {
				if c.Stats().Unverified.Entries == 0 {
					break
				}
			}
		}
		if round%3 == 0 {
			require.NoError(t, c.Compact())
		}
		s.MustClose(t)
		require.NoError(t, c.Close())
		require.Zero(t, c.Stats().DamagedPayloads)
	}
}

// A flag that a session has just set on packed weights keeps them in memory while the file is rewritten, which moves
// them.
func TestPayloadsMovedByACompactionAreNotDamaged(t *testing.T) {
	path := harness.Path(t)
	c := harness.Open(t, path, nil)
	harness.PackTensors(t, c, harness.Tensors(1, 3000)).MustClose(t)
	require.NoError(t, c.Save())
	s, _ := harness.UseStamped(t, c, "old")
	harness.Finish(t, s)
	require.NoError(t, c.Close())

	c, h := harness.OpenHooked(t, path, nil)
	h.Flush = func(written string) error {
		if written == path { // it is not yet the new file
			return nil
		}
		h.Flush = nil
		s, hit := harness.UseStamped(t, c, "new")
		require.True(t, hit)
		harness.Finish(t, s)
		return nil
	}
	require.NoError(t, c.Compact())
	require.Nil(t, h.Flush)
	for range 2 {
		s, hit := harness.UseStamped(t, c, "new")
		require.True(t, hit)
		require.NoError(t, s.Finalize())
		awaitVerified(c)
		require.NoError(t, s.Close())
	}
	require.Zero(t, c.Stats().DamagedPayloads)
	require.NoError(t, c.Save())
	require.Equal(t, 2, c.Stats().Entries)
}
