package packing_test

import (
	"encoding/hex"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/xnnpack/packing"
)

const (
	fp32   packing.Datatype = 1
	fp16   packing.Datatype = 2
	qint8  packing.Datatype = 3
	qcint8 packing.Datatype = 6
	qcint4 packing.Datatype = 8
	qdint8 packing.Datatype = 9
	qbint4 packing.Datatype = 12
)

func operand(t packing.Datatype) packing.Operand { return packing.Operand{Type: t} }

// sample is a convolution with dynamically quantised input.
func sample() packing.Identity {
	id := packing.Identity{
		Operator: packing.Convolution2D, Shape: []int{12, 3, 3, 8}, Groups: 2,
		Input: operand(qdint8), Kernel: operand(qcint8), Bias: operand(fp32), Output: operand(fp32),
		HiddenBias: []byte{1, 2, 3, 4},
	}
	id.Input.NonBatchDims = 3
	id.Kernel.Scales = []float32{1, 2}
	return id
}

func TestWhateverDecidesPackingIsInTheDigest(t *testing.T) {
	base := sample()
	twin := sample()
	twin.Kernel.Scale, twin.Kernel.BlockSize, twin.Output.ZeroPoint = 9, 32, 4
	twin.Stride, twin.Dilation = packing.Size{Height: 1, Width: 1}, packing.Size{Height: 1, Width: 1}
	require.Equal(t, base.Digest(), twin.Digest(), "what the datatypes do not let count")

	seen := map[packing.Digest]string{base.Digest(): "the same"}
	for name, change := range map[string]func(id *packing.Identity){
		"operator":             func(id *packing.Identity) { id.Operator = packing.Deconvolution2D },
		"flags":                func(id *packing.Identity) { id.Flags = packing.Padded },
		"transposed":           func(id *packing.Identity) { id.Flags = packing.Transposed },
		"shape":                func(id *packing.Identity) { id.Shape = []int{8, 3, 3, 12} },
		"another dimension":    func(id *packing.Identity) { id.Shape = []int{12, 3, 3, 8, 1} },
		"groups":               func(id *packing.Identity) { id.Groups = 6 },
		"stride":               func(id *packing.Identity) { id.Stride = packing.Size{Height: 2, Width: 1} },
		"stride the other way": func(id *packing.Identity) { id.Stride = packing.Size{Height: 1, Width: 2} },
		"dilation":             func(id *packing.Identity) { id.Dilation = packing.Size{Height: 2, Width: 1} },
		"input":                func(id *packing.Identity) { id.Input = operand(fp32) },
		"input's dimensions":   func(id *packing.Identity) { id.Input.NonBatchDims = 1 },
		"kernel":               func(id *packing.Identity) { id.Kernel = operand(fp32) },
		"kernel's zero point":  func(id *packing.Identity) { id.Kernel.ZeroPoint = 1 },
		"kernel's scale":       func(id *packing.Identity) { id.Kernel.Scales = []float32{1, math.Nextafter32(2, 3)} },
		"one scale more":       func(id *packing.Identity) { id.Kernel.Scales = []float32{1, 2, 3} },
		"one scale less":       func(id *packing.Identity) { id.Kernel.Scales = []float32{1} },
		"channel dimension":    func(id *packing.Identity) { id.Kernel.ChannelDim = 3 },
		"no bias":              func(id *packing.Identity) { id.Bias = packing.Operand{} },
		"output":               func(id *packing.Identity) { id.Output = operand(fp16) },
		"quantised output":     func(id *packing.Identity) { id.Output = operand(qint8) },
		"output's scale":       func(id *packing.Identity) { id.Output = operand(qint8); id.Output.Scale = 1 },
		"output's zero point":  func(id *packing.Identity) { id.Output = operand(qint8); id.Output.ZeroPoint = 1 },
		"hidden bias":          func(id *packing.Identity) { id.HiddenBias = []byte{1, 2, 3, 5} },
		"shorter hidden bias":  func(id *packing.Identity) { id.HiddenBias = []byte{1, 2, 3} },
		"empty hidden bias":    func(id *packing.Identity) { id.HiddenBias = []byte{} },
		"no hidden bias":       func(id *packing.Identity) { id.HiddenBias = nil },
		"4 bits":               func(id *packing.Identity) { id.Kernel.Type = qcint4 },
		"blocks":               func(id *packing.Identity) { id.Kernel = operand(qbint4) },
		"block size":           func(id *packing.Identity) { id.Kernel = operand(qbint4); id.Kernel.BlockSize = 32 },
		"block scales": func(id *packing.Identity) {
			id.Kernel = operand(qbint4)
			id.Kernel.BlockScales = []uint16{1}
		},
		"a type yet to come": func(id *packing.Identity) { id.Kernel = operand(99) },
		"the scale of it":    func(id *packing.Identity) { id.Kernel = operand(99); id.Kernel.Scale = 1 },
		"the scales of it": func(id *packing.Identity) {
			id.Kernel = operand(99)
			id.Kernel.Scales = []float32{1}
		},
		"the block scale of it": func(id *packing.Identity) {
			id.Kernel = operand(99)
			id.Kernel.BlockScales = []uint16{1}
		},
	} {
		id := sample()
		change(&id)
		digest := id.Digest()
		require.NotContains(t, seen, digest, name)
		seen[digest] = name
	}
}

