package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"xpwc/internal/mapped"
	"xpwc/internal/tensorfile"
)

// errMalformed is matched by the error of a file that is no GGUF, or not a whole one.
var errMalformed = errors.New("malformed GGUF file")

// A gguf is a mapped file of the format's version 2 or 3, little-endian.
type gguf struct {
	file     *mapped.File
	metadata map[string]value
	tensors  map[string]tensor
}

// A value is one of the metadata as it lies in the file. Most are never asked for.
type value struct {
	kind  valueKind // of the elements
	count int       // of the elements
	raw   []byte
}

type valueKind uint32

// The kinds of values that are asked for.
const (
	kindUint32  valueKind = 4
	kindFloat32 valueKind = 6
	kindString  valueKind = 8
	kindArray   valueKind = 9
)

// valueSizes has the sizes of all kinds; 0 is a string's and an array's.
var valueSizes = [...]int{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8}

// A tensor lies in the file row by row.
type tensor struct {
	name          string
	kind          tensorKind
	rows, columns int
	place         tensorfile.Place
}

type tensorKind uint32

const (
	kindF32  tensorKind = 0
	kindQ4_1 tensorKind = 3
	kindQ8_0 tensorKind = 8
)

// blocks has the kinds that are read: how many elements share a block, and the block's size in bytes.
var blocks = map[tensorKind]struct{ elements, bytes int }{kindF32: {1, 4}, kindQ4_1: {32, 20}, kindQ8_0: {32, 34}}

// openGGUF maps a file and checks everything in it. The caller closes its file.
func openGGUF(path string) (*gguf, error) {
	file, err := mapped.Open(path)
	if err != nil {
		return nil, err
	}
	g := &gguf{file: file}
	if err := g.parse(file.Data()); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w: %w", path, errMalformed, err), file.Close())
	}
	return g, nil
}

// alignment is that of the tensors.
const alignment = 32

func (g *gguf) parse(b []byte) error {
	r := &reader{rest: b}
	if string(r.take(4)) != "GGUF" {
		return errors.New("it does not begin with GGUF")
	}
	if version := r.uint32(); version != 2 && version != 3 {
		return fmt.Errorf("its version is %d, and only 2 and 3 are read", version)
	}
	tensors, values := r.count(), r.count()
	if r.err != nil {
		return r.err
	}
	g.metadata, g.tensors = map[string]value{}, map[string]tensor{}
	for range values {
		name := string(r.string())
		g.metadata[name] = r.value()
		if r.err != nil {
			return fmt.Errorf("metadata: %w", r.err)
		}
	}
	if n, err := g.number("general.alignment"); err == nil && n != alignment {
		return fmt.Errorf("its alignment is %g, and only %d is read", n, alignment)
	}
	for range tensors {
		t, err := r.tensor()
		if err != nil {
			return fmt.Errorf("tensor %q: %w", t.name, err)
		}
		g.tensors[t.name] = t
	}
	begin := (int64(len(b)-len(r.rest)) + alignment - 1) / alignment * alignment
	for name, t := range g.tensors {
		size := int64(len(b))
		if t.place.Offset > size-begin || t.place.Size > size-begin-t.place.Offset {
			return fmt.Errorf("tensor %q lies beyond the file's end", name)
		}
		t.place.Offset += begin
		g.tensors[name] = t
	}
	return nil
}

// number returns one of the metadata that is a uint32 or a float32.
func (g *gguf) number(name string) (float64, error) {
	v := g.metadata[name]
	switch {
	case v.count == 1 && v.kind == kindUint32:
		return float64(binary.LittleEndian.Uint32(v.raw)), nil
	case v.count == 1 && v.kind == kindFloat32:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(v.raw))), nil
	}
	return 0, fmt.Errorf("%w: the metadata have no number %s", errMalformed, name)
}

