package main

// #include "host.h"
import "C"

import (
	"fmt"
	"math"
	"math/bits"
	"unsafe"

	"xpwc/packing"
)

var operators = map[C.uint32_t]packing.Operator{
	C.XPWC_OPERATOR_FULLY_CONNECTED:          packing.FullyConnected,
	C.XPWC_OPERATOR_CONVOLUTION_2D:           packing.Convolution2D,
	C.XPWC_OPERATOR_DEPTHWISE_CONVOLUTION_2D: packing.DepthwiseConvolution2D,
	C.XPWC_OPERATOR_DECONVOLUTION_2D:         packing.Deconvolution2D,
	C.XPWC_OPERATOR_BATCH_MATRIX_MULTIPLY:    packing.BatchMatrixMultiply,
}

var packingFlags = []struct {
	host C.uint32_t
	flag packing.Flags
}{
	{C.XPWC_PACKING_TRANSPOSED, packing.Transposed},
	{C.XPWC_PACKING_PADDED, packing.Padded},
	{C.XPWC_PACKING_HALF_PRECISION, packing.HalfPrecision},
	{C.XPWC_PACKING_SPARSE_INFERENCE, packing.SparseInference},
	{C.XPWC_PACKING_CONSISTENT_ARITHMETIC, packing.ConsistentArithmetic},
}

// packingOf returns the identity that the host describes. It refers to the host's memory. An error names the member
// that makes no sense.
func packingOf(p *C.struct_xpwc_packing) (packing.Identity, error) {
	if p.operator_type == 0 {
		return opaqueOf(p)
	}
	id := packing.Identity{
		Operator: operators[p.operator_type],
		Groups:   int(p.groups),
		Stride:   packing.Size{Height: max(int(p.stride_height), 1), Width: max(int(p.stride_width), 1)},
		Dilation: packing.Size{Height: max(int(p.dilation_height), 1), Width: max(int(p.dilation_width), 1)},
	}
	if id.Operator == 0 {
		return id, invalid("operator_type is %d", p.operator_type)
	}
	if p.opaque != nil || p.opaque_size > 0 {
		return id, invalid("opaque is set, and operator_type too")
	}
	unknown := p.flags
	for _, known := range packingFlags {
		if p.flags&known.host != 0 {
			id.Flags |= known.flag
			unknown &^= known.host
		}
	}
	if unknown != 0 {
		return id, invalid("flags: %#x are unknown", unknown)
	}
	elements, err := readDims(&id, p)
	if err != nil {
		return id, err
	}
	for _, o := range []struct {
		name     string
		from     *C.struct_xpwc_operand
		to       *packing.Operand
		optional bool
	}{
		{"input", &p.input, &id.Input, false},
		{"kernel", &p.kernel, &id.Kernel, false},
		{"bias", &p.bias, &id.Bias, true},
		{"output", &p.output, &id.Output, false},
	} {
		if o.from.datatype == 0 && !o.optional {
			return id, invalid("%s.datatype is 0", o.name)
		}
		if err := readOperand(o.name, o.to, o.from, elements); err != nil {
			return id, err
		}
	}
	if err := checkScales(&id, elements); err != nil {
		return id, err
	}
	return id, readHiddenBias(&id, p)
}

func opaqueOf(p *C.struct_xpwc_packing) (packing.Identity, error) {
	rest := *p
	rest.struct_size, rest.opaque, rest.opaque_size = 0, nil, 0
	if p.opaque_size == 0 || rest != (C.struct_xpwc_packing{}) {
		return packing.Identity{}, invalid("operator_type is 0, without opaque or with other members")
	}
	b, err := hostBytes(p.opaque, p.opaque_size)
	if err != nil {
		return packing.Identity{}, fmt.Errorf("opaque: %w", err)
	}
	return packing.Opaque(b), nil
}

