package executorch

import (
	"fmt"
	"math"

	flatbuffers "github.com/google/flatbuffers/go"

	"xpwc/internal/flatbuf"
	"xpwc/internal/flow"
)

// entry is named data and where in the file it lies.
type entry struct {
	name string
	span flatbuf.Span
	meta *TensorMeta
}

// contents is what a file says of itself. It is checked against the file's bytes.
type contents struct {
	kind     *root
	table    flatbuf.Table // the root
	segments []flatbuf.Span
	named    []entry
}

// parse reads the contents of a file with these bytes: all of a .ptd's, and what a .pte has in common with it.
func parse(file []byte) (contents, error) {
	identifier := ""
	if len(file) >= headerOffset {
		identifier = string(file[4:headerOffset])
	}
	var c contents
	switch identifier {
	case flatTensor.identifier:
		c.kind = &flatTensor
	case program.identifier:
		c.kind = &program
	default:
		return contents{}, malformed("neither a .ptd nor a .pte: its identifier is %q", identifier)
	}
	h, err := readHeader(c.kind, file)
	if err != nil {
		return contents{}, err
	}
	r := flatbuf.New(file[:h.flatbuffer], ErrMalformed)
	c.table = r.Root(c.kind.identifier)
	if version := c.table.Uint32(c.kind.version); r.Err() == nil && version != schemaVersion {
		return contents{}, fmt.Errorf("%w: version %d, not %d", ErrUnsupported, version, schemaVersion)
	}
	c.segments = readSegments(r, c.table.Tables(c.kind.segments), h)
	c.named = readNamedData(r, &c)
	return c, r.Err()
}

func readNamedData(r *flatbuf.Reader, c *contents) []entry {
	named := c.table.Tables(c.kind.namedData)
	out := make([]entry, 0, min(named.Len(), ahead))
	known := make(map[string]bool, min(named.Len(), ahead))
	for i, n := range named.All() {
		e := entry{name: n.String(namedKey)}
		if !n.Vector(namedKey, flatbuffers.SizeByte).Present() {
			r.Fail("named data %d has no key", i)
		}
		if known[e.name] {
			r.Fail("named data %q comes twice", e.name)
		}
		known[e.name] = true
		segment := n.Uint32(namedSegment)
		if int64(segment) >= int64(len(c.segments)) {
			r.Fail("named data %q is in segment %d of %d", e.name, segment, len(c.segments))
			break
		}
		e.span = c.segments[segment]
		if t := n.Table(namedTensor); c.kind == &flatTensor && t.Present() {
			e.meta = readMeta(r, t, e)
		}
		out = append(out, e)
	}
	return out
}

// readSegments returns where in the file the segments lie, one after the other, as the schemas say.
func readSegments(r *flatbuf.Reader, tables flatbuf.Vector, h header) []flatbuf.Span {
	out := make([]flatbuf.Span, 0, min(tables.Len(), ahead))
	end := uint64(0) // of the segment before
	for i, t := range tables.All() {
		offset, size := t.Uint64(segmentOffset), t.Uint64(segmentSize)
		if offset > uint64(h.size) || size > uint64(h.size)-offset {
			r.Fail("segment %d at byte %d (%d bytes) lies outside the segments' %d bytes", i, offset, size, h.size)
			return nil
		}
		if offset < end {
			r.Fail("segment %d at byte %d, where the one before ends at %d", i, offset, end)
			return nil
		}
		end = offset + size
		out = append(out, flatbuf.Span{Offset: h.base + int64(offset), Size: int64(size)})
	}
	return out
}

// readMeta reads what is said of a tensor and checks that it describes what the segment has.
func readMeta(r *flatbuf.Reader, t flatbuf.Table, e entry) *TensorMeta {
	m := &TensorMeta{Type: ScalarType(t.Byte(tensorType))}
	size := int64(m.Type.Size())
	if size == 0 {
		r.Fail("tensor %q is of unknown type %v", e.name, m.Type)
	}
	for _, n := range t.Int32s(tensorSizes) {
		if n < 0 {
			r.Fail("tensor %q has a dimension of %d", e.name, n)
		}
		if n > 0 && size > math.MaxInt64/int64(n) {
			r.Fail("tensor %q has more than 2^63 bytes", e.name)
			return nil
		}
		size *= int64(n)
		m.Sizes = append(m.Sizes, int(n))
	}
	order := flatbuf.Copied(t.Vector(tensorDimOrder, flatbuffers.SizeByte), flatbuffers.SizeByte,
		func(b []byte) int { return int(b[0]) })
	if r.Err() == nil && !flow.Permutation(order, len(m.Sizes)) {
		r.Fail("tensor %q of %d dimensions has them in the order %v", e.name, len(m.Sizes), order)
	}
	if r.Err() == nil && size != e.span.Size {
		r.Fail("tensor %q: %d bytes for sizes %v of %v, which has %d", e.name, e.span.Size, m.Sizes, m.Type, size)
	}
	m.DimOrder = order
	return m
}
