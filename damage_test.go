package xpwc

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

	"xpwc/internal/format"
	"xpwc/internal/tests/testkit"
)

// smallFile packs a few tensors and returns the file's bytes, with where its structures are.
func smallFile(t *testing.T, tensors map[string][]byte) (content []byte, slot format.Slot) {
	path := filepath.Join(t.TempDir(), "cache")
	c := mustOpen(t, path, nil)
	open(t, c, tensors).close(t)
	require.NoError(t, c.Save())
	slot = storeOf(c).Slot()
	require.NoError(t, c.Close())
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	return content, slot
}

// survive opens a file that may be damaged in any way and packs with it: whatever happens, the bytes are right. It
// reports whether the file was believed.
func survive(t *testing.T, path string, content []byte, tensors map[string][]byte, o *Options) (hits int64) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, content, 0o600))
	c, err := Open(path, o)
	if err != nil {
		if errors.Is(err, ErrDamaged) || errors.Is(err, ErrNotCache) || errors.Is(err, ErrVersion) {
			return 0
		}
		require.NoError(t, err)
	}
	open(t, c, tensors).close(t)
	hits = c.Stats().Hits.Entries
	require.NoError(t, c.Close())
	return hits
}

func TestNoFlippedBitOfTheStructureGivesAWrongByte(t *testing.T) {
	tensors := someTensors(2, 60)
	content, slot := smallFile(t, tensors)
	path := filepath.Join(t.TempDir(), "cache")
	flipped, believed, random := 0, 0, testkit.Random(t)
	for at := range content {
		if at >= format.HeaderSize && at < int(slot.IndexOffset) {
			continue // payloads: see the tests of Options.Verify
		}
		inGap := at > 41 && at < 512 || at >= 512+128 && at < 1024 || at >= 1024+128 && at < format.HeaderSize
		for bit := range 8 {
			if inGap && bit > 0 {
				continue // nothing is there
			}
			if random.IntN(oneOf()) != 0 {
				continue
			}
			damaged := slices.Clone(content)
			damaged[at] ^= 1 << bit
			if survive(t, path, damaged, tensors, &Options{ReadOnly: true}) > 0 {
				believed++
			}
			flipped++
		}
	}
	t.Logf("%d bits flipped, %d files still believed", flipped, believed)
	require.Greater(t, flipped, 4000/oneOf())
}

func TestEveryPrefixOfAFileIsSurvived(t *testing.T) {
	tensors := someTensors(2, 60)
	content, _ := smallFile(t, tensors)
	path := filepath.Join(t.TempDir(), "cache")
	for n := testkit.Random(t).IntN(oneOf()); n < len(content); n += oneOf() {
		require.Zero(t, survive(t, path, content[:n], tensors, &Options{ReadOnly: true}), "the first %d bytes", n)
	}
}

func TestSplicedFilesAreSurvived(t *testing.T) {
	tensors, others := someTensors(3, 700), someTensors(5, 300)
	a, _ := smallFile(t, tensors)
	b, _ := smallFile(t, others)
	path := filepath.Join(t.TempDir(), "cache")
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
		survive(t, path, spliced, tensors, &Options{ReadOnly: true, Verify: VerifyOnUse})
	}
}

// What would be committed after it would never be in force.
func TestAFileAtTheEndOfTheGenerationsIsSetAside(t *testing.T) {
	tensors := someTensors(3, 500)
	content, slot := smallFile(t, tensors)
	path := filepath.Join(t.TempDir(), "cache")
	require.NoError(t, os.WriteFile(path, atGeneration(t, content, slot, math.MaxUint64), 0o600))
	_, err := Open(path, &Options{Strict: true})
	require.ErrorIs(t, err, ErrDamaged)
	for _, packed := range []int64{3, 0} {
		c := mustOpen(t, path, nil)
		open(t, c, tensors).close(t)
		require.NoError(t, c.Close())
		s := c.Stats()
		require.Equal(t, packed, s.Packed.Entries)
		require.Equal(t, packed > 0, errors.Is(s.Damaged, ErrDamaged))
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
	b, at := next.Encode(h.ID)
	copy(content[at:], b)
	return content
}

// fileOfVersion puts a cache at a path whose format is so much newer than ours, and returns its content.
func fileOfVersion(t *testing.T, path string, newer int) []byte {
	t.Helper()
	content, _ := smallFile(t, someTensors(1, 50))
	content[8] = byte(format.Version + newer)
	binary.LittleEndian.PutUint64(content[32:], xxh3.Hash(content[:32]))
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return content
}

// What a newer version of the format wrote is neither used nor touched. The model runs all the same.
func TestAFileOfANewerVersionIsLeftAlone(t *testing.T) {
	t.Run("native", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "cache")
		requireLeftAlone(t, path, fileOfVersion(t, path, 1))
	})
	t.Run("ExecuTorch's", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "cache")
		content := executorchFileOf(map[string][]byte{"w": contentOf("v", 200)})
		binary.LittleEndian.PutUint32(content[len(content)-4:], 3)
		require.NoError(t, os.WriteFile(path, content, 0o600))
		requireLeftAlone(t, path, content)
	})
}

