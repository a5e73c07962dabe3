package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"xpwc"
	"xpwc/internal/tensorfile"
	"xpwc/xnnpack"
)

// weights is how the matrices are given to XNNPACK, and multiplied.
type weights string

const (
	float32Weights weights = "float32" // exactly what the file has
	int8Weights    weights = "int8"    // 8 bits, with a scale for each row
)

// A model is a Llama in a GGUF file. Its methods may be called from many goroutines.
type model struct {
	file    *gguf
	weights weights

	layers, width, heads, keyHeads, headSize, inner, vocabulary int
	context                                                     int // the most tokens that a text has
	epsilon, ropeBase                                           float64
}

// embedding is the tensor of the tokens' vectors: the first that a text meets, and the last.
const embedding = "token_embd.weight"

// openModel maps a file. The caller closes the model after all that was made of it.
func openModel(path string, w weights) (_ *model, err error) {
	if w != float32Weights && w != int8Weights {
		return nil, fmt.Errorf("weights are float32 or int8, and not %q", w)
	}
	file, err := openGGUF(path)
	if err != nil {
		return nil, err
	}
	m := &model{file: file, weights: w}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("%s: %w", path, err), m.close())
		}
	}()
	if architecture, _ := file.strings("general.architecture"); len(architecture) != 1 || architecture[0] != "llama" {
		return nil, fmt.Errorf("its architecture is %q, and only llama is read", architecture)
	}
	for name, dst := range map[string]*int{
		"block_count":             &m.layers,
		"embedding_length":        &m.width,
		"feed_forward_length":     &m.inner,
		"attention.head_count":    &m.heads,
		"attention.head_count_kv": &m.keyHeads,
		"rope.dimension_count":    &m.headSize,
		"context_length":          &m.context,
	} {
		n, err := file.number("llama." + name)
		if err != nil {
			return nil, err
		}
		if *dst = int(n); *dst < 1 || *dst > 1<<20 {
			return nil, fmt.Errorf("%w: %s is %g", errMalformed, name, n)
		}
	}
	if m.width != m.heads*m.headSize || m.heads%m.keyHeads != 0 || m.headSize%2 != 0 {
		return nil, fmt.Errorf("%w: %d heads of %d, %d of keys, do not make up a width of %d", errMalformed, m.heads,
			m.headSize, m.keyHeads, m.width)
	}
	if m.epsilon, err = file.number("llama.attention.layer_norm_rms_epsilon"); err != nil {
		return nil, err
	}
	if m.ropeBase, err = file.number("llama.rope.freq_base"); err != nil {
		return nil, err
	}
	m.vocabulary = file.tensors[embedding].rows
	_, err = file.tensor(embedding, m.vocabulary, m.width)
	return m, err
}

func (m *model) close() error { return m.file.file.Close() }

// keyWidth is how many numbers the keys, or the values, of a token have in a layer.
func (m *model) keyWidth() int { return m.keyHeads * m.headSize }

// shapes returns the shapes of a runtime's external values, for so many tokens after so many.
func (m *model) shapes(tokens, past int) (inputs, outputs map[xnnpack.ValueID][]int) {
	inputs = map[xnnpack.ValueID][]int{
		idTokens:  {tokens, m.width},
		idCosine:  {tokens, 1, m.headSize / 2},
		idSine:    {tokens, 1, m.headSize / 2},
		idMask:    {1, m.heads / m.keyHeads * tokens, past + tokens},
		idPick:    {1, tokens},
		idEpsilon: {1},
	}
	outputs = map[xnnpack.ValueID][]int{idLogits: {1, m.vocabulary}}
	for layer := range m.layers {
		for kind := range newKeys {
			inputs[cacheID(layer, kind)] = []int{past, m.keyWidth()}
			outputs[cacheID(layer, kind+newKeys)] = []int{tokens, m.keyWidth()}
		}
	}
	return inputs, outputs
}

