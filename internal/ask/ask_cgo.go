package ask

/*
#cgo CFLAGS: -std=gnu11 -Wall -Wextra
#cgo !xpwc_host LDFLAGS: -lXNNPACK -lpthreadpool -lcpuinfo -lm
#include "ask.h"
*/
import "C"

import (
	"fmt"
	"runtime/cgo"
	"unsafe"

	_ "xpwc/internal/header"
	"xpwc/xnnpack/packing"
)

// probeLayout has XNNPACK pack fixed tensors of all families.
func probeLayout(s *sample) error {
	if err := Initialize(); err != nil {
		return err
	}
	handle := cgo.NewHandle(s)
	defer handle.Delete()
	if status := C.xpwc_probe_layout(C.uintptr_t(handle)); status != C.xnn_status_success {
		return fmt.Errorf("initialize XNNPACK: xnn_status %d", int(status))
	}
	return nil
}

// probeFamily has XNNPACK pack fixed tensors of one family. It reports false where there are none, or not all of them
// are supported.
func probeFamily(f packing.Family, s *sample) bool {
	if Initialize() != nil {
		return false
	}
	handle := cgo.NewHandle(s)
	defer handle.Delete()
	node := nodeOf(f)
	var sides []C.size_t
	for _, side := range sampledSides(f.Operator) {
		sides = append(sides, C.size_t(side))
	}
	var transposed C.bool
	status := C.xpwc_probe_family(&node, unsafe.SliceData(sides), C.size_t(len(sides)), C.uintptr_t(handle),
		&transposed)
	s.transposed = bool(transposed)
	return status == C.xnn_status_success
}

// nodeOf returns a node of a family, without its shape.
func nodeOf(f packing.Family) C.struct_xpwc_node {
	return C.struct_xpwc_node{
		op:     C.enum_xpwc_operator(f.Operator),
		input:  C.enum_xnn_datatype(f.Input),
		kernel: C.enum_xnn_datatype(f.Kernel),
		bias:   C.enum_xnn_datatype(f.Bias),
		output: C.enum_xnn_datatype(f.Output),
	}
}

// BuildIdentifier returns XNNPACK's build identifier, or else the linker's of its library; nil if it has neither.
func BuildIdentifier() []byte {
	var size C.size_t
	data := C.xpwc_build_identifier(&size)
	return C.GoBytes(data, C.int(size))
}

// CheckXNNPACK returns an error that matches ErrOtherXNNPACK if the weights cache of the linked XNNPACK has other
// structs than the header that xpwc was compiled with. It returns nil if XNNPACK hides the functions that show it.
func CheckXNNPACK() error {
	compiled, linked := C.xpwc_header_abi(), C.xpwc_linked_abi()
	if linked == C.xpwc_abi_unknown || linked == compiled {
		return nil
	}
	return fmt.Errorf("xpwc was compiled for %s, and the program is linked with %s: %w",
		C.GoString(C.xpwc_abi_name(compiled)), C.GoString(C.xpwc_abi_name(linked)), ErrOtherXNNPACK)
}

// processor returns the properties of this processor that XNNPACK may choose kernels by; nil where they are not known.
func processor() []byte {
	var words [C.XPWC_PROCESSOR_WORDS]C.uint32_t
	n := C.xpwc_processor(&words[0])
	return C.GoBytes(unsafe.Pointer(&words), C.int(4*n))
}

// runtimeFlags are the flags of the runtime that the flags of a packing stand for.
var runtimeFlags = map[packing.Flags]C.uint32_t{
	packing.HalfPrecision:        C.XNN_FLAG_FORCE_FP16_INFERENCE,
	packing.SparseInference:      C.XNN_FLAG_HINT_SPARSE_INFERENCE,
	packing.ConsistentArithmetic: C.xpwc_slow_consistent_arithmetic,
}

// zeros are the zeros of the last query, kept for the next.
var zeros C.struct_xpwc_zeros

// askPackedSize asks XNNPACK how many bytes it packs for a geometry, whose kernel has a valid shape for the operator,
// with this number of elements and scales. It returns 0 if XNNPACK does not use a weights cache for it, or does not
// support it. The caller holds asking.
func askPackedSize(g *packing.Geometry, elements uint64, scales int) size {
	if Initialize() != nil {
		return size{}
	}
	node := nodeOf(g.Family)
	node.dims, node.channel_dim = C.size_t(g.Dims), C.size_t(g.ChannelDim)
	node.block_size, node.groups = C.size_t(g.BlockSize), C.uint32_t(g.Groups)
	node.stride_height, node.stride_width = C.uint32_t(g.Stride.Height), C.uint32_t(g.Stride.Width)
	node.dilation_height, node.dilation_width = C.uint32_t(g.Dilation.Height), C.uint32_t(g.Dilation.Width)
	for i, n := range g.Shape[:g.Dims] {
		node.shape[i] = C.size_t(n)
	}
	if g.Flags&packing.Transposed != 0 {
		node.flags = C.XNN_FLAG_TRANSPOSE_WEIGHTS // or XNN_FLAG_TRANSPOSE_B, which is the same
	}
	if g.Flags&packing.Padded != 0 {
		node.padding = 1
	}
	for flag, bits := range runtimeFlags {
		if g.Flags&flag != 0 {
			node.runtime_flags |= bits
		}
	}
	var fingerprintID C.uint32_t
	n := C.xpwc_packed_size(&node, C.size_t(elements), C.size_t(scales), &zeros, &fingerprintID)
	return size{uint64(n), uint32(fingerprintID)}
}

// xpwcSampleBytes is given what XNNPACK packed of one fixed tensor.
//
//export xpwcSampleBytes
func xpwcSampleBytes(handle C.uintptr_t, fingerprintID C.uint32_t, packed unsafe.Pointer, n C.size_t) {
	cgo.Handle(handle).Value().(*sample).add(uint32(fingerprintID), unsafe.Slice((*byte)(packed), int(n)))
}
