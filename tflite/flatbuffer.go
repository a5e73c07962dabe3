package tflite

import (
	"fmt"
	"math"

	flatbuffers "github.com/google/flatbuffers/go"
)

// reader is the one door to the bytes of a flatbuffer. The flatbuffers library trusts its input, so every position is checked
// here before the library reads at it. The first fault is kept in err, and everything read after it is zero or empty:
// a caller checks err once, before it trusts what it read.
type reader struct {
	buf []byte
	// budget bounds what is copied out of the flatbuffer. Vectors of a hostile file may all point at the same bytes, which
	// would turn a small file into an arbitrary amount of memory; those of an honest file never hold more than the file.
	budget int
	err    error
}

// newReader returns a reader of the flatbuffer at the start of b. Positions in a flatbuffer are 31 bits wide: what lies beyond
// is reached only by the offsets that the schema gives as 64 bits, never through the reader.
func newReader(b []byte) *reader {
	if len(b) > math.MaxInt32 {
		b = b[:math.MaxInt32]
	}
	return &reader{buf: b, budget: len(b)}
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
	}
}

// fits reports whether the n bytes at pos lie in the flatbuffer, and records a fault if not.
func (r *reader) fits(pos, n int64, what string) bool {
	if r.err != nil {
		return false
	}
	if pos < 0 || n < 0 || pos > int64(len(r.buf)) || n > int64(len(r.buf))-pos {
		r.fail("%s at byte %d (%d bytes) lies outside the file's %d bytes", what, pos, n, len(r.buf))
		return false
	}
	return true
}

func (r *reader) spend(n int) bool {
	if r.err != nil {
		return false
	}
	if n > r.budget {
		r.fail("its vectors hold more than the file has bytes")
		return false
	}
	r.budget -= n
	return true
}

// root returns the root table of a flatbuffer with the given file identifier.
func (r *reader) root(identifier string) table {
	if !r.fits(0, flatbuffers.SizeUOffsetT+int64(len(identifier)), "the header") {
		return table{r: r}
	}
	if string(r.buf[flatbuffers.SizeUOffsetT:][:len(identifier)]) != identifier {
		r.fail("no file identifier %q", identifier)
		return table{r: r}
	}
	return r.table(int64(flatbuffers.GetUOffsetT(r.buf)))
}

// table is a flatbuffers table whose virtual table and inline fields are known to lie in the file. The zero table has no fields.
type table struct {
	r      *reader
	t      flatbuffers.Table
	inline int64 // bytes of the table itself, which no field may leave
	ok     bool
}

func (r *reader) table(pos int64) table {
	const header = 2 * flatbuffers.SizeVOffsetT
	none := table{r: r}
	if !r.fits(pos, flatbuffers.SizeSOffsetT, "a table") {
		return none
	}
	vtable := pos - int64(flatbuffers.GetSOffsetT(r.buf[pos:]))
	if !r.fits(vtable, header, "a virtual table") {
		return none
	}
	size := int64(flatbuffers.GetVOffsetT(r.buf[vtable:]))
	inline := int64(flatbuffers.GetVOffsetT(r.buf[vtable+flatbuffers.SizeVOffsetT:]))
	if size < header || size%2 != 0 || inline < flatbuffers.SizeSOffsetT {
		r.fail("the virtual table at byte %d has %d bytes for a table of %d", vtable, size, inline)
		return none
	}
	if !r.fits(vtable, size, "a virtual table") || !r.fits(pos, inline, "a table") {
		return none
	}
	return table{r: r, t: flatbuffers.Table{Bytes: r.buf, Pos: flatbuffers.UOffsetT(pos)}, inline: inline, ok: true}
}

// field returns the position of an inline field of the given size; ok is false if the table does not have it.
func (t table) field(slot int, size int64) (pos int64, ok bool) {
	if !t.ok || t.r.err != nil {
		return 0, false
	}
	o := int64(t.t.Offset(flatbuffers.VOffsetT(2*flatbuffers.SizeVOffsetT + slot*flatbuffers.SizeVOffsetT)))
	if o == 0 {
		return 0, false
	}
	if o < flatbuffers.SizeSOffsetT || o+size > t.inline {
		t.r.fail("field %d of the table at byte %d leaves the table", slot, t.t.Pos)
		return 0, false
	}
	return int64(t.t.Pos) + o, true
}

func (t table) byte(slot int) byte {
	if pos, ok := t.field(slot, flatbuffers.SizeByte); ok {
		return flatbuffers.GetByte(t.r.buf[pos:])
	}
	return 0
}

