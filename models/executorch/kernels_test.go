//go:build cgo

package executorch

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/tests/modeltest"
)

// An invocation's arguments, as a program has them.

type nothing struct{}

type wholes []int64

type shaped []int32 // the shape of a tensor of floats

type parts []shaped // of a list of tensors

// number is a value of 64 bits. Its second field keeps the builder from having it share a table's layout with what is
// smaller.
func number(bits uint64, kind byte) table { return table{0: kind, 1: table{0: bits, 1: byte(1)}} }

// invoked makes a program of one call. Its shaped arguments are the method's inputs, and what out has are its outputs.
func invoked(operator string, args []any, out any) mprogram {
	m := mmethod{name: "forward", operators: []string{operator}}
	add := func(t table) int32 {
		m.values = append(m.values, t)
		return int32(len(m.values) - 1)
	}
	tensor := func(s shaped) int32 { return add(mtensor{dtype: Float, sizes: s}.table()) }
	list := func(shapes parts, dst *[]int32) int32 {
		var items []int32
		for _, s := range shapes {
			i := tensor(s)
			items, *dst = append(items, i), append(*dst, i)
		}
		return add(table{0: byte(evalueTensorList), 1: table{0: items}})
	}
	var values []int32
	for _, a := range args {
		switch a := a.(type) {
		case nothing:
			values = append(values, add(table{0: byte(evalueNull), 1: table{}}))
		case int:
			values = append(values, add(number(uint64(a), evalueInt)))
		case bool: // of one byte
			values = append(values, add(table{0: byte(evalueBool), 1: table{0: map[bool]byte{true: 1}[a]}}))
		case float64:
			values = append(values, add(number(math.Float64bits(a), evalueDouble)))
		case string:
			values = append(values, add(table{0: byte(evalueString), 1: table{0: a}}))
		case wholes:
			var items []int64
			for _, n := range a {
				items = append(items, int64(add(number(uint64(n), evalueInt))))
			}
			values = append(values, add(table{0: byte(evalueIntList), 1: table{0: items}}))
		case shaped:
			i := tensor(a)
			m.inputs, values = append(m.inputs, i), append(values, i)
		case typed:
			i := add(mtensor{dtype: a.element, sizes: a.shape}.table())
			m.inputs, values = append(m.inputs, i), append(values, i)
		case parts:
			values = append(values, list(a, &m.inputs))
		default:
			panic(fmt.Sprintf("%T", a))
		}
	}
	switch out := out.(type) {
	case shaped:
		i := tensor(out)
		m.outputs, values = append(m.outputs, i), append(values, i)
	case typed:
		i := add(mtensor{dtype: out.element, sizes: out.shape}.table())
		m.outputs, values = append(m.outputs, i), append(values, i)
	case parts:
		values = append(values, list(out, &m.outputs))
	}
	m.instructions = []table{kernel(0, values...)}
	return mprogram{methods: []mmethod{m}}
}

// numbered returns n different numbers, some of them negative.
func numbered(n int) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(i%7)/2 - 1 + float32(i)/16
	}
	return out
}

// eachOf applies a function to numbers.
func eachOf(f func(x float64) float64) func(in [][]float32) [][]float32 {
	return func(in [][]float32) [][]float32 {
		out := make([]float32, len(in[0]))
		for i, x := range in[0] {
			out[i] = float32(f(float64(x)))
		}
		return [][]float32{out}
	}
}

// taking gives outputs the elements of the inputs, one input after the other, at these indices.
func taking(indices ...[]int) func(in [][]float32) [][]float32 {
	return func(in [][]float32) (out [][]float32) {
		var inputs []float32
		for _, x := range in {
			inputs = append(inputs, x...)
		}
		for _, list := range indices {
			var input []float32
			for _, i := range list {
				input = append(input, inputs[i])
			}
			out = append(out, input)
		}
		return out
	}
}

func upTo(n int) (out []int) {
	for i := range n {
		out = append(out, i)
	}
	return out
}