// Cache files hold the digest: another encoding needs another version of it.
func TestTheDigestDoesNotChange(t *testing.T) {
	id := sample()
	digest := id.Digest()
	require.Equal(t, "aea94f3c73e7436f67739c1c3f4e5370", hex.EncodeToString(digest[:]))
}

func TestAnOpaqueIdentityHasADigestOnly(t *testing.T) {
	var digests []packing.Digest
	for _, b := range [][]byte{nil, {0}, {1}, {1, 0}} {
		id := packing.Opaque(b)
		require.False(t, id.Zero())
		require.Zero(t, id.Family())
		require.Zero(t, id.Geometry())
		require.NotContains(t, digests, id.Digest())
		digests = append(digests, id.Digest())
	}
	require.NotContains(t, digests, packing.Digest{})
	var nothing packing.Identity
	require.True(t, nothing.Zero())
	require.Zero(t, nothing.Digest())
	require.Zero(t, nothing.Geometry().LeastBytes())
}

func TestAFamilyReadsBackAsItWasEncoded(t *testing.T) {
	id := sample()
	f := id.Family()
	require.Equal(t, f, packing.DecodeFamily(f.Encode()))
	require.Equal(t, "convolution qdint8 qcint8 fp32 fp32", f.String())
	f.Bias = 0
	require.Equal(t, "convolution qdint8 qcint8 none fp32", f.String())
	require.Equal(t, "operator 77 datatype 99 none none none", packing.Family{Operator: 77, Input: 99}.String())
	require.Empty(t, packing.DecodeFamily([packing.FamilySize]byte{}).String())
}

func TestAGeometryIsComparable(t *testing.T) {
	a, b := sample(), sample()
	b.Kernel.Scales, b.HiddenBias, b.Stride = []float32{3, 4}, nil, packing.Size{Height: 1, Width: 1}
	require.Equal(t, a.Geometry(), b.Geometry())
	b.Groups = 6
	require.NotEqual(t, a.Geometry(), b.Geometry())
	a.Shape = slices.Repeat([]int{1}, packing.MaxDims+1)
	require.Zero(t, a.Geometry())
}

func TestTheLeastBytesAreThoseOfTheKernel(t *testing.T) {
	for name, c := range map[string]struct {
		kernel, io packing.Datatype
		flags      packing.Flags
		shape      []int
		want       uint64
	}{
		"float32":                       {fp32, fp32, 0, []int{3, 5}, 60},
		"float32 packed as float16":     {fp32, fp16, 0, []int{3, 5}, 30},
		"float32 in half precision":     {fp32, fp32, packing.HalfPrecision, []int{3, 5}, 30},
		"float16":                       {fp16, fp16, 0, []int{3, 5}, 30},
		"int8":                          {qint8, qint8, 0, []int{2, 3, 3, 4}, 72},
		"int8 of half precision":        {qcint8, fp16, packing.HalfPrecision, []int{4, 4}, 16},
		"4 bits":                        {qcint4, fp32, 0, []int{3, 4}, 6},
		"4 bits, an odd number":         {qcint4, fp32, 0, []int{3, 3}, 4},
		"a type yet to come":            {99, 99, 0, []int{3, 3}, 0},
		"nothing":                       {fp32, fp32, 0, []int{3, 0}, 0},
		"a negative dimension":          {fp32, fp32, 0, []int{3, -1}, 0},
		"more than there is memory for": {fp32, fp32, 0, []int{1 << 40, 1 << 40}, math.MaxUint64},
	} {
		id := packing.Identity{Operator: packing.FullyConnected, Flags: c.flags, Shape: c.shape,
			Input: operand(c.io), Kernel: operand(c.kernel), Output: operand(c.io)}
		require.Equal(t, c.want, id.Geometry().LeastBytes(), name)
	}
}

func TestAShapeThatContradictsTheTensorsSizeDoesNotFit(t *testing.T) {
	id := sample()
	g := id.Geometry()
	const elements = 12 * 3 * 3 * 8
	for _, fits := range []int{elements, 4 * elements, elements + 128, 2 * elements, elements / 2, elements / 4} {
		require.True(t, g.Fits(fits), fits)
	}
	for _, size := range []int{0, elements/4 - 1, 3 * elements, elements + 129, 1 << 20, math.MaxInt, -1} {
		require.False(t, g.Fits(size), size)
	}
	id.Shape = []int{5, 3}
	for _, size := range []int{8, 10} { // of 4 bits, and rows that begin at bytes
		require.True(t, id.Geometry().Fits(size))
	}
	for _, shape := range [][]int{{math.MaxInt, math.MaxInt, 2}, {math.MaxInt / 4}, {1 << 40, 1 << 40}, {-1, 1 << 20}} {
		id.Shape = shape
		require.False(t, id.Geometry().Fits(1<<20), shape)
	}
	require.True(t, packing.Geometry{}.Fits(77))
}
