package ask

import (
	"math"
	"sync"

	"xpwc/packing"
)

// A Size is what XNNPACK says of a geometry.
type Size struct {
	Bytes         uint64 // 0 if it does not say
	FingerprintID uint32 // of the key that it looked up before
}

// A question is a geometry that XNNPACK is asked about, once.
type question struct {
	once   sync.Once
	answer Size
}

var questions = struct {
	sync.Mutex
	about map[packing.Geometry]*question
}{about: map[packing.Geometry]*question{}}

// questionAbout returns the question about a geometry, and whether this is the first time.
func questionAbout(g *packing.Geometry) (q *question, first bool) {
	questions.Lock()
	defer questions.Unlock()
	q = questions.about[*g]
	if q == nil {
		q, first = &question{}, true
		questions.about[*g] = q
	}
	return q, first
}

// PackedSize returns how many bytes XNNPACK packs here for a geometry. After a look-up that hit XNNPACK asks nothing
// more: it reads as many bytes as it would have packed. A question takes memory in proportion to the kernel.
func PackedSize(g *packing.Geometry) Size {
	q, _ := questionAbout(g)
	return q.ask(g)
}

// Asked reports whether XNNPACK was asked about a geometry.
func Asked(g *packing.Geometry) bool {
	questions.Lock()
	defer questions.Unlock()
	return questions.about[*g] != nil
}

// Ahead has XNNPACK asked about a geometry beside what the caller does, if nobody has asked.
func Ahead(g *packing.Geometry) {
	if q, first := questionAbout(g); first {
		go q.ask(g)
	}
}

func (q *question) ask(g *packing.Geometry) Size {
	q.once.Do(func() { q.answer = measure(g) })
	return q.answer
}

// asking is held while XNNPACK is asked: what kernels consist of is in one place.
var asking sync.Mutex

func measure(g *packing.Geometry) Size {
	// Flags of the node: what a runtime with others packs is not known.
	const askable = packing.Transposed | packing.Padded
	elements, scales, ok := extent(g)
	if !ok || g.Flags&^askable != 0 {
		return Size{}
	}
	asking.Lock()
	defer asking.Unlock()
	said := askPackedSize(g, elements, scales)
	if said.Bytes < g.LeastBytes() { // it counts some sizes in 32 bits
		return Size{}
	}
	return said
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
	within := func(n int) bool { return n > 0 && n <= math.MaxInt16 }
	image := g.Dims == 4 && within(g.Shape[1]) && within(g.Shape[2]) && g.Groups > 0 && g.Groups <= math.MaxInt32 &&
		within(g.Stride.Height) && within(g.Stride.Width) && within(g.Dilation.Height) && within(g.Dilation.Width)
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
