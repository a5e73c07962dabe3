package ask

import (
	"encoding/binary"
	"slices"

	"xpwc/internal/digest"
	"xpwc/internal/format"
	"xpwc/xnnpack/packing"
)

// A sample is what XNNPACK packs of fixed tensors here: of all families, which is a layout's fingerprint, or of one.
type sample struct {
	hash       digest.Hash
	sum        format.Digest // of a family's: the hash's
	ids        []uint32      // fingerprint_ids of the keys that it was packed under
	transposed bool          // some of the kernels are
}

// add adds bytes with their length, so that no two packings read alike.
func (s *sample) add(fingerprintID uint32, packed []byte) {
	if !slices.Contains(s.ids, fingerprintID) {
		s.ids = append(s.ids, fingerprintID)
	}
	var size [8]byte
	binary.LittleEndian.PutUint64(size[:], uint64(len(packed)))
	_, _ = s.hash.Write(size[:]) // never fails
	_, _ = s.hash.Write(packed)
}

// samples are the samples of families: nil where XNNPACK does not support the family here.
var samples = answers[packing.Family, *sample]{ask: func(f packing.Family) *sample {
	s := &sample{}
	if !probeFamily(f, s) || len(s.ids) == 0 {
		return nil
	}
	s.sum = s.hash.Sum()
	return s
}}

// sampledSides are the sides of the square kernels that a sample of an operator on images has. Of a convolution with a
// kernel of one pixel XNNPACK makes another operator. A depthwise convolution it packs for a micro-kernel that it
// chooses by the size of the kernel, and one CPU may differ from another in one of them only: nothing is concluded from
// one size about another.
func sampledSides(op packing.Operator) []int {
	switch op {
	case packing.Convolution2D:
		return []int{1, 3}
	case packing.DepthwiseConvolution2D:
		return []int{3, 5}
	}
	return nil
}

// Sum returns the digest of the packed fixed tensors of a family, and false if XNNPACK packs none of them here. The
// first call for a family asks XNNPACK, which takes some 50 microseconds.
func Sum(f packing.Family) (sum format.Digest, ok bool) {
	s := samples.get(f)
	if s == nil {
		return format.Digest{}, false
	}
	return s.sum, true
}

// Shows reports whether the sample of a family is representative of a geometry under a key with that fingerprint_id:
// under another one XNNPACK created another operator for the node.
func Shows(g *packing.Geometry, fingerprintID uint32) bool {
	s := samples.get(g.Family)
	takes := packing.Flags(packing.Padded)
	if s != nil && s.transposed {
		takes |= packing.Transposed
	}
	return s != nil && g.Flags&^takes == 0 && slices.Contains(s.ids, fingerprintID) && sampled(g)
}

// sampled reports whether XNNPACK packs a geometry for the same kind of micro-kernel as the sample of its family.
// Depthwise convolutions, and convolutions with one input channel a group, have kinds of their own unless their kernels
// are large, and another one for kernels of one element.
func sampled(g *packing.Geometry) bool {
	switch g.Family.Operator {
	case packing.Convolution2D:
		return g.Shape[3] > 1 || g.Shape[0] > g.Groups
	case packing.DepthwiseConvolution2D:
		sides := sampledSides(packing.DepthwiseConvolution2D)
		return g.Groups == 1 && g.Shape[1] == g.Shape[2] && slices.Contains(sides, g.Shape[1])
	case packing.Deconvolution2D: // which is packed into pieces, by the stride
		return false
	}
	return true
}
