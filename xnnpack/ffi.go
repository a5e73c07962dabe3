package xnnpack

// This is the package's whole C boundary: thin calls, Go types in and out. What the arguments must satisfy is checked
// by the callers.

/*
#cgo CFLAGS: -Wall -Wextra
#cgo LDFLAGS: -lXNNPACK -lpthreadpool -lcpuinfo -lm
#include <stdlib.h>
#include "shims.h"
*/
import "C"

import (
	"math"
	"runtime"
	"runtime/cgo"
	"unsafe"

	_ "xpwc/internal/ask" // xpwc_build_identifier
	_ "xpwc/internal/header"
)

// Available reports whether this program has XNNPACK: a program that was built without cgo has not.
const Available = true

// The numbers of these names differ between versions of the header, hence the tables.
var unaryOperators = [...]C.enum_xnn_unary_operator{
	Abs:                  C.xnn_unary_abs,
	ApproximateGELU:      C.xpwc_unary_approximate_gelu,
	BankersRounding:      C.xnn_unary_bankers_rounding,
	Ceiling:              C.xnn_unary_ceiling,
	Clamp:                C.xnn_unary_clamp,
	ConvertElements:      C.xnn_unary_convert,
	ELU:                  C.xnn_unary_elu,
	Exp:                  C.xnn_unary_exp,
	Floor:                C.xnn_unary_floor,
	GELU:                 C.xnn_unary_gelu,
	HardSwish:            C.xnn_unary_hardswish,
	LeakyReLU:            C.xnn_unary_leaky_relu,
	Log:                  C.xnn_unary_log,
	Negate:               C.xnn_unary_negate,
	Sigmoid:              C.xnn_unary_sigmoid,
	Square:               C.xnn_unary_square,
	SquareRoot:           C.xnn_unary_square_root,
	ReciprocalSquareRoot: C.xnn_unary_reciprocal_square_root,
	Tanh:                 C.xnn_unary_tanh,
	Cosine:               C.xnn_unary_cosine,
	Sine:                 C.xnn_unary_sine,
	Sign:                 C.xnn_unary_sign,
}

var binaryOperators = [...]C.enum_xnn_binary_operator{
	Add:               C.xnn_binary_add,
	Subtract:          C.xnn_binary_subtract,
	Multiply:          C.xnn_binary_multiply,
	Divide:            C.xnn_binary_divide,
	Maximum:           C.xnn_binary_maximum,
	Minimum:           C.xnn_binary_minimum,
	SquaredDifference: C.xnn_binary_squared_difference,
	PReLUOperator:     C.xnn_binary_prelu,
	Pow:               C.xnn_binary_pow,
}

var reduceOperators = [...]C.enum_xnn_reduce_operator{
	ReduceSum:  C.xnn_reduce_sum,
	ReduceMean: C.xnn_reduce_mean,
}

var cpuLevels = [...]C.enum_xpwc_cpu_level{
	C.xpwc_cpu_sse2, C.xpwc_cpu_ssse3, C.xpwc_cpu_sse4_1, C.xpwc_cpu_avx, C.xpwc_cpu_fma3, C.xpwc_cpu_avx2,
	C.xpwc_cpu_avxvnni, C.xpwc_cpu_avx512, C.xpwc_cpu_avx512vnni, C.xpwc_cpu_avx512vnnigfni,
	C.xpwc_cpu_avx512fp16, C.xpwc_cpu_avx512amx,
}

func cHasApproximateGELU() bool { return C.xpwc_unary_approximate_gelu != C.xnn_unary_invalid }

func cInitialize() Status { return Status(C.xnn_initialize(C.xpwc_allocator())) }

func cBuildIdentifier() []byte {
	var size C.size_t
	data := C.xpwc_xnnpack_build(&size)
	return C.GoBytes(data, C.int(size))
}

func cHasCPULevel(level int) bool { return bool(C.xpwc_has_cpu_level(cpuLevels[level])) }

func cLimitCPU(level int) { C.xpwc_limit_cpu(cpuLevels[level]) }

func cKnowsCPU() bool { return bool(C.xpwc_knows_cpu()) }

func cInitializedWhenLoaded() bool { return bool(C.xpwc_initialized_when_loaded()) }

