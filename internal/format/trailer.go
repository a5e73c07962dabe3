package format

import (
	"bytes"
	"errors"
	"io"
	"math"
	"slices"
)

// The trailer is ExecuTorch's (backends/xnnpack/runtime/XNNWeightsCache.cpp, pull request 19988): entries, then a
// footer, the last bytes of the file. docs/format.md has the tables.
const (
	trailerMagic = 0x58505743

	// FooterSize is the size of the footer of every trailer, in bytes.
	FooterSize = 20

	// trailerEntrySize is the size of an entry without its name.
	trailerEntrySize = 24

	// TrailerVersion is the one that is read and written. Version 1 had no seeds; ExecuTorch itself refuses it today.
	TrailerVersion = 2
)

// NativeEntry is the name of the one entry in a native file's trailer.
const NativeEntry = "xpwc:native"

// NativeTrailer returns that entry: all bytes before the trailer, so that nobody who knows only the trailer takes any
// of them for free space. It lists no payload, since ExecuTorch would not ask what CPU that was packed for.
func NativeTrailer(size uint64) TrailerEntry { return TrailerEntry{Name: NativeEntry, Size: size} }

// A TrailerEntry is one payload as ExecuTorch knows it. Its name is the weights' name directly followed by the bias'
// name.
type TrailerEntry struct {
	Name   string
	Offset uint64
	Size   uint64
	Seed   uint32
}

// EncodeTrailer returns the trailer that starts at file offset start.
func EncodeTrailer(entries []TrailerEntry, start uint64) []byte {
	var b []byte
	for _, e := range entries {
		b = le.AppendUint32(b, uint32(len(e.Name)))
		b = append(b, e.Name...)
		b = le.AppendUint64(b, e.Offset)
		b = le.AppendUint64(b, e.Size)
		b = le.AppendUint32(b, e.Seed)
	}
	b = le.AppendUint64(b, start)
	b = le.AppendUint32(b, uint32(len(entries)))
	b = le.AppendUint32(b, trailerMagic)
	return le.AppendUint32(b, TrailerVersion)
}

// TrailerSize returns the size in bytes of the trailer of these entries.
func TrailerSize(entries []TrailerEntry) uint64 { return uint64(len(EncodeTrailer(entries, 0))) }

// DecodeTrailer reads the trailer of a file of fileSize bytes. It returns ErrNotCache if the file has no trailer,
// ErrVersion and the version for another one, ErrDamaged for a trailer that does not fit the file, and r's errors as
// they are.
func DecodeTrailer(r io.ReaderAt, fileSize uint64) (entries []TrailerEntry, version uint32, err error) {
	if fileSize < FooterSize || fileSize > math.MaxInt64 {
		return nil, 0, ErrNotCache
	}
	footer := make([]byte, FooterSize)
	footerAt := fileSize - FooterSize
	if err := readFull(r, footer, footerAt); err != nil {
		return nil, 0, err
	}
	if le.Uint32(footer[12:]) != trailerMagic {
		return nil, 0, ErrNotCache
	}
	start, count, version := le.Uint64(footer), le.Uint32(footer[8:]), le.Uint32(footer[16:])
	switch {
	case version == 0: // it is torn there
		return nil, version, damaged("the trailer has no version")
	case version == TrailerVersion-1:
		return nil, version, ErrOlder
	case version != TrailerVersion:
		return nil, version, ErrVersion
	}
	if start > footerAt || uint64(count)*trailerEntrySize > footerAt-start {
		return nil, version, damaged("the trailer's %d entries do not fit between %d and its footer", count, start)
	}
	b, err := readSolid(r, start, footerAt-start)
	if err != nil {
		return nil, version, err
	}
	entries = make([]TrailerEntry, 0, count)
	for i := range count {
		if len(b) < 4 || uint64(len(b)) < trailerEntrySize+uint64(le.Uint32(b)) {
			return nil, version, damaged("entry %d of the trailer is cut off", i)
		}
		length := le.Uint32(b)
		e := TrailerEntry{Name: string(b[4 : 4+length])}
		b = b[4+length:]
		e.Offset, e.Size, e.Seed = le.Uint64(b), le.Uint64(b[8:]), le.Uint32(b[16:])
		b = b[20:]
		if !span(e.Offset, e.Size, start) {
			return nil, version, damaged("entry %d of the trailer (%.100q) lies outside the file", i, e.Name)
		}
		entries = append(entries, e)
	}
	if len(b) != 0 {
		return nil, version, damaged("%d bytes between the trailer's entries and its footer", len(b))
	}
	return entries, version, nil
}

// DecodeForeign is DecodeTrailer for a file that does not begin with a native header, but with these bytes. ErrHeader:
// it is a native file. ErrEmptyHeader: power failed before the first commit of a native file, which left zeros of its
// header, and may have kept some of its trailer.
func DecodeForeign(header []byte, r io.ReaderAt, fileSize uint64) (entries []TrailerEntry, version uint32, err error) {
	entries, version, err = DecodeTrailer(r, fileSize)
	native := slices.ContainsFunc(entries, func(e TrailerEntry) bool { return e.Name == NativeEntry })
	empty := len(header) == HeaderSize && Blank(header)
	switch {
	case empty && (native || errors.Is(err, ErrNotCache) || errors.Is(err, ErrDamaged)):
		return nil, version, ErrEmptyHeader
	case native:
		return nil, version, ErrHeader
	}
	return entries, version, err
}

// A note is text between the payloads and the index of an ExecuTorch's file, where ExecuTorch does not look: the text,
// its length and a magic number, directly before the index.

const (
	noteMagic = "xpwcnote"
	noteEnd   = 4 + len(noteMagic)

	// MaxNote bounds a note's text, in bytes.
	MaxNote = 1 << 16
)

// EncodeNote returns a note as it lies before an index, or nothing for no text.
func EncodeNote(text []byte) []byte {
	if len(text) == 0 {
		return nil
	}
	b := le.AppendUint32(bytes.Clone(text), uint32(len(text)))
	return append(b, noteMagic...)
}

// DecodeNote returns the text of the note that ends where the index begins, and where it begins; nothing if there is
// none after the end of the payloads. r's errors are returned as they are.
func DecodeNote(r io.ReaderAt, payloads, index uint64) (text []byte, offset uint64, err error) {
	if index < payloads || index-payloads < uint64(noteEnd) {
		return nil, index, nil
	}
	end := make([]byte, noteEnd)
	endAt := index - uint64(noteEnd)
	if err := readFull(r, end, endAt); err != nil {
		return nil, index, err
	}
	size := uint64(le.Uint32(end))
	if string(end[4:]) != noteMagic || size == 0 || size > min(MaxNote, endAt-payloads) {
		return nil, index, nil
	}
	text = make([]byte, size)
	if err := readFull(r, text, endAt-size); err != nil {
		return nil, index, err
	}
	return text, endAt - size, nil
}
