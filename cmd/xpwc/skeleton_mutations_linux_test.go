package main

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/flatbuf"
	"xpwc/internal/tests/testkit"
	"xpwc/models/bundle"
	"xpwc/models/tflite"
)

// storedKernel is a kernel in a model's bytes: rows of elements, of one output each except for depthwise convolutions.
type storedKernel struct {
	data          []byte
	rows, columns int
	size          int // bytes an element; 0 for half a byte
}

// storedKernels returns the kernels that share the bytes of a model.
func storedKernels(t testing.TB, path string, model []byte) (kernels []storedKernel) {
	t.Helper()
	s, err := tflite.NewSkeleton(path, &tflite.SkeletonOptions{Minimum: 1})
	require.NoError(t, err)
	defer s.Close()
	root := flatbuf.Root(model, "TFL3", tflite.ErrMalformed)
	for _, k := range s.Kernels {
		span := root.Tables(4).Table(int(k.Buffer)).Span(0)
		for _, graph := range root.Tables(2).All() {
			for _, tensor := range graph.Tables(0).All() {
				shape := tensor.Int32s(0)
				if uint64(tensor.Uint32(2)) != k.Buffer || len(shape) < 2 {
					continue
				}
				elements := 1
				for _, d := range shape {
					elements *= int(d)
				}
				columns := int(shape[len(shape)-1])
				if span.Size == 0 {
					continue
				}
				kernels = append(kernels, storedKernel{model[span.Offset:span.End()], elements / columns, columns,
					int(span.Size) / elements})
			}
		}
	}
	return slices.CompactFunc(kernels, func(a, b storedKernel) bool { return &a.data[0] == &b.data[0] })
}

// rotateInputs moves each input's weights to the next input.
func (k storedKernel) rotateInputs() {
	width := len(k.data) / k.rows
	for row := range slices.Chunk(k.data[:width*k.rows], max(width, 1)) {
		rotate(row, max(k.size, 1))
	}
}

// rotateOutputs moves each output's weights to the next output.
func (k storedKernel) rotateOutputs() { rotate(k.data, len(k.data)/k.rows) }

func rotate(b []byte, n int) {
	if len(b) > n {
		copy(b, slices.Concat(b[n:], b[:n]))
	}
}

// negate changes all weights.
func (k storedKernel) negate() {
	for i := max(k.size, 1) - 1; i < len(k.data); i += max(k.size, 1) {
		if k.size > 1 {
			k.data[i] ^= 0x80
		} else {
			k.data[i] = -k.data[i]
		}
	}
}

// changeOne changes an integer by one, or a float that is not small by some percent.
func (k storedKernel) changeOne(random *rand.Rand) {
	for range 1000 {
		i := random.IntN(len(k.data)/max(k.size, 1)) * max(k.size, 1)
		switch k.size {
		case 4:
			v := math.Float32frombits(binary.LittleEndian.Uint32(k.data[i:]))
			if math.Abs(float64(v)) < 1e-3 {
				continue
			}
			k.data[i+2] ^= 1
		case 2:
			if k.data[i+1]&0x7f < 0x10 { // of less than 2⁻¹¹
				continue
			}
			k.data[i] ^= 0x20
		default:
			k.data[i] ^= 1 // -128 is none of LiteRT's weights, and 127 becomes 126
		}
		return
	}
}

// A model with other weights has the same keys, and LiteRT believes its file. A skeleton never answers with them: it
// fails, or it answers as its own model, where the weights that differ are not left out.
func TestASkeletonNeverAnswersWithThePackedFileOfAMutatedModel(t *testing.T) {
	h := stockLiteRT(t)
	var models []string
	for _, kind := range []string{"mlp", "sepconv", "conv_odd", "unet", "transformer", "conv1d"} {
		for _, datatype := range []string{"fp32", "fp16", "dyn", "int8"} {
			models = append(models, zooModel(t, kind+"_"+datatype))
		}
	}
	if testkit.Complete() {
		models = slices.DeleteFunc(zooModels(t), func(m string) bool {
			return slices.Contains(takenByLiteRT, baseName(m))
		})
	}
	for _, model := range testkit.Drawn(t, models) {
		t.Run(baseName(model), func(t *testing.T) {
			t.Parallel()
			requireRightAnswers(t, h, model)
		})
	}
}

