package tflite

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/tests/modeltest"
)

// wave is a sequence of numbers of both signs, each exact in half precision.
func wave(n int) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = float32((i*37+11)%64-32) / 16
	}
	return out
}

// single makes a model of one operator with one computed input and one output.
func single(op blueOp, input []int, constants ...blueTensor) blueprint {
	m := blueprint{inputs: []int{0}, tensors: append([]blueTensor{floats("in", input)}, constants...)}
	m.outputs = []int{len(m.tensors)}
	m.tensors = append(m.tensors, floats("out", []int{}))
	op.outputs = m.outputs
	if op.inputs == nil {
		for i := range len(constants) + 1 {
			op.inputs = append(op.inputs, i)
		}
	}
	m.ops = []blueOp{op}
	return m
}

// constant is a single precision constant of a shape.
func constantOf(name string, shape ...int) blueTensor {
	return floats(name, shape, wave(len(newArray(shape...).v))...)
}

type opCase struct {
	name  string
	model blueprint
}

func convolutionCases() (cases []opCase) {
	for _, padding := range []byte{paddingSame, paddingValid} {
		for _, c := range []struct{ h, w, kh, kw, strideH, strideW, dilation int }{
			{7, 8, 3, 3, 1, 1, 1}, {7, 8, 3, 3, 2, 2, 1}, {8, 7, 5, 4, 2, 3, 1}, {8, 9, 2, 2, 2, 2, 1},
			{9, 8, 3, 2, 1, 1, 2},
			{5, 5, 1, 1, 1, 1, 1}, {6, 7, 1, 1, 2, 2, 1}, {12, 12, 7, 7, 1, 1, 1},
		} {
			for i, act := range []byte{activationNone, activationReLU, activationReLUN1, activationReLU6} {
				if i > 0 && c.kh != 3 {
					continue
				}
				name := fmt.Sprintf("%+v padding %d activation %d", c, padding, act)
				window := func(depthwise bool) fields {
					if depthwise {
						return fields{depthwise2D.padding: padding, depthwise2D.strideH: int32(c.strideH),
							depthwise2D.strideW:    int32(c.strideW),
							depthwise2D.activation: act, depthwise2D.dilationH: int32(c.dilation),
							depthwise2D.dilationW: int32(c.dilation)}
					}
					return fields{conv2D.padding: padding, conv2D.activation: act,
						conv2D.strideH: int32(c.strideH), conv2D.strideW: int32(c.strideW),
						conv2D.dilationH: int32(c.dilation), conv2D.dilationW: int32(c.dilation)}
				}
				add := func(kind string, op opcode, in []int, constants ...blueTensor) {
					cases = append(cases, opCase{kind + " " + name,
						single(blueOp{code: op, options: window(op == "DEPTHWISE_CONV_2D")}, in, constants...)})
				}
				image := func(n, channels int) []int { return []int{n, c.h, c.w, channels} }
				add("CONV_2D", "CONV_2D", image(2, 3), constantOf("k", 5, c.kh, c.kw, 3), constantOf("b", 5))
				add("CONV_2D without bias", "CONV_2D", image(1, 3), constantOf("k", 5, c.kh, c.kw, 3))
				add("CONV_2D in groups", "CONV_2D", image(1, 6), constantOf("k", 9, c.kh, c.kw, 2), constantOf("b", 9))
				add("CONV_2D with a channel a group", "CONV_2D", image(1, 4), constantOf("k", 4, c.kh, c.kw, 1),
					constantOf("b", 4))
				add("DEPTHWISE_CONV_2D", "DEPTHWISE_CONV_2D", image(2, 5), constantOf("k", 1, c.kh, c.kw, 5),
					constantOf("b", 5))
				add("DEPTHWISE_CONV_2D without bias", "DEPTHWISE_CONV_2D", image(1, 5),
					constantOf("k", 1, c.kh, c.kw, 5))
				add("DEPTHWISE_CONV_2D with multiplier 3", "DEPTHWISE_CONV_2D", image(1, 4),
					constantOf("k", 1, c.kh, c.kw, 12), constantOf("b", 12))
			}
		}
	}
	return cases
}

