package format

import "bytes"

// A file can have holes, which take no space on the disk and read as zeros. So a small file may say that it has an
// index of any size. What says how large an index is has no hole: none of the pieces before its table, counted from its
// start, is all zeros, and what follows is limited by the number of records. Who is about to take memory for an index
// looks at that first.
const pieceSize = 4 << 10

// readTogether is how much is read into memory without looking for holes before.
const readTogether = 16 << 20

// hole returns where in b, which begins with a piece, the first piece begins that is all zeros and has all its bytes;
// false if none is.
func hole(b []byte) (at int, found bool) {
	zeros := make([]byte, pieceSize)
	for ; len(b)-at >= pieceSize; at += pieceSize {
		if b[at] == 0 && bytes.Equal(b[at:at+pieceSize], zeros) {
			return at, true
		}
	}
	return 0, false
}

// readSolid reads size bytes at an offset, unless there is a hole among the first of them, as many as solid says:
// damaged, before memory is taken for all. readAt fills its argument with the file's bytes at the offset; its errors
// are returned as they are.
func readSolid(readAt func(b []byte, offset uint64) error, offset, size, solid uint64) ([]byte, error) {
	if size > readTogether {
		const stretch = 1 << 20
		b := make([]byte, stretch)
		for at := uint64(0); at < solid; at += stretch {
			b = b[:min(stretch, solid-at)]
			if err := readAt(b, offset+at); err != nil {
				return nil, err
			}
			if in, found := hole(b); found {
				return nil, damaged("there is a hole in the file at %d", offset+at+uint64(in))
			}
		}
	}
	b := make([]byte, size)
	if err := readAt(b, offset); err != nil {
		return nil, err
	}
	return b, nil
}

// ReadIndex reads the bytes of the index that slot says where to find, for DecodeIndex. readAt must fill its argument
// with the file's bytes at the offset. It returns ErrDamaged for an index that is only claimed: a hole in the file.
func ReadIndex(readAt func(b []byte, offset uint64) error, slot Slot) ([]byte, error) {
	if slot.IndexSize < IndexHeaderSize {
		return nil, damaged("the index has %d bytes", slot.IndexSize)
	}
	header := make([]byte, IndexHeaderSize)
	if err := readAt(header, slot.IndexOffset); err != nil {
		return nil, err
	}
	at, err := countsOf(header).arrangeIn(slot.IndexSize)
	if err != nil {
		return nil, err
	}
	return readSolid(readAt, slot.IndexOffset, slot.IndexSize, at.table)
}
