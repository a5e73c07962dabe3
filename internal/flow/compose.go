package flow

import (
	"math"
	"slices"

	"xpwc/xnnpack"
)

// A Composer plans an operator as several nodes, with values inside of it.
type Composer interface {
	// Add plans a node. What it computes gets its shape, if that is inside.
	Add(Operation)
	// Inside returns a new value, whose elements are of the kind of another's.
	Inside(example ID) ID
	// Number returns a constant that goes with the elements of a value.
	Number(x float64, example ID) ID
}

// Apply returns what a node computes of each element.
func Apply(c Composer, n xnnpack.Unary, x ID) ID {
	n.Input, n.Output = x, c.Inside(x)
	c.Add(Unary(n))
	return n.Output
}

// Combine returns what a node computes of the elements of two values.
func Combine(c Composer, op xnnpack.BinaryOperator, a, b ID) ID {
	out := c.Inside(a)
	c.Add(Binary(xnnpack.Binary{Op: op, A: a, B: b, Output: out}))
	return out
}

// Reduced returns the sum or mean over some dimensions, which are 1 then.
func Reduced(c Composer, op xnnpack.ReduceOperator, axes []int, x ID) ID {
	out := c.Inside(x)
	c.Add(StaticReduce(xnnpack.StaticReduce{Op: op, Axes: axes, KeepDims: true, Input: x, Output: out}))
	return out
}

// Peaks returns the largest of each n elements of a value that lie inner elements apart, in the shape [outer, 1, 1,
// inner].
func Peaks(c Composer, x ID, outer, n, inner int) ID {
	const window = 8 // which XNNPACK reads in one pass, and one channel takes as long as 16
	for n > 2*window && n%window == 0 {
		n /= window
		if inner == 1 {
			x = pooled(c, x, outer, window, n)
		} else {
			x = pooled(c, x, outer*n, window, inner)
		}
	}
	return pooled(c, x, outer, n, inner)
}

func pooled(c Composer, x ID, outer, n, inner int) ID {
	pool := xnnpack.MaxPooling2D{Input: Reshaped(c, x, outer, n, 1, inner), Pooling: xnnpack.Size{Height: n, Width: 1},
		Stride: xnnpack.Size{Height: 1, Width: 1}, Dilation: xnnpack.Size{Height: 1, Width: 1}}
	pool.Output = c.Inside(pool.Input)
	c.Add(MaxPooling2D(pool))
	return pool.Output
}

// LogSoftmax plans the logarithm of the softmax of x along an axis: x less its peak, less the logarithm of the sum of
// its exponentials.
func LogSoftmax(c Composer, x ID, shape []int, axis int, out ID) {
	outer, n, inner := xnnpack.Elements(shape[:axis]), shape[axis], xnnpack.Elements(shape[axis+1:])
	if inner == 1 && n > 1 {
		logSoftmaxOfRows(c, x, shape, outer, n, out)
		return
	}
	lines := Reshaped(c, x, outer, n, 1, inner)
	if n > 1 {
		lines = Combine(c, xnnpack.Subtract, lines, Peaks(c, x, outer, n, inner))
	} else {
		lines = Combine(c, xnnpack.Subtract, lines, lines)
	}
	sum := Reduced(c, xnnpack.ReduceSum, []int{1}, Apply(c, xnnpack.Unary{Op: xnnpack.Exp}, lines))
	whole := Combine(c, xnnpack.Subtract, lines, Apply(c, xnnpack.Unary{Op: xnnpack.Log}, sum))
	c.Add(StaticReshape(xnnpack.StaticReshape{Shape: slices.Clone(shape), Input: whole, Output: out}))
}

// logSoftmaxOfRows plans the logarithm of the softmax of rows. The softmax of the peak is one over the sum of the
// exponentials.
func logSoftmaxOfRows(c Composer, x ID, shape []int, outer, n int, out ID) {
	softmax := c.Inside(x)
	c.Add(Softmax(xnnpack.Softmax{Input: x, Output: softmax}))
	inverse := Apply(c, xnnpack.Unary{Op: xnnpack.Log}, Peaks(c, softmax, outer, n, 1))
	rows := append(slices.Clone(shape[:len(shape)-1]), 1)
	below := Combine(c, xnnpack.Subtract, x, Reshaped(c, Peaks(c, x, outer, n, 1), rows...))
	c.Add(Binary(xnnpack.Binary{Op: xnnpack.Add, A: below, B: Reshaped(c, inverse, rows...), Output: out}))
}

// Reshaped returns a value in another shape.
func Reshaped(c Composer, x ID, shape ...int) ID {
	out := c.Inside(x)
	c.Add(StaticReshape(xnnpack.StaticReshape{Shape: slices.Clone(shape), Input: x, Output: out}))
	return out
}

// Transposed returns a value with its dimensions in another order.
func Transposed(c Composer, x ID, permutation ...int) ID {
	out := c.Inside(x)
	c.Add(StaticTranspose(xnnpack.StaticTranspose{Permutation: permutation, Input: x, Output: out}))
	return out
}

// Sliced returns a part of a value.
func Sliced(c Composer, x ID, offsets, sizes []int) ID {
	out := c.Inside(x)
	c.Add(StaticSlice(xnnpack.StaticSlice{Offsets: slices.Clone(offsets), Sizes: slices.Clone(sizes), Input: x,
		Output: out}))
	return out
}

// Padded returns a value with zeros around it.
func Padded(c Composer, x ID, pre, post []int) ID {
	out := c.Inside(x)
	c.Add(StaticConstantPad(xnnpack.StaticConstantPad{Pre: pre, Post: post, Input: x, Output: out}))
	return out
}

// Join plans that a value is any number of others along an axis. A node of XNNPACK joins five at most, so what is
// joined so far goes into the next one.
func Join(c Composer, axis int, inputs IDs, out ID) {
	const limit = 5
	if len(inputs) == 1 {
		c.Add(Copy(xnnpack.Copy{Input: inputs[0], Output: out}))
		return
	}
	for len(inputs) > limit {
		joined := c.Inside(inputs[0])
		c.Add(Concatenate(xnnpack.Concatenate{Axis: axis, Inputs: inputs[:limit], Output: joined}))
		inputs = append(IDs{joined}, inputs[limit:]...)
	}
	c.Add(Concatenate(xnnpack.Concatenate{Axis: axis, Inputs: inputs, Output: out}))
}

// ApproximateGELU computes x/2 * (1 + tanh(k/2 * (x + 0.044715*x³))) with k = 2√(2/π), where XNNPACK has no node for it
// as x * sigmoid(x * (k + k*0.044715*x²)).
func ApproximateGELU(c Composer, x, out ID) {
	if xnnpack.HasApproximateGELU() {
		c.Add(Unary(xnnpack.Unary{Op: xnnpack.ApproximateGELU, Input: x, Output: out}))
		return
	}
	k := 2 * math.Sqrt(2/math.Pi)
	cubic := Combine(c, xnnpack.Multiply, Combine(c, xnnpack.Multiply, x, x), c.Number(k*0.044715, x))
	inner := Combine(c, xnnpack.Multiply, Combine(c, xnnpack.Add, cubic, c.Number(k, x)), x)
	factor := Apply(c, xnnpack.Unary{Op: xnnpack.Sigmoid}, inner)
	c.Add(Binary(xnnpack.Binary{Op: xnnpack.Multiply, A: factor, B: x, Output: out}))
}