func requireLeftAlone(t *testing.T, path string, content []byte) {
	t.Helper()
	_, err := Open(path, &Options{Strict: true})
	require.ErrorIs(t, err, ErrVersion)

	c := mustOpen(t, path, nil)
	for range 2 {
		open(t, c, someTensors(2, 100)).close(t)
	}
	require.NoError(t, c.Save())
	require.EqualValues(t, 4, c.Stats().Private[ReasonVersion].Entries)
	require.ErrorIs(t, c.Stats().LastError, ErrVersion)
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, content, after)

	require.NoError(t, os.Remove(path))
	open(t, c, someTensors(2, 100)).close(t)
	require.NoError(t, c.Close())
	require.Equal(t, 2, c.Stats().Entries, "once it is gone, the cache is as any other")
}

// What an older version of the format wrote is replaced when there is something to commit.
func TestAFileOfAnOlderVersionIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	content := fileOfVersion(t, path, -1)
	_, err := Open(path, &Options{Strict: true})
	require.ErrorIs(t, err, ErrVersion)

	c := mustOpen(t, path, &Options{ReadOnly: true})
	open(t, c, someTensors(2, 100)).close(t)
	require.EqualValues(t, 2, c.Stats().Private[ReasonReadOnly].Entries)
	require.NoError(t, c.Close())
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, content, after)

	c = mustOpen(t, path, nil)
	open(t, c, someTensors(2, 100)).close(t)
	require.NoError(t, c.Close())
	require.Empty(t, c.Stats().Private)
	c = mustOpen(t, path, &Options{Strict: true})
	open(t, c, someTensors(2, 100)).close(t)
	require.Zero(t, c.Stats().Misses)
	require.NoError(t, c.Close())
	files, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, files, 1, "nothing lies beside it")
}

// A damaged payload is found where payloads are checked, packed afresh, and gone from the file.
func TestDamagedPayloads(t *testing.T) {
	tensors := someTensors(3, 5000)
	content, _ := smallFile(t, tensors)
	content[format.HeaderSize+100] ^= 4
	path := filepath.Join(t.TempDir(), "cache")
	require.NoError(t, os.WriteFile(path, content, 0o600))

	cache := mustOpen(t, path, &Options{Verify: VerifyOnUse})
	open(t, cache, tensors).close(t)
	require.NoError(t, cache.Close())
	s := cache.Stats()
	require.EqualValues(t, 1, s.DamagedPayloads)
	require.EqualValues(t, 2, s.Verified.Entries)
	require.EqualValues(t, 1, s.Packed.Entries)
	require.ErrorIs(t, s.LastError, ErrDamaged)

	cache = mustOpen(t, path, &Options{Verify: VerifyOnUse, Strict: true})
	open(t, cache, tensors).close(t)
	require.NoError(t, cache.Close())
	s = cache.Stats()
	require.Zero(t, s.DamagedPayloads)
	require.EqualValues(t, 3, s.Hits.Entries)
	require.Equal(t, 3, s.Entries)
}

func TestVerifyingAnIntactFileChangesNothing(t *testing.T) {
	tensors := someTensors(3, 5000)
	for _, verify := range []Verify{VerifyStructure, VerifyOnUse} {
		content, _ := smallFile(t, tensors)
		path := filepath.Join(t.TempDir(), "cache")
		require.NoError(t, os.WriteFile(path, content, 0o600))
		c := mustOpen(t, path, &Options{Verify: verify, Prefetch: true})
		open(t, c, tensors).close(t)
		open(t, c, tensors).close(t)
		s := c.Stats()
		require.NoError(t, c.Close())
		require.Zero(t, s.Packed.Entries)
		require.Zero(t, s.WrittenBytes)
		require.Zero(t, s.DamagedPayloads)
		require.EqualValues(t, map[Verify]int{VerifyStructure: 0, VerifyOnUse: 3}[verify],
			s.Verified.Entries)
		after, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, content, after)
	}
}