// readDims returns the number of the kernel's elements.
func readDims(id *packing.Identity, p *C.struct_xpwc_packing) (elements uint64, err error) {
	if p.dim_count == 0 || p.dim_count > packing.MaxDims {
		return 0, invalid("dim_count is %d, not 1 to %d", p.dim_count, packing.MaxDims)
	}
	dims, err := hostNumbers[C.size_t]("", "dims", unsafe.Pointer(p.dims), C.size_t(p.dim_count), packing.MaxDims)
	if err != nil {
		return 0, err
	}
	id.Shape = make([]int, 0, len(dims))
	elements = 1
	for i, n := range dims {
		high, low := bits.Mul64(elements, uint64(n))
		if n == 0 || high != 0 || low > math.MaxInt {
			return 0, invalid("dims[%d] is %d", i, n)
		}
		elements = low
		id.Shape = append(id.Shape, int(n))
	}
	return elements, nil
}

func readOperand(name string, to *packing.Operand, from *C.struct_xpwc_operand, elements uint64) (err error) {
	if from.datatype > math.MaxUint8 {
		return invalid("%s.datatype is %d", name, from.datatype)
	}
	*to = packing.Operand{Type: packing.Datatype(from.datatype), Quantization: packing.Quantization{
		Scale:        float32(from.scale),
		ZeroPoint:    int32(from.zero_point),
		ChannelDim:   int(from.channel_dim),
		BlockSize:    int(from.block_size),
		NonBatchDims: int(from.non_batch_dims),
	}}
	to.Scales, err = hostNumbers[float32](name, ".scales", unsafe.Pointer(from.scales), from.scale_count, elements)
	if err != nil {
		return err
	}
	blocks := unsafe.Pointer(from.block_scales)
	to.BlockScales, err = hostNumbers[uint16](name, ".block_scales", blocks, from.block_scale_count, elements)
	return err
}

// checkScales returns an error if the kernel's type needs more scales than there are.
func checkScales(id *packing.Identity, elements uint64) error {
	k := &id.Kernel
	switch {
	case !k.Type.Channelwise() && !k.Type.Blockwise():
	case k.ChannelDim >= len(id.Shape):
		return invalid("kernel.channel_dim is %d, dim_count %d", k.ChannelDim, len(id.Shape))
	case k.Type.Channelwise() && len(k.Scales) < id.Shape[k.ChannelDim]:
		return invalid("kernel.scale_count is %d, dims[%d] %d", len(k.Scales), k.ChannelDim, id.Shape[k.ChannelDim])
	case k.Type.Blockwise() && k.BlockSize == 0:
		return invalid("kernel.block_size is 0")
	case k.Type.Blockwise() && uint64(len(k.BlockScales)) < elements/uint64(k.BlockSize):
		return invalid("kernel.block_scale_count is %d, %d elements have blocks of %d",
			len(k.BlockScales), elements, k.BlockSize)
	}
	return nil
}

func readHiddenBias(id *packing.Identity, p *C.struct_xpwc_packing) error {
	switch {
	case p.hidden_bias_size > 0:
		bias, err := hostBytes(p.hidden_bias, p.hidden_bias_size)
		if err != nil {
			return fmt.Errorf("hidden_bias: %w", err)
		}
		id.HiddenBias = bias
	case id.Input.Type.Dynamic() && id.Bias.Type != 0:
		return invalid("hidden_bias is empty: a bias is packed in where input.datatype is %s", id.Input.Type)
	}
	return nil
}

// hostNumbers views numbers of the host, not more than most. of and member are their name.
func hostNumbers[T float32 | uint16 | C.size_t](
	of, member string, data unsafe.Pointer, n C.size_t, most uint64,
) ([]T, error) {
	var number T
	switch {
	case n == 0:
		return nil, nil
	case data == nil:
		return nil, invalid("%s%s is no address, its count %d", of, member, n)
	case uintptr(data)%unsafe.Alignof(number) != 0:
		return nil, invalid("%s%s is not aligned", of, member)
	case uint64(n) > most:
		return nil, invalid("%s%s: their count is %d, %d at most", of, member, n, most)
	case uint64(n) > (math.MaxUint-uint64(uintptr(data)))/uint64(unsafe.Sizeof(number)):
		return nil, invalid("%s%s: their count is %d", of, member, n)
	}
	return unsafe.Slice((*T)(data), n), nil
}
