package xpwc

import (
	"bytes"
	"slices"

	"xpwc/internal/format"
	"xpwc/xnnpack/packing"
)

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