func TestOperatorsBetweenDelegatesComputeWhatPyTorchDoes(t *testing.T) {
	inf := math.Inf(1)
	six := shaped{2, 3}
	for _, c := range []struct {
		operator string
		args     []any
		out      any
		want     func(in [][]float32) [][]float32
	}{
		{"aten::abs.out", []any{six}, six, eachOf(math.Abs)},
		{"aten::exp.out", []any{six}, six, eachOf(math.Exp)},
		{"aten::tanh.out", []any{six}, six, eachOf(math.Tanh)},
		{"aten::relu.out", []any{six}, six, eachOf(func(x float64) float64 { return max(x, 0) })},
		{"aten::clamp.out", []any{six, -0.25, nothing{}}, six,
			eachOf(func(x float64) float64 { return max(x, -0.25) })},
		{"aten::hardtanh.out", []any{six, -1, 1}, six, eachOf(func(x float64) float64 { return max(-1, min(x, 1)) })},
		{"aten::elu.out", []any{six, 0.5, 1, 1}, six,
			eachOf(func(x float64) float64 { return max(x, 0) + min(0, 0.5*math.Expm1(x)) })},
		{"aten::leaky_relu.out", []any{six, 0.25}, six, eachOf(func(x float64) float64 { return max(x, x/4) })},
		{"aten::gelu.out", []any{six, "none"}, six,
			eachOf(func(x float64) float64 { return x / 2 * (1 + math.Erf(x/math.Sqrt2)) })},
		{"aten::reciprocal.out", []any{six}, six, eachOf(func(x float64) float64 { return 1 / x })},
		{"aten::add.Scalar_out", []any{six, 3, 2}, six, eachOf(func(x float64) float64 { return x + 6 })},
		{"aten::sub.Scalar_out", []any{six, 0.5, 1}, six, eachOf(func(x float64) float64 { return x - 0.5 })},
		{"aten::mul.Scalar_out", []any{six, 1.5}, six, eachOf(func(x float64) float64 { return x * 1.5 })},
		{"aten::pow.Tensor_Scalar_out", []any{six, 2}, six, eachOf(func(x float64) float64 { return x * x })},
		{"aten::pow.Tensor_Scalar_out", []any{six, 3.0}, six, eachOf(func(x float64) float64 { return x * x * x })},
		{"aten::sub.out", []any{six, six, 2}, six, func(in [][]float32) [][]float32 {
			out := make([]float32, 6)
			for i := range out {
				out[i] = in[0][i] - 2*in[1][i]
			}
			return [][]float32{out}
		}},
		{"aten::mul.out", []any{six, shaped{3}}, six, func(in [][]float32) [][]float32 {
			out := make([]float32, 6)
			for i := range out {
				out[i] = in[0][i] * in[1][i%3]
			}
			return [][]float32{out}
		}},
		{"aten::view_copy.out", []any{six, wholes{3, 2}}, shaped{3, 2}, taking(upTo(6))},
		{"aten::unsqueeze_copy.out", []any{six, 1}, shaped{2, 1, 3}, taking(upTo(6))},
		{"aten::squeeze_copy.dims_out", []any{shaped{1, 6, 1}, wholes{0, 2}}, shaped{6}, taking(upTo(6))},
		{"aten::permute_copy.out", []any{shaped{1, 2, 3}, wholes{2, 0, 1}}, shaped{3, 1, 2},
			taking([]int{0, 3, 1, 4, 2, 5})},
		{"aten::transpose_copy.int_out", []any{shaped{1, 2, 3}, -1, 1}, shaped{1, 3, 2},
			taking([]int{0, 3, 1, 4, 2, 5})},
		{"aten::t_copy.out", []any{six}, shaped{3, 2}, taking([]int{0, 3, 1, 4, 2, 5})},
		{"aten::slice_copy.Tensor_out", []any{six, 1, -2, 9, 1}, shaped{2, 2}, taking([]int{1, 2, 4, 5})},
		{"aten::slice_copy.Tensor_out", []any{six, 0, nothing{}, nothing{}, 1}, six, taking(upTo(6))},
		{"aten::select_copy.int_out", []any{six, 1, -1}, shaped{2}, taking([]int{2, 5})},
		{"aten::split_with_sizes_copy.out", []any{six, wholes{1, 2}, 1}, parts{{2, 1}, {2, 2}},
			taking([]int{0, 3}, []int{1, 2, 4, 5})},
		{"aten::unbind_copy.int_out", []any{six, 0}, parts{{3}, {3}}, taking([]int{0, 1, 2}, []int{3, 4, 5})},
		{"aten::cat.out", []any{parts{{2, 1}, {2, 2}}, -1}, six, taking([]int{0, 2, 3, 1, 4, 5})},
		{"aten::cat.out", []any{parts{{1}, {2}, {3}, {1}, {1}, {2}, {4}}, 0}, shaped{14}, taking(upTo(14))},
		{"aten::stack.out", []any{parts{{2}, {2}, {2}}, 1}, six, taking([]int{0, 2, 4, 1, 3, 5})},
		{"aten::expand_copy.out", []any{shaped{2, 1}, wholes{2, 3}, false}, six, taking([]int{0, 0, 0, 1, 1, 1})},
		{"aten::expand_copy.out", []any{six, wholes{-1, 3}, false}, six, taking(upTo(6))},
		{"aten::constant_pad_nd.out", []any{six, wholes{1, 0}, -inf}, shaped{2, 4}, func(in [][]float32) [][]float32 {
			x, less := in[0], float32(-inf)
			return [][]float32{{less, x[0], x[1], x[2], less, x[3], x[4], x[5]}}
		}},
		{"aten::mean.out", []any{six, wholes{-1}, true, nothing{}}, shaped{2, 1}, func(in [][]float32) [][]float32 {
			x := in[0]
			return [][]float32{{(x[0] + x[1] + x[2]) / 3, (x[3] + x[4] + x[5]) / 3}}
		}},
		{"aten::sum.IntList_out", []any{six, wholes{0}, false, nothing{}}, shaped{3}, func(in [][]float32) [][]float32 {
			x := in[0]
			return [][]float32{{x[0] + x[3], x[1] + x[4], x[2] + x[5]}}
		}},
		{"aten::mean.dtype_out", []any{six, nothing{}}, shaped{}, func(in [][]float32) [][]float32 {
			x := in[0]
			return [][]float32{{(x[0] + x[1] + x[2] + x[3] + x[4] + x[5]) / 6}}
		}},
		{"aten::_softmax.out", []any{six, 0, false}, six, func(in [][]float32) [][]float32 {
			out := make([]float32, 6)
			for i := range 3 {
				a, b := math.Exp(float64(in[0][i])), math.Exp(float64(in[0][i+3]))
				out[i], out[i+3] = float32(a/(a+b)), float32(b/(a+b))
			}
			return [][]float32{out}
		}},
		{"aten::mm.out", []any{six, shaped{3, 1}}, shaped{2, 1}, func(in [][]float32) [][]float32 {
			a, b := in[0], in[1]
			return [][]float32{{a[0]*b[0] + a[1]*b[1] + a[2]*b[2], a[3]*b[0] + a[4]*b[1] + a[5]*b[2]}}
		}},
		{"aten::addmm.out", []any{shaped{1}, six, shaped{3, 1}, 1, 1}, shaped{2, 1}, func(in [][]float32) [][]float32 {
			c, a, b := in[0][0], in[1], in[2]
			return [][]float32{{c + a[0]*b[0] + a[1]*b[1] + a[2]*b[2], c + a[3]*b[0] + a[4]*b[1] + a[5]*b[2]}}
		}},
		{"aten::bmm.out", []any{shaped{1, 2, 3}, shaped{1, 3, 1}}, shaped{1, 2, 1}, func(in [][]float32) [][]float32 {
			a, b := in[0], in[1]
			return [][]float32{{a[0]*b[0] + a[1]*b[1] + a[2]*b[2], a[3]*b[0] + a[4]*b[1] + a[5]*b[2]}}
		}},
	} {
		t.Run(fmt.Sprint(c.operator, c.args), func(t *testing.T) {
			m := openBytes(t, invoked(c.operator, c.args, c.out).bytes()).Methods()[0]
			require.NoError(t, m.Runnable())
			var inputs [][]float32
			for _, v := range m.Inputs() {
				n := 1
				for _, d := range v.Shape {
					n *= d
				}
				inputs = append(inputs, numbered(n))
			}
			for i, got := range modeltest.Run(t, m, inputs...) {
				want := c.want(inputs)[i]
				require.Len(t, got, len(want))
				for k := range want {
					if got[k] != want[k] { // infinities
						require.InDelta(t, want[k], got[k], 2e-6, "output %d, element %d", i, k)
					}
				}
			}
		})
	}
}

