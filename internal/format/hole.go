package format

import (
	"bytes"
	"io"
	"slices"
)

// A file can have holes, which take no space on the disk and read as zeros. So a small file may claim an index of any
// size. An index with a hole in its root is refused before memory is allocated for it: no piece of a root, counted from
// its start, is all zeros.
const pieceSize = 4 << 10

// hole returns where in b, which begins with a piece, the first piece begins that is all zeros and has all its bytes;
// false if none is.
func hole(b []byte) (offset int, ok bool) {
	zeros := make([]byte, pieceSize)
	for ; len(b)-offset >= pieceSize; offset += pieceSize {
		if b[offset] == 0 && bytes.Equal(b[offset:offset+pieceSize], zeros) {
			return offset, true
		}
	}
	return 0, false
}

// readSolid reads size bytes at an offset. A hole in them is damage. The memory that it takes is proportional to the
// bytes before the hole.
func readSolid(r io.ReaderAt, offset, size uint64) (b []byte, err error) {
	const stretch = 1 << 20
	for pos := uint64(0); pos < size; pos = uint64(len(b)) {
		n := min(stretch, size-pos)
		b = slices.Grow(b, int(n))[:pos+n]
		if err := readFull(r, b[pos:], offset+pos); err != nil {
			return nil, err
		}
		if in, ok := hole(b[pos:]); ok {
			return nil, damaged("there is a hole in the file at %d", offset+pos+uint64(in))
		}
	}
	return b, nil
}

// readFull fills b with the bytes at an offset.
func readFull(r io.ReaderAt, b []byte, offset uint64) error {
	n, err := r.ReadAt(b, int64(offset))
	if n == len(b) { // the last bytes may come with io.EOF
		return nil
	}
	return err
}
