package tflite

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/tests/modeltest"
	"xpwc/models"
	"xpwc/xnnpack"
)

// quantizedTensor is a tensor of integers, with one scale or one for each element of dimension channel.
func quantizedTensor(name string, dtype elementType, shape []int, channel int, zero int64, scales []float32,
	values []float32) blueTensor {
	t := blueTensor{name: name, dtype: dtype, shape: shape, scales: scales, channel: channel}
	for range scales {
		t.zeroPoints = append(t.zeroPoints, zero)
	}
	inner := 1
	for _, d := range shape[min(channel+1, len(shape)):] {
		inner *= d
	}
	for i, v := range values {
		n := int64(math.RoundToEven(float64(v/scales[i/inner%len(scales)]))) + zero
		t.data = append(t.data, binary.LittleEndian.AppendUint64(nil, uint64(n))[:dtype.Size()]...)
	}
	return t
}

// TestQuantizedOperatorsAgreeWithSinglePrecision compares each with the same operator on the numbers that the
// elements stand for, to within one step of the output's scale.
func TestQuantizedOperatorsAgreeWithSinglePrecision(t *testing.T) {
	const step = 1.0 / 16 // of the inputs; the waves are multiples of it
	type tensors func(dtype elementType, zero int64) []blueTensor
	weights := func(shape []int, channel int, perChannel bool) tensors {
		return func(dtype elementType, zero int64) []blueTensor {
			n := shape[channel]
			kernel, bias := []float32{step}, []float32{step * step}
			if perChannel {
				kernel, bias = nil, nil
				for i := range n {
					kernel = append(kernel, step/float32(1+i%2))
					bias = append(bias, step*kernel[i])
				}
			}
			biases := typeInt32
			switch dtype {
			case typeInt16:
				dtype, biases = typeInt8, typeInt64
				fallthrough
			case typeInt8:
				zero = 0
			}
			return []blueTensor{
				quantizedTensor("k", dtype, shape, channel, zero, kernel, wave(len(newArray(shape...).v))),
				quantizedTensor("b", biases, []int{n}, 0, 0, bias, wave(n)),
			}
		}
	}
	alone := func(elementType, int64) []blueTensor { return nil }
	operand := func(dtype elementType, zero int64) []blueTensor {
		return []blueTensor{quantizedTensor("c", dtype, []int{5}, 0, zero, []float32{step}, wave(5))}
	}
	for _, c := range []struct {
		name      string
		op        blueOp
		input     []int
		constants tensors
		signed    bool // int8 only
	}{
		{"CONV_2D", blueOp{code: "CONV_2D", options: fields{conv2D.strideH: int32(2), conv2D.strideW: int32(1)}},
			[]int{1, 7, 8, 3}, weights([]int{5, 3, 3, 3}, 0, false), false},
		{"CONV_2D, a scale a channel",
			blueOp{code: "CONV_2D", options: fields{conv2D.strideH: int32(2), conv2D.strideW: int32(1),
				conv2D.activation: byte(activationReLU)}}, []int{1, 7, 8, 3},
			weights([]int{5, 3, 3, 3}, 0, true), true},
		{"DEPTHWISE_CONV_2D", blueOp{code: "DEPTHWISE_CONV_2D",
			options: fields{depthwise2D.strideH: int32(1),
				depthwise2D.strideW: int32(1)}}, []int{1, 7, 8, 6}, weights([]int{1, 3, 3, 6}, 3, false), false},
		{"DEPTHWISE_CONV_2D, a scale a channel",
			blueOp{code: "DEPTHWISE_CONV_2D",
				options: fields{depthwise2D.strideH: int32(1),
					depthwise2D.strideW: int32(1)}}, []int{1, 7, 8, 6}, weights([]int{1, 3, 3, 6}, 3, true), true},
		{"FULLY_CONNECTED", blueOp{code: "FULLY_CONNECTED"}, []int{2, 9}, weights([]int{4, 9}, 0, false), false},
		{"FULLY_CONNECTED, a scale a channel", blueOp{code: "FULLY_CONNECTED"}, []int{2, 9},
			weights([]int{4, 9}, 0, true), true},
		{"ADD", blueOp{code: "ADD"}, []int{2, 3, 4, 5}, operand, false},
		{"SUB", blueOp{code: "SUB"}, []int{2, 3, 4, 5}, operand, false},
		{"ADD_N", blueOp{code: "ADD_N"}, []int{5}, func(dtype elementType, zero int64) []blueTensor {
			d := quantizedTensor("d", dtype, []int{5}, 0, zero, []float32{step}, wave(5))
			return append(operand(dtype, zero), d)
		}, false},
		{"MUL", blueOp{code: "MUL"}, []int{2, 3, 4, 5}, operand, false},
		{"LEAKY_RELU", blueOp{code: "LEAKY_RELU", options: fields{leakyReluAlpha: float32(0.25)}}, []int{2, 3, 4, 5},
			alone, false},
		{"LEAKY_RELU, hardly leaking", blueOp{code: "LEAKY_RELU", options: fields{leakyReluAlpha: float32(1e-4)}},
			[]int{2, 3, 4, 5}, alone, false},
		{"RESHAPE", blueOp{code: "RESHAPE", options: fields{reshapeNewShape: []int32{-1}}}, []int{2, 5},
			alone, false},
	} {
		type variant struct {
			dtype elementType
			dead  bool // the output's scale is nearly 0, as of one that was always 0 when it was converted
		}
		for _, v := range []variant{{typeInt8, false}, {typeUint8, false}, {typeInt16, false}, {typeInt8, true},
			{typeUint8, true}} {
			dtype := v.dtype
			if dtype == typeUint8 && c.signed || v.dead && len(c.constants(dtype, 0)) < 2 {
				continue
			}
			t.Run(fmt.Sprintf("%s %v, dead %v", c.name, dtype, v.dead), func(t *testing.T) {
				zero := int64(5)
				switch dtype {
				case typeUint8:
					zero = 133
				case typeInt16:
					zero = 0
				}
				input := wave(len(newArray(c.input...).v))
				stored := c.constants(dtype, zero)
				var plain []blueTensor
				for _, s := range stored {
					n := len(newArray(s.shape...).v)
					plain = append(plain, floats(s.name, s.shape, wave(n)...))
				}
				// What the stored numbers stand for: a coarser scale has rounded the wave.
				for i, s := range stored {
					plain[i].data = littleEndian(meaning(s))
				}
				reference := single(c.op, c.input, plain...)
				want := interpret(t, reference.bytes(), input)[0]

				var top float64
				for _, w := range want {
					top = math.Max(top, math.Abs(float64(w)))
				}
				scale := float32(top / 120)
				if dtype == typeInt16 {
					scale = float32(top / 32000)
				}
				if c.op.code == "RESHAPE" {
					scale = step
				}
				if v.dead {
					scale = 1e-8
				}
				m := single(c.op, c.input, stored...)
				last := len(m.tensors) - 1
				in, out := &m.tensors[0], &m.tensors[last]
				in.dtype, in.scales, in.zeroPoints = dtype, []float32{step}, []int64{zero}
				out.dtype, out.scales, out.zeroPoints = dtype, []float32{scale}, []int64{zero}
				got := modeltest.Run(t, openModel(t, save(t, m.bytes())), input)[0]
				require.Len(t, got, len(want))
				low := float64(zeroRange(dtype, zero, 0)) * float64(scale)
				high := float64(zeroRange(dtype, zero, 1)) * float64(scale)
				for i := range want {
					w := math.Min(math.Max(float64(want[i]), low), high)
					require.InDelta(t, w, got[i], float64(scale)*1.01, "element %d", i)
				}
			})
		}
	}
}

