package main

// #include "host.h"
import "C"

import (
	"fmt"
	"math"
	"math/bits"
	"strings"
	"unsafe"

	"xpwc/xnnpack/packing"
)

// Operators and flags have the same numbers as in package packing: this does not compile if the last ones differ.
var (
	_ [packing.BatchMatrixMultiply]byte  = [C.XPWC_OPERATOR_BATCH_MATRIX_MULTIPLY]byte{}
	_ [packing.ConsistentArithmetic]byte = [C.XPWC_PACKING_CONSISTENT_ARITHMETIC]byte{}
)

// packingOf returns the identity of a host's packing. It refers to the host's memory. An error names the invalid
// member.
func packingOf(p *C.struct_xpwc_packing) (packing.Identity, error) {
	if p.operator_type == 0 {
		return opaqueOf(p)
	}
	id := packing.Identity{
		Operator: packing.Operator(p.operator_type),
		Flags:    packing.Flags(p.flags),
		Groups:   int(p.groups),
		Stride:   packing.Size{Height: max(int(p.stride_height), 1), Width: max(int(p.stride_width), 1)},
		Dilation: packing.Size{Height: max(int(p.dilation_height), 1), Width: max(int(p.dilation_width), 1)},
	}
	const knownFlags = C.XPWC_PACKING_CONSISTENT_ARITHMETIC<<1 - 1
	switch {
	case p.operator_type > C.XPWC_OPERATOR_BATCH_MATRIX_MULTIPLY:
		return id, invalid("operator_type is %d", p.operator_type)
	case p.opaque != nil || p.opaque_size > 0:
		return id, invalid("opaque is set, and operator_type too")
	case p.flags&^knownFlags != 0:
		return id, invalid("flags: %#x are unknown", p.flags&^knownFlags)
	}
	elements, err := readDims(&id, p)
	if err != nil {
		return id, err
	}
	for _, o := range []struct {
		name     string
		src      *C.struct_xpwc_operand
		dst      *packing.Operand
		optional bool
	}{
		{"input", &p.input, &id.Input, false},
		{"kernel", &p.kernel, &id.Kernel, false},
		{"bias", &p.bias, &id.Bias, true},
		{"output", &p.output, &id.Output, false},
	} {
		if o.src.datatype == 0 && !o.optional {
			return id, invalid("%s.datatype is 0", o.name)
		}
		if err := readOperand(o.name, o.dst, o.src, elements); err != nil {
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
	b, err := hostMemory[byte](p.opaque, p.opaque_size, math.MaxInt, "opaque")
	return packing.Opaque(b), err
}

// readDims returns the number of the kernel's elements.
func readDims(id *packing.Identity, p *C.struct_xpwc_packing) (elements uint64, err error) {
	if p.dim_count == 0 || p.dim_count > packing.MaxDims {
		return 0, invalid("dim_count is %d, not 1 to %d", p.dim_count, packing.MaxDims)
	}
	dims, err := hostMemory[C.size_t](unsafe.Pointer(p.dims), C.size_t(p.dim_count), packing.MaxDims, "dims")
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

func readOperand(name string, dst *packing.Operand, src *C.struct_xpwc_operand, elements uint64) (err error) {
	if src.datatype > math.MaxUint8 {
		return invalid("%s.datatype is %d", name, src.datatype)
	}
	*dst = packing.Operand{Type: packing.Datatype(src.datatype), Quantization: packing.Quantization{
		Scale:        float32(src.scale),
		ZeroPoint:    int32(src.zero_point),
		ChannelDim:   int(src.channel_dim),
		BlockSize:    int(src.block_size),
		NonBatchDims: int(src.non_batch_dims),
	}}
	scales, blocks := unsafe.Pointer(src.scales), unsafe.Pointer(src.block_scales)
	dst.Scales, err = hostMemory[float32](scales, src.scale_count, elements, name, ".scales")
	if err != nil {
		return err
	}
	dst.BlockScales, err = hostMemory[uint16](blocks, src.block_scale_count, elements, name, ".block_scales")
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

func readHiddenBias(id *packing.Identity, p *C.struct_xpwc_packing) (err error) {
	if p.hidden_bias_size == 0 {
		if id.Input.Type.Dynamic() && id.Bias.Type != 0 {
			return invalid("hidden_bias is empty: a bias is packed in where input.datatype is %s", id.Input.Type)
		}
		return nil // not empty: that is another identity
	}
	id.HiddenBias, err = hostMemory[byte](p.hidden_bias, p.hidden_bias_size, math.MaxInt, "hidden_bias")
	return err
}

// hostMemory returns a view of n elements in the host's memory, at most limit. For n = 0 it is empty, not nil. name is
// the member's name in errors.
func hostMemory[T byte | float32 | uint16 | C.size_t](
	data unsafe.Pointer, n C.size_t, limit uint64, name ...string,
) ([]T, error) {
	var element T
	var wrong string
	switch {
	case n == 0:
		return []T{}, nil
	case data == nil:
		wrong = "it is no address"
	case uintptr(data)%unsafe.Alignof(element) != 0:
		wrong = "it is not aligned"
	case uint64(n) > limit:
		wrong = fmt.Sprintf("at most %d", limit)
	case uint64(n) > (math.MaxUint-uint64(uintptr(data)))/uint64(unsafe.Sizeof(element)):
		wrong = "there is no such memory"
	default:
		return unsafe.Slice((*T)(data), n), nil
	}
	return nil, invalid("%s, of %d elements: %s", strings.Join(name, ""), n, wrong)
}
