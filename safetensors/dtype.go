package safetensors

import (
	"fmt"
	"math/bits"
)

// Dtype is the type of a tensor's elements, by the format's own name for it.
type Dtype string

// The types that the reference implementation 0.8 knows. Names with F8, F6 and F4 are floating-point numbers of so
// many bits, of which ExMy have x bits of exponent and y of mantissa. Those of less than a byte are packed without
// gaps.
const (
	Bool       Dtype = "BOOL" // a byte each
	F4         Dtype = "F4"
	F6E2M3     Dtype = "F6_E2M3"
	F6E3M2     Dtype = "F6_E3M2"
	U8         Dtype = "U8"
	I8         Dtype = "I8"
	F8E5M2     Dtype = "F8_E5M2"
	F8E4M3     Dtype = "F8_E4M3"
	F8E8M0     Dtype = "F8_E8M0"
	F8E4M3FNUZ Dtype = "F8_E4M3FNUZ"
	F8E5M2FNUZ Dtype = "F8_E5M2FNUZ"
	I16        Dtype = "I16"
	U16        Dtype = "U16"
	F16        Dtype = "F16"
	BF16       Dtype = "BF16"
	I32        Dtype = "I32"
	U32        Dtype = "U32"
	F32        Dtype = "F32"
	C64        Dtype = "C64" // two F32
	F64        Dtype = "F64"
	I64        Dtype = "I64"
	U64        Dtype = "U64"
)

var bitsOf = map[Dtype]int{
	F4: 4, F6E2M3: 6, F6E3M2: 6,
	Bool: 8, U8: 8, I8: 8, F8E5M2: 8, F8E4M3: 8, F8E8M0: 8, F8E4M3FNUZ: 8, F8E5M2FNUZ: 8,
	I16: 16, U16: 16, F16: 16, BF16: 16, I32: 32, U32: 32, F32: 32, C64: 64, F64: 64, I64: 64, U64: 64,
}

// Bits returns how many bits an element has, and 0 if the type is not one of the constants.
func (d Dtype) Bits() int { return bitsOf[d] }

// alignment is what addresses of elements must be a multiple of.
func (d Dtype) alignment() int64 {
	if d == C64 {
		return 4
	}
	return int64(max(d.Bits()/8, 1))
}

// byteSize returns how many bytes a tensor has. As in the reference, even an empty tensor's dimensions must multiply
// within 64 bits.
func byteSize(d Dtype, shape []int) (int64, error) {
	if d.Bits() == 0 {
		return 0, fmt.Errorf("unknown dtype %q", string(d))
	}
	total, overflow := uint64(1), uint64(0)
	times := func(n uint64) {
		hi, lo := bits.Mul64(total, n)
		total, overflow = lo, overflow|hi
	}
	for _, n := range shape {
		if n < 0 {
			return 0, fmt.Errorf("shape %v has a negative dimension", shape)
		}
		times(uint64(n))
	}
	times(uint64(d.Bits()))
	switch {
	case overflow != 0:
		return 0, fmt.Errorf("shape %v of %s has more than 2^64 bits", shape, d)
	case total%8 != 0:
		return 0, fmt.Errorf("shape %v of %s does not end at a whole byte", shape, d)
	}
	return int64(total / 8), nil
}
