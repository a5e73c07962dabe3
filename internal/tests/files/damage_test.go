package files

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/zeebo/xxh3"

	"xpwc"
	"xpwc/internal/format"
	"xpwc/internal/tests/harness"
	"xpwc/internal/tests/testkit"
)

// survive opens a file that may be damaged in any way and packs with it: whatever happens, the bytes are right. It
// reports whether the file was believed.
func survive(t *testing.T, path string, content []byte, tensors map[string][]byte, o *xpwc.Options) (hits int64) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, content, 0o600))
	c, err := xpwc.Open(path, o)
	if err != nil {
		if errors.Is(err, xpwc.ErrDamaged) || errors.Is(err, xpwc.ErrNotCache) || errors.Is(err, xpwc.ErrVersion) {
			return 0
		}
		require.NoError(t, err)
	}
	harness.PackTensors(t, c, tensors).MustClose(t)
	hits = c.Stats().Hits.Entries
	require.NoError(t, c.Close())
	return hits
}

func TestNoFlippedBitOfTheStructureGivesAWrongByte(t *testing.T) {
	tensors := harness.Tensors(2, 60)
	content, slot := harness.SmallFile(t, tensors)
	path := harness.Path(t)
	flipped, believed, random := 0, 0, testkit.Random(t)
	for offset := range content {
		if offset >= format.HeaderSize && offset < int(slot.IndexOffset) {
			continue // payloads: see the tests of Options.Verify
		}
		inGap := offset > 41 && offset < 512 || offset >= 512+128 && offset < 1024 || offset >= 1024+128 &&
			offset < format.HeaderSize
		for bit := range 8 {
			if inGap && bit > 0 {
				continue // nothing is there
			}
			if random.IntN(harness.SampleStep()) != 0 {
				continue
			}
			damaged := slices.Clone(content)
			damaged[offset] ^= 1 << bit
			if survive(t, path, damaged, tensors, &xpwc.Options{ReadOnly: true}) > 0 {
				believed++
			}
			flipped++
		}
	}
	t.Logf("%d bits flipped, %d files still believed", flipped, believed)
	require.Greater(t, flipped, 4000/harness.SampleStep())
}

func TestEveryPrefixOfAFileIsSurvived(t *testing.T) {
	tensors := harness.Tensors(2, 60)
	content, _ := harness.SmallFile(t, tensors)
	path := harness.Path(t)
	for n := testkit.Random(t).IntN(harness.SampleStep()); n < len(content); n += harness.SampleStep() {
		require.Zero(t, survive(t, path, content[:n], tensors, &xpwc.Options{ReadOnly: true}), "the first %d bytes", n)
	}
}

func TestSplicedFilesAreSurvived(t *testing.T) {
	tensors, others := harness.Tensors(3, 700), harness.Tensors(5, 300)
	a, _ := harness.SmallFile(t, tensors)
	b, _ := harness.SmallFile(t, others)
	path := harness.Path(t)
	random := testkit.Random(t)
	for range 1000 {
		cut, resume := random.IntN(len(a)), random.IntN(len(b))
		spliced := slices.Concat(a[:cut], b[resume:])
		if random.IntN(2) == 0 { // a stretch of one in the other
			n := random.IntN(min(len(a)-cut, len(b)-resume))
			spliced = slices.Concat(a[:cut], b[resume:resume+n], a[cut+n:])
		}
		if cut >= format.HeaderSize && len(spliced) == len(a) {
			continue // it may differ in payloads alone, which are not checked before they are used by default
		}
		survive(t, path, spliced, tensors, &xpwc.Options{ReadOnly: true, Verify: xpwc.VerifyOnUse})
	}
}

// What would be committed after it would never be in force.
func TestAFileWithTheLastGenerationIsSetAside(t *testing.T) {
	tensors := harness.Tensors(3, 500)
	content, slot := harness.SmallFile(t, tensors)
	path := harness.Path(t)
	require.NoError(t, os.WriteFile(path, atGeneration(t, content, slot, math.MaxUint64), 0o600))
	_, err := xpwc.Open(path, &xpwc.Options{Strict: true})
	require.ErrorIs(t, err, xpwc.ErrDamaged)
	for _, packed := range []int64{3, 0} {
		c := harness.Open(t, path, nil)
		harness.PackTensors(t, c, tensors).MustClose(t)
		require.NoError(t, c.Close())
		s := c.Stats()
		require.Equal(t, packed, s.Packed.Entries)
		require.Equal(t, packed > 0, errors.Is(s.Damaged, xpwc.ErrDamaged))
		require.EqualValues(t, 1, s.Generation)
	}
	require.FileExists(t, path+".damaged")
}

// atGeneration is a file with another generation in force, of the same entries.
func atGeneration(t *testing.T, content []byte, slot format.Slot, generation uint64) []byte {
	index, err := format.LoadIndex(bytes.NewReader(content), slot)
	require.NoError(t, err)
	var records []format.Record
	for i := range index.Len() {
		r, err := index.Record(i)
		require.NoError(t, err)
		records = append(records, r)
	}
	next, block, err := format.EncodeGeneration(generation, slot.IndexOffset, index.Layouts(), records)
	require.NoError(t, err)
	h, err := format.DecodeHeader(content)
	require.NoError(t, err)
	content = slices.Concat(content[:next.IndexOffset], block)
	b, offset := next.Encode(h.ID)
	copy(content[offset:], b)
	return content
}

