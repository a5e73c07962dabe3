package operators

import (
	"math"

	"xpwc/models"
	"xpwc/xnnpack"
)

// A Function computes each element from one: as a node of XNNPACK, and in Go from integers or from other numbers. What
// is nil cannot be computed so.
type Function struct {
	Node   *xnnpack.Unary
	Whole  func(a int64) int64
	Number func(x float64) float64

	loop loop // of C, where it has one
}

func node(op xnnpack.UnaryOperator) *xnnpack.Unary { return &xnnpack.Unary{Op: op} }

// Limit returns the function that limits to a range.
func Limit(low, high float64) Function {
	return Function{Node: &xnnpack.Unary{Op: xnnpack.Clamp,
		Limits: xnnpack.Range{Min: float32(low), Max: float32(high)}}}
}

// The functions of several formats.
var (
	Abs       = Function{Node: node(xnnpack.Abs), loop: loopAbsolute, Whole: func(a int64) int64 { return max(a, -a) }}
	Ceiling   = Function{Node: node(xnnpack.Ceiling)}
	Cosine    = Function{Node: node(xnnpack.Cosine)}
	ELU       = Function{Node: &xnnpack.Unary{Op: xnnpack.ELU, Alpha: 1}}
	Exp       = Function{Node: node(xnnpack.Exp)}
	Floor     = Function{Node: node(xnnpack.Floor)}
	HardSwish = Function{Node: node(xnnpack.HardSwish)}
	Log       = Function{Node: node(xnnpack.Log)}
	Negate    = Function{Node: node(xnnpack.Negate), loop: loopNegate, Whole: func(a int64) int64 { return -a }}
	ReLU      = Limit(0, math.Inf(1))
	Round     = Function{Node: node(xnnpack.BankersRounding)}
	Sigmoid   = Function{Node: node(xnnpack.Sigmoid)}
	// Sign is 0 of 0. XNNPACK's node takes several times as long.
	Sign = Function{loop: loopSign, Whole: func(a int64) int64 { return bit(a > 0) - bit(a < 0) },
		Number: signOf}
	Sine   = Function{Node: node(xnnpack.Sine)}
	Square = Function{Node: node(xnnpack.Square), Whole: func(a int64) int64 { return a * a }}
	Tanh   = Function{Node: node(xnnpack.Tanh)}

	ArcCosine        = Function{Number: math.Acos, loop: loopArcCosine}
	AreaCosine       = Function{Number: math.Acosh, loop: loopAreaCosine}
	ArcSine          = Function{Number: math.Asin, loop: loopArcSine}
	AreaSine         = Function{Number: math.Asinh, loop: loopAreaSine}
	ArcTangentOne    = Function{Number: math.Atan, loop: loopArcTangent}
	AreaTangent      = Function{Number: math.Atanh, loop: loopAreaTangent}
	HyperbolicCosine = Function{Number: math.Cosh, loop: loopHyperbolicCosine}
	HyperbolicSine   = Function{Number: math.Sinh, loop: loopHyperbolicSine}
	Tangent          = Function{Number: math.Tan, loop: loopTangent}
	ErrorFunction    = Function{Number: math.Erf, loop: loopErrorFunction}
	ExpLess1         = Function{Number: math.Expm1, loop: loopExponentialLess1}
	Log10            = Function{Number: math.Log10, loop: loopLogarithm10}
	Log1More         = Function{Number: math.Log1p, loop: loopLogarithm1More}
	Log2             = Function{Number: math.Log2, loop: loopLogarithm2}
	Truncate         = Function{Number: math.Trunc, loop: loopTruncate}

	SquareRoot           = Function{Node: node(xnnpack.SquareRoot)}
	ReciprocalSquareRoot = Function{Node: node(xnnpack.ReciprocalSquareRoot)}
)

func signOf(x float64) float64 {
	switch {
	case x > 0:
		return 1
	case x < 0:
		return -1
	}
	return x
}

// Compute computes a function of numbers, in C where that has a loop for them.
func (f Function) Compute() Operator { return unary(f.compute).independent() }

func (f Function) compute(out, in Array) {
	switch {
	case f.loop != noLoop && in.Element == models.Float16:
		inSinglePrecision(out, func(out Array) { f.compute(out, in.retyped(models.Float32)) })
	case out.Element != in.Element || !inPlace(out, in) ||
		!applyRow(f.loop, in.Element, out.Data, in.Data, product(in.Shape)):
		apply(f.Number, out, in)
	}
}

// ComputeWhole computes a function of integers, in C where that has a loop for them.
func (f Function) ComputeWhole() Operator {
	o := Operation{Whole: func(a, _ int64) int64 { return f.Whole(a) }}
	return unary(func(out, in Array) {
		if out.Element != in.Element || !inPlace(out, in) ||
			!applyRow(f.loop, in.Element, out.Data, in.Data, product(in.Shape)) {
			combine(o, out, in, in)
		}
	}).independent()
}

// LimitWhole limits integers to a range.
func LimitWhole(low, high int64) Operator {
	lower, upper := Number(models.Int64, 0), Number(models.Int64, 0)
	putWhole(models.Int64, lower.Data, low)
	putWhole(models.Int64, upper.Data, high)
	f := Function{Whole: func(a int64) int64 { return min(max(a, low), high) }}.ComputeWhole()
	return func(shapes [][]int) Kernel {
		k := f(shapes)
		wide := k.Run
		k.Run = func(out, in []Array) {
			if in[0].Element != models.Int64 || out[0].Element != models.Int64 {
				wide(out, in)
				return
			}
			combine(Maximum, out[0], in[0], lower)
			combine(Minimum, out[0], out[0], upper)
		}
		return k
	}
}

