package executorch

import (
	"encoding/binary"

	"xpwc/internal/fault"
)

const (
	// headSize is how many bytes ExecuTorch reads to find the header, which begins after the flatbuffer's identifier.
	headSize     = 64
	headerOffset = 8
	// A header begins with its magic and its own length, which may be greater than the fields known here need.
	headerFields = headerOffset + 8
	// programHeaderWithSize has the size of the segments too, as ExecuTorch writes it since 1.0.
	programHeaderWithSize = 32
)

// header is what the header inserted into a file says: the flatbuffer is the file's first bytes, its segments are
// others.
type header struct {
	flatbuffer int64
	base, size int64 // of all segments
}

func malformed(format string, args ...any) { fault.Because(ErrMalformed, format, args...) }

func unsupported(format string, args ...any) { fault.Because(ErrUnsupported, format, args...) }

// readHeader reads the header of a file, which a .ptd always has. A .pte without one is a flatbuffer as a whole.
func readHeader(kind *root, file []byte) header {
	if kind == &program && (len(file) < headerOffset+4 || string(file[headerOffset:][:4]) != kind.magic) {
		return header{flatbuffer: int64(len(file))}
	}
	checkHeader(file, kind.magic, kind.header)
	field := func(i int) uint64 { return binary.LittleEndian.Uint64(file[headerFields+8*i:]) }
	if kind == &flatTensor {
		return within(file, field(0), field(1), field(2), field(3))
	}
	base, size := field(1), uint64(0)
	if binary.LittleEndian.Uint32(file[headerOffset+4:]) >= programHeaderWithSize {
		size = field(2)
	}
	if size == 0 && base != 0 && base <= uint64(len(file)) {
		size = uint64(len(file)) - base // as far as older files say
	}
	return within(file, 0, field(0), base, size)
}

func checkHeader(file []byte, magic string, length uint32) {
	if len(file) < headSize {
		malformed("%d bytes are no header", len(file))
	}
	if got := string(file[headerOffset:][:4]); got != magic {
		malformed("a header %q, not %q", got, magic)
	}
	if got := binary.LittleEndian.Uint32(file[headerOffset+4:]); got < length {
		malformed("a header of %d bytes, not %d", got, length)
	}
}

// within checks that the flatbuffer, size bytes after an offset, and the segments after it lie in the file.
func within(file []byte, offset, size, base, segments uint64) header {
	whole := uint64(len(file))
	switch {
	case offset > whole || size > whole-offset:
		malformed("a flatbuffer of %d bytes at byte %d of %d", size, offset, whole)
	case base > whole || segments > whole-base:
		malformed("%d bytes of segments at byte %d of %d", segments, base, whole)
	case segments > 0 && base < offset+size:
		malformed("segments at byte %d, inside the flatbuffer's %d", base, offset+size)
	}
	return header{flatbuffer: int64(offset + size), base: int64(base), size: int64(segments)}
}