func cWidenF16(n int, src, dst []byte) Status {
	return Status(C.xpwc_widen_f16(C.size_t(n), (*C.uint16_t)(unsafe.Pointer(unsafe.SliceData(src))),
		(*C.float)(unsafe.Pointer(unsafe.SliceData(dst)))))
}

// pinned keeps Go memory in place for C to point to. A subgraph that is never deleted leaks it, like its C memory:
// without the handle, the garbage collector would end the process when it finds the pins.
type pinned struct {
	pinner *runtime.Pinner
	handle cgo.Handle
}

func newPinned() pinned {
	p := &runtime.Pinner{}
	return pinned{p, cgo.NewHandle(p)}
}

func (p pinned) release() {
	p.pinner.Unpin()
	p.handle.Delete()
}

// cMemory is a block of C memory: bytes is 64-byte aligned and followed by slack that may be read.
type cMemory struct {
	base  unsafe.Pointer
	bytes []byte
}

const (
	memoryAlignment = 64
	memorySlack     = 128 // at least XNN_EXTRA_BYTES, and XNN_EXTRA_QUANTIZATION_PARAMS entries of 8 bytes
)

// cAllocate returns n zeroed bytes; false if there is no memory.
func cAllocate(n int) (cMemory, bool) {
	if n < 0 || n > math.MaxInt-memoryAlignment-memorySlack {
		return cMemory{}, false
	}
	base := C.xpwc_allocate(C.size_t(n + memoryAlignment + memorySlack))
	if base == nil {
		return cMemory{}, false
	}
	shift := (memoryAlignment - uintptr(base)%memoryAlignment) % memoryAlignment
	return cMemory{base, unsafe.Slice((*byte)(unsafe.Add(base, shift)), n)}, true
}

func (m cMemory) free() {
	if m.base != nil {
		C.xpwc_free(m.base, C.size_t(len(m.bytes)+memoryAlignment+memorySlack))
	}
}

func (m cMemory) pointer() unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(m.bytes)) }

func view[T Number](m cMemory) []T {
	var number T
	return unsafe.Slice((*T)(m.pointer()), len(m.bytes)/int(unsafe.Sizeof(number)))
}

type cSubgraph struct{ p C.xnn_subgraph_t }

func cNewSubgraph(externalValues int) (cSubgraph, Status) {
	var g cSubgraph
	s := C.xnn_create_subgraph(C.uint32_t(externalValues), 0, &g.p)
	return g, Status(s)
}

func (g cSubgraph) delete() { C.xnn_delete_subgraph(g.p) }

type cDims [MaxTensorDims]C.size_t

func toDims(shape []int) *cDims {
	var d cDims
	for i, n := range shape {
		d[i] = C.size_t(n)
	}
	return &d
}

func (g cSubgraph) define(t *Tensor, external ValueID, flags uint32) (ValueID, Status) {
	var (
		id   C.uint32_t
		s    C.enum_xnn_status
		q    = &t.Quantization
		kind = C.enum_xnn_datatype(t.Type)
		rank = C.size_t(len(t.Shape))
		dims = &toDims(t.Shape)[0]
		data = unsafe.Pointer(unsafe.SliceData(t.Data))
		ext  = C.uint32_t(external)
		flag = C.uint32_t(flags)
		zero = C.int32_t(q.ZeroPoint)
	)
	switch t.Type {
	case QInt8, QUint8, QInt32:
		s = C.xnn_define_quantized_tensor_value(g.p, kind, zero, C.float(q.Scale), rank, dims, data, ext, flag, &id)
	case ChannelQInt8, ChannelQInt32, ChannelQInt4:
		s = C.xnn_define_channelwise_quantized_tensor_value_v2(g.p, kind, zero,
			(*C.float)(unsafe.SliceData(q.Scales)), rank,
			C.size_t(q.ChannelDim), dims, data, ext, flag, &id)
	case BlockQInt4:
		s = C.xnn_define_blockwise_quantized_tensor_value(g.p, kind, zero,
			(*C.uint16_t)(unsafe.SliceData(q.BlockScales)), rank,
			C.size_t(q.ChannelDim), C.size_t(q.BlockSize), dims, data, ext, flag, &id)
	case DynamicQInt8, PackedQInt8:
		s = C.xnn_define_dynamically_quantized_tensor_value(g.p, kind, rank, C.size_t(q.NonBatchDims), dims, ext,
			flag, &id)
	default:
		s = C.xnn_define_tensor_value(g.p, kind, rank, dims, data, ext, flag, &id)
	}
	return ValueID(id), Status(s)
}