// fileOfVersion puts a cache at a path whose format is so much newer than ours, and returns its content.
func fileOfVersion(t *testing.T, path string, newer int) []byte {
	t.Helper()
	content, _ := harness.SmallFile(t, harness.Tensors(1, 50))
	content[8] = byte(format.Version + newer)
	binary.LittleEndian.PutUint64(content[32:], xxh3.Hash(content[:32]))
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return content
}

// What a newer version of the format wrote is neither used nor touched. The model runs all the same.
func TestAFileOfANewerVersionIsLeftAlone(t *testing.T) {
	t.Run("native", func(t *testing.T) {
		path := harness.Path(t)
		requireLeftAlone(t, path, fileOfVersion(t, path, 1))
	})
	t.Run("ExecuTorch's", func(t *testing.T) {
		path := harness.Path(t)
		content := harness.ExecuTorchFile(map[string][]byte{"w": harness.Content("v", 200)})
		binary.LittleEndian.PutUint32(content[len(content)-4:], 3)
		require.NoError(t, os.WriteFile(path, content, 0o600))
		requireLeftAlone(t, path, content)
	})
}

func requireLeftAlone(t *testing.T, path string, content []byte) {
	t.Helper()
	_, err := xpwc.Open(path, &xpwc.Options{Strict: true})
	require.ErrorIs(t, err, xpwc.ErrVersion)

	c := harness.Open(t, path, nil)
	for range 2 {
		harness.PackTensors(t, c, harness.Tensors(2, 100)).MustClose(t)
	}
	require.NoError(t, c.Save())
	require.EqualValues(t, 4, c.Stats().Private[xpwc.ReasonVersion].Entries)
	require.ErrorIs(t, c.Stats().LastError, xpwc.ErrVersion)
	rewritten, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, content, rewritten)

	require.NoError(t, os.Remove(path))
	harness.PackTensors(t, c, harness.Tensors(2, 100)).MustClose(t)
	require.NoError(t, c.Close())
	require.Equal(t, 2, c.Stats().Entries, "once it is gone, the cache is as any other")
}

// What an older version of the format wrote is replaced when there is something to commit.
func TestAFileOfAnOlderVersionIsReplaced(t *testing.T) {
	path := harness.Path(t)
	content := fileOfVersion(t, path, -1)
	_, err := xpwc.Open(path, &xpwc.Options{Strict: true})
	require.ErrorIs(t, err, xpwc.ErrVersion)

	c := harness.Open(t, path, &xpwc.Options{ReadOnly: true})
	harness.PackTensors(t, c, harness.Tensors(2, 100)).MustClose(t)
	require.EqualValues(t, 2, c.Stats().Private[xpwc.ReasonReadOnly].Entries)
	require.NoError(t, c.Close())
	rewritten, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, content, rewritten)

	c = harness.Open(t, path, nil)
	harness.PackTensors(t, c, harness.Tensors(2, 100)).MustClose(t)
	require.NoError(t, c.Close())
	require.Empty(t, c.Stats().Private)
	c = harness.Open(t, path, &xpwc.Options{Strict: true})
	harness.PackTensors(t, c, harness.Tensors(2, 100)).MustClose(t)
	require.Zero(t, c.Stats().Misses)
	require.NoError(t, c.Close())
	files, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, files, 1, "nothing lies beside it")
}

// A damaged payload is found where payloads are checked, packed afresh, and gone from the file.
func TestADamagedPayloadIsFoundAndRepacked(t *testing.T) {
	tensors := harness.Tensors(3, 5000)
	content, _ := harness.SmallFile(t, tensors)
	content[format.HeaderSize+100] ^= 4
	path := harness.Path(t)
	require.NoError(t, os.WriteFile(path, content, 0o600))

	cache := harness.Open(t, path, &xpwc.Options{Verify: xpwc.VerifyOnUse})
	harness.PackTensors(t, cache, tensors).MustClose(t)
	require.NoError(t, cache.Close())
	s := cache.Stats()
	require.EqualValues(t, 1, s.DamagedPayloads)
	require.EqualValues(t, 2, s.Verified.Entries)
	require.EqualValues(t, 1, s.Packed.Entries)
	require.ErrorIs(t, s.LastError, xpwc.ErrDamaged)

	cache = harness.Open(t, path, &xpwc.Options{Verify: xpwc.VerifyOnUse, Strict: true})
	harness.PackTensors(t, cache, tensors).MustClose(t)
	require.NoError(t, cache.Close())
	s = cache.Stats()
	require.Zero(t, s.DamagedPayloads)
	require.EqualValues(t, 3, s.Hits.Entries)
	require.Equal(t, 3, s.Entries)
}

func TestVerifyingAnIntactFileChangesNothing(t *testing.T) {
	tensors := harness.Tensors(3, 5000)
	for _, verify := range []xpwc.Verify{xpwc.VerifyStructure, xpwc.VerifyOnUse} {
		content, _ := harness.SmallFile(t, tensors)
		path := harness.Path(t)
		require.NoError(t, os.WriteFile(path, content, 0o600))
		c := harness.Open(t, path, &xpwc.Options{Verify: verify, Prefetch: true})
		harness.PackTensors(t, c, tensors).MustClose(t)
		harness.PackTensors(t, c, tensors).MustClose(t)
		s := c.Stats()
		require.NoError(t, c.Close())
		require.Zero(t, s.Packed.Entries)
		require.Zero(t, s.WrittenBytes)
		require.Zero(t, s.DamagedPayloads)
		require.EqualValues(t, map[xpwc.Verify]int{xpwc.VerifyStructure: 0, xpwc.VerifyOnUse: 3}[verify],
			s.Verified.Entries)
		rewritten, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, content, rewritten)
	}
}
