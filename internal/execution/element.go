package execution

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"

	"xpwc/internal/instance"
	"xpwc/internal/operators"
	"xpwc/models"
	"xpwc/models/safetensors"
)

// An Element is the type of an input's or an output's numbers, as a file has them, little-endian. NumPy calls all of
// them except bfloat16 as its String does.
type Element struct {
	models.Element
	Dtype     safetensors.Dtype // in a .npy
	Extension string            // of a file that has nothing else
}

// Text writes the number that b begins with.
func (e *Element) Text(b []byte) string {
	number := operators.Array{Element: e.Element, Data: b}
	switch e.Element {
	case models.Float32, models.Float64, models.Float16:
		return fmt.Sprintf("%.5g", number.Number(0))
	case models.BFloat16:
		return fmt.Sprintf("%.5g", math.Float32frombits(uint32(binary.LittleEndian.Uint16(b))<<16))
	case models.Bool:
		return strconv.FormatBool(b[0] != 0)
	}
	return strconv.FormatInt(number.Whole(0), 10)
}

// hashOf is Knuth's multiplicative hash of an index.
func hashOf(i int) uint32 { return uint32(i) * 2654435761 }

// fraction maps a hash to a number from 0 to 1.
func fraction(hash uint32) float32 { return float32(hash) / (1 << 32) }

// put writes the number that a hash stands for to where b begins.
func (e *Element) put(b []byte, hash uint32) {
	number := operators.Array{Element: e.Element, Data: b}
	switch e.Element {
	case models.Float32, models.Float64:
		number.Put(0, float64(fraction(hash)))
	case models.Float16: // which has 11 bits exactly
		number.Put(0, float64(hash>>21)/(1<<11))
	case models.BFloat16:
		binary.LittleEndian.PutUint16(b, uint16(math.Float32bits(fraction(hash))>>16))
	case models.Bool:
		number.Put(0, float64(hash>>31))
	case models.Int32, models.Int64: // 0 or 1, which are ids of any vocabulary, types of tokens, and a mask
		number.Put(0, float64(hash>>31))
	default:
		number.Put(0, float64(hash>>24))
	}
}

var elements = []*Element{
	{models.Float32, safetensors.F32, "f32"}, {models.Float64, safetensors.F64, "f64"},
	{models.Float16, safetensors.F16, "f16"}, {models.BFloat16, safetensors.BF16, "bf16"},
	{models.Int8, safetensors.I8, "i8"}, {models.Uint8, safetensors.U8, "u8"}, {models.Bool, safetensors.Bool, "bool"},
	{models.Int16, safetensors.I16, "i16"}, {models.Int32, safetensors.I32, "i32"},
	{models.Int64, safetensors.I64, "i64"},
}

// ElementOf returns the element of an input or an output.
func ElementOf(v models.Value) *Element {
	return elements[slices.IndexFunc(elements, func(e *Element) bool { return e.Element == v.Element() })]
}

// FillKnuth gives the inputs of an instance numbers made of h = uint32(i*2654435761), Knuth's multiplicative hash of
// the index: floats are h/2^32 (in half precision the first 11 bits of it), integers of up to 16 bits the 8 bits h>>24,
// which are negative as int8 from 128 on, and longer ones and booleans its uppermost bit.
func FillKnuth(e *instance.Instance) error {
	for k, v := range e.Model.Inputs() {
		element, content := ElementOf(v), make([]byte, e.InputBytes(k))
		size := element.Size()
		for i := range len(content) / size {
			element.put(content[i*size:], hashOf(i))
		}
		if err := e.Give(k, content); err != nil {
			return err
		}
	}
	return nil
}
