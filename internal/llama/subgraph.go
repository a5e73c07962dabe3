package llama

import (
	"math"

	"xpwc/models"
	"xpwc/xnnpack"
)

// Subgraph makes a new subgraph of the stack, with the external values Input and Output, and asks l once for each
// matrix. The caller deletes it, as soon as a runtime is made of it.
func (m *Model) Subgraph(l models.Loader) (*xnnpack.Subgraph, error) {
	s, err := xnnpack.NewSubgraph(2)
	if err != nil {
		return nil, err
	}
	b := &builder{model: m, loader: l, s: s}
	b.stack()
	if b.err != nil {
		if err := s.Delete(); err != nil {
			return nil, err
		}
		return nil, b.err
	}
	return s, nil
}

// builder defines values and nodes. Once one fails, the others fail too, and err is the first error.
type builder struct {
	model  *Model
	loader models.Loader
	s      *xnnpack.Subgraph
	layer  int
	err    error
}

func (b *builder) stack() {
	external := xnnpack.Tensor{Name: "hidden states", Type: xnnpack.Float32, Shape: []int{1, Width}}
	b.do(b.s.Input(Input, external))
	b.do(b.s.Output(Output, external))
	x := Input
	for b.layer = range b.model.stack.Layers {
		x = b.attention(x)
		x = b.feedForward(x)
	}
	b.normInto(x, Output)
}

// do keeps the first error.
func (b *builder) do(err error) {
	if b.err == nil {
		b.err = err
	}
}

// define makes an internal value of b.
func (b *builder) define(t xnnpack.Tensor) xnnpack.ValueID {
	if b.err != nil {
		return xnnpack.InvalidValue
	}
	id, err := b.s.Tensor(t)
	b.do(err)
	return id
}

func (b *builder) row(width int) xnnpack.ValueID {
	return b.define(xnnpack.Tensor{Type: xnnpack.Float32, Shape: []int{1, width}})
}

func (b *builder) unary(op xnnpack.UnaryOperator, x xnnpack.ValueID, width int) xnnpack.ValueID {
	y := b.row(width)
	b.do(b.s.Add(xnnpack.Unary{Op: op, Input: x, Output: y}))
	return y
}

func (b *builder) binary(op xnnpack.BinaryOperator, x, y xnnpack.ValueID, width int) xnnpack.ValueID {
	z := b.row(width)
	b.do(b.s.Add(xnnpack.Binary{Op: op, A: x, B: y, Output: z}))
	return z
}

// attention returns x + o(sigmoid(q*k)*v) of x's norm; key and value serve four groups of queries.
func (b *builder) attention(x xnnpack.ValueID) xnnpack.ValueID {
	in := b.activation(b.norm(x), Width)
	score := b.binary(xnnpack.Multiply, b.multiply(query, in), b.repeat(b.multiply(key, in)), Width)
	mixed := b.binary(xnnpack.Multiply, b.unary(xnnpack.Sigmoid, score, Width), b.repeat(b.multiply(value, in)), Width)
	return b.binary(xnnpack.Add, x, b.multiply(output, b.activation(mixed, Width)), Width)
}

// repeat makes four key or value heads' worth of one.
func (b *builder) repeat(x xnnpack.ValueID) xnnpack.ValueID {
	y := b.row(Width)
	b.do(b.s.Add(xnnpack.Concatenate{Axis: 1, Inputs: []xnnpack.ValueID{x, x, x, x}, Output: y}))
	return y
}

// feedForward returns x + down(gate*sigmoid(gate)*up) of x's norm.
func (b *builder) feedForward(x xnnpack.ValueID) xnnpack.ValueID {
	in := b.activation(b.norm(x), Width)
	g := b.multiply(gate, in)
	g = b.binary(xnnpack.Multiply, g, b.unary(xnnpack.Sigmoid, g, hiddenWidth), hiddenWidth)
	h := b.binary(xnnpack.Multiply, g, b.multiply(up, in), hiddenWidth)
	return b.binary(xnnpack.Add, x, b.multiply(down, b.activation(h, hiddenWidth)), Width)
}

func (b *builder) norm(x xnnpack.ValueID) xnnpack.ValueID {
	y := b.row(Width)
	b.normInto(x, y)
	return y
}

// normInto divides x by its root mean square.
func (b *builder) normInto(x, y xnnpack.ValueID) {
	squares := b.unary(xnnpack.Square, x, Width)
	mean := b.row(1)
	b.do(b.s.Add(xnnpack.StaticReduce{Op: xnnpack.ReduceMean, Axes: []int{1}, KeepDims: true,
		Input: squares, Output: mean}))
	positive := b.row(1)
	b.do(b.s.Add(xnnpack.Unary{Op: xnnpack.Clamp, Input: mean, Output: positive,
		Limits: xnnpack.Range{Min: 1e-5, Max: math.MaxFloat32}}))
	factor := b.unary(xnnpack.ReciprocalSquareRoot, positive, 1)
	b.do(b.s.Add(xnnpack.Binary{Op: xnnpack.Multiply, A: x, B: factor, Output: y}))
}

// activation is x as the matrices take it: quantised row by row, unless they are float32.
func (b *builder) activation(x xnnpack.ValueID, width int) xnnpack.ValueID {
	if b.model.stack.Float32 {
		return x
	}
	y := b.define(dynamic(width))
	b.do(b.s.Add(xnnpack.Unary{Op: xnnpack.ConvertElements, Input: x, Output: y}))
	return y
}

func dynamic(width int) xnnpack.Tensor {
	return xnnpack.Tensor{Type: xnnpack.DynamicQInt8, Shape: []int{1, width},
		Quantization: xnnpack.Quantization{NonBatchDims: 1}}
}

// multiply returns the product of a matrix of the layer and x.
func (b *builder) multiply(kind int, x xnnpack.ValueID) xnnpack.ValueID {
	y := b.row(kinds[kind].out)
	filter := b.weight(kind)
	b.do(b.s.Add(xnnpack.FullyConnected{Input: x, Filter: filter, Bias: xnnpack.InvalidValue,
		Output: y}))
	return y
}

func (b *builder) weight(kind int) xnnpack.ValueID {
	if b.err != nil {
		return xnnpack.InvalidValue
	}
	w := b.model.matrices[weightName(b.layer, kind)]
	t := w.filter
	data, err := b.loader.Load(t.Name, w.packed)
	if err != nil {
		b.do(err)
		return xnnpack.InvalidValue
	}
	t.Data = data
	return b.define(t)
}