func deconvolutionCases() (cases []opCase) {
	for _, c := range []struct{ h, w, kh, kw, strideH, strideW int }{
		{4, 5, 2, 2, 2, 2}, {4, 5, 3, 3, 2, 2}, {3, 4, 4, 4, 2, 2}, {5, 4, 3, 2, 1, 1}, {4, 3, 5, 3, 3, 2},
		{7, 6, 3, 4, 2, 3},
	} {
		for _, padding := range []byte{1, 2} {
			options := []byte{padding, 0, 0, 0, byte(c.strideW), 0, 0, 0, byte(c.strideH), 0, 0, 0}
			cases = append(cases, opCase{fmt.Sprintf("Convolution2DTransposeBias %+v padding %d", c, padding), single(
				blueOp{code: "CUSTOM", custom: "Convolution2DTransposeBias", customOptions: options},
				[]int{2, c.h, c.w, 3}, constantOf("k", 4, c.kh, c.kw, 3), constantOf("b", 4))})
			if c.kh < c.strideH || c.kw < c.strideW {
				continue
			}
			oh, ow := c.strideH*c.h, c.strideW*c.w
			if padding == 2 {
				oh, ow = c.strideH*(c.h-1)+c.kh, c.strideW*(c.w-1)+c.kw
			}
			for less := range min(2, c.strideH, c.strideW) {
				if padding == 2 {
					less = -less
				}
				m := single(blueOp{code: "TRANSPOSE_CONV", inputs: []int{1, 2, 0, 3},
					options: fields{transposeConvPadding: padding - 1,
						transposeConvStrideH: int32(c.strideH), transposeConvStrideW: int32(c.strideW),
						transposeConvActivation: byte(activationReLU)}},
					[]int{1, c.h, c.w, 3}, int32Tensor("shape", []int{4}, 1, int32(oh-less), int32(ow-less), 4),
					constantOf("k", 4, c.kh, c.kw, 3), constantOf("b", 4))
				cases = append(cases,
					opCase{fmt.Sprintf("TRANSPOSE_CONV %+v padding %d to %dx%d", c, padding-1, oh-less, ow-less), m})
			}
		}
	}
	return cases
}

func poolCases() (cases []opCase) {
	for _, op := range []opcode{"MAX_POOL_2D", "AVERAGE_POOL_2D"} {
		for _, padding := range []byte{paddingSame, paddingValid} {
			for _, c := range []struct{ h, w, kh, kw, strideH, strideW int }{
				{6, 7, 2, 2, 2, 2}, {7, 6, 3, 3, 2, 2}, {8, 8, 8, 8, 8, 8}, {5, 6, 3, 2, 1, 1},
				{9, 9, 5, 5, 3, 4}, {4, 4, 1, 1, 1, 1},
			} {
				for _, act := range []byte{activationNone, activationReLU6} {
					cases = append(cases, opCase{fmt.Sprintf("%v %+v padding %d activation %d", op, c, padding, act),
						single(
							blueOp{code: op, options: fields{pool2D.padding: padding, pool2D.strideH: int32(c.strideH),
								pool2D.strideW:   int32(c.strideW),
								poolFilterHeight: int32(c.kh), poolFilterWidth: int32(c.kw),
								pool2D.activation: act}}, []int{2, c.h, c.w, 3})})
				}
			}
		}
	}
	return cases
}

func resizeCases() (cases []opCase) {
	for _, mode := range []struct{ align, half bool }{{false, false}, {true, false}, {false, true}} {
		for _, size := range [][2]int{{8, 8}, {7, 3}, {2, 9}, {4, 5}, {1, 1}} {
			cases = append(cases, opCase{fmt.Sprintf("RESIZE_BILINEAR to %v %+v", size, mode), single(
				blueOp{code: "RESIZE_BILINEAR",
					options: fields{resizeAlignCorners: mode.align, resizeHalfPixelCenters: mode.half}},
				[]int{2, 4, 5, 3}, int32Tensor("size", []int{2}, int32(size[0]), int32(size[1])))})
		}
	}
	return cases
}

func elementwiseCases() (cases []opCase) {
	for _, name := range []string{"RELU", "RELU6", "RELU_N1_TO_1", "LOGISTIC", "HARD_SWISH", "TANH", "ABS"} {
		cases = append(cases, opCase{name, single(blueOp{code: opcode(name)}, []int{2, 3, 67})})
	}
	cases = append(cases,
		opCase{"LEAKY_RELU", single(blueOp{code: "LEAKY_RELU", options: fields{leakyReluAlpha: float32(0.25)}},
			[]int{2, 3, 5})},
		opCase{"SOFTMAX",
			single(blueOp{code: "SOFTMAX", options: fields{softmaxBeta: float32(1)}}, []int{2, 3, 5})},
		opCase{"PRELU", single(blueOp{code: "PRELU"}, []int{1, 3, 4, 5}, constantOf("slope", 1, 1, 5))})
	for _, op := range []opcode{"ADD", "SUB", "MUL", "DIV", "MAXIMUM", "MINIMUM"} {
		for _, shape := range [][]int{{2, 3, 4, 5}, {5}, {1, 1, 1, 5}, {2, 3, 1, 1}, {3, 1, 5}, {1}, {}} {
			for _, act := range []byte{activationNone, activationReLU, activationReLUN1, activationReLU6} {
				if act != activationNone && (op == "MAXIMUM" || op == "MINIMUM") {
					continue
				}
				constant := constantOf("c", shape...)
				swapped := single(blueOp{code: op, inputs: []int{1, 0}, options: fields{binaryActivation: act}},
					[]int{2, 3, 4, 5}, constant)
				if op == "DIV" { // division by zero is not defined
					swapped = single(blueOp{code: op, options: fields{binaryActivation: act}}, []int{2, 3, 4, 5},
						floats("c", []int{5}, 1, -2, 0.5, 4, -8))
				}
				cases = append(cases, opCase{fmt.Sprintf("%v of %v activation %d", op, shape, act), swapped})
			}
		}
	}
	return cases
}

