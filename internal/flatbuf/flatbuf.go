// Package flatbuf reads untrusted flatbuffers: Google's library trusts its input, so every position is checked first.
// What is wrong with one is a fault (package fault).
package flatbuf

import (
	"encoding/binary"
	"iter"
	"math"

	flatbuffers "github.com/google/flatbuffers/go"

	"xpwc/internal/fault"
)

// reader gives all access to the bytes of a flatbuffer.
type reader struct {
	buf []byte
	// budget bounds what is copied out of the flatbuffer. Vectors of a hostile file may all point at the same bytes,
	// which would turn a small file into an arbitrary amount of memory; those of an honest file never hold more than
	// the file.
	budget    int
	malformed error
}

// Root returns the root table of the flatbuffer at the start of b, which has the given file identifier. Its faults are
// errors that match malformed. Positions in a flatbuffer are 31 bits wide: what lies beyond is reached only by the
// offsets that the schema gives as 64 bits, never through the table.
func Root(b []byte, identifier string, malformed error) Table {
	b = b[:min(len(b), math.MaxInt32)]
	r := &reader{buf: b, budget: len(b), malformed: malformed}
	r.check(0, flatbuffers.SizeUOffsetT+int64(len(identifier)), "the header")
	if string(r.buf[flatbuffers.SizeUOffsetT:][:len(identifier)]) != identifier {
		r.fail("no file identifier %q", identifier)
	}
	return r.table(int64(flatbuffers.GetUOffsetT(r.buf)))
}

func (r *reader) fail(format string, args ...any) { fault.Because(r.malformed, format, args...) }

// check checks that the n bytes at pos lie in the flatbuffer.
func (r *reader) check(pos, n int64, part string) {
	if pos < 0 || n < 0 || pos > int64(len(r.buf)) || n > int64(len(r.buf))-pos {
		r.fail("%s at byte %d (%d bytes) lies outside the file's %d bytes", part, pos, n, len(r.buf))
	}
}

func (r *reader) spend(n int) {
	if r.budget -= n; r.budget < 0 {
		r.fail("its vectors hold more than the file has bytes")
	}
}

// Table is a flatbuffers table whose virtual table and inline fields are known to lie in the file. The zero table has
// no fields.
type Table struct {
	r      *reader
	t      flatbuffers.Table
	inline int64 // bytes of the table itself, which no field may leave
	ok     bool
}

func (r *reader) table(pos int64) Table {
	const header = 2 * flatbuffers.SizeVOffsetT
	r.check(pos, flatbuffers.SizeSOffsetT, "a table")
	vtable := pos - int64(flatbuffers.GetSOffsetT(r.buf[pos:]))
	r.check(vtable, header, "a virtual table")
	size := int64(flatbuffers.GetVOffsetT(r.buf[vtable:]))
	inline := int64(flatbuffers.GetVOffsetT(r.buf[vtable+flatbuffers.SizeVOffsetT:]))
	if size < header || size%2 != 0 || inline < flatbuffers.SizeSOffsetT {
		r.fail("the virtual table at byte %d has %d bytes for a table of %d", vtable, size, inline)
	}
	r.check(vtable, size, "a virtual table")
	r.check(pos, inline, "a table")
	return Table{r: r, t: flatbuffers.Table{Bytes: r.buf, Pos: flatbuffers.UOffsetT(pos)}, inline: inline, ok: true}
}

// Present reports whether there is such a table: the field that would hold it is not absent.
func (t Table) Present() bool { return t.ok }

// Position returns where in the flatbuffer the table begins.
func (t Table) Position() int64 { return int64(t.t.Pos) }

// field returns the position of an inline field of the given size; ok is false if the table does not have it.
func (t Table) field(slot int, size int64) (pos int64, ok bool) {
	if !t.ok {
		return 0, false
	}
	o := int64(t.t.Offset(flatbuffers.VOffsetT(2*flatbuffers.SizeVOffsetT + slot*flatbuffers.SizeVOffsetT)))
	if o == 0 {
		return 0, false
	}
	if o < flatbuffers.SizeSOffsetT || o+size > t.inline {
		t.r.fail("field %d of the table at byte %d leaves the table", slot, t.t.Pos)
	}
	return int64(t.t.Pos) + o, true
}

// number returns the field in a slot as get reads it, and the given value if it is absent.
func number[T any](t Table, slot int, get func([]byte) T, absent T) T {
	if pos, ok := t.field(slot, int64(binary.Size(absent))); ok {
		return get(t.r.buf[pos:])
	}
	return absent
}

// Byte returns the field in a slot, counted as the schema declares fields, and 0 if it is absent.
func (t Table) Byte(slot int) byte { return number(t, slot, flatbuffers.GetByte, 0) }

// Bool returns the field in a slot, and false if it is absent.
func (t Table) Bool(slot int) bool { return t.Byte(slot) != 0 }

// Int16 returns the field in a slot, and 0 if it is absent.
func (t Table) Int16(slot int) int16 { return number(t, slot, flatbuffers.GetInt16, 0) }

// Int32 returns the field in a slot, and the given value if it is absent.
func (t Table) Int32(slot int, absent int32) int32 {
	return number(t, slot, flatbuffers.GetInt32, absent)
}

// Uint32 returns the field in a slot, and 0 if it is absent.
func (t Table) Uint32(slot int) uint32 { return number(t, slot, flatbuffers.GetUint32, 0) }

