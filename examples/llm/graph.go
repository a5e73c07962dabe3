package main

import (
	"errors"
	"fmt"

	"xpwc"
	"xpwc/internal/fault"
	"xpwc/models"
	"xpwc/xnnpack"
)

// External values of the graph. Those of the layers' caches come after them.
const (
	idTokens xnnpack.ValueID = iota // their embeddings
	idCosine                        // of the angles that queries and keys are turned by
	idSine
	idMask // what is added to each score
	idPick // 1 for the token whose successor is asked for, 0 for the others
	idEpsilon
	idLogits // the output
	idLayers
)

// The cache of a layer: the past ones are inputs, the new ones outputs.
const (
	pastKeys xnnpack.ValueID = iota
	pastValues
	newKeys
	newValues
	cacheValues
)

func cacheID(layer int, kind xnnpack.ValueID) xnnpack.ValueID {
	return idLayers + xnnpack.ValueID(layer)*cacheValues + kind
}

// A graph is a subgraph under construction. The first error ends that, as package fault has it.
type graph struct {
	*constants
	loader   models.Loader
	subgraph *xnnpack.Subgraph
	// How many tokens there are and how many came before them. Runtimes are reshaped to other numbers.
	tokens, past int
}

// build makes the subgraph, whose constants the loader has of c. The caller deletes it.
func (c *constants) build(loader models.Loader, tokens, past int) (*xnnpack.Subgraph, error) {
	subgraph, err := xnnpack.NewSubgraph(int(cacheID(c.layers, 0)))
	if err != nil {
		return nil, err
	}
	g := &graph{constants: c, loader: loader, subgraph: subgraph, tokens: tokens, past: past}
	if err := fault.Try(g.define); err != nil {
		return nil, errors.Join(err, subgraph.Delete())
	}
	return subgraph, nil
}

func (g *graph) define() {
	inputs, outputs := g.shapes(g.tokens, g.past)
	for id, shape := range inputs {
		fault.Check(g.subgraph.Input(id, floats(shape...)))
	}
	for id, shape := range outputs {
		fault.Check(g.subgraph.Output(id, floats(shape...)))
	}
	x := idTokens
	for layer := range g.layers {
		x = g.attention(layer, x)
		x = g.feedForward(layer, x)
	}
	last := g.value(1, g.width)
	g.add(xnnpack.BatchMatrixMultiply{A: idPick, B: x, Output: last})
	g.multiplyInto(idLogits, g.norm("output_norm.weight", last, 1), 1, g.width, embedding, g.vocabulary)
}

// attention returns x plus the output of the layer's heads. Heads that share keys are one matrix.
func (g *graph) attention(layer int, x xnnpack.ValueID) xnnpack.ValueID {
	name := func(part string) string { return fmt.Sprintf("blk.%d.attn_%s.weight", layer, part) }
	total, rows := g.past+g.tokens, g.heads/g.keyHeads*g.tokens
	normed := g.norm(name("norm"), x, g.tokens)

	q := g.turn(g.multiply(normed, g.width, name("q"), g.width), g.heads)
	q = g.reshape(g.swap(q, g.heads, g.tokens, g.headSize), 1, g.keyHeads, rows, g.headSize)
	k := g.turn(g.multiply(normed, g.width, name("k"), g.keyWidth()), g.keyHeads)
	g.add(xnnpack.StaticReshape{Shape: []int{0, g.keyWidth()}, Input: k,
		Output: cacheID(layer, newKeys)})
	g.multiplyInto(cacheID(layer, newValues), normed, g.tokens, g.width, name("v"), g.keyWidth())

	scores := g.value(g.keyHeads, rows, total)
	g.add(xnnpack.BatchMatrixMultiply{A: q,
		B: g.joined(layer, pastKeys, newKeys), Output: scores, TransposeB: true})
	scores = g.binary(xnnpack.Add, scores, idMask, g.keyHeads, rows, total)
	shares := g.value(g.keyHeads, rows, total)
	g.add(xnnpack.Softmax{Input: scores, Output: shares})
	mixed := g.value(g.keyHeads, rows, g.headSize)
	g.add(xnnpack.BatchMatrixMultiply{A: shares,
		B: g.joined(layer, pastValues, newValues), Output: mixed})

	mixed = g.swap(g.reshape(mixed, 1, g.heads, g.tokens, g.headSize), g.tokens, g.heads, g.headSize)
	out := g.multiply(g.reshape(mixed, 0, g.tokens, g.width), g.width, name("output"), g.width)
	return g.binary(xnnpack.Add, x, out, g.tokens, g.width)
}

// joined returns the keys or values of all tokens: [keyHeads, past+tokens, headSize].
func (g *graph) joined(layer int, past, new xnnpack.ValueID) xnnpack.ValueID {
	total := g.past + g.tokens
	rows := g.value(total, g.keyWidth())
	g.add(xnnpack.Concatenate{Axis: 0, Output: rows,
		Inputs: []xnnpack.ValueID{cacheID(layer, past), cacheID(layer, new)}})
	return g.swap(g.reshape(rows, 0, total, g.keyHeads, g.headSize), g.keyHeads, total, g.headSize)
}

