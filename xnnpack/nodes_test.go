package xnnpack_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/xnnpack"
)

func TestUnaryOperators(t *testing.T) {
	sigmoid := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	values := []float32{-3, -1.5, -0.75, -0.25, 0.25, 0.5, 1, 2.5, 4}
	positive := []float32{0.25, 0.5, 1, 2.5, 4}
	for name, c := range map[string]struct {
		node xnnpack.Unary
		in   []float32
		want func(float64) float64
	}{
		"abs":              {xnnpack.Unary{Op: xnnpack.Abs}, values, math.Abs},
		"bankers rounding": {xnnpack.Unary{Op: xnnpack.BankersRounding}, values, math.RoundToEven},
		"ceiling":          {xnnpack.Unary{Op: xnnpack.Ceiling}, values, math.Ceil},
		"clamp": {xnnpack.Unary{Op: xnnpack.Clamp, Limits: xnnpack.Range{Min: -1, Max: 2}}, values,
			func(x float64) float64 { return min(max(x, -1), 2) }},
		"elu": {xnnpack.Unary{Op: xnnpack.ELU, Alpha: 1.5}, values,
			func(x float64) float64 { return max(x, 0) + 1.5*math.Expm1(min(x, 0)) }},
		"exp":   {xnnpack.Unary{Op: xnnpack.Exp}, values, math.Exp},
		"floor": {xnnpack.Unary{Op: xnnpack.Floor}, values, math.Floor},
		"gelu": {xnnpack.Unary{Op: xnnpack.GELU}, values,
			func(x float64) float64 { return x / 2 * (1 + math.Erf(x/math.Sqrt2)) }},
		"hard swish": {xnnpack.Unary{Op: xnnpack.HardSwish}, values,
			func(x float64) float64 { return x * min(max(x+3, 0), 6) / 6 }},
		"leaky relu": {xnnpack.Unary{Op: xnnpack.LeakyReLU, NegativeSlope: 0.25}, values,
			func(x float64) float64 { return max(x, x/4) }},
		"log":         {xnnpack.Unary{Op: xnnpack.Log}, positive, math.Log},
		"negate":      {xnnpack.Unary{Op: xnnpack.Negate}, values, func(x float64) float64 { return -x }},
		"sigmoid":     {xnnpack.Unary{Op: xnnpack.Sigmoid}, values, sigmoid},
		"square":      {xnnpack.Unary{Op: xnnpack.Square}, values, func(x float64) float64 { return x * x }},
		"square root": {xnnpack.Unary{Op: xnnpack.SquareRoot}, positive, math.Sqrt},
		"reciprocal square root": {xnnpack.Unary{Op: xnnpack.ReciprocalSquareRoot}, positive,
			func(x float64) float64 { return 1 / math.Sqrt(x) }},
		"tanh":   {xnnpack.Unary{Op: xnnpack.Tanh}, values, math.Tanh},
		"cosine": {xnnpack.Unary{Op: xnnpack.Cosine}, values, math.Cos},
		"sine":   {xnnpack.Unary{Op: xnnpack.Sine}, values, math.Sin},
		"sign": {xnnpack.Unary{Op: xnnpack.Sign}, values,
			func(x float64) float64 { return math.Copysign(1, x) }},
		"approximate gelu": {xnnpack.Unary{Op: xnnpack.ApproximateGELU}, values,
			func(x float64) float64 { return x / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x))) }},
	} {
		t.Run(name, func(t *testing.T) {
			if c.node.Op == xnnpack.ApproximateGELU && !xnnpack.HasApproximateGELU() {
				t.Skip("XNNPACK of 2024 does not compute it")
			}
			n := len(c.in)
			got := compute(t, []xnnpack.Tensor{float("x", n)}, [][]float32{c.in}, []int{n},
				func(s *xnnpack.Subgraph, in []xnnpack.ValueID, out xnnpack.ValueID) error {
					c.node.Input, c.node.Output = in[0], out
					return s.Add(c.node)
				})
			want := make([]float32, n)
			for i, x := range c.in {
				want[i] = float32(c.want(float64(x)))
			}
			requireClose(t, want, got)
		})
	}
}

