package format_test

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/digest"
	"xpwc/internal/format"
)

// namesOf returns the names of sources that the records of an index have.
func namesOf(t *testing.T, index []byte, slot format.Slot) (names []string) {
	t.Helper()
	x, err := decodeWhole(index, slot)
	require.NoError(t, err)
	for i := range x.Len() {
		r, err := x.Record(i)
		require.NoError(t, err)
		names = append(names, r.SourceName)
	}
	return names
}

// named returns the index of records with these sources and names.
func named(t *testing.T, records ...format.Record) ([]byte, format.Slot) {
	t.Helper()
	for i := range records {
		records[i].Layout, records[i].Kernel = layoutA.Fingerprint, "weights"
		records[i].Offset, records[i].Size = format.HeaderSize+uint64(64*i), 64
	}
	tail := format.HeaderSize + uint64(64*len(records))
	slot, block, err := format.EncodeGeneration(1, tail, []format.Layout{layoutA}, records)
	require.NoError(t, err)
	return block[:slot.IndexSize], slot
}

func TestASourceHasTheFirstNameThatItIsGiven(t *testing.T) {
	first, second := format.Digest{1}, format.Digest{2}
	index, slot := named(t, format.Record{Source: first}, format.Record{Source: first, SourceName: "one.tflite"},
		format.Record{Source: first, SourceName: "moved.tflite"}, format.Record{Source: second},
		format.Record{SourceName: "pulled.tflite"}, format.Record{SourceName: "also.tflite"}, format.Record{})
	require.Equal(t, []string{"one.tflite", "one.tflite", "one.tflite", "", "pulled.tflite", "also.tflite", ""},
		namesOf(t, index, slot))
}

// Anybody who can write the file chooses the names, and they are printed on a terminal and in a page.
func TestANameIsShortAndHasNoControlCharacters(t *testing.T) {
	long := strings.Repeat("é", 200)
	index, slot := named(t, format.Record{Source: format.Digest{1}, SourceName: "\x1b[31m\u202e\xff\n.tflite"},
		format.Record{Source: format.Digest{2}, SourceName: long})
	require.Equal(t, []string{"?[31m???.tflite", long[:format.MostSourceName]}, namesOf(t, index, slot))

	offset := strings.Index(string(index), "?[31m???.tflite")
	copy(index[offset:], "\x1b[2J\x00\x7f\x80")
	slot.IndexSum = seal(index)
	names := namesOf(t, index, slot)
	require.Equal(t, "?[2J???", names[0][:7], "a reader does not trust the writer")
	require.Equal(t, long[:format.MostSourceName], names[1])
}

func TestWhatCannotBeNamesIsNone(t *testing.T) {
	good, slot := named(t, format.Record{Source: format.Digest{1}, SourceName: "one"})
	offset := int(binary.LittleEndian.Uint32(good[60:]))
	require.EqualValues(t, 4, binary.LittleEndian.Uint32(good[64:]))
	text := len(good) - int(binary.LittleEndian.Uint64(good[40:])) + offset
	for name, change := range map[string]func(index []byte){
		"they begin after the strings": func(b []byte) { binary.LittleEndian.PutUint32(b[60:], 1<<31) },
		"they end after the strings":   func(b []byte) { binary.LittleEndian.PutUint32(b[64:], 1000) },
		"they are too many":            func(b []byte) { binary.LittleEndian.PutUint32(b[64:], 1<<31) },
		"a name ends after them":       func(b []byte) { b[text] = 200 },
		"there are none":               func(b []byte) { clear(b[60:68]) },
	} {
		b := slices.Clone(good)
		change(b)
		s := slot
		s.IndexSum = seal(b)
		require.Equal(t, []string{""}, namesOf(t, b, s), name)
	}
	require.Equal(t, []string{"one"}, namesOf(t, good, slot))
}

// Room for names is set aside before it is known how many there are.
func TestNamesGiveWayWhereThereIsNoRoom(t *testing.T) {
	var records []format.Record
	for i := range 200 {
		sum := digest.Of([]byte{byte(i)})
		records = append(records, format.Record{Source: sum, SourceName: strings.Repeat("n", 100)})
	}
	index, slot := named(t, records...)
	names := namesOf(t, index, slot)
	require.Equal(t, 8<<10/101, slices.Index(names, ""))
	require.LessOrEqual(t, slot.IndexSize, format.GenerationSize(200, 200*uint64(len("weights"))))
}
