package litert

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/flatbuf"
)

// written is a file that LiteRT 2.3.0 wrote for a small model.
var written = filepath.Join("testdata", "embedding_int8.litert_cache")

// build returns a file with payloads of zeros, and its list.
func build(version uint64, fingerprints []uint64, entries ...Entry) []byte {
	const base = alignment
	end := int64(base)
	var buffers []flatbuf.Fields
	for _, e := range entries {
		buffers = append(buffers, flatbuf.Fields{0: uint64(e.Seed), 1: e.Kernel, 2: e.Bias, 3: uint64(e.Offset - base),
			4: uint64(e.Size)})
		end = max(end, (e.Offset+e.Size+alignment-1)/alignment*alignment)
	}
	b := flatbuf.Build(flatbuf.Fields{0: fingerprints, 1: buffers, 2: uint64(base)}, "\x00\x00\x00\x00")
	file := make([]byte, end)
	for i, v := range []uint64{version, uint64(end), uint64(len(b))} {
		binary.LittleEndian.PutUint64(file[8*i:], v)
	}
	return append(file, b...)
}

func read(b []byte) (*File, error) { return Read(bytes.NewReader(b), int64(len(b))) }

var two = []Entry{{Key{1, 2, NoBuffer}, 128, 300}, {Key{7, 3, 4}, 512, 128}}

func TestAFileThatLiteRTWroteIsRead(t *testing.T) {
	f, err := Open(written)
	require.NoError(t, err)
	require.False(t, f.Stale)
	require.NotEmpty(t, f.Entries)
	require.NotEmpty(t, f.Fingerprints)
	info, err := os.Stat(written)
	require.NoError(t, err)
	require.Equal(t, info.Size(), f.FileBytes)
	for _, e := range f.Entries {
		require.Zero(t, e.Offset%alignment)
		require.Positive(t, e.Size)
	}
	require.True(t, IsCache(written))
}

func TestTheListSaysWhatThePayloadsWerePackedFrom(t *testing.T) {
	f, err := read(build(Version, []uint64{5, 6}, two...))
	require.NoError(t, err)
	require.Equal(t, two, f.Entries)
	require.Equal(t, []uint64{5, 6}, f.Fingerprints)
	require.EqualValues(t, 428, f.PayloadBytes())
	require.Equal(t, "buffer 2", f.Entries[0].Name())
	require.Equal(t, "buffer 3 with 4", f.Entries[1].Name())
}

func TestTheMarkOfAStaleFileIsRead(t *testing.T) {
	b := build(Version, nil, two...)
	b[StaleAt] = 1
	f, err := read(b)
	require.NoError(t, err)
	require.True(t, f.Stale)
}

func TestFilesThatLiteRTWouldNotUseAreRefused(t *testing.T) {
	good := build(Version, nil, two...)
	change := func(do func(b []byte)) []byte {
		b := slices.Clone(good)
		do(b)
		return b
	}
	for name, c := range map[string]struct {
		file     []byte
		sentinel error
	}{
		"empty":            {nil, ErrNotCache},
		"a text":           {[]byte(strings.Repeat("my notes ", 100)), ErrNotCache},
		"a header only":    {good[:headerSize-1], ErrNotCache},
		"cut in a payload": {good[:200], ErrDamaged},
		"cut in the list":  {good[:len(good)-1], ErrDamaged},
		"longer":           {append(slices.Clone(good), 0), ErrDamaged},
		"another version":  {build(Version+1, nil, two...), ErrVersion},
		"being written":    {change(func(b []byte) { b[0] = 0 }), ErrDamaged},
		"twice":            {build(Version, nil, two[0], Entry{two[0].Key, 512, 1}), ErrDamaged},
		"overlapping":      {build(Version, nil, two[0], Entry{two[1].Key, 384, 1}), ErrDamaged},
		"not aligned":      {build(Version, nil, Entry{two[0].Key, 130, 1}), ErrDamaged},
	} {
		_, err := read(c.file)
		require.ErrorIs(t, err, c.sentinel, name)
	}
	_, err := read(good)
	require.NoError(t, err)

	path := filepath.Join(t.TempDir(), "cut")
	require.NoError(t, os.WriteFile(path, good[:200], 0o600))
	require.True(t, IsCache(path), "it is reported as one that is damaged")
	_, err = Open(path)
	require.ErrorContains(t, err, path)
	_, err = Open(t.TempDir())
	require.ErrorIs(t, err, ErrNotCache)
	require.False(t, IsCache(filepath.Join(t.TempDir(), "absent")))
}

// All entries of a list may be the same bytes of the file.
func TestAListTakesNoMoreMemoryThanItHas(t *testing.T) {
	const n = 1 << 20
	list := make([]uint32, n, n+2)
	for i := range list {
		list[i] = uint32(4 * (n + 1 - i)) // how far it is to the table, which ends the list
	}
	list = append(list, 4|4<<16, 4) // its virtual table, of no fields, and the table
	b := flatbuf.Build(flatbuf.Fields{1: list, 2: uint64(alignment)}, "\x00\x00\x00\x00")
	file := make([]byte, alignment)
	for i, v := range []int{Version, alignment, len(b)} {
		binary.LittleEndian.PutUint64(file[8*i:], uint64(v))
	}
	file = append(file, b...)
	var start, end runtime.MemStats
	runtime.ReadMemStats(&start)
	_, err := read(file)
	runtime.ReadMemStats(&end)
	require.ErrorIs(t, err, ErrDamaged)
	require.Less(t, end.TotalAlloc-start.TotalAlloc, uint64(2*len(file)))
}

func TestTheFirstByteThatDiffersIsFound(t *testing.T) {
	long := make([]byte, 5<<19)
	changed := slices.Clone(long)
	changed[4<<19+3] = 1
	for _, c := range []struct {
		a, b   []byte
		offset int64
	}{
		{nil, nil, -1},
		{long, slices.Clone(long), -1},
		{long[:1<<20], long[:1<<20], -1},
		{long, changed, 4<<19 + 3},
		{long, long[:7], 7},
		{long[:1<<20], long, 1 << 20},
	} {
		offset, err := Differ(bytes.NewReader(c.a), bytes.NewReader(c.b))
		require.NoError(t, err)
		require.Equal(t, c.offset, offset)
	}
}

func FuzzRead(f *testing.F) {
	b, err := os.ReadFile(written)
	require.NoError(f, err)
	f.Add(b)
	f.Add(build(Version, []uint64{1}, two...))
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := read(b)
		if err != nil {
			expected := errors.Is(err, ErrNotCache) || errors.Is(err, ErrVersion) || errors.Is(err, ErrDamaged)
			require.True(t, expected, err)
			return
		}
		require.EqualValues(t, len(b), file.FileBytes)
		sum := file.HeaderBytes() + file.ListBytes
		for _, e := range file.Entries {
			require.GreaterOrEqual(t, e.Offset, file.HeaderBytes())
			require.LessOrEqual(t, e.Offset+e.Size, file.FileBytes-file.ListBytes)
			sum += e.Size
		}
		require.LessOrEqual(t, sum, file.FileBytes)
	})
}