func TestBinaryOperators(t *testing.T) {
	a := []float32{-3, -1.5, 0.5, 1, 2.5, 4}
	b := []float32{2, -1, 0.25, 3, -2, 1.5}
	for name, c := range map[string]struct {
		op   xnnpack.BinaryOperator
		want func(a, b float64) float64
	}{
		"add":                {xnnpack.Add, func(a, b float64) float64 { return a + b }},
		"subtract":           {xnnpack.Subtract, func(a, b float64) float64 { return a - b }},
		"multiply":           {xnnpack.Multiply, func(a, b float64) float64 { return a * b }},
		"divide":             {xnnpack.Divide, func(a, b float64) float64 { return a / b }},
		"maximum":            {xnnpack.Maximum, math.Max},
		"minimum":            {xnnpack.Minimum, math.Min},
		"squared difference": {xnnpack.SquaredDifference, func(a, b float64) float64 { return (a - b) * (a - b) }},
		"prelu": {xnnpack.PReLUOperator, func(a, b float64) float64 {
			if a < 0 {
				return a * b
			}
			return a
		}},
	} {
		t.Run(name, func(t *testing.T) {
			n := len(a)
			got := compute(t, []xnnpack.Tensor{float("a", n), float("b", n)}, [][]float32{a, b}, []int{n},
				func(s *xnnpack.Subgraph, in []xnnpack.ValueID, out xnnpack.ValueID) error {
					return s.Add(xnnpack.Binary{Op: c.op, A: in[0], B: in[1], Output: out})
				})
			want := make([]float32, n)
			for i := range a {
				want[i] = float32(c.want(float64(a[i]), float64(b[i])))
			}
			requireClose(t, want, got)
		})
	}
}

func TestBinaryBroadcastsAndClamps(t *testing.T) {
	got := compute(t, []xnnpack.Tensor{float("a", 2, 3), float("b", 3)}, [][]float32{ramp(6), {1, 0, -1}}, []int{2, 3},
		func(s *xnnpack.Subgraph, in []xnnpack.ValueID, out xnnpack.ValueID) error {
			return s.Add(xnnpack.Binary{Op: xnnpack.Add, A: in[0], B: in[1], Output: out,
				Activation: xnnpack.Range{Min: 2, Max: 5}})
		})
	require.Equal(t, []float32{2, 2, 2, 5, 5, 5}, got)
}

