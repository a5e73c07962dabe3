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

// prefetchLayout has XNNPACK asked for what the look-ups in the loaded file will need, beside what the host does until
// then. For all families it takes a millisecond or two.
func (c *core) prefetchLayout() {
	if c.inMemory() {
		return
	}
	go func() {
		families := layoutEvidence(c.writer.Index())
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

// chooseLayout has a weight looked up under the layout whose entries of it are what XNNPACK packs here. It may be
// layoutAssumed, from evidence: then what the file does not have must not be packed under it.
func (s *Session) chooseLayout(w *weight) {
	if w.kernel != nil && !ask.Answered() {
		if layout, shown := s.evidence.layoutFor(w.kernel, w.Key.FingerprintID); shown {
			w.assumeLayout(layout)
			return
		}
	}
	s.confirmLayout(w)
}

func (w *weight) assumeLayout(layout format.Digest) {
	w.SetLayout(layout)
	w.layoutAssumed = true
}

// choosePackedLayout has a weight that was packed looked up under the layout that the file lists this machine with:
// equal bytes are right, whatever their layout is. So XNNPACK is not asked for all of it where it packs without a
// look-up, as deconvolutions in every process, and the file has that.
func (s *Session) choosePackedLayout(w *weight) {
	if ask.Answered() || len(s.evidence) == 0 {
		s.confirmLayout(w)
		return
	}
	w.assumeLayout(s.evidence[0].layout)
}

// confirmLayout has the weight named under this machine's layout, and reports whether it was under another. XNNPACK
// takes a millisecond or two to say which that is. If it does not, nobody could distinguish what is packed from what
// others pack. A cache in memory needs no layout.
func (s *Session) confirmLayout(w *weight) (changed bool) {
	var current format.Layout
	var err error
	if !s.cache.inMemory() {
		current, err = ask.Layout()
	}
	if err != nil && !s.layoutUnknown {
		s.layoutUnknown = true
		s.note(err)
	}
	assumed := w.Key.Layout
	w.SetLayout(current.Fingerprint)
	w.layoutAssumed = false
	w.named = w.named && err == nil
	if w.Key.Layout == assumed && w.named {
		return false
	}
	w.sizeMismatch = false
	return true
}

// A layout's fingerprint is what XNNPACK packs of all families, which takes it more than a small model takes to load.
// So a file says of a layout also which machines pack in it, and what XNNPACK packs there for each family that the file
// has entries of. Where the machine is such a one, and XNNPACK packs the same for the family of a look-up, the layout's
// entries of that family are what it would pack. What must be packed is packed under the layout that XNNPACK shows in
// whole.
//
// The machine alone is not enough, because XNNPACK may be patched or built in another way; nor is the sample, which
// does not show each choice that XNNPACK makes within a family, as for the shapes of kernels.

// evidence is what a file says of layouts that such a machine as this packs in.
type evidence []familyEvidence

// A shownFamily is a family of a layout.
type familyEvidence struct {
	layout, sum format.Digest // the sum is to be compared with what XNNPACK packs in this process
	family      packing.Family
}

// maxFamilies is how many families are read of a file, which could claim any number.
const maxFamilies = 1 << 10

// layoutEvidence returns what an index says, nothing for none.
func layoutEvidence(index *format.Index) (shown evidence) {
	machine := ask.Machine()
	if index == nil || machine == (format.Digest{}) {
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

// An identity is what a session keeps of a packing.Identity.
type packingIdentity struct {
	digest   packing.Digest
	geometry packing.Geometry // zero if it is opaque
}

func (id packingIdentity) opaque() bool { return id.geometry == (packing.Geometry{}) }

// packedAs is how XNNPACK packs a kernel, as the host describes it.
type packedAs struct {
	identities []packingIdentity // each once, sorted by digest
	uses       int32             // how often identities were given that are not opaque
	described  bool              // anything
	belief     belief
}

// A belief is on whose word a look-up of a kernel is answered with what was packed before.
type belief uint8

const (
	believeIdentity belief = iota // that of identities which describe all that decides the packed bytes
	believeHost                   // the host's: see Believe
	believeNobody                 // see Compare
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
	if !present {
		p.identities = slices.Insert(p.identities, i, id)
	}
}

// digest returns one digest for all that was given, zero for nothing.
func (p *packedAs) digest() Digest {
	switch len(p.identities) {
	case 0:
		return Digest{}
	case 1:
		return p.identities[0].digest
	}
	var digests []byte
	for _, id := range p.identities {
		digests = append(digests, id.digest[:]...)
	}
	return DigestOf(digests)
}

// complete reports whether everything that decides packing was given.
func (p *packedAs) complete() bool {
	return len(p.identities) > 0 && !slices.ContainsFunc(p.identities, packingIdentity.opaque)
}

// believed reports whether a look-up may be answered with what was packed before. Otherwise that is compared.
func (p *packedAs) believed() bool {
	return p.belief == believeHost || p.belief == believeIdentity && p.complete()
}

// ambiguous reports whether one key stands for several ways of packing.
func (p *packedAs) ambiguous() bool {
	if len(p.identities) < 2 {
		return false
	}
	opaque := 0
	for _, id := range p.identities {
		if id.opaque() {
			opaque++
		}
	}
	return len(p.identities)-opaque > 1
}

// describe writes into a record what is known of how its payload of n bytes was packed.
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

// leastBytes returns how many bytes a packing has at least, or one of what XNNPACK has copied, which may be a
// conversion.
func leastBytes(g packing.Geometry, copied bool) uint64 {
	if copied {
		g.Flags |= packing.HalfPrecision
	}
	return g.LeastBytes()
}
