package executorch

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"xpwc"
	"xpwc/internal/fault"
	"xpwc/internal/flatbuf"
	"xpwc/internal/flow"
	"xpwc/internal/mapped"
	"xpwc/internal/operators"
	"xpwc/internal/tensorfile"
	"xpwc/models"
	"xpwc/xnnpack"
)

// ids are values of a plan.
type ids = flow.IDs

// array is a tensor that Go computes with.
type array = operators.Array

// Tensor implements [flow.Values].
func (p *plan) Tensor(id xnnpack.ValueID) xnnpack.Tensor {
	v := &p.values[id]
	t := v.tensor
	if v.scales != nil {
		count, size := scaleCount(&t)
		readScales(&t, p.files.inPlace(*v.scales)[:count*size]) // named data may be longer
	}
	return t
}

// Bare implements [flow.Values].
func (p *plan) Bare(id xnnpack.ValueID) xnnpack.Tensor { return p.values[id].tensor }

// Array implements [flow.Values].
func (p *plan) Array(id xnnpack.ValueID) array {
	return array{Element: p.values[id].element(), Shape: p.values[id].tensor.Shape}
}

// InGo implements [flow.Values].
func (p *plan) InGo(id xnnpack.ValueID) bool { return p.values[id].host }

// Constant implements [flow.Values].
func (p *plan) Constant(id xnnpack.ValueID) (name string, ok bool) {
	if c := p.values[id].constant; c != nil {
		return c.name, true
	}
	return "", false
}

// Content implements [flow.Values].
func (p *plan) Content(id xnnpack.ValueID) []byte {
	c, v := p.values[id].constant, &p.values[id]
	stored := c.at.In(p.files.files[c.file].data)
	if c.inFile() && !c.converts() {
		return stored
	}
	content := make([]byte, xnnpack.Elements(v.tensor.Shape)*v.element().Size())
	fault.Check(c.fill(content, stored))
	return content
}

// View implements [flow.Values].
func (p *plan) View(do func()) { viewAll(p.files.files, do) }

func viewAll(files []*File, do func()) {
	if len(files) == 0 {
		do()
	} else {
		fault.Check(files[0].read(func([]byte) { viewAll(files[1:], do) }))
	}
}

// element returns what Go has a value of the plan as, or 0.
func (v *value) element() models.Element {
	if v.host && v.dtype == ComplexFloat {
		return models.Int64 // as large; see complexOperators
	}
	if v.host {
		return declared[v.dtype]
	}
	return models.Value{Type: v.tensor.Type}.Element()
}

// readScales gives a value its scales, little-endian as they are in a file. XNNPACK keeps a pointer to them, in
// runtimes too. They are read where they are in the mapping, which outlives all runtimes, and copied only if they are
// not aligned: a large model has hundreds of megabytes of them.
func readScales(t *xnnpack.Tensor, b []byte) {
	q := &t.Quantization
	if t.Type == xnnpack.BlockQInt4 {
		q.BlockScales = numbersIn(b, binary.LittleEndian.Uint16)
	} else {
		q.Scales = numbersIn(b, func(b []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b)) })
	}
}

// numbersIn returns the numbers that b consists of, in place if possible, or else each as get reads it.
func numbersIn[T uint16 | float32](b []byte, get func([]byte) T) []T {
	if list, ok := mapped.Numbers[T](b); ok {
		return list
	}
	var numbers []T
	for size := binary.Size(T(0)); len(b) >= size; b = b[size:] {
		numbers = append(numbers, get(b))
	}
	return numbers
}

// stored is where bytes lie: in one of the program's files.
type stored struct {
	file int
	at   flatbuf.Span
}

// constant is a tensor with a content, as XNNPACK sees it.
type constant struct {
	name string // in the data map
	stored
	// Where the method converts it, from which type to which, and how many elements. Both types are 0 otherwise.
	from, to ScalarType
	elements int
	filled   float32 // every element of a constant that is in no file
}

// inFile reports whether a file has the content.
func (c *constant) inFile() bool { return c.from != c.to || c.elements == 0 }

// constant returns a content of a size. It is called what the files call it, or else by its place.
func (f *files) constant(c *content, size int64) *constant {
	location := f.find(c, size)
	name := c.name
	if name == "" {
		name = fmt.Sprintf("%s%d+%d", placed, location.at.Offset, location.at.Size)
	}
	return &constant{name: name, stored: location}
}

// convertible reports whether constants and inputs of a type are converted here to another one.
func convertible(src, dst ScalarType) bool { return declared[src].Widens() && dst == Float }

func (c *constant) converts() bool { return c.from != c.to }

// fill computes the content as XNNPACK sees it from the file's bytes.
func (c *constant) fill(dst, file []byte) error {
	if !c.inFile() {
		element := models.Value{Type: elementTypes[c.to]}.Element()
		numbers := operators.Array{Element: element, Shape: []int{c.elements}, Data: dst}
		numbers.Count(float64(c.filled), 0)
		return nil
	}
	if !c.converts() {
		copy(dst, file)
		return nil
	}
	return declared[c.from].Widen(dst, file[:c.from.Size()*c.elements])
}

// tensor returns the constant as a data map does.
func (f *files) tensor(c *constant) (xpwc.Tensor, error) {
	if !c.inFile() {
		return xpwc.Tensor{
			Size: c.to.Size() * c.elements,
			Fill: func(dst []byte) error { return c.fill(dst, nil) },
			Identity: xpwc.Identity{Stamp: c.name, Digest: func() (xpwc.Digest, error) {
				return xpwc.DigestOf([]byte(c.name)), nil
			}},
		}, nil
	}
	file := f.files[c.file]
	if !c.converts() {
		return file.tensor(c.at)
	}
	conversion := fmt.Sprintf(":%d %v as %v", c.elements, c.from, c.to)
	return tensorfile.Converted(file.file, placeOf(c.at), tensorfile.Conversion{
		Name: conversion,
		Size: 4 * c.elements,
		Fill: c.fill,
		Digest: func(stored []byte) xpwc.Digest {
			digest := xpwc.DigestOf(stored)
			return xpwc.DigestOf(append([]byte(conversion), digest[:]...))
		},
	})
}

const (
	placed    = "@"    // begins the names of constants that no file gives a name: their places
	converted = " as " // is in the names of constants that a method converts, before the type
)

// Named reports whether a tensor of a Program's data map has its name from a file, by which ExecuTorch knows it too. A
// delegate's constant in its own blob, and what a method converts, have names that this package gives them.
func Named(tensor string) bool {
	return tensor != "" && !strings.HasPrefix(tensor, placed) && !strings.Contains(tensor, converted)
}
