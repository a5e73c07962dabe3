package xpwc

import (
	"fmt"

	"xpwc/internal/ask"
	"xpwc/internal/format"
	"xpwc/packing"
)

// After a look-up that hit XNNPACK asks nothing more: it reads as many bytes as it would have packed. How many these
// are is asked of XNNPACK itself, once a process for each geometry.

// askAhead has XNNPACK asked beside what the caller does. A question takes 20 microseconds in a process that does other
// things, and a load that finds everything has time for few of them.
func (s *Session) askAhead(src *source, g *packing.Geometry) {
	if ask.Asked(g) || !src.fits(g) {
		return
	}
	switch g.Family.Operator {
	case packing.FullyConnected, packing.Convolution2D:
	default: // XNNPACK may pack it without a cache, all of it, to answer
		return
	}
	if index := s.cache.writer.Index(); index != nil && index.Len() > 0 { // else no look-up will find anything
		ask.Ahead(g)
	}
}

// fits reports whether a kernel of this geometry fits into a source. XNNPACK is asked about no other: the question
// takes memory in proportion to the kernel, and a host may give any.
func (s *source) fits(g *packing.Geometry) bool {
	return g.Family.Kernel.Size() > 0 && g.LeastBytes() <= uint64(len(s.content))
}

// sizeKnown reports whether the size of what the operator of a look-up reads follows from the packing identity. What
// the tensor says is only a guess: it may have more than the kernel, as ExecuTorch's exporter writes the whole storage
// of a view.
func (w *weight) sizeKnown() bool { return w.kernel.packing.known() && w.kernel.has().copyOf == nil }

// checkSize returns an error if a payload of the file is not what the operator of a look-up is going to read.
func (w *weight) checkSize(packed []byte) error {
	n := uint64(len(packed))
	if !w.sizeKnown() {
		// XNNPACK packs an element as it is, and float32 as float16 in half precision, so that a packing has at least
		// half as many bytes as its kernel. So has that of a copy, which may have been converted.
		return short(n, uint64(w.kernel.leastContent())/2)
	}
	for i := range w.kernel.packing.identities { // which of them reads it is not known, and all of them may
		g := &w.kernel.packing.identities[i].geometry
		var size ask.Size
		if w.kernel.fits(g) {
			size = ask.PackedSize(g)
		}
		switch {
		case size.Bytes == 0 || size.FingerprintID != w.Key.FingerprintID: // XNNPACK made another operator of the node
			if err := short(n, g.LeastBytes()); err != nil {
				return err
			}
		case n != size.Bytes:
			return fmt.Errorf("it has %d bytes, XNNPACK packs %d: %w", n, size.Bytes, ErrDamaged)
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
