package tflite

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/tests/modeltest"
)

// along3D is how a convolution goes along one dimension.
type along3D struct{ in, size, stride, dilation int }

func (a along3D) out(samePadding bool) (n, pre int) {
	reach := (a.size-1)*a.dilation + 1
	if !samePadding {
		return (a.in-reach)/a.stride + 1, 0
	}
	n = (a.in + a.stride - 1) / a.stride
	return n, max(0, (n-1)*a.stride+reach-a.in) / 2
}

// volume is a model of one CONV_3D, from 2 channels to 3, and what it computes by definition of wave.
func volume(d, h, w along3D, samePadding bool) (m blueprint, want []float32) {
	const channels, outputs = 2, 3
	padding := byte(paddingValid)
	if samePadding {
		padding = paddingSame
	}
	shape, kernel := []int{2, d.in, h.in, w.in, channels}, []int{d.size, h.size, w.size, channels, outputs}
	x, k, bias := wave(len(newArray(shape...).v)), wave(len(newArray(kernel...).v)), wave(outputs)
	m = single(blueOp{code: "CONV_3D", options: fields{conv3D.padding: padding, conv3DStrideD: int32(d.stride),
		conv3D.strideH: int32(h.stride), conv3D.strideW: int32(w.stride), conv3DDilationD: int32(d.dilation),
		conv3D.dilationH: int32(h.dilation), conv3D.dilationW: int32(w.dilation),
		conv3D.activation: byte(activationReLU)}}, shape,
		floats("k", kernel, k...), floats("b", []int{outputs}, bias...))
	along := []along3D{d, h, w}
	var n, pre [3]int
	for i, a := range along {
		n[i], pre[i] = a.out(samePadding)
	}
	for element := range shape[0] * n[0] * n[1] * n[2] * outputs {
		o, sum, rest := element%outputs, bias[element%outputs], element/outputs
		var first [3]int
		for i := 2; i >= 0; i-- {
			first[i], rest = rest%n[i]*along[i].stride-pre[i], rest/n[i]
		}
		for in := range d.size * h.size * w.size * channels {
			c, quotient, inside := in%channels, in/channels, true
			var place [3]int
			for i := 2; i >= 0; i-- {
				place[i], quotient = first[i]+quotient%along[i].size*along[i].dilation, quotient/along[i].size
				inside = inside && place[i] >= 0 && place[i] < along[i].in
			}
			src := ((rest*d.in+place[0])*h.in+place[1])*w.in + place[2]
			if inside {
				sum += x[src*channels+c] * k[in*outputs+o]
			}
		}
		want = append(want, max(sum, 0))
	}
	return m, want
}

// runWave opens a model and requires that it computes want, nearly, from a wave. It returns what it computed.
func runWave(t *testing.T, m blueprint, want []float32) (opened *Model, input, computed []float32) {
	t.Helper()
	opened = openModel(t, save(t, m.bytes()))
	input = wave(len(newArray(m.tensors[0].shape...).v))
	computed = modeltest.Run(t, opened, input)[0]
	require.InDeltaSlice(t, want, computed, 1e-4)
	return opened, input, computed
}

func TestVolumesAreConvolved(t *testing.T) {
	for _, c := range []struct {
		d, h, w     along3D
		samePadding bool
	}{
		{along3D{4, 3, 1, 1}, along3D{5, 3, 1, 1}, along3D{6, 2, 1, 1}, false},
		{along3D{4, 3, 1, 1}, along3D{5, 3, 1, 1}, along3D{6, 2, 1, 1}, true},
		{along3D{7, 2, 2, 1}, along3D{5, 3, 2, 1}, along3D{6, 2, 3, 1}, true},
		{along3D{7, 2, 3, 1}, along3D{5, 1, 2, 1}, along3D{6, 1, 1, 1}, false},
		{along3D{9, 3, 1, 2}, along3D{7, 2, 1, 3}, along3D{5, 2, 1, 2}, true},
		{along3D{9, 3, 1, 4}, along3D{7, 2, 1, 3}, along3D{5, 2, 1, 2}, false},
		{along3D{3, 1, 1, 1}, along3D{4, 3, 1, 1}, along3D{4, 3, 1, 1}, true},
		{along3D{8, 7, 1, 1}, along3D{2, 1, 1, 1}, along3D{2, 1, 1, 1}, true},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			m, want := volume(c.d, c.h, c.w, c.samePadding)
			opened, input, plain := runWave(t, m, want)

			path := filepath.Join(t.TempDir(), "v.xpwc")
			for range 2 {
				cache, err := xpwc.Open(path, nil)
				require.NoError(t, err)
				require.Equal(t, plain, modeltest.RunCached(t, opened, cache, opened.DataMap(), input)[0])
				require.NoError(t, cache.Close())
			}
			modeltest.CheckPacked(t, opened)
		})
	}
}

