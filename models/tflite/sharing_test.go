package tflite

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/cachefile"
	"xpwc/internal/tests/modeltest"
	"xpwc/internal/tests/testkit"
)

const side = 64 // of the kernels

// square returns float32 for a kernel [side, side], others for each seed.
func square(seed int) []byte { return littleEndian(wave(side*side + seed)[seed:]) }

// multiply is a fully connected layer.
func multiply(name string, buffer int) modeltest.Layer {
	kernel := modeltest.Tensor{Name: name, Buffer: buffer, Shape: []int32{side, side}}
	return modeltest.Layer{Operator: modeltest.FullyConnected, Kernel: kernel}
}

// withBias is a fully connected layer with a bias.
func withBias(name string, buffer int, bias string, biasBuffer int) modeltest.Layer {
	l := multiply(name, buffer)
	l.Bias = &modeltest.Tensor{Name: bias, Buffer: biasBuffer, Shape: []int32{side}}
	return l
}

// scaled is a layer whose kernel is int8.
func scaled(name string, buffer int, scale float32) modeltest.Layer {
	l := multiply(name, buffer)
	l.Kernel.Scale = scale
	return l
}

func scaledWithBias(name string, buffer int, scale float32, bias string, biasBuffer int) modeltest.Layer {
	l := withBias(name, buffer, bias, biasBuffer)
	l.Kernel.Scale = scale
	return l
}

// dequantized is a layer whose kernel is int8, and which XNNPACK computes in float32.
func dequantized(name string, buffer int, scale float32) modeltest.Layer {
	l := scaled(name, buffer, scale)
	l.Kernel.Zero = 3
	return l
}

// transposed is a layer whose kernel is [in, out].
func transposed(name string, buffer int) modeltest.Layer {
	l := multiply(name, buffer)
	l.Operator = modeltest.BatchMatMul
	return l
}

// reshaped is a layer whose kernel is [outputs, inputs].
func reshaped(name string, buffer int, outputs, inputs int32) modeltest.Layer {
	l := multiply(name, buffer)
	l.Kernel.Shape = []int32{outputs, inputs}
	return l
}

// halfPrecision is a layer whose kernel is float16.
func halfPrecision(name string, buffer int) modeltest.Layer {
	l := multiply(name, buffer)
	l.Kernel.Half = true
	return l
}

// sum is a layer that adds what is a bias elsewhere.
func sum(name string, buffer int) modeltest.Layer {
	kernel := modeltest.Tensor{Name: name, Buffer: buffer, Shape: []int32{side}}
	return modeltest.Layer{Operator: modeltest.Add, Kernel: kernel}
}

func named(name string, rows int, layers ...modeltest.Layer) modeltest.Signature {
	return modeltest.Signature{Name: name, Prefix: name + "/", Rows: rows, Layers: layers}
}

// sharing is a file of several signatures.
type sharing struct {
	signatures []modeltest.Signature
	entries    int // of a cache that all of them have started with
}

var (
	biasBytes    = littleEndian(wave(side))
	int8Bytes    = square(7)[:side*side]
	sharedHalves = slices.Repeat([]float32{0.5, -1.25, 2, 0.75}, side*side/4)
	halfBytes    = halves("", nil, sharedHalves...).data
	// Buffers 0 and 1 are float32, 2 has the bytes of 0, 3 is a bias, 4 is int8, and 5 is float16.
	sharedBuffers = [][]byte{square(0), square(1), square(0), biasBytes, int8Bytes, halfBytes}
)