// add adds a node, whose operands have these IDs and values.
func (g cSubgraph) add(n Node, ids []ValueID, v []*value) Status {
	var dims [MaxTensorDims]C.uint32_t // no node has more
	for i, v := range ids {
		dims[i] = C.uint32_t(v)
	}
	return Status(defineNode(g.p, n, dims, v))
}

func defineNode(g C.xnn_subgraph_t, n Node, id [MaxTensorDims]C.uint32_t, v []*value) C.enum_xnn_status {
	switch n := n.(type) {
	case FullyConnected:
		return C.xnn_define_fully_connected(g, lowerBound(n.Activation), greatest(n.Activation),
			id[0], id[1], id[2], id[3],
			flag(n.TransposeWeights, C.XNN_FLAG_TRANSPOSE_WEIGHTS))
	case Convolution2D:
		filter := v[1].Shape
		return C.xnn_define_convolution_2d(g,
			number(n.Padding.Top), number(n.Padding.Right), number(n.Padding.Bottom), number(n.Padding.Left),
			number(filter[1]), number(filter[2]), number(n.Stride.Height), number(n.Stride.Width),
			number(n.Dilation.Height), number(n.Dilation.Width),
			number(n.Groups), C.size_t(filter[3]), C.size_t(filter[0]/n.Groups),
			lowerBound(n.Activation), greatest(n.Activation), id[0], id[1], id[2], id[3],
			flag(n.SamePadding, C.XNN_FLAG_TENSORFLOW_SAME_PADDING))
	case DepthwiseConvolution2D:
		filter := v[1].Shape
		return C.xnn_define_depthwise_convolution_2d(g,
			number(n.Padding.Top), number(n.Padding.Right), number(n.Padding.Bottom), number(n.Padding.Left),
			number(filter[1]), number(filter[2]), number(n.Stride.Height), number(n.Stride.Width),
			number(n.Dilation.Height), number(n.Dilation.Width),
			number(n.DepthMultiplier), C.size_t(filter[3]/n.DepthMultiplier),
			lowerBound(n.Activation), greatest(n.Activation), id[0], id[1], id[2], id[3],
			flag(n.SamePadding, C.XNN_FLAG_TENSORFLOW_SAME_PADDING))
	case Deconvolution2D:
		filter := v[1].Shape
		return C.xnn_define_deconvolution_2d(g,
			number(n.Padding.Top), number(n.Padding.Right), number(n.Padding.Bottom), number(n.Padding.Left),
			number(n.Adjustment.Height), number(n.Adjustment.Width),
			number(filter[1]), number(filter[2]), number(n.Stride.Height), number(n.Stride.Width),
			number(n.Dilation.Height), number(n.Dilation.Width),
			number(n.Groups), C.size_t(filter[3]), C.size_t(filter[0]/n.Groups),
			lowerBound(n.Activation), greatest(n.Activation), id[0], id[1], id[2], id[3], 0)
	case BatchMatrixMultiply:
		return C.xnn_define_batch_matrix_multiply(g, id[0], id[1], id[2],
			flag(n.TransposeB, C.XNN_FLAG_TRANSPOSE_B))
	case Unary:
		var a, b C.float
		switch n.Op {
		case Clamp:
			a, b = lowerBound(n.Limits), greatest(n.Limits)
		case ELU:
			a = C.float(n.Alpha)
		case LeakyReLU:
			a = C.float(n.NegativeSlope)
		}
		return C.xpwc_define_unary(g, unaryOperators[n.Op], a, b, id[0], id[1])
	case Binary:
		limits := C.struct_xnn_binary_params{
			output_min: C.double(lowerBound(n.Activation)), output_max: C.double(greatest(n.Activation)),
		}
		return C.xnn_define_binary(g, binaryOperators[n.Op], &limits, id[0], id[1], id[2], 0)
	case MaxPooling2D:
		return C.xnn_define_max_pooling_2d(g,
			number(n.Padding.Top), number(n.Padding.Right), number(n.Padding.Bottom), number(n.Padding.Left),
			number(n.Pooling.Height), number(n.Pooling.Width), number(n.Stride.Height), number(n.Stride.Width),
			number(n.Dilation.Height), number(n.Dilation.Width), lowerBound(n.Activation), greatest(n.Activation),
			id[0], id[1], flag(n.SamePadding, C.XNN_FLAG_TENSORFLOW_SAME_PADDING))
	case AveragePooling2D:
		return C.xnn_define_average_pooling_2d(g,
			number(n.Padding.Top), number(n.Padding.Right), number(n.Padding.Bottom), number(n.Padding.Left),
			number(n.Pooling.Height), number(n.Pooling.Width), number(n.Stride.Height), number(n.Stride.Width),
			lowerBound(n.Activation), greatest(n.Activation),
			id[0], id[1], flag(n.SamePadding, C.XNN_FLAG_TENSORFLOW_SAME_PADDING))
	case StaticReduce:
		var axes [MaxTensorDims]C.int64_t
		for i, axis := range n.Axes {
			axes[i] = C.int64_t(axis)
		}
		return C.xnn_define_static_reduce_v2(g, reduceOperators[n.Op], C.size_t(len(n.Axes)), &axes[0],
			id[0], id[1], flag(n.KeepDims, C.XNN_FLAG_KEEP_DIMS))
	case StaticConstantPad:
		return C.xpwc_define_static_constant_pad(g, C.size_t(len(n.Pre)), &toDims(n.Pre)[0], &toDims(n.Post)[0],
			C.float(n.Value), id[0], id[1])
	case StaticReshape:
		return C.xnn_define_static_reshape(g, C.size_t(len(n.Shape)), &toDims(n.Shape)[0], id[0], id[1], 0)
	case StaticTranspose:
		return C.xnn_define_static_transpose(g, C.size_t(len(n.Permutation)), &toDims(n.Permutation)[0],
			id[0], id[1], 0)
	case StaticSlice:
		return C.xnn_define_static_slice(g, C.size_t(len(n.Offsets)), &toDims(n.Offsets)[0],
			&toDims(n.Sizes)[0], id[0], id[1], 0)
	case Concatenate:
		return C.xpwc_define_concatenate(g, C.int32_t(n.Axis), C.size_t(len(n.Inputs)), &id[0], id[len(n.Inputs)])
	case EvenSplit:
		return C.xpwc_define_even_split(g, C.int32_t(n.Axis), id[0], C.size_t(len(n.Outputs)), &id[1])
	case StaticResizeBilinear2D:
		return C.xnn_define_static_resize_bilinear_2d(g, C.size_t(n.NewSize.Height), C.size_t(n.NewSize.Width),
			id[0], id[1], flag(n.AlignCorners, C.XNN_FLAG_ALIGN_CORNERS)|
				flag(n.LegacyMode, C.XNN_FLAG_TENSORFLOW_LEGACY_MODE))
	case Softmax:
		return C.xnn_define_softmax(g, id[0], id[1], 0)
	case Copy:
		return C.xnn_define_copy(g, id[0], id[1], 0)
	case DepthToSpace2D:
		return C.xnn_define_depth_to_space_2d(g, number(n.BlockSize), id[0], id[1], 0)
	case SpaceToDepth2D:
		return C.xnn_define_space_to_depth_2d(g, number(n.BlockSize), id[0], id[1], 0)
	}
	return C.xnn_status_invalid_parameter
}