func TestACallThatContradictsItselfIsAReason(t *testing.T) {
	six := shaped{2, 3}
	for name, p := range map[string]mprogram{
		"too few arguments":    invoked("aten::mul.out", []any{six}, nil),
		"no tensor":            invoked("aten::abs.out", []any{six}, nil),
		"another shape":        invoked("aten::abs.out", []any{six}, shaped{3, 2}),
		"a dimension":          invoked("aten::select_copy.int_out", []any{six, 2, 0}, shaped{2}),
		"an index":             invoked("aten::select_copy.int_out", []any{six, 1, 3}, shaped{2}),
		"no integer":           invoked("aten::select_copy.int_out", []any{six, "one", 0}, shaped{2}),
		"parts":                invoked("aten::split_copy.Tensor_out", []any{six, 1, 1}, parts{{2, 1}, {2, 1}}),
		"parts of other ranks": invoked("aten::unbind_copy.int_out", []any{six, 0}, parts{{3}, {3}, {3}}),
		"dimensions":           invoked("aten::permute_copy.out", []any{six, wholes{0, 0}}, six),
		"fewer dimensions":     invoked("aten::permute_copy.out", []any{six, wholes{0}}, six),
		"padding":              invoked("aten::constant_pad_nd.out", []any{six, wholes{1, 2, 3, 4, 5, 6}, 0}, six),
		"of nothing":           invoked("aten::cat.out", []any{parts{}, 0}, six),
		"a pool": invoked("aten::avg_pool2d.out", []any{shaped{1, 1, 2, 3}, wholes{9, 9}, wholes{1, 1}, wholes{0, 0},
			false, true, nothing{}}, shaped{1, 1, 1, 1}),
	} {
		t.Run(name, func(t *testing.T) {
			err := openBytes(t, p.bytes()).Methods()[0].Runnable()
			require.True(t, errors.Is(err, ErrMalformed) || errors.Is(err, ErrUnsupported), "%v", err)
		})
	}
}

func TestACallThatGoDoesNotComputeTakesNoMemory(t *testing.T) {
	long := shaped{1 << 26}
	for _, p := range []mprogram{
		invoked("aten::slice_copy.Tensor_out", []any{long, 0, 0, nothing{}, 2}, shaped{1 << 25}),
		invoked("aten::slice_scatter.out", []any{long, shaped{1 << 25}, 0, 0, nothing{}, 2}, long),
	} {
		var prev, stats runtime.MemStats
		runtime.ReadMemStats(&prev)
		require.ErrorIs(t, openBytes(t, p.bytes()).Methods()[0].Runnable(), ErrUnsupportedOp)
		runtime.ReadMemStats(&stats)
		require.Less(t, stats.TotalAlloc-prev.TotalAlloc, uint64(1<<26))
	}
}

func TestAnIntegerThatSinglePrecisionDoesNotHaveIsNotPaddedWith(t *testing.T) {
	p := invoked("aten::constant_pad_nd.out", []any{typed{Long, []int32{3}}, wholes{1, 0}, 1<<24 + 1},
		typed{Long, []int32{4}})
	require.ErrorIs(t, openBytes(t, p.bytes()).Methods()[0].Runnable(), ErrUnsupportedOp)
}
