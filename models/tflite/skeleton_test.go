package tflite

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/flatbuf"
	"xpwc/internal/output"
	"xpwc/models"
)

// skeletonOf makes the skeleton of a model, of all its kernels, without LiteRT: its checks compare with nothing.
func skeletonOf(t testing.TB, model string) (path string, s *Skeleton) {
	t.Helper()
	s, err := NewSkeleton(model, &SkeletonOptions{Minimum: 1})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	path = filepath.Join(t.TempDir(), "skeleton.tflite")
	f, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, s.Write(f))
	require.NoError(t, f.Close())
	return path, s
}

// stays returns the reason why each kernel of a model stays in a skeleton; "" if it is left out.
func stays(t testing.TB, model []byte, minimum int64) (reasons []string) {
	t.Helper()
	s, err := NewSkeleton(save(t, model), &SkeletonOptions{Minimum: minimum})
	require.NoError(t, err)
	defer s.Close()
	for _, k := range s.Kernels {
		reason, _ := k.Stays()
		reasons = append(reasons, reason)
	}
	return reasons
}

func TestAKernelOfPrefillAndDecodeIsLeftOut(t *testing.T) {
	const bundle, offset, size = "../bundle/testdata/small.litertlm", 65536, 276944
	s, err := NewSkeleton(bundle, &SkeletonOptions{Minimum: 1, Offset: offset, Size: size})
	require.NoError(t, err)
	defer s.Close()
	users := map[uint64]int{}
	for _, k := range s.Kernels {
		users[k.Buffer]++
		_, stays := k.Stays()
		require.False(t, stays)
	}
	require.Len(t, users, 15)
	require.Len(t, s.Kernels, 15+9, "9 of them are of two signatures")
	require.Len(t, s.checked(), 15, "one check is enough for both")
}

func TestATableOfTokensThatIsAlsoMultipliedStaysInASkeleton(t *testing.T) {
	k := quantizedTensor("k", typeInt8, []int{11, 8}, 0, 0, []float32{1. / 16}, wave(88))
	m := blueprint{
		tensors: []blueTensor{typed(floats("ids", []int{3}), typeInt32), k, floats("row", []int{3, 8}),
			floats("out", nil)},
		ops: []blueOp{{code: "EMBEDDING_LOOKUP", inputs: []int{0, 1}, outputs: []int{2}},
			{code: "FULLY_CONNECTED", inputs: []int{2, 1, absent}, outputs: []int{3}}},
		inputs: []int{0}, outputs: []int{3},
	}
	require.Equal(t, []string{"also read unpacked, by EMBEDDING_LOOKUP"}, stays(t, m.bytes(), 1))
}

func TestAKernelInBlocksIsLeftOutUnlessABlockHidesAnother(t *testing.T) {
	m, _ := blocks()
	require.Equal(t, []string{""}, stays(t, m.bytes(), 1))
	m.tensors[3] = halves("scales", []int{3, 2}, 1, 0.5, 0.25, 2, 6e-8, 60000)
	require.Equal(t, []string{"with weights so large that a sum of floats loses the others"}, stays(t, m.bytes(), 1))
	m.tensors[3] = halves("scales", []int{3, 2}, 1, 0.5, 0.25, 2, 0, 60000)
	require.Equal(t, []string{""}, stays(t, m.bytes(), 1), "a weight of the scale 0 has no effect")
}

// placedOutside is the model with its constants after the flatbuffer, as converters write large ones.
func placedOutside(m blueprint) *blueprint {
	m.tensors = slices.Clone(m.tensors)
	for i := range m.tensors {
		m.tensors[i].outside = len(m.tensors[i].data) > 0
	}
	return &m
}

func TestASkeletonRunsWithTheModelsCacheAndFailsWhereItWouldPack(t *testing.T) {
	fourBits, _ := fourBitWeights(5, 12, 64, 0)
	inBlocks, _ := fourBitWeights(5, 12, 64, 32)
	eightBits, _ := dynamicRange(blueOp{code: "FULLY_CONNECTED"}, []int{5, 64}, []int{12, 64}, 0, true, 3)
	whole := single(blueOp{code: "FULLY_CONNECTED"}, []int{5, 64}, constantOf("k", 12, 64), constantOf("b", 12))
	for name, m := range map[string]blueprint{"int4": fourBits, "int4 in blocks": inBlocks, "int8": eightBits,
		"float": whole} {
		t.Run(name, func(t *testing.T) {
			for _, content := range [][]byte{m.bytes(), placedOutside(m).bytes()} {
				model, input, cache := save(t, content), wave(5*64), filepath.Join(t.TempDir(), "c.xpwc")
				want, _, _ := cached(t, openModel(t, model), cache, input)
				path, _ := skeletonOf(t, model)
				skeleton := openModel(t, path)
				got, _, stats := cached(t, skeleton, cache, input)
				require.Equal(t, want, got)
				require.Zero(t, stats.Packed.Entries)
				require.Positive(t, stats.Hits.Entries)

				empty, err := xpwc.Open(filepath.Join(t.TempDir(), "empty.xpwc"), nil)
				require.NoError(t, err)
				require.ErrorIs(t, models.Pack(empty, skeleton.DataMap(), skeleton.Subgraph), ErrSkeleton)
				require.NoError(t, empty.Close())
			}
		})
	}
}

