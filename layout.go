package xpwc

import (
	"bytes"
	"fmt"
	"slices"

	"xpwc/internal/ask"
	"xpwc/internal/format"
	"xpwc/xnnpack/packing"
)

// A Layout is a way of packing. Packed weights can be used where XNNPACK packs in the same way, whatever CPU that is.
type Layout struct {
	// Fingerprint is the hash of what XNNPACK packs of fixed tensors. It differs whenever packing does.
	Fingerprint Digest
	// Description is for people: the architecture, the CPU features that XNNPACK packs by here, and the beginning of
	// its build identifier.
	Description string
}

// CurrentLayout asks XNNPACK, which it initializes, how it packs on this machine. The answer is the same as long as the
// process lives. Errors: XNNPACK's, and ErrNoCgo.
func CurrentLayout() (Layout, error) {
	layout, err := ask.Layout()
	if err == nil && layout.Fingerprint == (format.Digest{}) {
		err = ErrNoCgo
	}
	if err != nil {
		return Layout{}, fmt.Errorf("this machine's layout: %w", err)
	}
	return Layout{layout.Fingerprint, layout.Description}, nil
}

// prefetchLayout asks XNNPACK in the background how it packs the families of the loaded file, so that look-ups need not
// wait. All families take a millisecond or two. A file without entries has no answers to wait for.
func (c *core) prefetchLayout() {
	index := c.writer.Index()
	if c.inMemory() || index == nil {
		return
	}
	go func() {
		families := layoutEvidence(index)
		if len(families) == 0 {
			_, _ = ask.Layout()
			return
		}
		for i := range families {
			if f := families[i].family; f.Operator != packing.Deconvolution2D { // see choosePackedLayout
				ask.Sum(f)
			}
		}
	}()
}

// layoutDeferred reports whether this machine's layout need not be known yet, because the file has no entries of any.
// Keys have none then, and the first commit asks for it: it takes as long as a tenth of a small model's first start.
func (s *Session) layoutDeferred() bool {
	return !s.cache.inMemory() && !ask.Answered() && s.cache.writer.Index() == nil
}

// chooseLayout sets the layout of a weight's key: the one whose entries of it XNNPACK packs here. Evidence may be
// enough to assume it. Then what the file lacks must not be packed under it.
func (s *Session) chooseLayout(w *weight) {
	if s.layoutDeferred() {
		return
	}
	if !ask.Answered() {
		if layout, shown := s.evidence.layoutFor(w.kernel, w.Key.FingerprintID); shown {
			w.SetLayout(layout)
			w.layoutAssumed = true
			return
		}
	}
	s.confirmLayout(w)
}

// choosePackedLayout sets the layout of a weight that was packed to the one that the file lists this machine with:
// equal bytes are right in any layout. So XNNPACK need not be asked for its layout if it packs without a look-up, as
// deconvolutions in every process, and the file has the result.
func (s *Session) choosePackedLayout(w *weight) {
	if s.layoutDeferred() {
		return
	}
	if ask.Answered() || len(s.evidence) == 0 {
		s.confirmLayout(w)
		return
	}
	w.SetLayout(s.evidence[0].layout)
	w.layoutAssumed = true
}

// A layoutState tells whether a session knows the layout of this machine.
type layoutState int

const (
	layoutUnasked    layoutState = iota
	layoutUnreported             // XNNPACK does not report it, and the session has noted the error
	layoutKnown
)

// confirmLayout sets the layout of a weight's key to this machine's, and reports whether it was another. XNNPACK takes
// a millisecond or two to show it. If it fails to, the weight is unnamed: nobody could tell its packing from another. A
// cache in memory needs no layout.
func (s *Session) confirmLayout(w *weight) (changed bool) {
	if s.layoutState != layoutKnown {
		var current format.Layout
		var err error
		if !s.cache.inMemory() {
			current, err = ask.Layout()
		}
		switch {
		case err == nil:
			s.layout, s.layoutState = current.Fingerprint, layoutKnown
			s.cache.writer.SetLayout(s.layout)
		case s.layoutState == layoutUnasked:
			s.layoutState = layoutUnreported
			s.note(err)
		}
	}
	w.layoutAssumed = false
	w.named = w.named && s.layoutState == layoutKnown
	if w.Key.Layout == s.layout && w.named {
		return false
	}
	w.SetLayout(s.layout)
	w.sizeMismatch = false
	return true
}

