package npy

import (
	"fmt"
	"math/bits"
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

// Size returns how many bytes an element has, and 0 if the type is not one of the constants.
func (d Dtype) Size() int {
	switch d {
	case Bool, Int8, Uint8:
		return 1
	case Int16, Uint16, Float16:
		return 2
	case Int32, Uint32, Float32:
		return 4
	case Int64, Uint64, Float64, Complex64:
		return 8
	case Complex128:
		return 16
	}
	return 0
}

// byteSize returns how many bytes an array of a known type has. Even an empty array's dimensions must multiply within
// 63 bits.
func byteSize(d Dtype, shape []int) (int64, error) {
	total := uint64(d.Size())
	for _, n := range shape {
		hi, lo := bits.Mul64(total, uint64(max(n, 1)))
		if hi != 0 || int64(lo) < 0 {
			return 0, fmt.Errorf("shape %v of %s has more than 2^63 bytes", shape, d)
		}
		total = lo
	}
	for _, n := range shape {
		if n == 0 {
			return 0, nil
		}
	}
	return int64(total), nil
}
