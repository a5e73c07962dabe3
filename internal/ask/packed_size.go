package ask

import (
	"math"
	"sync"

	"xpwc/xnnpack/packing"
)

// A size is XNNPACK's answer for a geometry.
type size struct {
	bytes         uint64 // 0 if not known
	fingerprintID uint32 // of the key that it looked up first
}

// bytesFor returns how many bytes are packed under a key: 0 if XNNPACK makes another operator for it.
func (s size) bytesFor(fingerprintID uint32) uint64 {
	if s.fingerprintID != fingerprintID {
		return 0
	}
	return s.bytes
}

// sizes are XNNPACK's answers by geometry.
var sizes = answers[packing.Geometry, size]{ask: measure}

// Asked reports whether XNNPACK was asked about a geometry. It is for tests.
func Asked(g packing.Geometry) bool {
	_, asked := sizes.memo.Load(g)
	return asked
}

// PackedSize returns the number of bytes that XNNPACK packs here for a geometry if it looks up a key with that
// fingerprint_id first; 0 if not known. After a cache hit XNNPACK does not pass a size: it reads as many bytes as it
// would have packed. A query takes memory in proportion to the kernel.
//
// XNNPACK computes in half precision unless the CPU or another node does not support it. The fingerprint_id of the key
// shows the precision. An XNNPACK without fingerprint_ids is not asked about half precision.
func PackedSize(g *packing.Geometry, fingerprintID uint32) uint64 {
	single := *g
	single.Flags &^= packing.HalfPrecision
	answer := sizes.get(single)
	if single != *g && (fingerprintID == 0 || answer.fingerprintID != fingerprintID) {
		answer = sizes.get(*g)
	}
	return answer.bytesFor(fingerprintID)
}

// asking is held while XNNPACK is asked: what kernels consist of is in one place.
var asking sync.Mutex

func measure(g packing.Geometry) size {
	elements, scales, ok := extent(&g)
	if !ok {
		return size{}
	}
	asking.Lock()
	defer asking.Unlock()
	answer := askPackedSize(&g, elements, scales)
	if answer.bytes < g.LeastBytes() { // it counts some sizes in 32 bits
		return size{}
	}
	return answer
}

// extent returns how many elements a geometry's kernel has, and an upper bound of its scales; false if no operator
// takes a kernel of this shape.
func extent(g *packing.Geometry) (elements uint64, scales int, ok bool) {
	const limit = math.MaxInt / 16
	elements = 1
	for _, n := range g.Shape[:g.Dims] {
		if n <= 0 || n > math.MaxInt32 || elements > limit/uint64(n) {
			return 0, 0, false
		}
		elements *= uint64(n)
	}
	fits := func(n int) bool { return n > 0 && n <= math.MaxInt16 }
	image := g.Dims == 4 && fits(g.Shape[1]) && fits(g.Shape[2]) && g.Groups > 0 && g.Groups <= math.MaxInt32 &&
		fits(g.Stride.Height) && fits(g.Stride.Width) && fits(g.Dilation.Height) && fits(g.Dilation.Width)
	switch g.Family.Operator {
	case packing.FullyConnected:
		ok = g.Dims == 2
	case packing.BatchMatrixMultiply:
		ok = g.Dims >= 2
	case packing.Convolution2D, packing.Deconvolution2D:
		ok = image && g.Shape[0]%g.Groups == 0
	case packing.DepthwiseConvolution2D:
		ok = image && g.Shape[0] == 1 && g.Shape[3]%g.Groups == 0
	}
	if !ok || g.ChannelDim < 0 || g.ChannelDim >= g.Dims || g.BlockSize < 0 {
		return 0, 0, false
	}
	scales = g.Shape[g.ChannelDim]
	for _, n := range g.Shape[:max(g.Dims-2, 0)] { // a batch of matrices has scales for each
		if g.Family.Operator == packing.BatchMatrixMultiply {
			scales *= n
		}
	}
	if g.BlockSize > 0 {
		scales = int(elements)/g.BlockSize + 1
	}
	return elements, scales, true
}