func TestNodesThatMoveAndPoolElements(t *testing.T) {
	type define = func(s *xnnpack.Subgraph, in []xnnpack.ValueID, out xnnpack.ValueID) error
	square := xnnpack.Size{Height: 2, Width: 2}
	for name, c := range map[string]struct {
		in   []int
		out  []int
		want []float32
		node define
	}{
		"max pooling": {[]int{1, 2, 4, 1}, []int{1, 1, 2, 1}, []float32{6, 8},
			func(s *xnnpack.Subgraph, in []xnnpack.ValueID, out xnnpack.ValueID) error {
				return s.Add(xnnpack.MaxPooling2D{Input: in[0], Output: out, Pooling: square, Stride: square})
			}},
		"max pooling with SAME padding": {[]int{1, 3, 3, 1}, []int{1, 2, 2, 1}, []float32{5, 6, 8, 9},
			func(s *xnnpack.Subgraph, in []xnnpack.ValueID, out xnnpack.ValueID) error {
				return s.Add(xnnpack.MaxPooling2D{Input: in[0], Output: out, Pooling: square, Stride: square,
					SamePadding: true})
			}},
		"average pooling": {[]int{1, 2, 4, 1}, []int{1, 1, 2, 1}, []float32{3.5, 5.5},
			func(s *xnnpack.Subgraph, in []xnnpack.ValueID, out xnnpack.ValueID) error {
				return s.Add(xnnpack.AveragePooling2D{Input: in[0], Output: out, Pooling: square,
					Stride: square})
			}},
		"sum": {[]int{2, 3}, []int{2}, []float32{6, 15},
			func(s *xnnpack.Subgraph, in []xnnpack.ValueID, out xnnpack.ValueID) error {
				return s.Add(xnnpack.StaticReduce{Op: xnnpack.ReduceSum, Axes: []int{-1}, Input: in[0],
					Output: out})
			}},
		"mean, keeping dimensions": {[]int{1, 2, 2, 2}, []int{1, 1, 1, 2}, []float32{4, 5},
			func(s *xnnpack.Subgraph, in []xnnpack.ValueID, out xnnpack.ValueID) error {
				return s.Add(xnnpack.StaticReduce{Op: xnnpack.ReduceMean, Axes: []int{1, 2}, KeepDims: true,
					Input: in[0], Output: out})
			}},
		"constant pad": {[]int{2, 2}, []int{3, 4}, []float32{9, 9, 9, 9, 9, 1, 2, 9, 9, 3, 4, 9},
			func(s *xnnpack.Subgraph, in []xnnpack.ValueID, out xnnpack.ValueID) error {
				return s.Add(xnnpack.StaticConstantPad{Pre: []int{1, 1}, Post: []int{0, 1}, Value: 9,
					Input: in[0], Output: out})
			}},
		"reshape": {[]int{2, 3}, []int{3, 2}, ramp(6),
			func(s *xnnpack.Subgraph, in []xnnpack.ValueID, out xnnpack.ValueID) error {
				return s.Add(xnnpack.StaticReshape{Shape: []int{3, 0}, Input: in[0], Output: out})
			}},
		"transpose": {[]int{2, 3}, []int{3, 2}, []float32{1, 4, 2, 5, 3, 6},
			func(s *xnnpack.Subgraph, in []xnnpack.ValueID, out xnnpack.ValueID) error {
				return s.Add(xnnpack.StaticTranspose{Permutation: []int{1, 0}, Input: in[0], Output: out})
			}},
		"slice": {[]int{3, 3}, []int{2, 1}, []float32{5, 8},
			func(s *xnnpack.Subgraph, in []xnnpack.ValueID, out xnnpack.ValueID) error {
				return s.Add(xnnpack.StaticSlice{Offsets: []int{1, 1}, Sizes: []int{2, 1}, Input: in[0],
					Output: out})
			}},
		"resize, corners aligned": {[]int{1, 1, 2, 1}, []int{1, 1, 3, 1}, []float32{1, 1.5, 2},
			func(s *xnnpack.Subgraph, in []xnnpack.ValueID, out xnnpack.ValueID) error {
				return s.Add(xnnpack.StaticResizeBilinear2D{
					NewSize: xnnpack.Size{Height: 1, Width: 3}, AlignCorners: true, Input: in[0], Output: out})
			}},
		"resize, half pixels": {[]int{1, 1, 2, 1}, []int{1, 1, 4, 1}, []float32{1, 1.25, 1.75, 2},
			func(s *xnnpack.Subgraph, in []xnnpack.ValueID, out xnnpack.ValueID) error {
				return s.Add(xnnpack.StaticResizeBilinear2D{
					NewSize: xnnpack.Size{Height: 1, Width: 4}, Input: in[0], Output: out})
			}},
		"softmax": {[]int{1, 2}, []int{1, 2}, []float32{0.26894142, 0.73105858},
			func(s *xnnpack.Subgraph, in []xnnpack.ValueID, out xnnpack.ValueID) error {
				return s.Add(xnnpack.Softmax{Input: in[0], Output: out})
			}},
		"copy": {[]int{5}, []int{5}, ramp(5),
			func(s *xnnpack.Subgraph, in []xnnpack.ValueID, out xnnpack.ValueID) error {
				return s.Add(xnnpack.Copy{Input: in[0], Output: out})
			}},
		"depth to space": {[]int{1, 1, 1, 4}, []int{1, 2, 2, 1}, ramp(4),
			func(s *xnnpack.Subgraph, in []xnnpack.ValueID, out xnnpack.ValueID) error {
				return s.Add(xnnpack.DepthToSpace2D{BlockSize: 2, Input: in[0], Output: out})
			}},
		"space to depth": {[]int{1, 2, 2, 1}, []int{1, 1, 1, 4}, ramp(4),
			func(s *xnnpack.Subgraph, in []xnnpack.ValueID, out xnnpack.ValueID) error {
				return s.Add(xnnpack.SpaceToDepth2D{BlockSize: 2, Input: in[0], Output: out})
			}},
		"convert to half precision and back": {[]int{5}, []int{5}, ramp(5),
			func(s *xnnpack.Subgraph, in []xnnpack.ValueID, out xnnpack.ValueID) error {
				half, err := s.Tensor(xnnpack.Tensor{Name: "half", Type: xnnpack.Float16, Shape: []int{5}})
				if err != nil {
					return err
				}
				if err := s.Add(xnnpack.Unary{Op: xnnpack.ConvertElements, Input: in[0], Output: half}); err != nil {
					return err
				}
				return s.Add(xnnpack.Unary{Op: xnnpack.ConvertElements, Input: half, Output: out})
			}},
	} {
		t.Run(name, func(t *testing.T) {
			got := compute(t, []xnnpack.Tensor{float("input", c.in...)}, [][]float32{ramp(elements(c.in))}, c.out,
				c.node)
			requireClose(t, c.want, got)
		})
	}
}