func shapeCases() (cases []opCase) {
	for _, axes := range [][]int32{{1, 2}, {2, 1}, {-1}, {0}, {1, 2, 3}, {1, -3}, {0, 1, 2, 3}} {
		for _, keep := range []bool{false, true} {
			cases = append(cases, opCase{fmt.Sprintf("MEAN over %v keeping dimensions: %v", axes, keep), single(
				blueOp{code: "MEAN", options: fields{reducerKeepDims: keep}}, []int{2, 3, 4, 5},
				int32Tensor("axes", []int{len(axes)}, axes...))})
		}
	}
	for _, paddings := range [][]int32{{0, 0, 1, 2, 3, 0, 0, 0}, {0, 0, 0, 0, 0, 0, 0, 7}, {1, 1, 1, 1, 1, 1, 1, 1},
		{0, 0, 0, 0, 0, 0, 0, 0}} {
		p := int32Tensor("paddings", []int{4, 2}, paddings...)
		cases = append(cases,
			opCase{fmt.Sprint("PAD by ", paddings), single(blueOp{code: "PAD"}, []int{2, 3, 4, 5}, p)},
			opCase{fmt.Sprint("PADV2 by ", paddings),
				single(blueOp{code: "PADV2"}, []int{2, 3, 4, 5}, p, floats("fill", []int{}, 1.5))})
	}
	for _, shape := range [][]int32{{6, 20}, {-1, 5}, {120}, {1, 2, 3, 4, 5, 1}, {2, -1, 4}} {
		cases = append(cases,
			opCase{fmt.Sprint("RESHAPE by options to ", shape),
				single(blueOp{code: "RESHAPE", options: fields{reshapeNewShape: shape}}, []int{2, 3, 4, 5})},
			opCase{fmt.Sprint("RESHAPE by operand to ", shape),
				single(blueOp{code: "RESHAPE", options: fields{reshapeNewShape: []int32{7}}},
					[]int{2, 3, 4, 5}, int32Tensor("shape", []int{len(shape)}, shape...))})
	}
	for n := 1; n <= 12; n++ {
		for _, axis := range []int32{0, 2, -1} {
			op := blueOp{code: "CONCATENATION", options: fields{concatenationAxis: axis}}
			var extra []blueTensor
			for i := range n - 1 {
				shape := []int{2, 3, 4, 5}
				shape[(int(axis)+4)%4] = i%3 + 1
				extra = append(extra, constantOf(fmt.Sprint("c", i), shape...))
			}
			cases = append(cases, opCase{fmt.Sprintf("CONCATENATION of %d along %d", n, axis),
				single(op, []int{2, 3, 4, 5}, extra...)})
		}
	}
	for _, block := range []int32{1, 2, 3} {
		cases = append(cases, opCase{fmt.Sprint("DEPTH_TO_SPACE ", block), single(
			blueOp{code: "DEPTH_TO_SPACE", options: fields{depthToSpaceBlockSize: block}}, []int{2, 3, 4, 36})})
	}
	for _, in := range [][]int{{3, 6}, {2, 3, 6}, {1, 2, 2, 9}, {6}, {4, 3}} {
		for _, keep := range []bool{false, true} {
			if keep && in[len(in)-1] != 6 {
				continue
			}
			cases = append(cases, opCase{fmt.Sprintf("FULLY_CONNECTED of %v keeping dimensions: %v", in, keep), single(
				blueOp{code: "FULLY_CONNECTED",
					options: fields{fullyConnectedKeepNumDims: keep, fullyConnectedActivation: byte(activationReLU)}},
				in, constantOf("k", 7, 6), constantOf("b", 7))})
		}
	}
	cases = append(cases, opCase{"FULLY_CONNECTED without bias", single(
		blueOp{code: "FULLY_CONNECTED", inputs: []int{0, 1, absent}}, []int{3, 6}, constantOf("k", 7, 6))})
	return cases
}