var sharings = map[string]sharing{
	"prefill and decode": {[]modeltest.Signature{
		named("prefill", 16, withBias("w", 0, "b", 3), multiply("v", 1)),
		named("decode", 1, withBias("w", 0, "b", 3), multiply("v", 1)),
	}, 2},
	"six lengths": {[]modeltest.Signature{
		named("prefill 32", 32, multiply("w", 0)), named("prefill 16", 16, multiply("w", 0)),
		named("prefill 8", 8, multiply("w", 0)), named("prefill 4", 4, multiply("w", 0)),
		named("prefill 2", 2, multiply("w", 0)), named("decode", 1, multiply("w", 0)),
	}, 1},
	"the second has a layer more": {[]modeltest.Signature{
		named("encode", 2, multiply("w", 0)), named("both", 2, multiply("w", 0), multiply("v", 1)),
	}, 2},
	"one name for two buffers": {[]modeltest.Signature{
		{Name: "encode", Rows: 2, Layers: []modeltest.Layer{multiply("w", 0)}},
		{Name: "decode", Rows: 2, Layers: []modeltest.Layer{multiply("w", 1)}},
	}, 2},
	"two names for one buffer in one signature": {[]modeltest.Signature{
		named("encode", 2, multiply("w", 0), multiply("v", 0)), named("decode", 2, multiply("v", 0)),
	}, 1},
	"another shape": {[]modeltest.Signature{
		named("encode", 2, multiply("w", 0)), named("decode", 2, reshaped("w", 0, 2*side, side/2)),
	}, 2},
	"transposed": {[]modeltest.Signature{
		named("encode", 2, multiply("w", 0)), named("decode", 2, transposed("w", 0)),
	}, 1}, // XNNPACK packs for BATCH_MATMUL without a cache
	"other scales": {[]modeltest.Signature{
		{Name: "encode", Rows: 2, Layers: []modeltest.Layer{scaled("w", 4, 0.5)}},
		{Name: "decode", Rows: 2, Layers: []modeltest.Layer{scaled("w", 4, 0.25)}},
	}, 2},
	"other scales, dequantized": {[]modeltest.Signature{
		{Name: "encode", Rows: 2, Layers: []modeltest.Layer{dequantized("w", 4, 0.5)}},
		{Name: "decode", Rows: 2, Layers: []modeltest.Layer{dequantized("w", 4, 0.25)}},
	}, 2},
	"the same scale": {[]modeltest.Signature{
		named("encode", 2, scaled("w", 4, 0.5)), named("decode", 1, scaled("w", 4, 0.5)),
	}, 1},
	"the same scale and bias": {[]modeltest.Signature{
		named("encode", 2, scaledWithBias("w", 4, 0.5, "b", 3)),
		named("decode", 1, scaledWithBias("w", 4, 0.5, "b", 3)),
	}, 1},
	"half precision": {[]modeltest.Signature{
		named("encode", 2, halfPrecision("w", 5)), named("decode", 1, halfPrecision("w", 5)),
	}, 1},
	"equal bytes in two buffers": {[]modeltest.Signature{
		named("encode", 2, multiply("w", 0)), named("decode", 2, multiply("w", 2)),
	}, 2},
	"one packs the bias and one reads it": {[]modeltest.Signature{
		named("encode", 2, withBias("w", 0, "b", 3)), named("decode", 2, sum("b", 3), multiply("w", 0)),
		named("both", 2, withBias("w", 0, "b", 3), sum("b", 3)),
	}, 2},
}

// open opens a signature.
func (s sharing) open(t *testing.T, path, name string) *Model {
	t.Helper()
	m, err := Open(path, &Options{Signature: name})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m
}

// runIn computes what a signature answers with a cache.
func (s sharing) runIn(t *testing.T, cache *xpwc.Cache, path string, sig modeltest.Signature) [][]float32 {
	t.Helper()
	m := s.open(t, path, sig.Name)
	return modeltest.RunCached(t, m, cache, m.DataMap(), input(sig))
}

func input(s modeltest.Signature) []float32 { return wave(s.Rows * int(s.Layers[0].Inputs())) }

// entriesOf counts the entries of a cache file.
func entriesOf(t *testing.T, path string) int {
	t.Helper()
	f, err := cachefile.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	entries := 0
	for _, err := range f.Entries() {
		require.NoError(t, err)
		entries++
	}
	return entries
}

func TestSignaturesShareWhatTheyPackInWhateverOrderTheyStart(t *testing.T) {
	for name, s := range sharings {
		t.Run(name, func(t *testing.T) {
			path := testkit.Settled(t, modeltest.WriteSignatures(t, sharedBuffers, s.signatures...))
			forward := slices.Clone(s.signatures)
			backward := slices.Clone(s.signatures)
			slices.Reverse(backward)
			for _, order := range [][]modeltest.Signature{forward, backward} {
				file := filepath.Join(t.TempDir(), "cache.xpwc")
				var packed, size int64
				for _, round := range []string{"cold", "warm"} {
					for _, sig := range order {
						cache, err := xpwc.Open(file, nil)
						require.NoError(t, err)
						want := modeltest.Run(t, s.open(t, path, sig.Name), input(sig))
						require.Equal(t, want, s.runIn(t, cache, path, sig), "%s, %s", round, sig.Name)
						require.NoError(t, cache.Save())
						packed += cache.Stats().Packed.Entries
						require.NoError(t, cache.Close())
					}
					require.EqualValues(t, s.entries, packed, round)
					require.Equal(t, s.entries, entriesOf(t, file))
					info, err := os.Stat(file)
					require.NoError(t, err)
					if round == "warm" {
						require.Equal(t, size, info.Size())
					}
					size = info.Size()
				}
			}
		})
	}
}

func TestSignaturesThatStartAtOnceShareOneFile(t *testing.T) {
	for name, s := range sharings {
		t.Run(name, func(t *testing.T) {
			path := modeltest.WriteSignatures(t, sharedBuffers, s.signatures...)
			file := filepath.Join(t.TempDir(), "cache.xpwc")
			cache, err := xpwc.Open(file, nil)
			require.NoError(t, err)
			answers := make([][][]float32, len(s.signatures))
			var running sync.WaitGroup
			for i, sig := range s.signatures {
				running.Go(func() { answers[i] = s.runIn(t, cache, path, sig) })
			}
			running.Wait()
			require.NoError(t, cache.Close())
			for i, sig := range s.signatures {
				require.Equal(t, modeltest.Run(t, s.open(t, path, sig.Name), input(sig)), answers[i], sig.Name)
			}
			require.Equal(t, s.entries, entriesOf(t, file))
		})
	}
}
