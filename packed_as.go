package xpwc

import (
	"bytes"
	"slices"

	"xpwc/internal/entries"
	"xpwc/internal/writer"
	"xpwc/packing"
)

// PackedAs says how XNNPACK is going to pack a kernel, and makes it part of its key: package xnnpack makes the identity
// of each node (xnnpack.FullyConnected.Packing and its siblings). Give it for each use of a kernel, of float32 too. A
// kernel that is used in several ways is given all of them before the runtime is created; together they are its key.
//
// A host that does not give it risks that two uses of one name and content, in different shapes, groups or
// quantisations, get each other's packed weights: wrong answers, and reads out of bounds. They are distinguished
// only within one session, by packing and comparing.
//
// An identity that says nothing has no effect. Several opaque ones (packing.Opaque) are parts of one: a host that
// gives those has to put into them all that one use of the kernel differs from another in.
func PackedAs(id packing.Identity) LoadOption {
	if id.Zero() {
		return LoadOption{}
	}
	return LoadOption{packedAs: &identity{id.Digest(), id.Geometry()}}
}

// An identity is what a session keeps of a packing.Identity.
type identity struct {
	digest   packing.Digest
	geometry packing.Geometry // zero if it is opaque
}

func (id identity) opaque() bool { return id.geometry == (packing.Geometry{}) }

// packedAs is what a host has said of how XNNPACK packs a kernel.
type packedAs struct {
	identities []identity // each once, sorted by digest
	uses       int32      // how often identities were given that are not opaque
	given      bool       // anything
	compare    bool       // and that is not all: see Compare
}

func (p *packedAs) clone() packedAs {
	return packedAs{slices.Clone(p.identities), p.uses, p.given, p.compare}
}

func (p *packedAs) add(id identity) {
	if !id.opaque() {
		p.uses++
	}
	byDigest := func(a identity, d packing.Digest) int { return bytes.Compare(a.digest[:], d[:]) }
	at, known := slices.BinarySearchFunc(p.identities, id.digest, byDigest)
	if !known {
		p.identities = slices.Insert(p.identities, at, id)
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
	var all []byte
	for _, id := range p.identities {
		all = append(all, id.digest[:]...)
	}
	return DigestOf(all)
}

// known reports whether everything that decides packing was given.
func (p *packedAs) known() bool {
	return len(p.identities) > 0 && !slices.ContainsFunc(p.identities, identity.opaque)
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

// addIdentity notes how a kernel is packed. It goes for whatever stands for the kernel, or for copies of it.
func (s *source) addIdentity(id identity) {
	s.withCopies(func(of *source) { of.packing.given = true })
	s.withStandIns(func(of *source) { of.packing.add(id) })
}

// withStandIns calls do for a tensor, for whatever stands for it, and for the copies of these.
func (s *source) withStandIns(do func(*source)) {
	for at := s; at != nil; at = at.has().standIn {
		at.withCopies(do)
	}
}

// withCopies calls do for a tensor and all that was copied from it.
func (s *source) withCopies(do func(*source)) {
	do(s)
	for _, copied := range s.has().copies {
		copied.withCopies(do)
	}
}

// variants returns what was packed here of kernels with several ways to be packed, but for what all of them turned out
// to give: a runtime whose creation was cut short has seen only some.
func variants(own []writer.Own) (variants []*entries.Entry) {
	uses := map[*entries.Entry]int32{}
	for _, o := range own {
		p := &o.Kernel.Reader.(*source).packing
		if !p.ambiguous() {
			continue
		}
		if uses[o.Entry]++; uses[o.Entry] == 1 {
			variants = append(variants, o.Entry)
		}
	}
	seenAll := func(e *entries.Entry) bool {
		i := slices.IndexFunc(own, func(o writer.Own) bool { return o.Entry == e })
		return uses[e] >= own[i].Kernel.Reader.(*source).packing.uses
	}
	return slices.DeleteFunc(variants, seenAll)
}
