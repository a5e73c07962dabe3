package safetensors

import (
	"fmt"

	"xpwc/internal/tensorfile"
)

// Dtype is the type of a tensor's elements, by the format's own name for it.
type Dtype string

// The types whose numbers are of whole bytes that Go or XNNPACK has.
const (
	Bool Dtype = "BOOL" // a byte each
	U8   Dtype = "U8"
	I8   Dtype = "I8"
	I16  Dtype = "I16"
	U16  Dtype = "U16"
	F16  Dtype = "F16"
	BF16 Dtype = "BF16"
	I32  Dtype = "I32"
	U32  Dtype = "U32"
	F32  Dtype = "F32"
	C64  Dtype = "C64" // two F32
	F64  Dtype = "F64"
	I64  Dtype = "I64"
	U64  Dtype = "U64"
)

// bitsOf has all types that the reference implementation 0.8 knows. Those of less than a byte are packed without gaps.
var bitsOf = map[Dtype]int{
	"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
	Bool: 8, U8: 8, I8: 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
	I16: 16, U16: 16, F16: 16, BF16: 16, I32: 32, U32: 32, F32: 32, C64: 64, F64: 64, I64: 64, U64: 64,
}

// Bits returns how many bits an element has, and 0 if the format has no such type.
func (d Dtype) Bits() int { return bitsOf[d] }

// alignment is what addresses of elements must be a multiple of.
func (d Dtype) alignment() int64 {
	if d == C64 {
		return 4
	}
	return int64(max(d.Bits()/8, 1))
}

// byteSize returns how many bytes a tensor has.
func byteSize(d Dtype, shape []int) (int64, error) {
	if d.Bits() == 0 {
		return 0, fmt.Errorf("unknown dtype %q", string(d))
	}
	return tensorfile.ByteSize(shape, d.Bits())
}
