package harness

import (
	"bytes"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/digest"
	"xpwc/internal/format"
)

// ReadIndex reads a cache file's records.
func ReadIndex(t testing.TB, path string) (file []byte, index *format.Index) {
	t.Helper()
	file, err := os.ReadFile(path)
	require.NoError(t, err)
	h, err := format.DecodeHeader(file)
	require.NoError(t, err)
	index, err = format.LoadIndex(bytes.NewReader(file), h.Current)
	require.NoError(t, err)
	require.NoError(t, index.Check())
	return file, index
}

func Record(t testing.TB, index *format.Index, i int) format.Record {
	t.Helper()
	r, err := index.Record(i)
	require.NoError(t, err)
	return r
}

// Resize writes a cache file anew, with other payloads and all checksums right.
func Resize(t *testing.T, path string, change func(r *format.Record, payload []byte) []byte) {
	t.Helper()
	Relayout(t, path, func(*format.Layout) {}, change)
}

// Relayout does so with other layouts, too.
func Relayout(t *testing.T, path string, layout func(l *format.Layout),
	change func(r *format.Record, payload []byte) []byte) {
	t.Helper()
	old, index := ReadIndex(t, path)
	layouts := slices.Clone(index.Layouts())
	for i := range layouts {
		layout(&layouts[i])
	}
	file := format.NewHeader([16]byte{1, 2, 3})
	var records []format.Record
	for i := range index.Len() {
		r := Record(t, index, i)
		payload := change(&r, append([]byte{}, old[r.Offset:r.Offset+r.Size]...))
		r.Offset, r.Size, r.Sum = format.Align(uint64(len(file))), uint64(len(payload)), digest.Of(payload)
		file = append(append(file, make([]byte, r.Offset-uint64(len(file)))...), payload...)
		records = append(records, r)
	}
	slot, block, err := format.EncodeGeneration(1, uint64(len(file)), layouts, records)
	require.NoError(t, err)
	file = append(append(file, make([]byte, slot.IndexOffset-uint64(len(file)))...), block...)
	encoded, offset := slot.Encode([16]byte{1, 2, 3})
	copy(file[offset:], encoded)
	require.NoError(t, os.WriteFile(path, file, 0o600))
}