func TestASkeletonInFourBitsNeverAnswersWithThePackedFileOfAMutatedModel(t *testing.T) {
	requireRightAnswers(t, stockLiteRT(t), zooModel(t, "int4_dyn")) // by channel, in blocks, and int2
}

// A bundle with other weights has the same keys, too, and LiteRT-LM's engine believes a cache by its name.
func TestAStrippedBundleNeverAnswersWithThePackedFileOfAMutatedOne(t *testing.T) {
	path, random := deployedBundle(t), testkit.Random(t)
	want := engineAnswer(t, path, ":nocache")
	skeleton := strippedBundle(t, path)
	b, err := bundle.Open(path)
	require.NoError(t, err)
	section, err := b.Section("prefill_decode")
	require.NoError(t, err)
	model := extracted(t, path, "prefill_decode")
	for name, mutate := range map[string]func([]storedKernel){
		"inputs":  func(ks []storedKernel) { ks[random.IntN(len(ks))].rotateInputs() },
		"outputs": func(ks []storedKernel) { ks[random.IntN(len(ks))].rotateOutputs() },
		"element": func(ks []storedKernel) { ks[random.IntN(len(ks))].changeOne(random) },
		"last":    func(ks []storedKernel) { ks[len(ks)-1].negate() },
	} {
		content := contentOf(t, path)
		mutate(storedKernels(t, model, content[section.Offset:][:section.Size]))
		mutated := filepath.Join(t.TempDir(), "model.litertlm")
		require.NoError(t, os.WriteFile(mutated, content, 0o600))
		for _, cache := range caches(t, skeleton) {
			require.NoError(t, os.Remove(cache))
		}
		packed := packedForEngine(t, mutated).LiteRT[0].Output
		reported[placement](t, t.TempDir(), 0, "place", skeleton, packed)
		out, err := engine(t, skeleton, "").Output()
		if err == nil {
			require.Equal(t, want, string(out), "%s: it answers with the weights of another model", name)
		}
	}
}

func requireRightAnswers(t *testing.T, h litertHost, model string) {
	dir, inputs, random := t.TempDir(), inputsOf(t, model), testkit.Random(t)
	packAndStrip(t, dir, model)
	skeleton := filepath.Join(dir, "skeleton")
	want, log, err := h.try(t, model, "", inputs...)
	if err != nil {
		t.Skip("the stock runtime does not run it: ", log)
	}
	require.True(t, bytes.Equal(want, h.run(t, skeleton, filepath.Join(dir, "packed"), inputs...)))

	mutations := map[string]func([]storedKernel){
		"inputs":     func(ks []storedKernel) { ks[random.IntN(len(ks))].rotateInputs() },
		"outputs":    func(ks []storedKernel) { ks[random.IntN(len(ks))].rotateOutputs() },
		"element":    func(ks []storedKernel) { ks[random.IntN(len(ks))].changeOne(random) },
		"element 2":  func(ks []storedKernel) { ks[random.IntN(len(ks))].changeOne(random) },
		"last layer": func(ks []storedKernel) { ks[len(ks)-1].negate() },
	}
	for name, mutate := range mutations {
		mutated := contentOf(t, model)
		mutate(storedKernels(t, model, mutated))
		if bytes.Equal(mutated, contentOf(t, model)) {
			continue // a kernel of one input or output
		}
		changed := filepath.Join(dir, name+".tflite")
		require.NoError(t, os.WriteFile(changed, mutated, 0o600))
		litertPack(t, dir, changed, "-o", name)
		if bytes.Equal(contentOf(t, filepath.Join(dir, name)), contentOf(t, filepath.Join(dir, "packed"))) {
			continue // of weights that LiteRT does not keep in its file
		}
		out, log, err := h.try(t, skeleton, filepath.Join(dir, name), inputs...)
		if err != nil {
			require.Contains(t, log, "(CALL_ONCE) failed to invoke", name)
			continue
		}
		require.True(t, bytes.Equal(want, out), "%s: it answers with the weights of another model", name)
	}
}

