package npy

import (
	"math/bits"
	"slices"
)

// Dtype is the type of an array's elements, as NumPy writes it: '<' for little-endian or '|' for single bytes, then b
// for booleans, i and u for integers with and without sign, f for floating-point numbers and c for pairs of them,
// then the size in bytes.
type Dtype string

// The types that can be read.
const (
	Bool       Dtype = "|b1"
	Int8       Dtype = "|i1"
	Int16      Dtype = "<i2"
	Int32      Dtype = "<i4"
	Int64      Dtype = "<i8"
	Uint8      Dtype = "|u1"
	Uint16     Dtype = "<u2"
	Uint32     Dtype = "<u4"
	Uint64     Dtype = "<u8"
	Float16    Dtype = "<f2"
	Float32    Dtype = "<f4"
	Float64    Dtype = "<f8"
	Complex64  Dtype = "<c8"
	Complex128 Dtype = "<c16"
)

var sizes = map[Dtype]int{
	Bool: 1, Int8: 1, Uint8: 1, Int16: 2, Uint16: 2, Float16: 2, Int32: 4, Uint32: 4, Float32: 4,
	Int64: 8, Uint64: 8, Float64: 8, Complex64: 8, Complex128: 16,
}

// Size returns how many bytes an element has, and 0 if the type is not one of the constants.
func (d Dtype) Size() int { return sizes[d] }

// byteSize returns how many bytes an array of a known type has. Even an empty array's dimensions must multiply within
// 63 bits.
func byteSize(d Dtype, shape []int) (int64, error) {
	total := uint64(d.Size())
	for _, n := range shape {
		hi, lo := bits.Mul64(total, uint64(max(n, 1)))
		if hi != 0 || int64(lo) < 0 {
			return 0, malformed("shape %v of %s has more than 2^63 bytes", shape, d)
		}
		total = lo
	}
	if slices.Contains(shape, 0) {
		return 0, nil
	}
	return int64(total), nil
}
