package executorch

import (
	"encoding/binary"
	"math"

	flatbuffers "github.com/google/flatbuffers/go"

	"xpwc/internal/fault"
	"xpwc/internal/flatbuf"
	"xpwc/internal/flow"
)

// entry is named data and where in the file it lies.
type entry struct {
	name string
	span flatbuf.Span
	meta *TensorMeta
}

// contents is a file's description of itself. It is checked against the file's bytes.
type contents struct {
	kind     *root
	table    flatbuf.Table // the root
	segments []flatbuf.Span
	named    []entry
	byName   map[string]int // in named
}

// find returns the named data of a name, and whether there is any.
func (c *contents) find(name string) (entry, bool) {
	i, ok := c.byName[name]
	if !ok {
		return entry{}, false
	}
	return c.named[i], true
}

// parse reads the contents of a file with these bytes: all of a .ptd's, and what a .pte has in common with it.
func parse(file []byte) (c contents, err error) {
	err = fault.Try(func() { c = readContents(file) })
	return c, err
}

func readContents(file []byte) (c contents) {
	identifier := ""
	if len(file) >= headerOffset {
		identifier = string(file[4:headerOffset])
	}
	switch identifier {
	case flatTensor.identifier:
		c.kind = &flatTensor
	case program.identifier:
		c.kind = &program
	default:
		malformed("neither a .ptd nor a .pte: its identifier is %q", identifier)
	}
	h := readHeader(c.kind, file)
	c.table = flatbuf.Root(file[:h.flatbuffer], c.kind.identifier, ErrMalformed)
	if version := c.table.Uint32(c.kind.version); version != schemaVersion {
		unsupported("version %d, not %d", version, schemaVersion)
	}
	c.segments = readSegments(c.table.Tables(c.kind.segments), h)
	c.readNamedData()
	return c
}

func (c *contents) readNamedData() {
	named := c.table.Tables(c.kind.namedData)
	c.named = make([]entry, 0, min(named.Len(), ahead))
	c.byName = make(map[string]int, min(named.Len(), ahead))
	for i, n := range named.All() {
		e := entry{name: n.String(namedKey)}
		if !n.Vector(namedKey, flatbuffers.SizeByte).Present() {
			malformed("named data %d has no key", i)
		}
		if _, twice := c.find(e.name); twice {
			malformed("named data %q comes twice", e.name)
		}
		c.byName[e.name] = i
		segment := n.Uint32(namedSegment)
		if int64(segment) >= int64(len(c.segments)) {
			malformed("named data %q is in segment %d of %d", e.name, segment, len(c.segments))
		}
		e.span = c.segments[segment]
		if t := n.Table(namedTensor); c.kind == &flatTensor && t.Present() {
			e.meta = readMeta(t, e)
		}
		c.named = append(c.named, e)
	}
}

// readSegments returns where in the file the segments lie, one after the other, as in the schemas.
func readSegments(tables flatbuf.Vector, h header) []flatbuf.Span {
	out := make([]flatbuf.Span, 0, min(tables.Len(), ahead))
	end := uint64(0) // of the segment before
	for i, t := range tables.All() {
		offset, size := t.Uint64(segmentOffset), t.Uint64(segmentSize)
		if offset > uint64(h.size) || size > uint64(h.size)-offset {
			malformed("segment %d at byte %d (%d bytes) lies outside the segments' %d bytes", i, offset, size, h.size)
		}
		if offset < end {
			malformed("segment %d at byte %d, where the one before ends at %d", i, offset, end)
		}
		end = offset + size
		out = append(out, flatbuf.Span{Offset: h.base + int64(offset), Size: int64(size)})
	}
	return out
}

// readMeta reads a tensor's description and checks it against the segment.
func readMeta(t flatbuf.Table, e entry) *TensorMeta {
	m := &TensorMeta{Type: ScalarType(t.Byte(tensorType))}
	size := int64(m.Type.Size())
	if size == 0 {
		malformed("tensor %q is of unknown type %v", e.name, m.Type)
	}
	for _, n := range t.Int32s(tensorSizes) {
		if n < 0 {
			malformed("tensor %q has a dimension of %d", e.name, n)
		}
		if n > 0 && size > math.MaxInt64/int64(n) {
			malformed("tensor %q has more than 2^63 bytes", e.name)
		}
		size *= int64(n)
		m.Sizes = append(m.Sizes, int(n))
	}
	order := dimOrder(t.Vector(tensorDimOrder, flatbuffers.SizeByte))
	if !flow.Permutation(order, len(m.Sizes)) {
		malformed("tensor %q of %d dimensions has them in the order %v", e.name, len(m.Sizes), order)
	}
	if size != e.span.Size {
		malformed("tensor %q: %d bytes for sizes %v of %v, which has %d", e.name, e.span.Size, m.Sizes, m.Type, size)
	}
	m.DimOrder = order
	return m
}

// dimOrder reads an order of dimensions.
func dimOrder(v flatbuf.Vector) []int {
	return flatbuf.Copied(v, flatbuffers.SizeByte, func(b []byte) int { return int(b[0]) })
}

const (
	// headSize is how many bytes ExecuTorch reads to find the header, which begins after the flatbuffer's identifier.
	headSize     = 64
	headerOffset = 8
	// A header begins with its magic and its own length, which may be greater than the fields known here need.
	headerFields = headerOffset + 8
	// programHeaderWithSize has the size of the segments too, as ExecuTorch writes it since 1.0.
	programHeaderWithSize = 32
)

// header is the content of the header inserted into a file: the flatbuffer is the file's first bytes, its segments are
// others.
type header struct {
	flatbuffer int64
	base, size int64 // of all segments
}

// readHeader reads the header of a file, which a .ptd always has. A .pte without one is a flatbuffer as a whole.
func readHeader(kind *root, file []byte) header {
	if kind == &program && (len(file) < headerOffset+4 || string(file[headerOffset:][:4]) != kind.magic) {
		return header{flatbuffer: int64(len(file))}
	}
	checkHeader(file, kind.magic, kind.header)
	field := func(i int) uint64 { return binary.LittleEndian.Uint64(file[headerFields+8*i:]) }
	if kind == &flatTensor {
		return headerWithin(file, field(0), field(1), field(2), field(3))
	}
	base, size := field(1), uint64(0)
	if binary.LittleEndian.Uint32(file[headerOffset+4:]) >= programHeaderWithSize {
		size = field(2)
	}
	if size == 0 && base != 0 && base <= uint64(len(file)) {
		size = uint64(len(file)) - base // for older files
	}
	return headerWithin(file, 0, field(0), base, size)
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

// headerWithin checks that the flatbuffer, size bytes after an offset, and the segments after it lie in the file.
func headerWithin(file []byte, offset, size, base, segments uint64) header {
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
