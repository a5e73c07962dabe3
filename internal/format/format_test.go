package format_test

import (
	"bytes"
	"flag"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/format"
	"xpwc/xnnpack/packing"
)

var update = flag.Bool("update", false, "rewrite the golden file")

var (
	id      = [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
	layoutA = format.Layout{Fingerprint: format.Digest{0xa}, Description: "amd64"}
	layoutB = format.Layout{Fingerprint: format.Digest{0xb}, Description: "lesser amd64"}
)

// sampleRecords are two layouts, biased and unbiased weights, names that meet at their seams, and a shared payload.
func sampleRecords() []format.Record {
	record := func(offset, size uint64, seed uint32, key format.Key) format.Record {
		return format.Record{Key: key, Seed: seed, Offset: offset, Size: size, Sum: format.Digest{byte(seed)},
			Source: format.Digest{1}, Stamps: format.Hashes{Kernel: format.Digest{2}},
			Digests:  format.Hashes{Kernel: format.Digest{3, byte(seed)}},
			PackedAt: 1_700_000_000, UsedAt: 1_800_000_000}
	}
	biased := func(layout format.Layout, kernel, bias string) format.Key {
		return format.Key{Layout: layout.Fingerprint, Kernel: kernel, Bias: bias, HasBias: true}
	}
	records := []format.Record{
		record(8192, 1000, 3, biased(layoutA, "a", "bc")),
		record(4096, 128, 1, biased(layoutA, "ab", "c")),
		record(4352, 200, 2, format.Key{Layout: layoutA.Fingerprint, Kernel: "abc"}),
		record(4608, 64, 4, biased(layoutB, "ab", "c")),
		record(4608, 64, 5, format.Key{Layout: layoutB.Fingerprint, Kernel: "tied", FingerprintID: 7,
			Packing: format.Digest{9}}),
	}
	records[0].Source = format.Digest{6}
	for i, name := range []string{"last.tflite", "first.tflite", "first.tflite", "first.tflite", "first.tflite"} {
		records[i].SourceName = name
	}
	records[1].Stamps.Bias, records[1].Digests.Bias = format.Digest{4}, format.Digest{5}
	records[1].AddCopy(format.Hashes{Kernel: format.Digest{10}, Bias: format.Digest{11}})
	records[4].AddCopy(format.Hashes{Kernel: format.Digest{12}})
	records[4].AddCopy(format.Hashes{Kernel: format.Digest{13}})
	records[2].Flags = format.Tied
	records[3].Flags = format.Variant
	records[3].Family = packing.Family{Operator: packing.FullyConnected, Input: 9, Kernel: 6, Output: 1}
	records[3].LeastSize = 60
	return records
}

// sampleFile is a whole file of one generation, its payloads zero.
func sampleFile(t testing.TB) (file []byte, slot format.Slot) {
	const indexAt = 9216
	index, sum := encodeIndex(t, []format.Layout{layoutA, layoutB}, sampleRecords())
	slot = format.Slot{Generation: 1, IndexOffset: indexAt, IndexSize: uint64(len(index)), IndexSum: sum,
		Records: 5, PayloadBytes: 128 + 200 + 64 + 1000}
	trailerAt := slot.IndexOffset + slot.IndexSize
	trailer := format.EncodeTrailer([]format.TrailerEntry{format.NativeTrailer(trailerAt)}, trailerAt)
	slot.End = trailerAt + uint64(len(trailer))
	slot.DeadBytes = indexAt - format.HeaderSize - (128 + 256 + 64 + 1024)

	file = slices.Concat(format.NewHeader(id), make([]byte, indexAt-format.HeaderSize), index, trailer)
	encoded, offset := slot.Encode(id)
	copy(file[offset:], encoded)
	return file, slot
}

func TestAFileReadsBackAsItWasWritten(t *testing.T) {
	file, slot := sampleFile(t)
	h, err := format.DecodeHeader(file)
	require.NoError(t, err)
	require.Equal(t, id, h.ID)
	require.Equal(t, slot, h.Current)

	x, err := decodeWhole(file[slot.IndexOffset:slot.IndexOffset+slot.IndexSize], slot)
	require.NoError(t, err)
	require.Equal(t, []format.Layout{layoutA, layoutB}, x.Layouts())
	want := sampleRecords()
	slices.SortStableFunc(want, func(a, b format.Record) int { return int(a.Offset) - int(b.Offset) })
	var got []format.Record
	for i := range x.Len() {
		r, err := x.Record(i)
		require.NoError(t, err)
		require.Equal(t, []format.Record{r}, find(t, x, r.Key))
		got = append(got, r)
	}
	require.Equal(t, want, got)
	require.Empty(t, find(t, x, format.Key{Layout: layoutB.Fingerprint, Kernel: "abc"}), "another layout's")
	require.Empty(t, find(t, x, format.Key{Layout: layoutA.Fingerprint, Kernel: "a", Bias: "bc"}), "without its bias")
}

// The golden file pins the bytes: a change of them is a change of the format and needs another version.
func TestTheBytesOnDiskDoNotChange(t *testing.T) {
	golden := filepath.Join("testdata", "version4.golden")
	file, _ := sampleFile(t)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(golden, file, 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.True(t, bytes.Equal(want, file), "the encoding differs from %s", golden)
}

func TestTheNewerValidSlotIsInForce(t *testing.T) {
	header := format.NewHeader(id)
	put := func(generation uint64) int64 {
		slot := format.Slot{Generation: generation, IndexOffset: format.HeaderSize, IndexSize: 128, End: 5000}
		b, offset := slot.Encode(id)
		copy(header[offset:], b)
		return offset
	}
	current := func() (uint64, int) {
		h, err := format.DecodeHeader(header)
		require.NoError(t, err)
		torn := 0
		for _, s := range h.Slots {
			if s.Torn {
				torn++
			}
		}
		return h.Current.Generation, torn
	}
	generation, torn := current()
	require.Zero(t, generation)
	require.Zero(t, torn)
	put(1)
	offset := put(2)
	generation, _ = current()
	require.EqualValues(t, 2, generation)
	for n := range 128 { // a write of the slot that was cut off after n bytes of generation 4
		b, _ := format.Slot{Generation: 4, IndexOffset: 8192, IndexSize: 256, End: 9000}.Encode(id)
		torn := slices.Clone(header)
		copy(torn[offset:], b[:n])
		h, err := format.DecodeHeader(torn)
		require.NoError(t, err)
		require.Contains(t, []uint64{1, 2}, h.Current.Generation, "cut off after %d bytes", n)
	}
	h, err := format.DecodeHeader(slices.Concat(format.NewHeader([16]byte{9}), nil))
	require.NoError(t, err)
	foreign := format.NewHeader(h.ID)
	copy(foreign[512:], header[512:])
	h, err = format.DecodeHeader(foreign)
	require.NoError(t, err)
	require.Zero(t, h.Current.Generation, "slots of another file are not valid in this one")
}

// After the greatest number of a slot comes zero, and every later commit would be lost.
func TestAGenerationThatNoOtherCanFollowIsDamage(t *testing.T) {
	for _, c := range []struct {
		generation uint64
		refused    bool
	}{
		{1<<62 - 2, false}, {1<<62 - 1, false}, {1 << 62, true}, {1 << 63, true}, {math.MaxUint64 - 1, true},
		{math.MaxUint64, true},
	} {
		header := format.NewHeader(id)
		// An older one in the other slot does not help.
		for _, generation := range []uint64{3 + c.generation%2, c.generation} {
			slot := format.Slot{Generation: generation, IndexOffset: format.HeaderSize, IndexSize: 128, End: 5000}
			b, offset := slot.Encode(id)
			copy(header[offset:], b)
		}
		h, err := format.DecodeHeader(header)
		if c.refused {
			require.ErrorIs(t, err, format.ErrDamaged, "%d", c.generation)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, c.generation, h.Current.Generation)
	}
}

// Every flipped bit of header, index and trailer is noticed, or lies where nothing is stored.
func TestAFlippedBitIsNeverBelieved(t *testing.T) {
	file, slot := sampleFile(t)
	decode := func(b []byte) (format.Header, []format.Record, error) {
		h, err := format.DecodeHeader(b)
		if err != nil || h.Current.Generation == 0 {
			return h, nil, err
		}
		x, err := decodeWhole(b[slot.IndexOffset:slot.IndexOffset+slot.IndexSize], h.Current)
		if err != nil {
			return h, nil, err
		}
		var records []format.Record
		for i := range x.Len() {
			r, err := x.Record(i)
			require.NoError(t, err)
			records = append(records, r)
		}
		return h, records, nil
	}
	_, want, err := decode(file)
	require.NoError(t, err)
	indexEnd := int(slot.IndexOffset + slot.IndexSize)
	for offset := range indexEnd {
		if offset >= format.HeaderSize && offset < int(slot.IndexOffset) {
			continue // payloads have checksums of their own
		}
		for bit := range 8 {
			file[offset] ^= 1 << bit
			h, records, err := decode(file)
			if err == nil && h.Current.Generation != 0 {
				require.Equal(t, want, records, "bit %d of byte %d", bit, offset)
				require.Equal(t, slot, h.Current, "bit %d of byte %d", bit, offset)
			}
			file[offset] ^= 1 << bit
		}
	}
}

func TestTrailersReadBack(t *testing.T) {
	entries := []format.TrailerEntry{
		{Name: "", Offset: 0, Size: 0},
		{Name: "w", Offset: 100, Size: 28, Seed: 0xffffffff},
		{Name: string(bytes.Repeat([]byte("n\x00"), 300)), Offset: 127, Size: 1, Seed: 3},
	}
	file := append(make([]byte, 128), format.EncodeTrailer(entries, 128)...)
	got, v, err := decodeTrailer(file)
	require.NoError(t, err)
	require.EqualValues(t, format.TrailerVersion, v)
	require.Equal(t, entries, got)
	for n := range file {
		_, _, err := decodeTrailer(file[:n])
		require.Error(t, err, "the first %d bytes", n)
	}
	file[len(file)-4] = 1
	_, _, err = decodeTrailer(file)
	require.ErrorIs(t, err, format.ErrOlder)
	file[len(file)-4] = 3
	_, _, err = decodeTrailer(file)
	require.ErrorIs(t, err, format.ErrVersion)
	require.NotErrorIs(t, err, format.ErrOlder)
}

func decodeTrailer(file []byte) ([]format.TrailerEntry, uint32, error) {
	return format.DecodeTrailer(bytes.NewReader(file), uint64(len(file)))
}

func FuzzDecodeHeader(f *testing.F) {
	file, _ := sampleFile(f)
	f.Add(file[:format.HeaderSize])
	f.Add(format.NewHeader(id))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := format.DecodeHeader(b)
		if err == nil && h.Current.Generation != 0 {
			require.LessOrEqual(t, h.Current.IndexOffset+h.Current.IndexSize, h.Current.End)
		}
	})
}

func FuzzDecodeTrailer(f *testing.F) {
	file, _ := sampleFile(f)
	f.Add(file[len(file)-300:])
	f.Add(format.EncodeTrailer(nil, 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		entries, _, err := decodeTrailer(b)
		if err == nil {
			for _, e := range entries {
				require.LessOrEqual(t, e.Offset+e.Size, uint64(len(b)))
			}
		}
	})
}
