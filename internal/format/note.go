package format

import "bytes"

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
// none after the end of the payloads. readAt is that of DecodeTrailer; its errors are returned as they are.
func DecodeNote(payloads, index uint64, readAt func(b []byte, offset uint64) error,
) (text []byte, at uint64, err error) {
	if index < payloads || index-payloads < uint64(noteEnd) {
		return nil, index, nil
	}
	end := make([]byte, noteEnd)
	endAt := index - uint64(noteEnd)
	if err := readAt(end, endAt); err != nil {
		return nil, index, err
	}
	size := uint64(le.Uint32(end))
	if string(end[4:]) != noteMagic || size == 0 || size > min(MaxNote, endAt-payloads) {
		return nil, index, nil
	}
	text = make([]byte, size)
	if err := readAt(text, endAt-size); err != nil {
		return nil, index, err
	}
	return text, endAt - size, nil
}
