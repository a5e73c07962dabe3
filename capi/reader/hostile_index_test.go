//go:build cgo

package reader_test

import (
	"encoding/binary"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/capi/reader"
	"xpwc/internal/format"
	"xpwc/internal/tests/optable"
)

// writeIndex writes the file at path again, with other records in place of its only one. They have its payload.
func writeIndex(t *testing.T, path string, replace func(format.Record) []format.Record) string {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	header, err := format.DecodeHeader(b[:format.HeaderSize])
	require.NoError(t, err)
	index, err := format.LoadIndex(strings.NewReader(string(b)), header.Current)
	require.NoError(t, err)
	require.Equal(t, 1, index.Len())
	record, err := index.Record(0)
	require.NoError(t, err)
	slot, block, err := format.EncodeGeneration(1, record.Offset+record.Size, index.Layouts(), replace(record))
	require.NoError(t, err)
	file := slices.Concat(format.NewHeader(header.ID), b[format.HeaderSize:record.Offset+record.Size])
	file = append(file, make([]byte, slot.IndexOffset-uint64(len(file)))...)
	encoded, offset := slot.Encode(header.ID)
	copy(file[offset:], encoded)
	hostile := path + ".hostile"
	require.NoError(t, os.WriteFile(hostile, append(file, block...), 0o400))
	return hostile
}

// The time of a start grows with the size of an index, not with its square, with which this would take half an hour.
func TestAnIndexOfManyRecordsOfOneKernelIsReadInLinearTime(t *testing.T) {
	const count = 50_000
	cases := optable.Cases()
	c := cases[slices.IndexFunc(cases, func(c optable.Case) bool { return c.Name == "fully-connected-f32" })]
	path, want, _ := packedCase(t, c)
	program := xpwc.DigestOf([]byte(delegate))
	for name, replace := range map[string]func(format.Record) []format.Record{
		"packing identities": func(r format.Record) (records []format.Record) {
			for i := range count {
				binary.LittleEndian.PutUint32(r.Packing[:], uint32(i))
				r.Seal(xpwc.Digest{1}, program)
				records = append(records, r)
			}
			return records
		},
		"payloads under one key": func(r format.Record) (records []format.Record) {
			r.Size -= 64 // and so not what is packed
			for range count {
				r.Seal(xpwc.Digest{1}, program)
				records = append(records, r)
			}
			return records
		},
		"copies": func(r format.Record) []format.Record {
			r.Seal(xpwc.Digest{1}, program)
			r.Copies = format.Copies(strings.Repeat(string(r.Copies), count))
			return []format.Record{r}
		},
	} {
		t.Run(name, func(t *testing.T) {
			hostile := writeIndex(t, path, replace)
			r, err := reader.Open(hostile, "")
			require.NoError(t, err)
			defer r.Close()
			require.NoError(t, r.SetProgram(delegate))
			require.Equal(t, want, runNamed(t, c, r, false, func(w optable.Weight, b []byte) error {
				return r.NameAsSealed(w.Name, b)
			}))
			output, _ := session(t, c, hostile, &xpwc.Options{ReadOnly: true})
			require.Equal(t, want, output)
		})
	}
}