// A layout's fingerprint is a hash of samples of all families, which take longer than loading a small model. So a file
// also lists the machines of a layout, and the sample of each family that it has entries of. If it lists this machine,
// and XNNPACK packs the same sample of a look-up's family, the layout's entries of that family are right. A new entry
// needs the whole fingerprint.
//
// The machine alone is not enough, because XNNPACK may be patched or built in another way. Nor is the sample, which
// does not show each choice that XNNPACK makes within a family, such as by the shape of a kernel.

// evidence lists the families of a file in layouts of this machine.
type evidence []familyEvidence

// A familyEvidence is for a family of a layout.
type familyEvidence struct {
	layout, sum format.Digest // the sum is the sample's
	family      packing.Family
}

// maxFamilies bounds the families of a file, which could list any number.
const maxFamilies = 1 << 10

// layoutEvidence returns the evidence of an index, which may be nil.
func layoutEvidence(index *format.Index) (shown evidence) {
	if index == nil {
		return nil
	}
	machine := ask.Machine()
	if machine == (format.Digest{}) {
		return nil
	}
	for _, l := range index.Layouts() {
		decoded := format.DecodeEvidence(l.Evidence)
		if !slices.Contains(decoded.Machines, machine) {
			continue
		}
		for _, f := range decoded.Families[:min(len(decoded.Families), maxFamilies-len(shown))] {
			shown = append(shown, familyEvidence{l.Fingerprint, f.Sum, f.Family})
		}
	}
	return shown
}

// layoutFor returns the layout whose entries of a kernel XNNPACK is seen to pack here, false if none is known.
func (e evidence) layoutFor(kernel *source, fingerprintID uint32) (layout format.Digest, shown bool) {
	if len(e) == 0 || len(kernel.packing.identities) == 0 || kernel.copyOf != nil {
		return format.Digest{}, false
	}
	f := kernel.packing.identities[0].geometry.Family
	i := slices.IndexFunc(e, func(s familyEvidence) bool {
		if s.family != f {
			return false
		}
		sum, answered := ask.Sum(f)
		return answered && sum == s.sum
	})
	if i < 0 {
		return format.Digest{}, false
	}
	for i := range kernel.packing.identities {
		g := &kernel.packing.identities[i].geometry
		if g.Family != f || !ask.Shows(g, fingerprintID) {
			return format.Digest{}, false
		}
	}
	return e[i].layout, true
}

// A packingIdentity is what a session keeps of a packing.Identity.
type packingIdentity struct {
	digest   packing.Digest
	geometry packing.Geometry // zero if it is opaque
}

func (id packingIdentity) opaque() bool { return id.geometry == (packing.Geometry{}) }

// packedAs is how XNNPACK packs a kernel, as the host describes it.
type packedAs struct {
	identities []packingIdentity // each once, sorted by digest
	digest     Digest            // of all of them, zero without one
	complete   bool              // they decide the packed bytes
	ambiguous  bool              // they are several ways of packing
	described  bool              // the host gave one
	uses       int32             // how often identities were given that are not opaque
	belief     belief
}

// A belief is what must vouch for a kernel's stored entries before they answer a look-up.
type belief uint8

const (
	believeIdentity belief = iota // packing identities that decide the packed bytes
	believeHost                   // the host: see Believe
	believeNobody                 // nothing: see Compare
)

func (p *packedAs) clone() packedAs {
	clone := *p
	clone.identities = slices.Clone(p.identities)
	return clone
}

func (p *packedAs) add(id packingIdentity) {
	if !id.opaque() {
		p.uses++
	}
	byDigest := func(a packingIdentity, d packing.Digest) int { return bytes.Compare(a.digest[:], d[:]) }
	i, present := slices.BinarySearchFunc(p.identities, id.digest, byDigest)
	if present {
		return
	}
	p.identities = slices.Insert(p.identities, i, id)
	p.complete = true
	described := 0
	var digests []byte
	for _, id := range p.identities {
		digests = append(digests, id.digest[:]...)
		if id.opaque() {
			p.complete = false
		} else {
			described++
		}
	}
	p.ambiguous = described > 1
	p.digest = p.identities[0].digest
	if len(p.identities) > 1 {
		p.digest = DigestOf(digests)
	}
}

// describe writes the family and the least size of a payload of n bytes into its record.
func (p *packedAs) describe(r *format.Record, n int, copied bool) {
	r.LeastSize = uint64(n)
	for i, id := range p.identities {
		g := id.geometry
		r.LeastSize = min(r.LeastSize, leastBytes(g, copied))
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

// leastBytes returns the least size of a packing. XNNPACK may have converted the kernel if it copied it.
func leastBytes(g packing.Geometry, copied bool) uint64 {
	if copied {
		g.Flags |= packing.HalfPrecision
	}
	return g.LeastBytes()
}