func zeroRange(dtype elementType, zero int64, end int) int64 {
	switch dtype {
	case typeInt8:
		return []int64{-128, 127}[end] - zero
	case typeInt16:
		return []int64{math.MinInt16, math.MaxInt16}[end]
	}
	return []int64{0, 255}[end] - zero
}

// meaning returns the numbers that stored elements stand for.
func meaning(t blueTensor) []float32 {
	inner := 1
	for _, d := range t.shape[min(t.channel+1, len(t.shape)):] {
		inner *= d
	}
	var out []float32
	for b := t.data; len(b) > 0; b = b[t.dtype.Size():] {
		var n int64
		switch t.dtype {
		case typeInt8:
			n = int64(int8(b[0]))
		case typeUint8:
			n = int64(b[0])
		case typeInt16:
			n = int64(int16(binary.LittleEndian.Uint16(b)))
		case typeInt32:
			n = int64(int32(binary.LittleEndian.Uint32(b)))
		case typeInt64:
			n = int64(binary.LittleEndian.Uint64(b))
		}
		out = append(out, t.scales[len(out)/inner%len(t.scales)]*float32(n-t.zeroPoints[0]))
	}
	return out
}

func TestABiasWithAZeroPointIsRefusedWithItsOperator(t *testing.T) {
	for name, op := range map[string]blueOp{
		"CONV_2D": {code: "CONV_2D", options: fields{conv2D.strideH: int32(1), conv2D.strideW: int32(1)}},
		"DEPTHWISE_CONV_2D": {code: "DEPTHWISE_CONV_2D",
			options: fields{depthwise2D.strideH: int32(1), depthwise2D.strideW: int32(1)}},
	} {
		m := single(op, []int{1, 4, 4, 1},
			quantizedTensor("k", typeInt8, []int{1, 1, 1, 1}, 0, 0, []float32{1}, wave(1)),
			quantizedTensor("b", typeInt32, []int{1}, 0, 3, []float32{1}, wave(1)))
		for _, i := range []int{0, len(m.tensors) - 1} {
			m.tensors[i].dtype, m.tensors[i].scales, m.tensors[i].zeroPoints = typeInt8, []float32{1}, []int64{0}
		}
		_, err := Open(save(t, m.bytes()), nil)
		require.ErrorIs(t, err, ErrMalformed)
		require.ErrorContains(t, err, "operator 0, "+name)
	}
}