func (t table) bool(slot int) bool { return t.byte(slot) != 0 }

func (t table) int32(slot int, absent int32) int32 {
	if pos, ok := t.field(slot, flatbuffers.SizeInt32); ok {
		return flatbuffers.GetInt32(t.r.buf[pos:])
	}
	return absent
}

func (t table) uint32(slot int) uint32 {
	if pos, ok := t.field(slot, flatbuffers.SizeUint32); ok {
		return flatbuffers.GetUint32(t.r.buf[pos:])
	}
	return 0
}

func (t table) uint64(slot int) uint64 {
	if pos, ok := t.field(slot, flatbuffers.SizeUint64); ok {
		return flatbuffers.GetUint64(t.r.buf[pos:])
	}
	return 0
}

func (t table) float32(slot int, absent float32) float32 {
	if pos, ok := t.field(slot, flatbuffers.SizeFloat32); ok {
		return flatbuffers.GetFloat32(t.r.buf[pos:])
	}
	return absent
}

// indirect follows the offset that a field holds.
func (t table) indirect(slot int) (pos int64, ok bool) {
	pos, ok = t.field(slot, flatbuffers.SizeUOffsetT)
	if !ok {
		return 0, false
	}
	return pos + int64(flatbuffers.GetUOffsetT(t.r.buf[pos:])), true
}

// table returns a table that is a field, or the zero table.
func (t table) table(slot int) table {
	if pos, ok := t.indirect(slot); ok {
		return t.r.table(pos)
	}
	return table{r: t.r}
}

// vector is a vector whose elements are known to lie in the file.
type vector struct {
	r   *reader
	pos int64 // of the first element
	n   int
	ok  bool // the field is there, if only with no elements
}

func (t table) vector(slot int, elementSize int64) vector {
	none := vector{r: t.r}
	pos, ok := t.indirect(slot)
	if !ok || !t.r.fits(pos, flatbuffers.SizeUOffsetT, "a vector") {
		return none
	}
	n := int64(flatbuffers.GetUOffsetT(t.r.buf[pos:]))
	pos += flatbuffers.SizeUOffsetT
	if !t.r.fits(pos, n*elementSize, "a vector") {
		return none
	}
	return vector{r: t.r, pos: pos, n: int(n), ok: true}
}

// tables returns a vector of tables.
func (t table) tables(slot int) vector { return t.vector(slot, flatbuffers.SizeUOffsetT) }

// table returns an element of a vector of tables.
func (v vector) table(i int) table {
	if v.r.err != nil || i < 0 || i >= v.n {
		return table{r: v.r}
	}
	pos := v.pos + int64(i)*flatbuffers.SizeUOffsetT
	return v.r.table(pos + int64(flatbuffers.GetUOffsetT(v.r.buf[pos:])))
}

// span returns where a vector of bytes lies in the file.
func (t table) span(slot int) span {
	v := t.vector(slot, flatbuffers.SizeByte)
	return span{offset: v.pos, size: int64(v.n)}
}

func (t table) string(slot int) string {
	v := t.vector(slot, flatbuffers.SizeByte)
	if !v.r.spend(v.n) {
		return ""
	}
	return string(v.r.buf[v.pos:][:v.n])
}

// int32s returns a copy of a vector of int32, and nil if the field is absent.
func (t table) int32s(slot int) []int32 {
	return copied(t.vector(slot, flatbuffers.SizeInt32), flatbuffers.SizeInt32, flatbuffers.GetInt32)
}

func (t table) int64s(slot int) []int64 {
	return copied(t.vector(slot, flatbuffers.SizeInt64), flatbuffers.SizeInt64, flatbuffers.GetInt64)
}

func (t table) float32s(slot int) []float32 {
	return copied(t.vector(slot, flatbuffers.SizeFloat32), flatbuffers.SizeFloat32, flatbuffers.GetFloat32)
}

func copied[T any](v vector, size int, get func([]byte) T) []T {
	if !v.ok || !v.r.spend(v.n*size) {
		return nil
	}
	out := make([]T, v.n)
	for i := range out {
		out[i] = get(v.r.buf[v.pos+int64(i*size):])
	}
	return out
}

// span is a range of a file's bytes.
type span struct{ offset, size int64 }

func (s span) end() int64 { return s.offset + s.size }

// in returns the bytes; the span must have been checked against the file.
func (s span) in(file []byte) []byte { return file[s.offset:s.end():s.end()] }