func weightCases() (cases []opCase) {
	constants := func(k blueTensor) blueprint {
		m := single(blueOp{code: "CONV_2D", options: fields{conv2D.strideH: int32(1), conv2D.strideW: int32(1)}},
			[]int{1, 3, 3, 4})
		m.ops[0].inputs = []int{0, 2}
		m.tensors = append(m.tensors, floats("kernel", []int{2, 1, 1, 4}), k)
		return m
	}
	half := constants(halves("stored", []int{2, 1, 1, 4}, wave(8)...))
	half.ops = append([]blueOp{{code: "DEQUANTIZE", inputs: []int{3}, outputs: []int{2}}}, half.ops...)
	cases = append(cases, opCase{"CONV_2D with weights in half precision", half})
	for name, s := range sparsities() {
		m := constants(halves("stored", []int{2, 1, 1, 4}, wave(s.stored)...))
		m.tensors[3].sparsity = s.sparsity
		m.tensors = append(m.tensors, blueTensor{name: "dense", shape: []int{2, 1, 1, 4}, dtype: typeFloat16})
		m.ops = append([]blueOp{{code: "DENSIFY", inputs: []int{3}, outputs: []int{4}},
			{code: "DEQUANTIZE", inputs: []int{4}, outputs: []int{2}}}, m.ops...)
		cases = append(cases, opCase{"CONV_2D with sparse weights: " + name, m})
	}
	outside := constants(blueTensor{})
	outside.tensors = outside.tensors[:3]
	outside.tensors[2] = constantOf("kernel", 2, 1, 1, 4)
	outside.tensors[2].outside = true
	cases = append(cases, opCase{"CONV_2D with weights after the flatbuffer", outside})
	return cases
}

// sparsities are encodings of a tensor of shape [2, 1, 1, 4].
func sparsities() map[string]struct {
	sparsity *sparsity
	stored   int
} {
	dense := func(n int32) sparseDim { return sparseDim{format: dimensionDense, size: n} }
	csr := func(segments, indices []int32) sparseDim {
		return sparseDim{format: dimensionSparseCSR, segments: segments, indices: indices}
	}
	type s = struct {
		sparsity *sparsity
		stored   int
	}
	return map[string]s{
		"rows": {&sparsity{traversalOrder: []int32{0, 1, 2, 3},
			dims: []sparseDim{dense(2), dense(1), dense(1), csr([]int32{0, 2, 3}, []int32{1, 3, 0})}}, 3},
		"columns": {&sparsity{traversalOrder: []int32{3, 1, 2, 0},
			dims: []sparseDim{dense(4), dense(1), dense(1), csr([]int32{0, 1, 1, 3, 4}, []int32{1, 0, 1, 0})}}, 4},
		"sparse twice": {&sparsity{traversalOrder: []int32{0, 1, 2, 3},
			dims: []sparseDim{csr([]int32{0, 1}, []int32{1}), dense(1), dense(1),
				csr([]int32{0, 2}, []int32{0, 2})}}, 2},
		"blocks": {&sparsity{traversalOrder: []int32{0, 1, 2, 3, 4}, blockMap: []int32{3},
			dims: []sparseDim{dense(2), dense(1), dense(1), csr([]int32{0, 1, 3}, []int32{1, 0, 1}), dense(2)}}, 6},
		"blocks in two dimensions": {&sparsity{traversalOrder: []int32{0, 1, 2, 3, 5, 4}, blockMap: []int32{0, 3},
			dims: []sparseDim{dense(1), dense(1), dense(1), csr([]int32{0, 1}, []int32{1}), dense(2), dense(2)}}, 4},
		"dense": {&sparsity{traversalOrder: []int32{3, 2, 1, 0},
			dims: []sparseDim{dense(4), dense(1), dense(1), dense(2)}}, 8},
	}
}

func TestOperatorsComputeWhatTensorFlowLiteDefines(t *testing.T) {
	var cases []opCase
	for _, list := range [][]opCase{convolutionCases(), deconvolutionCases(), poolCases(), resizeCases(),
		elementwiseCases(), shapeCases(), weightCases()} {
		cases = append(cases, list...)
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			file := c.model.bytes()
			m := openModel(t, save(t, file))
			input := wave(len(newArray(m.Inputs()[0].Shape...).v))
			got, want := modeltest.Run(t, m, input), interpret(t, file, input)
			require.Len(t, got[0], len(want[0]))
			for i := range want[0] {
				require.InDelta(t, want[0][i], got[0][i], 1e-4*math.Max(1, math.Abs(float64(want[0][i]))),
					"element %d", i)
			}
		})
	}
}