func number(n int) C.uint32_t    { return C.uint32_t(n) }
func lowerBound(r Range) C.float { return C.float(r.bounded().Min) }
func greatest(r Range) C.float   { return C.float(r.bounded().Max) }

func flag(set bool, f C.uint32_t) C.uint32_t {
	if set {
		return f
	}
	return 0
}

type cRuntime struct{ p C.xnn_runtime_t }

func cNewRuntime(g cSubgraph, cache WeightsCache, w cWorkspace, t cThreadpool, flags RuntimeFlags) (cRuntime, Status) {
	var (
		r        cRuntime
		provider C.xnn_weights_cache_t
	)
	if cache != nil {
		provider = C.xnn_weights_cache_t(cache.Provider())
	}
	s := C.xnn_create_runtime_v4(g.p, provider, w.p, t.p, C.uint32_t(flags), &r.p)
	return r, Status(s)
}

func (r cRuntime) delete() Status { return Status(C.xnn_delete_runtime(r.p)) }

func (r cRuntime) reshapeExternal(id ValueID, shape []int) Status {
	return Status(C.xnn_reshape_external_value(r.p, C.uint32_t(id), C.size_t(len(shape)), &toDims(shape)[0]))
}

func (r cRuntime) externalShape(id ValueID) ([]int, Status) {
	var (
		n    C.size_t
		dims cDims
	)
	if s := C.xnn_get_external_value_shape(r.p, C.uint32_t(id), &n, &dims[0]); s != C.xnn_status_success {
		return nil, Status(s)
	}
	shape := make([]int, n)
	for i := range shape {
		shape[i] = int(dims[i])
	}
	return shape, Success
}