// Uint64 returns the field in a slot, and 0 if it is absent.
func (t Table) Uint64(slot int) uint64 { return number(t, slot, flatbuffers.GetUint64, 0) }

// Float32 returns the field in a slot, and the given value if it is absent.
func (t Table) Float32(slot int, absent float32) float32 {
	return number(t, slot, flatbuffers.GetFloat32, absent)
}

// Place returns where in the flatbuffer a number of 64 bits is, and false if the table does not have it.
func (t Table) Place(slot int) (position int64, ok bool) { return t.field(slot, 8) }

// indirect follows the offset that a field holds.
func (t Table) indirect(slot int) (pos int64, ok bool) {
	pos, ok = t.field(slot, flatbuffers.SizeUOffsetT)
	if !ok {
		return 0, false
	}
	return pos + int64(flatbuffers.GetUOffsetT(t.r.buf[pos:])), true
}

// Ref returns where the table, vector or string that is a field begins. It reports false if the field is absent.
func (t Table) Ref(slot int) (Ref, bool) {
	pos, ok := t.indirect(slot)
	return Ref(pos), ok
}

// Table returns a table that is a field, or the zero table.
func (t Table) Table(slot int) Table {
	if pos, ok := t.indirect(slot); ok {
		return t.r.table(pos)
	}
	return Table{r: t.r}
}

// Vector is a vector whose elements are known to lie in the file.
type Vector struct {
	r   *reader
	pos int64 // of the first element
	n   int
	ok  bool // the field is there, if only with no elements
}

// Vector returns a vector whose elements have that many bytes; an absent one has none.
func (t Table) Vector(slot int, elementSize int64) Vector {
	pos, ok := t.indirect(slot)
	if !ok {
		return Vector{r: t.r}
	}
	t.r.check(pos, flatbuffers.SizeUOffsetT, "a vector")
	n := int64(flatbuffers.GetUOffsetT(t.r.buf[pos:]))
	pos += flatbuffers.SizeUOffsetT
	t.r.check(pos, n*elementSize, "a vector")
	return Vector{r: t.r, pos: pos, n: int(n), ok: true}
}

// Len returns how many elements the vector has.
func (v Vector) Len() int { return v.n }

// Present reports whether the field is there, if only with no elements.
func (v Vector) Present() bool { return v.ok }

// Tables returns a vector of tables.
func (t Table) Tables(slot int) Vector { return t.Vector(slot, flatbuffers.SizeUOffsetT) }

// Table returns an element of a vector of tables, or the zero table if it has not so many.
func (v Vector) Table(i int) Table {
	if i < 0 || i >= v.n {
		return Table{r: v.r}
	}
	pos := v.pos + int64(i)*flatbuffers.SizeUOffsetT
	return v.r.table(pos + int64(flatbuffers.GetUOffsetT(v.r.buf[pos:])))
}

// All yields the elements of a vector of tables with their numbers.
func (v Vector) All() iter.Seq2[int, Table] {
	return func(yield func(int, Table) bool) {
		for i := 0; i < v.n && yield(i, v.Table(i)); i++ {
		}
	}
}

// Span returns where a vector of bytes lies in the file.
func (t Table) Span(slot int) Span {
	v := t.Vector(slot, flatbuffers.SizeByte)
	return Span{Offset: v.pos, Size: int64(v.n)}
}

// String returns a copy of a string, and "" if the field is absent.
func (t Table) String(slot int) string {
	v := t.Vector(slot, flatbuffers.SizeByte)
	v.r.spend(v.n)
	return string(v.r.buf[v.pos:][:v.n])
}

// Int32s returns a copy of a vector of int32, and nil if the field is absent.
func (t Table) Int32s(slot int) []int32 { return numbers[int32](t, slot) }

// Uint32s returns such a copy.
func (t Table) Uint32s(slot int) []uint32 { return numbers[uint32](t, slot) }

// Uint64s returns such a copy.
func (t Table) Uint64s(slot int) []uint64 { return numbers[uint64](t, slot) }

// Int64s returns such a copy.
func (t Table) Int64s(slot int) []int64 { return numbers[int64](t, slot) }

// Float32s returns such a copy.
func (t Table) Float32s(slot int) []float32 { return numbers[float32](t, slot) }

// numbers returns a copy of a vector of numbers. A language model has some 100,000 scales in each signature.
func numbers[T int32 | uint32 | int64 | uint64 | float32](t Table, slot int) []T {
	var number T
	size := binary.Size(number)
	v := t.Vector(slot, int64(size))
	out := space[T](v, size)
	if len(out) > 0 {
		_, _ = binary.Decode(v.r.buf[v.pos:], binary.LittleEndian, out) // it fails for other types only
	}
	return out
}

// Copied returns a copy of a vector whose elements have that size, each as get reads it, and nil if the field is
// absent.
func Copied[T any](v Vector, size int, get func([]byte) T) []T {
	out := space[T](v, size)
	for i := range out {
		out[i] = get(v.r.buf[v.pos+int64(i*size):])
	}
	return out
}

// space returns room for a copy of a vector, and nil if the field is absent.
func space[T any](v Vector, size int) []T {
	if !v.ok {
		return nil
	}
	v.r.spend(v.n * size)
	return make([]T, v.n)
}

// Span is a range of a file's bytes.
type Span struct{ Offset, Size int64 }

// End returns the position after the last byte.
func (s Span) End() int64 { return s.Offset + s.Size }

// In returns the bytes; the span must have been checked against the file.
func (s Span) In(file []byte) []byte { return file[s.Offset:s.End():s.End()] }