// enlargedVolume is a model of one CONV_3D_TRANSPOSE, from 3 channels to 2, to a volume that a convolution would make
// its input of, and what it computes by definition of wave.
func enlargedVolume(d, h, w along3D, samePadding bool) (m blueprint, want []float32) {
	const channels, outputs = 3, 2
	padding := byte(paddingValid)
	if samePadding {
		padding = paddingSame
	}
	along := []along3D{d, h, w}
	shape, kernel := []int{2, 0, 0, 0, channels}, []int{d.size, h.size, w.size, outputs, channels}
	var pre [3]int
	for i, a := range along {
		shape[i+1], pre[i] = a.out(samePadding)
	}
	x, k, bias := wave(len(newArray(shape...).v)), wave(len(newArray(kernel...).v)), wave(outputs)
	outputShape := int32Tensor("shape", []int{5}, 2, int32(d.in), int32(h.in), int32(w.in), outputs)
	m = single(blueOp{code: "CONV_3D_TRANSPOSE", inputs: []int{1, 2, 0, 3}, options: fields{conv3D.padding: padding,
		conv3DStrideD: int32(d.stride), conv3D.strideH: int32(h.stride), conv3D.strideW: int32(w.stride),
		conv3D.activation: byte(activationReLU)}}, shape,
		outputShape, floats("k", kernel, k...), floats("b", []int{outputs}, bias...))
	for element := range 2 * d.in * h.in * w.in * outputs {
		want = append(want, bias[element%outputs])
	}
	for src, value := range x {
		c, position := src%channels, src/channels
		var first [3]int
		for i := 2; i >= 0; i-- {
			first[i], position = position%shape[i+1]*along[i].stride-pre[i], position/shape[i+1]
		}
		for place := range d.size * h.size * w.size {
			dst, quotient, inside := position, place, true
			for i, k := range []int{quotient / (h.size * w.size), quotient / w.size % h.size, quotient % w.size} {
				n := first[i] + k
				inside, dst = inside && n >= 0 && n < along[i].in, dst*along[i].in+n
			}
			for o := range outputs {
				if inside {
					want[dst*outputs+o] += value * k[(place*outputs+o)*channels+c]
				}
			}
		}
	}
	for i := range want {
		want[i] = max(want[i], 0)
	}
	return m, want
}

func TestVolumesAreEnlarged(t *testing.T) {
	for _, c := range []struct {
		d, h, w     along3D
		samePadding bool
	}{
		{along3D{6, 3, 1, 1}, along3D{5, 3, 1, 1}, along3D{6, 2, 1, 1}, false},
		{along3D{4, 3, 1, 1}, along3D{5, 3, 1, 1}, along3D{6, 2, 1, 1}, true},
		{along3D{6, 3, 2, 1}, along3D{8, 2, 2, 1}, along3D{15, 3, 3, 1}, true},
		{along3D{5, 4, 2, 1}, along3D{7, 3, 2, 1}, along3D{9, 3, 2, 1}, true},
		{along3D{9, 1, 3, 1}, along3D{4, 1, 1, 1}, along3D{10, 2, 2, 1}, true},
		{along3D{8, 4, 2, 1}, along3D{9, 3, 2, 1}, along3D{11, 2, 3, 1}, false},
		{along3D{3, 3, 1, 1}, along3D{4, 4, 1, 1}, along3D{2, 2, 1, 1}, false},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			m, want := enlargedVolume(c.d, c.h, c.w, c.samePadding)
			opened, _, _ := runWave(t, m, want)
			modeltest.CheckPacked(t, opened)
		})
	}
}

func TestAnEnlargedVolumeThatContradictsItsModelIsAnError(t *testing.T) {
	for name, change := range map[string]func(m *blueprint){
		"another batch":     func(m *blueprint) { m.tensors[1] = int32Tensor("shape", []int{5}, 1, 6, 5, 6, 2) },
		"no depth":          func(m *blueprint) { m.tensors[1] = int32Tensor("shape", []int{5}, 2, 0, 5, 6, 2) },
		"too deep":          func(m *blueprint) { m.tensors[1] = int32Tensor("shape", []int{5}, 2, 9, 5, 6, 2) },
		"other channels":    func(m *blueprint) { m.tensors[0].shape[4] = 2 },
		"no stride":         func(m *blueprint) { m.ops[0].options[conv3DStrideD] = int32(0) },
		"dilated":           func(m *blueprint) { m.ops[0].options[conv3DDilationD] = int32(2) },
		"a shape of volume": func(m *blueprint) { m.tensors[1] = int32Tensor("shape", []int{3}, 6, 5, 6) },
	} {
		m, _ := enlargedVolume(along3D{6, 3, 1, 1}, along3D{5, 3, 1, 1}, along3D{6, 2, 1, 1}, false)
		change(&m)
		_, err := Open(save(t, m.bytes()), nil)
		require.Error(t, err, name)
	}
}

func TestVolumesThatCannotBeConvolvedAreRefused(t *testing.T) {
	for name, change := range map[string]func(m *blueprint){
		"channels in groups": func(m *blueprint) { m.tensors[0].shape[4] = 4 },
		"a filter of bytes": func(m *blueprint) {
			m.tensors[1] = quantizedTensor("k", typeInt8, m.tensors[1].shape, 0, 0, []float32{1}, wave(24*3))
		},
		"too much at once": func(m *blueprint) { m.tensors[0].shape[1] = 1 << 22 },
	} {
		m, _ := volume(along3D{4, 3, 1, 1}, along3D{5, 2, 1, 1}, along3D{6, 2, 1, 1}, false)
		change(&m)
		_, err := Open(save(t, m.bytes()), nil)
		require.ErrorIs(t, err, ErrUnsupported, name)
	}
	m, _ := volume(along3D{4, 3, 1, 1}, along3D{5, 2, 1, 1}, along3D{6, 2, 1, 1}, false)
	m.tensors[0].shape = []int{4, 5, 6, 2}
	_, err := Open(save(t, m.bytes()), nil)
	require.ErrorIs(t, err, ErrMalformed)
}
