package xpwc

import (
	"fmt"
	"math"
	"sync"

	"xpwc/internal/format"
	"xpwc/packing"
)

// After a look-up that hit XNNPACK asks nothing more: it reads as many bytes as it would have packed. How many these
// are is asked of XNNPACK itself, once a process for each geometry.

// A packedSize is what XNNPACK says of a geometry.
type packedSize struct {
	bytes         uint64 // 0 if it does not say
	fingerprintID uint32 // of the key that it looked up before
}

// A question is a geometry that XNNPACK is asked about, once.
type question struct {
	once   sync.Once
	answer packedSize
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

// packedSizeOf returns how many bytes XNNPACK packs here.
func packedSizeOf(g *packing.Geometry) packedSize {
	q, _ := questionAbout(g)
	return q.ask(g)
}

func (q *question) ask(g *packing.Geometry) packedSize {
	q.once.Do(func() { q.answer = measure(g) })
	return q.answer
}

// askAhead has XNNPACK asked beside what the caller does. A question takes 20 microseconds in a process that does other
// things, and a load that finds everything has time for few of them.
func (s *Session) askAhead(src *source, g *packing.Geometry) {
	if !src.fits(g) {
		return
	}
	switch g.Family.Operator {
	case packing.FullyConnected, packing.Convolution2D:
	default: // XNNPACK may pack it without a cache, all of it, to answer
		return
	}
	c := s.cache
	c.mu.Lock()
	empty := c.store == nil || c.store.Index() == nil || c.store.Index().Len() == 0
	c.mu.Unlock()
	if empty { // no look-up will find anything
		return
	}
	if q, first := questionAbout(g); first {
		go q.ask(g)
	}
}

// fits reports whether a kernel of this geometry fits into a source. XNNPACK is asked about no other: the question
// takes memory in proportion to the kernel, and a host may give any.
func (s *source) fits(g *packing.Geometry) bool {
	return g.Family.Kernel.Size() > 0 && g.LeastBytes() <= uint64(len(s.content))
}

// asking is held while XNNPACK is asked: what kernels consist of is in one place.
var asking sync.Mutex

func measure(g *packing.Geometry) packedSize {
	// Flags of the node: what a runtime with others packs is not known.
	const askable = packing.Transposed | packing.Padded
	elements, scales, ok := extent(g)
	if !ok || g.Flags&^askable != 0 {
		return packedSize{}
	}
	asking.Lock()
	defer asking.Unlock()
	said := askPackedSize(g, elements, scales)
	if said.bytes < g.LeastBytes() { // it counts some sizes in 32 bits
		return packedSize{}
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

// sizeKnown reports whether the size of what the operator of a look-up reads follows from the packing identity. What
// the tensor says is only a guess: it may have more than the kernel, as ExecuTorch's exporter writes the whole storage
// of a view.
func (w *weight) sizeKnown() bool { return w.kernel.packing.known() && w.kernel.has().copyOf == nil }

// checkSize returns an error if a payload of the file is not what the operator of a look-up is going to read.
func (w *weight) checkSize(e *entry) error {
	n := uint64(len(e.data))
	if !w.sizeKnown() {
		// XNNPACK packs an element as it is, and float32 as float16 in half precision, so that a packing has at least
		// half as many bytes as its kernel. So has that of a copy, which may have been converted.
		return short(n, uint64(w.kernel.leastContent())/2)
	}
	for i := range w.kernel.packing.identities { // which of them reads it is not known, and all of them may
		g := &w.kernel.packing.identities[i].geometry
		var size packedSize
		if w.kernel.fits(g) {
			size = packedSizeOf(g)
		}
		switch {
		case size.bytes == 0 || size.fingerprintID != w.key.FingerprintID: // XNNPACK made another operator of the node
			if err := short(n, g.LeastBytes()); err != nil {
				return err
			}
		case n != size.bytes:
			return fmt.Errorf("it has %d bytes, XNNPACK packs %d: %w", n, size.bytes, ErrDamaged)
		}
	}
	return nil
}

func short(n, least uint64) error {
	if n >= least {
		return nil
	}
	return fmt.Errorf("it has %d bytes, what XNNPACK packs has %d at least: %w", n, least, ErrDamaged)
}

// describe writes into a record what is known of how its payload of n bytes was packed.
func (p *packedAs) describe(r *format.Record, n int, copied bool) {
	r.LeastSize = uint64(n)
	for i, id := range p.identities {
		g := id.geometry
		if copied { // which may be a conversion
			g.Flags |= packing.HalfPrecision
		}
		r.LeastSize = min(r.LeastSize, g.LeastBytes())
		if i == 0 {
			r.Family = g.Family
		} else if r.Family != g.Family {
			r.Family = packing.Family{}
		}
	}
	if len(p.identities) == 0 {
		r.LeastSize = 0
	}
}