// turn turns the heads of [tokens, heads*headSize] by the angles of their tokens' positions: [tokens, heads, headSize].
func (g *graph) turn(x xnnpack.ValueID, heads int) xnnpack.ValueID {
	shape := []int{g.tokens, heads, g.headSize / 2}
	halves := []xnnpack.ValueID{g.value(shape...), g.value(shape...)}
	g.add(xnnpack.EvenSplit{Axis: 2, Input: g.reshape(x, 0, g.tokens, heads, g.headSize),
		Outputs: halves})
	times := func(a, b xnnpack.ValueID) xnnpack.ValueID { return g.binary(xnnpack.Multiply, a, b, shape...) }
	turned := g.value(g.tokens, heads, g.headSize)
	g.add(xnnpack.Concatenate{Axis: 2, Output: turned, Inputs: []xnnpack.ValueID{
		g.binary(xnnpack.Subtract, times(halves[0], idCosine), times(halves[1], idSine), shape...),
		g.binary(xnnpack.Add, times(halves[1], idCosine), times(halves[0], idSine), shape...)}})
	return turned
}

// feedForward returns x plus the output of the layer's gated perceptron.
func (g *graph) feedForward(layer int, x xnnpack.ValueID) xnnpack.ValueID {
	name := func(part string) string { return fmt.Sprintf("blk.%d.ffn_%s.weight", layer, part) }
	normed := g.norm(name("norm"), x, g.tokens)
	gate := g.multiply(normed, g.width, name("gate"), g.inner)
	gate = g.binary(xnnpack.Multiply, gate, g.unary(xnnpack.Sigmoid, gate, g.tokens, g.inner), g.tokens, g.inner)
	up := g.multiply(normed, g.width, name("up"), g.inner)
	inner := g.binary(xnnpack.Multiply, gate, up, g.tokens, g.inner)
	return g.binary(xnnpack.Add, x, g.multiply(inner, g.inner, name("down"), g.width), g.tokens, g.width)
}

// norm divides each of some rows of x by the root of its mean square, and multiplies it with a constant.
func (g *graph) norm(name string, x xnnpack.ValueID, rows int) xnnpack.ValueID {
	factors := floats(1, g.width)
	fault.Value(g.file.tensor(name, 1, g.width))
	factors.Data = g.load(name, xpwc.Retain())
	mean := g.value(rows, 1)
	g.add(xnnpack.StaticReduce{Op: xnnpack.ReduceMean, Axes: []int{1}, KeepDims: true,
		Input: g.unary(xnnpack.Square, x, rows, g.width), Output: mean})
	mean = g.binary(xnnpack.Add, mean, idEpsilon, rows, 1)
	x = g.binary(xnnpack.Multiply, x, g.unary(xnnpack.ReciprocalSquareRoot, mean, rows, 1), rows, g.width)
	return g.binary(xnnpack.Multiply, x, g.tensor(factors), rows, g.width)
}

// multiply returns what the tokens have in x, each so many columns, times a matrix.
func (g *graph) multiply(x xnnpack.ValueID, columns int, name string, outputs int) xnnpack.ValueID {
	product := g.value(g.tokens, outputs)
	g.multiplyInto(product, x, g.tokens, columns, name, outputs)
	return product
}

// multiplyInto sets product, [rows, outputs], to x, [rows, columns], times a matrix of [outputs, columns].
func (g *graph) multiplyInto(product, x xnnpack.ValueID, rows, columns int, name string, outputs int) {
	fault.Value(g.file.tensor(name, outputs, columns))
	node := xnnpack.FullyConnected{Input: x, Bias: xnnpack.InvalidValue, Output: product}
	matrix := floats(outputs, columns)
	if g.weights != float32Weights {
		matrix.Type = xnnpack.ChannelQInt8
		matrix.Quantization.Scales = g.scalesOf(name, outputs)
	}
	// Scales are 1 until the matrix is computed. The rows' own follow from the content, which the cache knows.
	packing := node.Packing(matrix, xnnpack.Tensor{}, floats(rows, columns), floats(rows, outputs))
	matrix.Data = g.load(name, xpwc.PackedAs(packing))
	node.Filter = g.tensor(matrix)
	g.add(node)
}

func (g *graph) unary(op xnnpack.UnaryOperator, x xnnpack.ValueID, shape ...int) xnnpack.ValueID {
	out := g.value(shape...)
	g.add(xnnpack.Unary{Op: op, Input: x, Output: out})
	return out
}

func (g *graph) binary(op xnnpack.BinaryOperator, a, b xnnpack.ValueID, shape ...int) xnnpack.ValueID {
	out := g.value(shape...)
	g.add(xnnpack.Binary{Op: op, A: a, B: b, Output: out})
	return out
}

// reshape returns x in another shape, whose dimension axis depends on the number of tokens.
func (g *graph) reshape(x xnnpack.ValueID, axis int, shape ...int) xnnpack.ValueID {
	out := g.value(shape...)
	shape[axis] = 0 // what is left
	g.add(xnnpack.StaticReshape{Shape: shape, Input: x, Output: out})
	return out
}

// swap returns x with its first two dimensions exchanged, in the shape that this gives.
func (g *graph) swap(x xnnpack.ValueID, shape ...int) xnnpack.ValueID {
	out := g.value(shape...)
	g.add(xnnpack.StaticTranspose{Permutation: []int{1, 0, 2}, Input: x, Output: out})
	return out
}

func (g *graph) value(shape ...int) xnnpack.ValueID { return g.tensor(floats(shape...)) }

func (g *graph) tensor(t xnnpack.Tensor) xnnpack.ValueID { return fault.Value(g.subgraph.Tensor(t)) }

func (g *graph) load(name string, o xpwc.LoadOption) []byte {
	return fault.Value(g.loader.Load(name, o))
}

func (g *graph) add(n xnnpack.Node) { fault.Check(g.subgraph.Add(n)) }

func floats(shape ...int) xnnpack.Tensor { return xnnpack.Tensor{Type: xnnpack.Float32, Shape: shape} }
