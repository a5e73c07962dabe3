package tflite

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/tests/modeltest"
)

// TestOperatorsOnNumbersComputeTheirDefinition runs each in single precision, and on int8 to within a step of the
// output's scale.
func TestOperatorsOnNumbersComputeTheirDefinition(t *testing.T) {
	type definition func(x []float64) []float64
	elementwise := func(f func(float64) float64) definition {
		return func(x []float64) []float64 {
			out := make([]float64, len(x))
			for i, v := range x {
				out[i] = f(v)
			}
			return out
		}
	}
	// reduced is over the middle dimension of [2, 3, 5].
	reduced := func(f func(a, b float64) float64, start float64) definition {
		return func(x []float64) []float64 {
			out := make([]float64, 10)
			for i := range out {
				out[i] = start
				for j := range 3 {
					out[i] = f(out[i], x[i/5*15+j*5+i%5])
				}
			}
			return out
		}
	}
	// product is of [2, 3, 5] with itself, each matrix by its transpose or the transpose by it.
	product := func(rows, columns, inner int, a, b func(i, j int) int) definition {
		return func(x []float64) []float64 {
			var out []float64
			for n := range 2 {
				for i := range rows {
					for j := range columns {
						sum := 0.0
						for k := range inner {
							sum += x[15*n+a(i, k)] * x[15*n+b(k, j)]
						}
						out = append(out, sum)
					}
				}
			}
			return out
		}
	}
	softmax := func(beta float64) definition {
		return func(x []float64) []float64 {
			out := make([]float64, len(x))
			for row := 0; row < len(x); row += 5 {
				sum := 0.0
				for i := range 5 {
					sum += math.Exp(beta * x[row+i])
				}
				for i := range 5 {
					out[row+i] = math.Exp(beta*x[row+i]) / sum
				}
			}
			return out
		}
	}
	axis := func(n int32) []blueTensor { return []blueTensor{int32Tensor("axis", []int{1}, n)} }
	twice := []int{0, 0}
	for _, c := range []struct {
		name      string
		op        blueOp
		positive  bool // the operator is defined for positive numbers only
		constants []blueTensor
		want      definition
	}{
		{"CEIL", blueOp{code: "CEIL"}, false, nil, elementwise(math.Ceil)},
		{"FLOOR", blueOp{code: "FLOOR"}, false, nil, elementwise(math.Floor)},
		{"ROUND", blueOp{code: "ROUND"}, false, nil, elementwise(math.RoundToEven)},
		{"COS", blueOp{code: "COS"}, false, nil, elementwise(math.Cos)},
		{"SIN", blueOp{code: "SIN"}, false, nil, elementwise(math.Sin)},
		{"EXP", blueOp{code: "EXP"}, false, nil, elementwise(math.Exp)},
		{"LOG", blueOp{code: "LOG"}, true, nil, elementwise(math.Log)},
		{"NEG", blueOp{code: "NEG"}, false, nil, elementwise(func(x float64) float64 { return -x })},
		{"SQRT", blueOp{code: "SQRT"}, true, nil, elementwise(math.Sqrt)},
		{"RSQRT", blueOp{code: "RSQRT"}, true, nil,
			elementwise(func(x float64) float64 { return 1 / math.Sqrt(x) })},
		{"SQUARE", blueOp{code: "SQUARE"}, false, nil, elementwise(func(x float64) float64 { return x * x })},
		{"ELU", blueOp{code: "ELU"}, false, nil, elementwise(func(x float64) float64 {
			return math.Max(x, 0) + math.Expm1(math.Min(x, 0))
		})},
		{"RELU_0_TO_1", blueOp{code: "RELU_0_TO_1"}, false, nil,
			elementwise(func(x float64) float64 { return math.Min(math.Max(x, 0), 1) })},
		{"GELU", blueOp{code: "GELU"}, false, nil,
			elementwise(func(x float64) float64 { return x / 2 * (1 + math.Erf(x/math.Sqrt2)) })},
		{"GELU, approximate", blueOp{code: "GELU", options: fields{geluApproximate: true}}, false, nil,
			elementwise(func(x float64) float64 {
				return x / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
			})},
		{"SQUARED_DIFFERENCE", blueOp{code: "SQUARED_DIFFERENCE"}, false, []blueTensor{floats("c", []int{}, 0.5)},
			elementwise(func(x float64) float64 { return (x - 0.5) * (x - 0.5) })},
		{"SOFTMAX", blueOp{code: "SOFTMAX", options: fields{softmaxBeta: float32(1)}}, false, nil, softmax(1)},
		{"SOFTMAX with beta", blueOp{code: "SOFTMAX", options: fields{softmaxBeta: float32(0.25)}}, false, nil,
			softmax(0.25)},
		{"SUM", blueOp{code: "SUM"}, false, axis(1), reduced(func(a, b float64) float64 { return a + b }, 0)},
		{"REDUCE_MAX", blueOp{code: "REDUCE_MAX", options: fields{reducerKeepDims: true}}, false, axis(-2),
			reduced(math.Max, math.Inf(-1))},
		{"BATCH_MATMUL, adj_y", blueOp{code: "BATCH_MATMUL", inputs: twice, options: fields{adjointY: true}},
			false, nil,
			product(3, 3, 5, func(i, k int) int { return 5*i + k }, func(k, j int) int { return 5*j + k })},
		{"BATCH_MATMUL, adj_x", blueOp{code: "BATCH_MATMUL", inputs: twice, options: fields{adjointX: true}},
			false, nil,
			product(5, 5, 3, func(i, k int) int { return 5*k + i }, func(k, j int) int { return 5*k + j })},
	} {
		t.Run(c.name, func(t *testing.T) {
			input := wave(30)
			if c.positive {
				for i := range input {
					input[i] = max(float32(math.Abs(float64(input[i]))), 1./16)
				}
			}
			x := make([]float64, len(input))
			for i, v := range input {
				x[i] = float64(v)
			}
			want, top := c.want(x), 0.0
			for _, w := range want {
				top = math.Max(top, math.Abs(w))
			}
			m := single(c.op, []int{2, 3, 5}, c.constants...)
			got := modeltest.Run(t, openModel(t, save(t, m.bytes())), input)[0]
			require.Len(t, got, len(want))
			for i, w := range want {
				require.InDelta(t, w, got[i], 1e-5*math.Max(1, math.Abs(w)), "element %d", i)
			}

			step := top / 120
			for i := range m.tensors {
				s := float32(1. / 16)
				if i == m.outputs[0] {
					s = float32(step)
				} else if i > 0 && m.tensors[i].dtype != typeFloat32 {
					continue
				} else if i > 0 {
					m.tensors[i].data = []byte{8}
				}
				m.tensors[i].dtype, m.tensors[i].scales, m.tensors[i].zeroPoints = typeInt8, []float32{s}, []int64{0}
			}
			got = modeltest.Run(t, openModel(t, save(t, m.bytes())), input)[0]
			for i, w := range want {
				require.InDelta(t, w, got[i], 1.01*step, "int8, element %d", i)
			}
		})
	}
}