func (r cRuntime) reshape() Status { return Status(C.xnn_reshape_runtime(r.p)) }

// setup gives buffers[i] to the value ids[i]; pin keeps those on the Go heap in place.
func (r cRuntime) setup(ids []ValueID, buffers [][]byte, pin *runtime.Pinner) Status {
	values := make([]C.struct_xnn_external_value, len(ids))
	for i, id := range ids {
		p := unsafe.SliceData(buffers[i])
		if p != nil {
			pin.Pin(p)
		}
		values[i] = C.struct_xnn_external_value{id: C.uint32_t(id), data: unsafe.Pointer(p)}
	}
	return Status(C.xnn_setup_runtime_v2(r.p, C.size_t(len(ids)), unsafe.SliceData(values)))
}

func (r cRuntime) invoke() Status { return Status(C.xnn_invoke_runtime(r.p)) }

// profile returns the operators' names, each closed by a zero byte, and their times in microseconds.
func (r cRuntime) profile() (names []byte, times []uint64, s Status) {
	var count, need C.size_t
	s = Status(C.xnn_get_runtime_profiling_info(r.p, C.xnn_profile_info_num_operators, C.sizeof_size_t,
		unsafe.Pointer(&count), &need))
	if s != Success || count == 0 {
		return nil, nil, s
	}
	// With too little room XNNPACK reports out of memory and the room it needs.
	var empty [1]byte
	if s = Status(C.xnn_get_runtime_profiling_info(r.p, C.xnn_profile_info_operator_name, 0, unsafe.Pointer(&empty),
		&need)); s != OutOfMemory {
		return nil, nil, s
	}
	names = make([]byte, need)
	if s = Status(C.xnn_get_runtime_profiling_info(r.p, C.xnn_profile_info_operator_name, need,
		unsafe.Pointer(&names[0]), &need)); s != Success {
		return nil, nil, s
	}
	times = make([]uint64, count)
	s = Status(C.xnn_get_runtime_profiling_info(r.p, C.xnn_profile_info_operator_timing, count*8,
		unsafe.Pointer(&times[0]), &need))
	return names, times, s
}

type cWorkspace struct{ p C.xnn_workspace_t }

func cNewWorkspace() (cWorkspace, Status) {
	var w cWorkspace
	s := C.xnn_create_workspace(&w.p)
	return w, Status(s)
}

func (w cWorkspace) release() { C.xnn_release_workspace(w.p) }

func cGiveBack() { C.xpwc_give_back() }

type cThreadpool struct{ p C.pthreadpool_t }

func cNewThreadpool(threads int) (cThreadpool, bool) {
	p := C.pthreadpool_create(C.size_t(threads))
	return cThreadpool{p}, p != nil
}

func (t cThreadpool) threads() int { return int(C.pthreadpool_get_threads_count(t.p)) }

func (t cThreadpool) destroy() { C.pthreadpool_destroy(t.p) }

type cWeightsCache struct{ p C.xnn_weights_cache_t }

func cNewWeightsCache() (cWeightsCache, Status) {
	var c cWeightsCache
	s := C.xnn_create_weights_cache(&c.p)
	return c, Status(s)
}

func (c cWeightsCache) finalize() Status {
	return Status(C.xnn_finalize_weights_cache(c.p, C.xnn_weights_cache_finalization_kind_hard))
}

func (c cWeightsCache) delete() { C.xnn_delete_weights_cache(c.p) }

// Provider implements WeightsCache. What it returns is valid until the cache is deleted.
func (c *HeapWeightsCache) Provider() unsafe.Pointer { return unsafe.Pointer(c.c.p) }
