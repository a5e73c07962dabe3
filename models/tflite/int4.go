package tflite

import (
	"math"
	"slices"

	"xpwc/xnnpack"
)

// Weights of int4 stay in 4 bits where XNNPACK has a kernel for them: two to a byte, with a scale for each output or
// for each block of a row. Those with a scale for each output are read where the file has them. Those in blocks get 8
// added: XNNPACK of 2024 takes no others. Elsewhere weights of int4 are widened.

// packs4Bits reports whether XNNPACK reads the elements where the file has them: its rows begin with a byte.
func (c *constant) packs4Bits() bool {
	return c.stored == typeInt4 && c.dtype == typeInt8 && c.scatter == nil && c.order == nil && c.data == nil &&
		c.shape[len(c.shape)-1]%2 == 0
}

// packsBlocks reports whether XNNPACK has blocks of this size, with these scales.
func (c *constant) packsBlocks() bool {
	q := &c.quant
	valid := func(scale float32) bool { return scale > 0 && scale <= math.MaxFloat32 }
	return q.block%xnnpack.MinBlockSize == 0 && len(q.scales) == c.size/q.block &&
		!slices.ContainsFunc(q.scales, func(scale float32) bool { return !valid(scale) })
}

// packsRows reports whether the XNNPACK in use multiplies rows by the weights in 4 bits without a known defect.
func (c *constant) packsRows(rows int) bool {
	input := xnnpack.Tensor{Type: xnnpack.DynamicQInt8, Shape: []int{rows, c.shape[1]}}
	return xnnpack.FullyConnectedDefect(input, c.fourBits()) == nil
}

// inFourBits is the same constant in 4 bits.
func (c *constant) inFourBits() *constant {
	return c.derived(c.name+", in 4 bits", func(k *constant) {
		k.dtype, k.size = typeInt4, c.size/2
		if c.quant.block == 0 {
			return
		}
		k.dtype, k.quant.bfloats = typeUint4, make([]uint16, len(c.quant.scales))
		for i, scale := range c.quant.scales {
			k.quant.bfloats[i] = bfloat16(scale)
		}
	})
}

// inHalfBytes reports whether XNNPACK sees two elements in each byte.
func (c *constant) inHalfBytes() bool { return c.dtype == typeInt4 || c.dtype == typeUint4 }

// fourBits describes a constant that is in 4 bits.
func (c *constant) fourBits() xnnpack.Tensor {
	out := xnnpack.Tensor{Name: c.name, Type: xnnpack.ChannelQInt4, Shape: c.shape,
		Quantization: xnnpack.Quantization{Scales: c.quant.scales}}
	if c.quant.block > 0 {
		out.Type = xnnpack.BlockQInt4
		out.Quantization = xnnpack.Quantization{ZeroPoint: 8, BlockSize: c.quant.block, BlockScales: c.quant.bfloats}
	}
	return out
}

// bfloat16 rounds as XNNPACK rounds scales in half precision: to the nearest, of two to the even one.
func bfloat16(f float32) uint16 {
	bits := math.Float32bits(f)
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}