func TestASkeletonWithoutItsRecordIsAnError(t *testing.T) {
	m, _ := blocks()
	path, _ := skeletonOf(t, save(t, m.bytes()))
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	end := len(content) - len(output.SkeletonMark) - recordEnd
	without := append(bytes.Clone(content[:end]), output.SkeletonMark...)
	_, err = Open(save(t, without), nil)
	require.ErrorIs(t, err, ErrSkeleton)
	hostile := bytes.Clone(content)
	copy(hostile[end:], bytes.Repeat([]byte{0xff}, 8))
	_, err = Open(save(t, hostile), nil)
	require.ErrorIs(t, err, ErrMalformed)
}

// A model whose buffers are outside the flatbuffer needs no holes: what is left out shares one range of zeros.
func TestASkeletonOfAModelWithBuffersOutsideTheFlatbufferIsShort(t *testing.T) {
	m := blueprint{tensors: []blueTensor{floats("x", []int{1, 64})}, inputs: []int{0}, outputs: []int{8}}
	for i := range 8 {
		m.tensors = append(m.tensors, floats("y", []int{1, 64}))
		m.ops = append(m.ops, blueOp{code: "FULLY_CONNECTED", inputs: []int{i, 9 + i, absent}, outputs: []int{i + 1}})
	}
	for i := range 8 {
		k := constantOf("k", 64, 64)
		k.data[3] ^= byte(i)
		m.tensors = append(m.tensors, k)
	}
	outside := placedOutside(m).bytes()
	path, s := skeletonOf(t, save(t, outside))
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.EqualValues(t, s.FileBytes, len(content))
	const kernel = 4 * 64 * 64
	require.Less(t, len(content), len(outside)-6*kernel)
	spans := map[flatbuf.Span]bool{}
	buffers := readBuffers(content, readModel(content))
	for _, k := range s.Kernels {
		span := buffers[k.Buffer]
		require.False(t, spans[span], "LiteRT identifies buffers by their addresses")
		spans[span] = true
		require.Equal(t, make([]byte, kernel), span.In(content))
	}
	require.Len(t, spans, 8)
}

// If the indices depended only on the model's structure, an editor could append buffers to a similar model so that its
// packed file has entries for kernels that no check sees.
func TestAKernelWithoutACheckHasIndicesThatDependOnTheModel(t *testing.T) {
	indices := func(bias float32) (index []uint32) {
		m := single(blueOp{code: "FULLY_CONNECTED"}, []int{1, 4},
			floats("w", []int{2, 4}, 1, 2, 3, 4, 5, 6, 7, 8), floats("b", []int{2}, bias, 1))
		path := filepath.Join(t.TempDir(), "model.tflite")
		require.NoError(t, os.WriteFile(path, m.bytes(), 0o600))
		s, err := NewSkeleton(path, &SkeletonOptions{Minimum: 1})
		require.NoError(t, err)
		defer s.Close()
		require.Len(t, s.Kernels, 1)
		kernel := s.Kernels[0].Buffer
		s.Packed(map[uint64]bool{kernel: true})
		out, err := os.Create(filepath.Join(t.TempDir(), "skeleton.tflite"))
		require.NoError(t, err)
		defer out.Close()
		require.NoError(t, s.Write(out))
		b, err := os.ReadFile(out.Name())
		require.NoError(t, err)
		graph := flatbuf.Root(b, fileIdentifier, ErrMalformed).Tables(modelSubgraphs).Table(0)
		tensors := graph.Tables(subgraphTensors)
		inputs := graph.Tables(subgraphOperators).Table(0).Int32s(operatorInputs)
		for _, i := range inputs[1:3] {
			index = append(index, tensors.Table(int(i)).Uint32(tensorBuffer))
			require.GreaterOrEqual(t, uint64(index[len(index)-1]), s.Buffers(), "none of the model's own")
		}
		return index
	}
	first, second := indices(1), indices(2)
	require.NotEqual(t, first[0], second[0])
	require.NotEqual(t, first[1], second[1])
}