// strings returns an array's strings. They are parts of one copy.
func (g *gguf) strings(name string) ([]string, error) {
	v, ok := g.metadata[name]
	if !ok || v.kind != kindString {
		return nil, fmt.Errorf("%w: the metadata have no strings %s", errMalformed, name)
	}
	text, r := string(v.raw), &reader{rest: v.raw}
	values := make([]string, v.count)
	for i := range values {
		n := len(r.string())
		end := len(text) - len(r.rest)
		values[i] = text[end-n : end]
	}
	return values, nil
}

// tensor returns one of a name and a shape.
func (g *gguf) tensor(name string, rows, columns int) (tensor, error) {
	t := g.tensors[name]
	if t.rows != rows || t.columns != columns {
		return t, fmt.Errorf("%w: there is no tensor %q of %d by %d", errMalformed, name, rows, columns)
	}
	return t, nil
}

// A reader takes what a file begins with. After an error it takes zeros.
type reader struct {
	rest []byte
	err  error
}

func (r *reader) take(n uint64) []byte {
	if n > uint64(len(r.rest)) {
		r.err = errors.New("it ends too early")
		r.rest = nil
		return nil
	}
	head := r.rest[:n:n]
	r.rest = r.rest[n:]
	return head
}

func (r *reader) uint32() uint32 { return uint32(r.number(4)) }

func (r *reader) uint64() uint64 { return r.number(8) }

func (r *reader) number(size uint64) uint64 {
	var b [8]byte
	copy(b[:], r.take(size))
	return binary.LittleEndian.Uint64(b[:])
}

func (r *reader) string() []byte { return r.take(r.uint64()) }

// count takes the number of things that are to come, each of which takes a byte at least.
func (r *reader) count() int {
	n := r.uint64()
	if n > uint64(len(r.rest)) {
		r.err = fmt.Errorf("it cannot have %d of what is to come", n)
		return 0
	}
	return int(n)
}

// value takes a value, or an array of values that are no arrays.
func (r *reader) value() value {
	kind, n := valueKind(r.uint32()), 1
	if kind == kindArray {
		kind, n = valueKind(r.uint32()), r.count()
	}
	begin := r.rest
	switch {
	case int(kind) >= len(valueSizes) || kind == kindArray:
		r.err = fmt.Errorf("a value's type is number %d", kind)
	case kind == kindString:
		for i := 0; i < n && r.err == nil; i++ {
			r.string()
		}
	default:
		r.take(uint64(n) * uint64(valueSizes[kind]))
	}
	return value{kind, n, begin[:len(begin)-len(r.rest)]}
}

// maxDimension keeps products of two dimensions and a few factors within an int.
const maxDimension = 1 << 28

// tensor takes a tensor's description. Its offset counts from where the first tensor begins.
func (r *reader) tensor() (tensor, error) {
	t := tensor{name: string(r.string()), rows: 1, columns: 1}
	dimensions := r.uint32()
	if dimensions > 2 {
		return t, fmt.Errorf("it has %d dimensions, and at most 2 are read", dimensions)
	}
	for _, dst := range []*int{&t.columns, &t.rows}[:dimensions] {
		n := r.uint64()
		if n == 0 || n > maxDimension {
			return t, fmt.Errorf("a dimension is %d", n)
		}
		*dst = int(n)
	}
	t.kind = tensorKind(r.uint32())
	offset := r.uint64()
	if r.err != nil {
		return t, r.err
	}
	block, ok := blocks[t.kind]
	if !ok {
		return t, fmt.Errorf("its type is number %d, and only F32, Q4_1 and Q8_0 are read", t.kind)
	}
	if t.columns%block.elements != 0 || offset > math.MaxInt64 {
		return t, fmt.Errorf("%d columns in blocks of %d at %d", t.columns, block.elements, offset)
	}
	size := int64(t.rows) * int64(t.columns/block.elements*block.bytes)
	t.place = tensorfile.Place{Offset: int64(offset), Size: size, Alignment: 4}
	return t, nil
}
