package executorch

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// field changes a 64-bit field of the header.
func field(i int, value uint64) func(b *blueprint) {
	return func(b *blueprint) {
		b.change = func(header []byte) { binary.LittleEndian.PutUint64(header[8+8*i:], value) }
	}
}

func headerLength(n uint32) func(b *blueprint) {
	return func(b *blueprint) {
		b.change = func(header []byte) { binary.LittleEndian.PutUint32(header[4:], n) }
	}
}

func TestMalformedFilesAreRefusedWithWhatIsWrong(t *testing.T) {
	const ptd, pte = false, true
	meta := func(m *TensorMeta) func(b *blueprint) { return func(b *blueprint) { b.named[0].meta = m } }
	for name, c := range map[string]struct {
		program  bool
		change   func(b *blueprint)
		want     string
		sentinel error
	}{
		"another magic": {ptd, func(b *blueprint) { b.change = func(h []byte) { h[0] = 'X' } },
			`a header "XH01"`, ErrMalformed},
		"no header":                   {ptd, func(b *blueprint) { b.headerless = true }, "a header", ErrMalformed},
		"short header":                {ptd, headerLength(39), "a header of 39 bytes, not 40", ErrMalformed},
		"short header of a program":   {pte, headerLength(23), "a header of 23 bytes, not 24", ErrMalformed},
		"flatbuffer elsewhere":        {ptd, field(0, 1<<40), "bytes at byte 1099511627776 of", ErrMalformed},
		"flatbuffer beyond the file":  {ptd, field(1, 1<<40), "a flatbuffer of", ErrMalformed},
		"flatbuffer of 2^64-1 bytes":  {ptd, field(1, math.MaxUint64), "a flatbuffer of", ErrMalformed},
		"segments beyond the file":    {ptd, field(2, 1<<40), "bytes of segments at byte", ErrMalformed},
		"segments of 2^64-1 bytes":    {ptd, field(3, math.MaxUint64), "bytes of segments at byte", ErrMalformed},
		"segments in the flatbuffer":  {ptd, field(2, 64), "inside the flatbuffer", ErrMalformed},
		"program beyond the file":     {pte, field(0, 1<<40), "a flatbuffer of", ErrMalformed},
		"program's segments beyond":   {pte, field(1, 1<<40), "bytes of segments at byte", ErrMalformed},
		"program's segments too long": {pte, field(2, 301), "bytes of segments at byte", ErrMalformed},
		"program that is cut off":     {pte, field(0, 50), "lies outside the file", ErrMalformed},
		"named data without segments": {pte, func(b *blueprint) { b.headerless = true },
			"lies outside the segments' 0 bytes", ErrMalformed},
		"another version": {ptd, func(b *blueprint) { b.version = 1 }, "version 1, not 0",
			ErrUnsupported},
		"another version of a program": {pte, func(b *blueprint) { b.version = 7 }, "version 7, not 0",
			ErrUnsupported},
		"name twice": {ptd, func(b *blueprint) { b.named[1].key = "a" }, `"a" comes twice`,
			ErrMalformed},
		"no name": {pte, func(b *blueprint) { b.named[1].keyless = true }, "has no key",
			ErrMalformed},
		"segment that is not there": {pte, func(b *blueprint) { b.named[1].segment = 3 },
			`"b" is in segment 3 of 3`, ErrMalformed},
		"segment of 2^32-1": {ptd, func(b *blueprint) { b.named[1].segment = math.MaxUint32 },
			"segment 4294967295", ErrMalformed},
		"segment beyond the others": {pte, func(b *blueprint) { b.segments[2].size++ },
			"segment 2 at byte 128 (173 bytes)", ErrMalformed},
		"segment of 2^64-1 bytes": {ptd, func(b *blueprint) { b.segments[2].size = math.MaxUint64 },
			"segment 2", ErrMalformed},
		"segment at 2^64-1": {ptd, func(b *blueprint) { b.segments[1].offset = math.MaxUint64 },
			"segment 1", ErrMalformed},
		"segments that overlap": {pte, func(b *blueprint) { b.segments[2].offset = 8; b.segments[2].size = 8 },
			"segment 2 at byte 8", ErrMalformed},
		"segments the wrong way": {ptd, func(b *blueprint) {
			b.segments[0], b.segments[2] = b.segments[2], b.segments[0]
		}, "segment 1", ErrMalformed},
		"unknown type": {ptd, meta(&TensorMeta{Type: 100, Sizes: []int{24}, DimOrder: []int{0}}),
			"unknown type ScalarType(100)", ErrMalformed},
		"size of another shape": {ptd, meta(&TensorMeta{Type: Float, Sizes: []int{5}, DimOrder: []int{0}}),
			"24 bytes for sizes [5] of FLOAT, which has 20", ErrMalformed},
		"negative dimension": {ptd, meta(&TensorMeta{Type: Float, Sizes: []int{-6}, DimOrder: []int{0}}),
			"a dimension of -6", ErrMalformed},
		"two negative dimensions": {ptd, meta(&TensorMeta{Type: Float, Sizes: []int{-6, -1}, DimOrder: []int{0, 1}}),
			"a dimension of -6", ErrMalformed},
		"overflow": {ptd,
			meta(&TensorMeta{Type: Long, Sizes: []int{1 << 30, 1 << 30, 2}, DimOrder: []int{0, 1, 2}}),
			"more than 2^63", ErrMalformed},
		"order of fewer dimensions": {ptd,
			meta(&TensorMeta{Type: Float, Sizes: []int{3, 2}, DimOrder: []int{0}}), "the order [0]", ErrMalformed},
		"order that is no permutation": {ptd,
			meta(&TensorMeta{Type: Float, Sizes: []int{3, 2}, DimOrder: []int{1, 1}}), "the order [1 1]", ErrMalformed},
		"order of dimensions not there": {ptd,
			meta(&TensorMeta{Type: Float, Sizes: []int{3, 2}, DimOrder: []int{1, 2}}), "the order [1 2]", ErrMalformed},
		"scalar of no bytes": {ptd, func(b *blueprint) {
			b.named[1] = named{key: "s", segment: 1, meta: &TensorMeta{Type: Float}}
		}, "0 bytes for sizes [] of FLOAT", ErrMalformed},
		"segments that the header denies": {ptd, field(3, 0), "lies outside the segments' 0 bytes", ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			b := sound(c.program)
			_, err := parse(b.bytes())
			require.NoError(t, err)
			c.change(&b)
			_, err = parse(b.bytes())
			require.ErrorIs(t, err, c.sentinel)
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestOtherFilesAreNotTakenForExecuTorchs(t *testing.T) {
	for _, b := range [][]byte{nil, make([]byte, 7), make([]byte, 8), []byte("\x08\x00\x00\x00TFL3and so on"),
		[]byte("\x08\x00\x00\x00FT01")} {
		_, err := parse(b)
		require.ErrorIs(t, err, ErrMalformed)
	}
}

func TestUnusualFilesAreRead(t *testing.T) {
	empty := blueprint{}
	changed := func(program bool, change func(*blueprint)) blueprint {
		b := sound(program)
		change(&b)
		return b
	}
	for name, c := range map[string]struct {
		file  blueprint
		names int
	}{
		"no named data":               {empty, 0},
		"program without a header":    {blueprint{program: true, headerless: true}, 0},
		"program without a size":      {changed(true, headerLength(program.header)), 3},
		"program with a size of zero": {changed(true, field(2, 0)), 3},
		"header of later versions":    {changed(false, headerLength(200)), 3},
		"empty name":                  {changed(false, func(b *blueprint) { b.named[1].key = "" }), 3},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parse(c.file.bytes())
			require.NoError(t, err)
			require.Len(t, got.named, c.names)
		})
	}
}

// soundFiles are without fault: made here, and by ExecuTorch.
func soundFiles(t testing.TB) [][]byte {
	t.Helper()
	out := [][]byte{sound(false).bytes(), sound(true).bytes()}
	for _, name := range []string{"testdata/reference.ptd", "testdata/reference.pte"} {
		b, err := os.ReadFile(name)
		require.NoError(t, err)
		out = append(out, b)
	}
	return out
}

// check reads a file, which may be refused, and sees that nothing lies outside it.
func check(t testing.TB, b []byte) {
	t.Helper()
	c, err := parse(b)
	for _, e := range c.named {
		if err == nil {
			require.Len(t, placeOf(e.span).In(b), int(e.span.Size), e.name)
		}
	}
}

func TestAFileCutOffAnywhereIsRefused(t *testing.T) {
	for _, good := range soundFiles(t) {
		_, err := parse(good)
		require.NoError(t, err)
		for n := range good {
			_, err := parse(good[:n])
			require.ErrorIs(t, err, ErrMalformed, "%d of %d bytes", n, len(good))
		}
	}
}

func TestADamagedFileIsRefusedOrReadWithinIt(t *testing.T) {
	for _, good := range soundFiles(t) {
		for i := range good {
			for _, flip := range []byte{0x01, 0x04, 0x80, 0xff} {
				bad := bytes.Clone(good)
				bad[i] ^= flip
				check(t, bad)
			}
		}
	}
}

// FuzzParse reads any bytes as a file.
func FuzzParse(f *testing.F) {
	for _, b := range soundFiles(f) {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) { check(t, b) })
}

// FuzzPatched changes single words of files without fault, which gets past the flatbuffer's own structure.
func FuzzPatched(f *testing.F) {
	f.Add(uint8(0), uint16(80), uint32(7), uint16(96), uint32(1))
	f.Fuzz(func(t *testing.T, number uint8, offset uint16, word uint32, offset2 uint16, word2 uint32) {
		files := soundFiles(t)
		b := files[int(number)%len(files)]
		binary.LittleEndian.PutUint32(b[int(offset)%(len(b)-3):], word)
		binary.LittleEndian.PutUint32(b[int(offset2)%(len(b)-3):], word2)
		check(t, b)
	})
}