func TestQuantizeAndDequantizeAreInverse(t *testing.T) {
	for _, dtype := range []elementType{typeInt8, typeUint8} {
		m := single(blueOp{code: "QUANTIZE"}, []int{4, 16})
		m.tensors[1] = blueTensor{name: "q", shape: []int{4, 16}, dtype: dtype, scales: []float32{1. / 16},
			zeroPoints: []int64{100}}
		m.tensors = append(m.tensors, floats("out", []int{4, 16}))
		m.ops = append(m.ops, blueOp{code: "DEQUANTIZE", inputs: []int{1}, outputs: []int{2}})
		m.outputs = []int{2}
		input := wave(64)
		want := make([]float32, len(input))
		for i, x := range input {
			low, high := float32(zeroRange(dtype, 100, 0))/16, float32(zeroRange(dtype, 100, 1))/16
			want[i] = min(max(x, low), high)
		}
		require.Equal(t, want, modeltest.Run(t, openModel(t, save(t, m.bytes())), input)[0])
	}
}

func TestInputsAndOutputsSayHowTheyAreQuantized(t *testing.T) {
	b := single(blueOp{code: "QUANTIZE"}, []int{4})
	b.tensors[1] = blueTensor{name: "q", shape: []int{4}, dtype: typeUint8, scales: []float32{0.5},
		zeroPoints: []int64{100}}
	m := openModel(t, save(t, b.bytes()))
	quantization := xnnpack.Quantization{Scale: 0.5, ZeroPoint: 100}
	out := models.Value{ID: 1, Name: "q", Type: xnnpack.QUint8, Shape: []int{4}, Quantization: quantization}
	require.Equal(t, []models.Value{out}, m.Outputs())
}