// IsNaN is 1 where a number is none.
func IsNaN() Operator { return unary(func(out, in Array) { combine(NotEqual, out, in, in) }) }

// IsInfinite is 1 where a number is infinite, and 0 elsewhere.
func IsInfinite() Operator {
	return unary(func(out, in Array) {
		if whole(in.Element) {
			clear(out.Data)
			return
		}
		negative := New(out.Element, out.Shape...)
		combine(EqualTo, out, in, Number(in.Element, math.Inf(1)))
		combine(EqualTo, negative, in, Number(in.Element, math.Inf(-1)))
		combine(Or, out, out, negative)
	})
}

// Apply computes a function of numbers.
func Apply(f func(x float64) float64) Operator {
	return unary(func(out, in Array) { apply(f, out, in) })
}

// Bucketize computes how many of some boundaries, the least first, are at most as large as each number of single
// precision: all if it is none. The counts are integers.
func Bucketize(boundaries []float32) Operator {
	limits := make([]Array, len(boundaries))
	for i, b := range boundaries {
		limits[i] = Number(models.Float32, float64(b))
	}
	return unary(func(out, in Array) {
		const size = 4096 // elements whose counts are made at the same time, in the CPU's cache
		below, counts, part := New(models.Bool, size), New(out.Element, size), New(out.Element, size)
		for i, n := 0, product(in.Shape); i < n; i += size {
			length := min(size, n-i)
			below, counts := below.part(0, length), counts.part(0, length)
			part, src := part.part(0, length), in.part(i, length)
			counts.Count(float64(len(limits)), 0)
			for _, limit := range limits {
				combine(Less, below, src, limit)
				cast(part, below)
				combine(Difference, counts, counts, part)
			}
			copy(out.part(i, length).Data, counts.Data)
		}
	})
}

// part returns n elements from element i on, in one dimension.
func (a Array) part(i, n int) Array {
	size := a.Element.Size()
	return Array{a.Element, []int{n}, a.Data[i*size:][:n*size]}
}

// Cast converts numbers to the output's type; floats are cut off to integers.
func Cast() Operator { return unary(cast) }

// Negation is 1 where an element is 0, and 0 elsewhere.
func Negation() Operator { return unary(negate) }

// Combine computes an operation on two inputs, which are broadcast to one shape: that of integers if all are.
func Combine(o Operation) Operator {
	combined := Operator(func(shapes [][]int) Kernel {
		return elementwise(shapes, func(out Array, in []Array) { combine(o, out, in[0], in[1]) })
	})
	return combined.independent()
}

// CombineNumber computes an operation on the input and one number.
func CombineNumber(o Operation, number Array) Operator {
	return unary(func(out, in Array) { combine(o, out, in, number) })
}

// Select has elements of the second input where the first, the condition, is not 0, and of the third elsewhere. The
// three are broadcast to one shape. By row, a condition of one dimension goes with the first dimension of the others.
func Select(byRow bool) Operator {
	return func(shapes [][]int) Kernel {
		condition, rank := shapes[0], len(shapes[1])
		if byRow && len(condition) == 1 {
			condition = append(condition[:1:1], ones(rank-1)...)
		}
		return elementwise([][]int{condition, shapes[1], shapes[2]}, func(out Array, in []Array) {
			selectRows(out, in[0].shaped(condition), in[1], in[2])
		}).moves(1, 2)
	}
}

// Fill has one number where the condition, the second input, is not 0, and elements of the first elsewhere.
func Fill(number float64) Operator {
	return func(shapes [][]int) Kernel {
		return elementwise(shapes, func(out Array, in []Array) {
			selectRows(out, in[1], Number(out.Element, number), in[0])
		}).moves(0)
	}
}

// Clamp limits the first input by a lower limit, the next input, and an upper limit, the one after it.
func Clamp(lower, upper bool) Operator {
	return func(shapes [][]int) Kernel {
		return elementwise(shapes, func(out Array, in []Array) {
			src, limits := in[0], in[1:]
			if lower {
				combine(Maximum, out, src, limits[0])
				src, limits = out, limits[1:]
			}
			if upper {
				combine(Minimum, out, src, limits[0])
			}
		})
	}
}

// Count fills a shape with a first number, and each following one a step further.
func Count(start, step float64, shape ...int) Operator {
	return func([][]int) Kernel {
		return computing(shape, func(out Array, _ []Array) { out.Count(start, step) })
	}
}

// Integers fills a shape with integers, zeros if there are none.
func Integers(numbers, shape []int) Operator {
	return func([][]int) Kernel {
		return computing(shape, func(out Array, _ []Array) {
			clear(out.Data)
			for i, n := range numbers {
				out.Put(i, float64(n))
			}
		})
	}
}

// LogSoftmax computes the logarithm of the softmax along an axis.
func LogSoftmax(axis int) Operator {
	return func(shapes [][]int) Kernel {
		along(axis, shapes[0])
		return unary(func(out, in Array) { logSoftmax(out, in, axis) })(shapes)
	}
}

// LocalNormalization divides numbers by (bias + alpha * s)^beta, where s is the sum of the squares of the numbers that
// are at most radius away along the last dimension.
func LocalNormalization(radius int, bias, alpha, beta float64) Operator {
	return func(shapes [][]int) Kernel {
		along(len(shapes[0])-1, shapes[0])
		return unary(func(out, in Array) { localNormalization(out, in, radius, bias, alpha, beta) })(shapes)
	}
}