// embed looks tokens up.
func (m *model) embed(dst []float32, tokens []int) {
	t := m.file.tensors[embedding]
	rows := t.place.In(m.file.file.Data())
	size := len(rows) / t.rows
	for i, token := range tokens {
		t.decode(dst[i*t.columns:(i+1)*t.columns], rows[token*size:(token+1)*size])
	}
}

// constants is the data map of one runtime. Matrices are dequantised, and quantised by rows, when XNNPACK is about to
// pack them: what it finds in a cache is never computed.
type constants struct {
	*model
	// scales of the rows of each matrix of int8. They are 1 until the matrix is computed: packed weights have theirs.
	scales map[string][]float32
}

func (m *model) constants() *constants { return &constants{m, map[string][]float32{}} }

// scalesOf returns a matrix's scales.
func (c *constants) scalesOf(name string, rows int) []float32 {
	if c.scales[name] == nil {
		c.scales[name] = slices.Repeat([]float32{1}, rows)
	}
	return c.scales[name]
}

// Tensor implements xpwc.DataMap.
func (c *constants) Tensor(name string) (xpwc.Tensor, error) {
	t, ok := c.file.tensors[name]
	if !ok {
		return xpwc.Tensor{}, fmt.Errorf("%w %q", xpwc.ErrUnknownTensor, name)
	}
	if readAtInference(name) {
		return tensorfile.Tensor(c.file.file, t.place)
	}
	order := c.order(name)
	conversion := tensorfile.Conversion{Size: t.rows * t.columns}
	var scales []float32
	if c.weights == float32Weights {
		conversion.Name = "float32" + order.name
		conversion.Size *= 4
	} else {
		conversion.Name = "int8" + order.name
		scales = c.scalesOf(name, t.rows)
	}
	conversion.Fill = func(dst, stored []byte) error {
		stride := len(stored) / t.rows
		inParallel(t.rows, func(begin, end int) {
			row := make([]float32, t.columns)
			for i := begin; i < end; i++ {
				src := order.row(i)
				t.decode(row, stored[src*stride:(src+1)*stride])
				for j := range row {
					row[j] *= order.factor
				}
				if scales != nil {
					scales[i] = quantize(dst[i*t.columns:(i+1)*t.columns], row)
					continue
				}
				for j, v := range row {
					binary.LittleEndian.PutUint32(dst[4*(i*t.columns+j):], math.Float32bits(v))
				}
			}
		})
		return nil
	}
	conversion.Digest = func(stored []byte) xpwc.Digest {
		d := xpwc.DigestOf(stored)
		return xpwc.DigestOf(append(d[:], conversion.Name...))
	}
	return tensorfile.Converted(c.file.file, t.place, conversion)
}

// readAtInference reports whether a tensor is that of a norm, which XNNPACK does not pack.
func readAtInference(name string) bool { return strings.HasSuffix(name, "_norm.weight") }

// An order maps the rows of XNNPACK's matrix to the file's.
type order struct {
	name   string // for identities
	row    func(i int) int
	factor float32
}

// order returns a matrix' order. The file has the two numbers that are turned together next to each other in the rows
// of queries and keys; here they are half a head apart. Queries are divided by the root of a head's size, which is due
// before the softmax.
func (m *model) order(name string) order {
	turned := order{fmt.Sprint(" turned ", m.headSize), func(i int) int {
		head, column := i/m.headSize, i%m.headSize
		return head*m.headSize + column%(m.headSize/2)*2 + column/(m.headSize/2)
	}, 1}
	switch {
	case strings.HasSuffix(name, ".attn_q.weight"):
		turned.name += " divided"
		turned.factor = float32(1 / math.Sqrt(float64(m.headSize)))
		return turned
	case strings.HasSuffix(name, ".attn_k.weight"):
		return turned
	}
	return order{"", func(i int) int { return i }, 1}
}