func TestConcatenateJoinsTwoToFiveValues(t *testing.T) {
	for n := 2; n <= 5; n++ {
		var inputs []xnnpack.Tensor
		var data [][]float32
		var want []float32
		for i := range n {
			inputs = append(inputs, float("part", 1, 2))
			part := []float32{float32(i), float32(-i)}
			data = append(data, part)
			want = append(want, part...)
		}
		got := compute(t, inputs, data, []int{1, 2 * n},
			func(s *xnnpack.Subgraph, in []xnnpack.ValueID, out xnnpack.ValueID) error {
				return s.Add(xnnpack.Concatenate{Axis: 1, Inputs: in, Output: out})
			})
		require.Equal(t, want, got)
	}
}

func TestEvenSplitAndConcatenateUndoEachOther(t *testing.T) {
	for n := 2; n <= 4; n++ {
		got := compute(t, []xnnpack.Tensor{float("whole", 2, 12)}, [][]float32{ramp(24)}, []int{2, 12},
			func(s *xnnpack.Subgraph, in []xnnpack.ValueID, out xnnpack.ValueID) error {
				var parts []xnnpack.ValueID
				for range n {
					id, err := s.Tensor(float("part", 2, 12/n))
					require.NoError(t, err)
					parts = append(parts, id)
				}
				if err := s.Add(xnnpack.EvenSplit{Axis: 1, Input: in[0], Outputs: parts}); err != nil {
					return err
				}
				return s.Add(xnnpack.Concatenate{Axis: 1, Inputs: parts, Output: out})
			})
		require.Equal(t, ramp(24), got)
	}
}

func TestQuantisedValuesAreConvertedByTheirScaleAndZeroPoint(t *testing.T) {
	got := compute(t, []xnnpack.Tensor{float("x", 4)}, [][]float32{{-1, 0, 0.26, 100}}, []int{4},
		func(s *xnnpack.Subgraph, in []xnnpack.ValueID, out xnnpack.ValueID) error {
			id, err := s.Tensor(xnnpack.Tensor{Name: "q", Type: xnnpack.QInt8, Shape: []int{4},
				Quantization: xnnpack.Quantization{Scale: 0.5, ZeroPoint: 3}})
			if err != nil {
				return err
			}
			if err := s.Add(xnnpack.Unary{Op: xnnpack.ConvertElements, Input: in[0], Output: id}); err != nil {
				return err
			}
			return s.Add(xnnpack.Unary{Op: xnnpack.ConvertElements, Input: id, Output: out})
		})
	require.Equal(t, []float32{-1, 0, 0.5, 62}, got)
}
