package tflite

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"xpwc/internal/fault"
	"xpwc/models"
)

// specimens are models with every kind of operator.
func specimens() [][]byte {
	var cases []opCase
	for _, group := range [][]opCase{convolutionCases(), deconvolutionCases(), poolCases(), resizeCases(),
		elementwiseCases(), shapeCases(), weightCases()} {
		for i := 0; i < len(group); i += 7 {
			cases = append(cases, group[i])
		}
	}
	var out [][]byte
	for _, c := range append(cases, opCase{model: convolutional()}, opCase{model: widening()},
		opCase{model: looping()}, opCase{model: scattering()}, opCase{model: composed()},
		opCase{model: newLSTM(lstm{in: 2, n: 3}).model(2, false)}) {
		out = append(out, c.model.bytes())
	}
	for _, v := range moves() {
		m := v.model(typeInt8, 1./16, 1./32)
		out = append(out, m.bytes())
	}
	for _, block := range []int{0, 32} {
		m, _ := fourBitWeights(2, 3, 64, block)
		out = append(out, m.bytes())
	}
	m, _ := dynamicRange(blueOp{code: "FULLY_CONNECTED"}, []int{2, 6}, []int{3, 6}, 0, false, 0)
	return append(append(out, m.bytes()), smallModels()...)
}

// smallModels are the small models that Keras made.
func smallModels() (out [][]byte) {
	files, err := filepath.Glob(filepath.Join("..", "..", "internal", "tests", "zoo", "testdata", "tflite", "*.tflite"))
	if err != nil {
		panic(err)
	}
	for _, path := range files {
		if b, err := os.ReadFile(path); err != nil {
			panic(err)
		} else if len(b) < 1<<15 {
			out = append(out, b)
		}
	}
	return out
}

// seed adds models whole, cut off and damaged, and the smallest real ones.
func seed(f *testing.F) {
	for i, b := range specimens() {
		f.Add(b)
		if i%8 == 0 {
			f.Add(b[:len(b)*(i%7+1)/8])
			bad := bytes.Clone(b)
			bad[len(bad)*(i%11+1)/12] ^= 0x55
			f.Add(bad)
		}
	}
	for _, name := range []string{"face_detection_short_range.tflite", "selfie_segmentation.tflite"} {
		b, err := os.ReadFile(modelPath(f, name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(b[:len(b)-len(b)/3])
		bad := bytes.Clone(b)
		for i := 7; i < len(bad); i += 4099 {
			bad[i] ^= 0x11
		}
		f.Add(bad)
	}
	b, err := os.ReadFile(autoencoder)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	m, _ := blocks()
	for _, m := range []*blueprint{&m, placedOutside(m)} {
		path, _ := skeletonOf(f, save(f, m.bytes()))
		if b, err = os.ReadFile(path); err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
}

// FuzzOpen reads any bytes as a model: what is malformed must be an error.
func FuzzOpen(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		if s := (&Skeleton{minimum: 1}); fault.Try(func() { s.read(b) }) == nil {
			err := fault.Try(func() { s.probe().metadata(s.unmoved(nil)) })
			if err != nil && !errors.Is(err, ErrMalformed) {
				t.Fatal(err)
			}
		}
		if p, err := load(b, Options{}); err == nil {
			for _, name := range p.graph.signatures[:min(len(p.graph.signatures), 4)] {
				declared := inputsOf(b, name)
				if q, err := load(b, Options{Signature: name}); err == nil && len(declared) != len(q.graph.inputs) {
					t.Fatalf("%d inputs are declared of %d", len(declared), len(q.graph.inputs))
				}
			}
			for _, c := range p.constants {
				stored, conversion := c.source.In(b), c.conversion()
				if c.size <= 1<<20 {
					if err := conversion.Fill(make([]byte, c.size), stored); err != nil {
						t.Fatal(err)
					}
				}
				conversion.Digest(stored)
			}
		}
	})
}

// inputsOf returns the inputs that a signature declares, or none if they are malformed.
func inputsOf(b []byte, signature string) (inputs []models.Value) {
	_ = fault.Try(func() { inputs = readContents(b).inputs(b, signature) })
	return inputs
}

// FuzzSubgraph also makes a subgraph and a runtime of every model that can be opened, and runs it: no shape, index or
// option may bring XNNPACK down.
func FuzzSubgraph(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, b []byte) { exercise(t, b) })
}

// FuzzPatchedSubgraph does the same with models that are well-formed except for a few numbers, which gets past the
// flatbuffer's own structure: each four bytes of patches are a position and a number of one byte or of four.
func FuzzPatchedSubgraph(f *testing.F) {
	models := specimens()
	for i := range models {
		f.Add(uint16(i), []byte{byte(i), 1, 0, byte(i)})
	}
	f.Fuzz(func(t *testing.T, number uint16, patches []byte) {
		b := bytes.Clone(models[int(number)%len(models)])
		for ; len(patches) >= 4; patches = patches[4:] {
			offset := (int(patches[0]) | int(patches[1])<<8) % (len(b) - 4)
			if patches[2]&1 == 0 {
				b[offset] = patches[3]
				continue
			}
			n := int32(int8(patches[3])) << (patches[2] >> 3)
			binary.LittleEndian.PutUint32(b[offset&^3:], uint32(n))
		}
		exercise(t, b)
	})
}

// FuzzSparsity checks that whatever is accepted as the encoding of a tensor stays within it.
func FuzzSparsity(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3}, []byte{}, []byte{0, 2, 0, 1, 0, 1, 1, 0}, []byte{0, 2, 3}, []byte{1, 3, 0})
	f.Add([]byte{0, 1, 2, 3, 4}, []byte{3}, []byte{0, 2, 0, 1, 0, 1, 1, 0, 0, 2}, []byte{0, 1, 3}, []byte{1, 0, 1})
	f.Add([]byte{3, 2, 1, 0}, []byte{}, []byte{0, 4, 0, 1, 0, 1, 0, 2}, []byte{}, []byte{})
	f.Fuzz(func(t *testing.T, order, blocks, dims, segments, places []byte) {
		widen := func(b []byte) (out []int32) {
			for _, v := range b {
				out = append(out, int32(int8(v)))
			}
			return out
		}
		s := &sparsity{traversalOrder: widen(order), blockMap: widen(blocks)}
		for i := 0; i+1 < len(dims); i += 2 {
			s.dims = append(s.dims,
				sparseDim{format: dims[i], size: int32(int8(dims[i+1])), segments: widen(segments),
					indices: widen(places)})
		}
		shape := []int{2, 1, 1, 4}
		var sc *scatter
		if err := fault.Try(func() { sc = s.scatter(shape) }); err != nil || sc.stored > 1<<10 {
			return
		}
		stored := make([]byte, 2*sc.stored)
		for i := range stored {
			stored[i] = 0xff
		}
		dst := make([]byte, 2*sc.dense)
		sc.place(dst, stored, 2)
		if sc.stored == 0 && !bytes.Equal(dst, make([]byte, len(dst))) {
			t.Fatal("elements out of nothing")
		}
	})
}