// Weights that a sum of floats rounds off decide the answer when the input of the large ones is 0, and the bias does
// when all inputs are 0.
func TestASkeletonNeverAnswersWithWeightsThatLargerOnesHide(t *testing.T) {
	h := stockLiteRT(t)
	change := func(floats []byte, i int, edit func(float32) float32) {
		v := edit(math.Float32frombits(binary.LittleEndian.Uint32(floats[4*i:])))
		binary.LittleEndian.PutUint32(floats[4*i:], math.Float32bits(v))
	}
	const large, inputs = 1e12, 64 // of the first kernel of mlp_fp32
	t.Run("one of each output", func(t *testing.T) {
		requireRightAnswer(t, h, zooModel(t, "mlp_fp32"), func(weights, _ []byte) {
			for i := 0; i < len(weights)/4; i += inputs {
				change(weights, i, func(float32) float32 { return large })
			}
		}, func(weights, _ []byte) {
			for row := range slices.Chunk(weights, 4*inputs) {
				rotate(row[4:], 4)
			}
		}, func(input []byte) {
			for row := range slices.Chunk(input, 4*inputs) {
				clear(row[:4])
			}
		})
	})
	t.Run("all, and a bias", func(t *testing.T) {
		requireRightAnswer(t, h, zooModel(t, "conv1d_fp32"), func(weights, _ []byte) {
			for i := range len(weights) / 4 {
				change(weights, i, func(v float32) float32 { return large * (1 + v) })
			}
		}, func(_, bias []byte) {
			for i := range len(bias) / 4 {
				change(bias, i, func(v float32) float32 { return v + 0.25 })
			}
		}, func(input []byte) { clear(input) })
	})
}

// requireRightAnswer changes the first kernel and bias of a model, mutates these in another one, and requires that the
// skeleton of the first does not answer with the packed file of the other.
func requireRightAnswer(t *testing.T, h litertHost, zoo string, prepare, mutate func(weights, bias []byte),
	prepareInput func([]byte)) {
	t.Helper()
	s, err := tflite.NewSkeleton(zoo, &tflite.SkeletonOptions{Minimum: 1})
	require.NoError(t, err)
	defer s.Close()
	dir, content := t.TempDir(), contentOf(t, zoo)
	path := func(name string) string { return filepath.Join(dir, name) }
	buffer := func(i uint64) []byte {
		buffers := flatbuf.Root(content, "TFL3", tflite.ErrMalformed).Tables(4)
		if i >= uint64(buffers.Len()) {
			return nil
		}
		return buffers.Table(int(i)).Span(0).In(content)
	}
	input := contentOf(t, inputsOf(t, zoo)[0])
	prepareInput(input)
	require.NoError(t, os.WriteFile(path("input"), input, 0o600))
	write := func(name string, change func(weights, bias []byte)) {
		change(buffer(s.Kernels[0].Buffer), buffer(s.Kernels[0].Bias))
		require.NoError(t, os.WriteFile(path(name+".tflite"), content, 0o600))
		litertPack(t, dir, path(name+".tflite"), "-o", name)
	}
	write("model", prepare)
	write("other", mutate)
	printed(t, dir, 0, stripForLiteRT(path("model.tflite"), "model", "-o", "skeleton")...)

	want := h.run(t, path("model.tflite"), "", path("input"))
	require.NotEqual(t, want, h.run(t, path("other.tflite"), "", path("input")))
	require.Equal(t, want, h.run(t, path("skeleton"), path("model"), path("input")))
	out, log, err := h.try(t, path("skeleton"), path("other"), path("input"))
	if err != nil {
		require.Contains(t, log, "(CALL_ONCE) failed to invoke")
		return
	}
	require.Equal(t, want, out, "it answers with the weights of another model")
}
