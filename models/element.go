package models

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"xpwc/xnnpack"
)

// An Element is the type of a value's numbers as programs give and take them.
type Element int

// The elements. Those without a comment are Go's type of that name.
const (
	Float32  Element = iota + 1
	Float64          // only of inputs, see [Value.Declared]; so are Int16, Int64 and Bool
	Float16          // IEEE 754 half precision
	BFloat16         // the upper half of a Float32
	Int8
	Uint8
	Int16
	Int32
	Int64
	Bool // one byte, 0 or 1
)

// elements are the names and the sizes in bytes.
var elements = [...]struct {
	name string
	size int
}{
	Float32: {"float32", 4}, Float64: {"float64", 8}, Float16: {"float16", 2}, BFloat16: {"bfloat16", 2},
	Int8: {"int8", 1}, Uint8: {"uint8", 1}, Int16: {"int16", 2}, Int32: {"int32", 4}, Int64: {"int64", 8},
	Bool: {"bool", 1},
}

// String returns the name, which is Go's or, of half precision, the usual one.
func (e Element) String() string {
	if e.Size() == 0 {
		return fmt.Sprintf("element %d", int(e))
	}
	return elements[e].name
}

// Size returns how many bytes a number has, and 0 if e is none of the constants.
func (e Element) Size() int {
	if e < 0 || int(e) >= len(elements) {
		return 0
	}
	return elements[e].size
}

// stored are the elements of the types that XNNPACK computes from and to.
var stored = map[xnnpack.Datatype]Element{
	xnnpack.Float32: Float32, xnnpack.Float16: Float16, xnnpack.BFloat16: BFloat16, xnnpack.QInt8: Int8,
	xnnpack.QUint8: Uint8, xnnpack.Int32: Int32, xnnpack.QInt32: Int32,
}

// widened read one number of an element that single precision is made of, see [Value.Declared].
var widened = map[Element]func(b []byte) float32{
	Float64: func(b []byte) float32 { return float32(math.Float64frombits(binary.LittleEndian.Uint64(b))) },
	Int8:    func(b []byte) float32 { return float32(int8(b[0])) },
	Uint8:   func(b []byte) float32 { return float32(b[0]) },
	Int16:   func(b []byte) float32 { return float32(int16(binary.LittleEndian.Uint16(b))) },
	Int32:   func(b []byte) float32 { return float32(int32(binary.LittleEndian.Uint32(b))) },
	Int64:   func(b []byte) float32 { return float32(int64(binary.LittleEndian.Uint64(b))) },
	Bool: func(b []byte) float32 {
		if b[0] != 0 {
			return 1
		}
		return 0
	},
}

// Widens reports whether numbers of e can be given as single precision.
func (e Element) Widens() bool { return widened[e] != nil }

// Widen converts src, numbers of an element that Widens, to single precision in dst. Both are little-endian. The error
// says if src is not whole, or dst too short for it.
func (e Element) Widen(dst, src []byte) error {
	read, size := widened[e], e.Size()
	if read == nil || len(src)%size != 0 || len(dst)/4 < len(src)/size {
		return fmt.Errorf("%d bytes of %v for %d of %v", len(src), e, len(dst), Float32)
	}
	for i := range len(src) / size {
		binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(read(src[size*i:])))
	}
	return nil
}

// ErrElement is matched by the error of [CheckElements].
var ErrElement = errors.New("inputs and outputs of this type are not supported")

// CheckElements fails if a model has an input or an output whose numbers are no [Element]. The error matches
// [ErrElement] and names the value.
func CheckElements(m Model) error {
	for _, v := range slices.Concat(m.Inputs(), m.Outputs()) {
		if v.Element() == 0 {
			return fmt.Errorf("%q is %v: %w", v.Name, v.Type, ErrElement)
		}
	}
	return nil
}
