package described_test

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/half"
	"xpwc/models/described"
	"xpwc/models/safetensors"
)

// TestOperatorsComputeWhatTheDescriptionSays compares with the sums of products, in numbers that the stored ones
// stand for.
func TestOperatorsComputeWhatTheDescriptionSays(t *testing.T) {
	ts, description := everyUse()
	m := open(t, ts, description)
	got := plain(t, m)
	operators, err := described.Parse([]byte(description))
	require.NoError(t, err)
	require.Len(t, got, len(operators))
	for i, o := range operators {
		t.Run(o.Weights, func(t *testing.T) {
			w, channels := ts.meaning(t, m, o)
			in := m.Inputs()[i].Shape
			x := make([]float64, in[len(in)-1])
			for c := range x {
				x[c] = float64(content(c))
			}
			out := m.Outputs()[i].Shape
			out = append([]int{}, out...)
			want := make([]float64, len(got[i]))
			switch o.Op {
			case "fully_connected":
				for c := range channels {
					for k := range x {
						offset := c*len(x) + k
						if o.Transposed {
							offset = k*channels + c
						}
						want[c] += x[k] * w[offset]
					}
				}
			case "convolution_2d": // the window covers the whole image
				window := len(w) / channels
				for c := range channels {
					for k := range window {
						want[c] += float64(content(k)) * w[c*window+k]
					}
				}
			case "depthwise_convolution_2d":
				for k := range w {
					want[k%channels] += float64(content(k)) * w[k]
				}
			case "deconvolution_2d": // of an image as large as the window
				height, width, inputs := in[1], in[2], len(x)
				for k := range w {
					c, ky, kx := k/(height*width*inputs), k/(width*inputs)%height, k/inputs%width
					for pixel := range height * width {
						y, x := pixel/width+ky, pixel%width+kx
						want[(y*out[2]+x)*channels+c] += float64(content(pixel*inputs+k%inputs)) * w[k]
					}
				}
			}
			tolerance := 1e-4
			switch {
			case strings.HasPrefix(o.Datatype, "qd8"):
				tolerance = 0.02 * peak(want)
			case strings.HasPrefix(o.Datatype, "qs8"):
				tolerance = 0.26 + 0.02*peak(want)
			case o.Datatype == "f16":
				tolerance = 0.01 * peak(want)
			}
			for k := range want {
				v := want[k] + ts.bias(m, o, k%channels)
				if o.Activation != nil {
					v = max(v, 0)
				}
				if strings.HasPrefix(o.Datatype, "qs8") {
					v = min(max(v, -126*0.25), 129*0.25)
				}
				require.InDelta(t, v, got[i][k], tolerance, "element %d", k)
			}
			require.Equal(t, channels, out[len(out)-1])
		})
	}
}

func peak(v []float64) float64 {
	p := 1.0
	for _, x := range v {
		p = max(p, math.Abs(x))
	}
	return p
}

// meaning returns the numbers that an operator's stored weights stand for, and how many output channels there are.
func (ts *tensors) meaning(t testing.TB, m *described.Model, o described.Operator) (w []float64, channels int) {
	t.Helper()
	f, ok := m.File().Lookup(o.Weights)
	require.True(t, ok)
	shape := f.Shape
	switch f.Dtype {
	case safetensors.F32:
		for b := f.Data; len(b) > 0; b = b[4:] {
			w = append(w, float64(math.Float32frombits(binary.LittleEndian.Uint32(b))))
		}
	case safetensors.F16:
		for b := f.Data; len(b) > 0; b = b[2:] {
			w = append(w, half.Float64(binary.LittleEndian.Uint16(b)))
		}
	case safetensors.I8:
		for _, b := range f.Data {
			w = append(w, float64(int8(b)))
		}
	case safetensors.U8:
		for _, b := range f.Data {
			for _, n := range []byte{b & 15, b >> 4} {
				if *o.ZeroPoint == 8 {
					w = append(w, float64(n)-8)
				} else {
					w = append(w, float64(int8(n<<4)>>4))
				}
			}
		}
		shape[len(shape)-1] *= 2
	}
	offset := 0
	switch {
	case o.Op == "depthwise_convolution_2d":
		offset = 3
	case o.Transposed:
		offset = 1
	}
	channels = shape[offset]
	inner := 1
	for _, d := range shape[offset+1:] {
		inner *= d
	}
	if o.Scales == "" {
		return w, channels
	}
	s, _ := m.File().Lookup(o.Scales)
	for i := range w {
		if o.BlockSize > 0 {
			w[i] *= float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(s.Data[i/o.BlockSize*2:])) << 16))
		} else {
			w[i] *= float64(math.Float32frombits(binary.LittleEndian.Uint32(s.Data[i/inner%channels*4:])))
		}
	}
	return w, channels
}

func (ts *tensors) bias(m *described.Model, o described.Operator, channel int) float64 {
	b, ok := m.File().Lookup(o.Bias)
	if !ok {
		return 0
	}
	switch b.Dtype {
	case safetensors.I32:
		s, _ := m.File().Lookup(o.Scales)
		scale := math.Float32frombits(binary.LittleEndian.Uint32(s.Data[4*channel:]))
		return float64(int32(binary.LittleEndian.Uint32(b.Data[4*channel:]))) * float64(scale) * float64(o.Input.Scale)
	case safetensors.F16:
		return half.Float64(binary.LittleEndian.Uint16(b.Data[2*channel:]))
	}
	return float64(math.Float32frombits(binary.LittleEndian.Uint32(b.Data[4*channel:])))
}
