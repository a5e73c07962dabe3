package packing

import (
	"math"
	"math/bits"
)

// LeastBytes returns a lower bound of the packed bytes of this geometry: the size of the kernel's elements, in the type
// that they are packed in. It is 0 for the zero Geometry and for types of unknown size, and math.MaxUint64 where the
// product is larger.
//
// XNNPACK adds to the elements (bias, scales, padding of tiles) and leaves none out. It packs an element as it is,
// except float kernels of operators in half precision, which take half as many bytes.
func (g Geometry) LeastBytes() uint64 {
	if g.Dims == 0 {
		return 0
	}
	size := uint64(g.Family.Kernel.Size())
	if g.Family.Kernel.float() && size > 16 && g.half() {
		size = 16
	}
	for _, n := range g.Shape[:g.Dims] {
		high, low := bits.Mul64(size, uint64(max(n, 0)))
		if high != 0 {
			return math.MaxUint64
		}
		size = low
	}
	return size / 8
}

// half reports whether the operator may compute with 16 bits.
func (g Geometry) half() bool {
	halved := func(d Datatype) bool { return d.float() && d.Size() == 16 }
	return g.Flags&HalfPrecision != 0 || halved(g.Family.Input) || halved(g.Family.Output)
}

// Fits reports whether a tensor of so many bytes can be a kernel of this shape. It may be of another type than the
// kernel, which a host may convert, and be followed by bytes that may be read. The zero Geometry fits all.
func (g Geometry) Fits(size int) bool {
	if g.Dims == 0 {
		return true
	}
	rows, columns := uint64(1), uint64(max(g.Shape[g.Dims-1], 0))
	for _, n := range g.Shape[:g.Dims-1] {
		high, low := bits.Mul64(rows, uint64(max(n, 0)))
		if high != 0 {
			return false
		}
		rows = low
	}
	high, elements := bits.Mul64(rows, columns)
	if high != 0 || size < 0 || elements/4 > uint64(size) { // no type has fewer than 2 bits
		return false
	}
	const readable = 128 // at most, after a tensor: XNN_EXTRA_BYTES
	for bits := uint64(2); bits <= 64; bits *= 2 {
		// Rows of small elements may begin at bytes.
		smallest, largest := (elements*bits+7)/8, (columns*bits+7)/8*rows+readable
		if smallest <= uint64(size) && uint64(size) <= largest {
			return true
		}
	}
	return false
}
