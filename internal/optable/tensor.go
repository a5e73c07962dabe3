package optable

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"math/rand/v2"

	"xpwc/internal/half"
	"xpwc/xnnpack"
)

// random is a source of the same numbers on every machine.
type random struct{ *rand.Rand }

func newRandom(seed string) *random {
	h := fnv.New64a()
	h.Write([]byte(seed))
	return &random{rand.New(rand.NewPCG(h.Sum64(), 0))}
}

// between is uniform over the integers from lo to hi.
func (r *random) between(lo, hi int) int { return lo + r.IntN(hi-lo+1) }

// tensor is a tensor's description and content, stored and real.
type tensor struct {
	xnnpack.Tensor
	content []byte
	real    []float64
}

// channelOf is the index along dimension dim of the element at flat index i.
func channelOf(shape []int, dim, i int) int {
	return i / xnnpack.Elements(shape[dim+1:]) % shape[dim]
}

// scaleOf is the factor of element i.
func (t *tensor) scaleOf(i int) float64 {
	q := &t.Quantization
	switch t.Type {
	case xnnpack.ChannelQInt8, xnnpack.ChannelQInt32, xnnpack.ChannelQInt4:
		channels := t.Shape[q.ChannelDim]
		batch := 0
		if len(q.Scales) > channels { // of a batch matrix multiplication's factor
			batch = i / xnnpack.Elements(t.Shape[1:])
		}
		return float64(q.Scales[batch*channels+channelOf(t.Shape, q.ChannelDim, i)])
	case xnnpack.BlockQInt4:
		along := t.Shape[1]
		block := i/along*(along/q.BlockSize) + i%along/q.BlockSize
		return float64(math.Float32frombits(uint32(q.BlockScales[block]) << 16))
	case xnnpack.QInt8, xnnpack.QUint8, xnnpack.QInt32:
		return float64(q.Scale)
	}
	return 1
}

// decode turns stored bytes into real numbers.
func (t *tensor) decode(b []byte) []float64 {
	real := make([]float64, xnnpack.Elements(t.Shape))
	for i := range real {
		zero := float64(t.Quantization.ZeroPoint)
		switch t.Type {
		case xnnpack.Float32:
			real[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:])))
		case xnnpack.Float16:
			real[i] = half.Float64(binary.LittleEndian.Uint16(b[2*i:]))
		case xnnpack.QInt8, xnnpack.ChannelQInt8:
			real[i] = (float64(int8(b[i])) - zero) * t.scaleOf(i)
		case xnnpack.QUint8:
			real[i] = (float64(b[i]) - zero) * t.scaleOf(i)
		case xnnpack.QInt32, xnnpack.ChannelQInt32:
			real[i] = float64(int32(binary.LittleEndian.Uint32(b[4*i:]))) * t.scaleOf(i)
		case xnnpack.ChannelQInt4, xnnpack.BlockQInt4:
			row := t.Shape[len(t.Shape)-1]
			nibble := b[i/row*((row+1)/2)+i%row/2] >> (4 * (i % row % 2)) & 0xf
			v := float64(nibble) - zero
			if zero == 0 && nibble > 7 {
				v -= 16
			}
			real[i] = v * t.scaleOf(i)
		}
	}
	return real
}

// fill gives t random content, real numbers roughly within ±1 (±16 steps for a quantised bias).
func (r *random) fill(t *tensor) {
	n := xnnpack.Elements(t.Shape)
	switch t.Type {
	case xnnpack.Float32:
		for range n {
			t.content = binary.LittleEndian.AppendUint32(t.content, math.Float32bits(float32(2*r.Float64()-1)))
		}
	case xnnpack.Float16:
		for range n {
			t.content = binary.LittleEndian.AppendUint16(t.content, half.Bits(2*r.Float64()-1))
		}
	case xnnpack.QInt8, xnnpack.ChannelQInt8:
		for range n {
			t.content = append(t.content, byte(int8(r.between(-127, 127))))
		}
	case xnnpack.QUint8:
		for range n {
			t.content = append(t.content, byte(r.between(0, 255)))
		}
	case xnnpack.QInt32, xnnpack.ChannelQInt32:
		for range n {
			t.content = binary.LittleEndian.AppendUint32(t.content, uint32(int32(r.between(-1500, 1500))))
		}
	case xnnpack.ChannelQInt4, xnnpack.BlockQInt4:
		row := t.Shape[len(t.Shape)-1]
		for range n / row {
			for c := 0; c < row; c += 2 {
				b := byte(r.between(0, 15))
				if c+1 < row {
					b |= byte(r.between(0, 15)) << 4
				}
				t.content = append(t.content, b)
			}
		}
	}
	t.real = t.decode(t.content)
}

// float is a random float tensor.
func (r *random) float(name string, kind xnnpack.Datatype, shape ...int) tensor {
	t := tensor{Tensor: xnnpack.Tensor{Name: name, Type: kind, Shape: shape}}
	r.fill(&t)
	return t
}

// activation is a random input.
func (r *random) activation(kind xnnpack.Datatype, shape ...int) tensor {
	t := tensor{Tensor: xnnpack.Tensor{Name: "input", Type: kind, Shape: shape}}
	switch kind {
	case xnnpack.QInt8:
		t.Quantization = xnnpack.Quantization{Scale: 0.0078125 + float32(r.Float64())/256,
			ZeroPoint: int32(r.between(-9, 9))}
	case xnnpack.QUint8:
		t.Quantization = xnnpack.Quantization{Scale: 0.0078125 + float32(r.Float64())/256,
			ZeroPoint: int32(r.between(120, 135))}
	}
	r.fill(&t)
	return t
}

// kernel is a random filter. Scales run along dimension channel; a 4-bit one has the given zero point.
func (r *random) kernel(kind xnnpack.Datatype, channel int, zero int32, blockSize int, shape ...int) tensor {
	t := tensor{Tensor: xnnpack.Tensor{Name: "kernel", Type: kind, Shape: shape}}
	q := &t.Quantization
	q.ChannelDim = channel
	scale := func(steps float64) float32 { return float32((0.5 + r.Float64()) / steps) }
	switch kind {
	case xnnpack.QInt8:
		q.Scale = scale(128)
	case xnnpack.QUint8:
		q.Scale, q.ZeroPoint = scale(128), int32(r.between(120, 135))
	case xnnpack.ChannelQInt8:
		scales := shape[channel]
		if len(shape) == 3 { // a matrix multiplication's, for each of the batch
			scales *= shape[0]
		}
		for range scales {
			q.Scales = append(q.Scales, scale(128))
		}
	case xnnpack.ChannelQInt4:
		q.ZeroPoint = zero
		for range shape[channel] {
			q.Scales = append(q.Scales, scale(8))
		}
	case xnnpack.BlockQInt4:
		q.ZeroPoint, q.BlockSize = zero, blockSize
		for range shape[0] * (shape[1] / blockSize) {
			q.BlockScales = append(q.BlockScales, uint16(math.Float32bits(scale(8))>>16))
		}
	}
	r.fill(&t)
	return t
}

// bias is a random bias for an input and a kernel: XNNPACK takes its scales to be the products of theirs.
func (r *random) bias(kind xnnpack.Datatype, in, kernel *tensor, channels int) tensor {
	t := tensor{Tensor: xnnpack.Tensor{Name: "bias", Type: kind, Shape: []int{channels}}}
	switch kind {
	case xnnpack.QInt32:
		t.Quantization.Scale = in.Quantization.Scale * kernel.Quantization.Scale
	case xnnpack.ChannelQInt32:
		for _, s := range kernel.Quantization.Scales {
			t.Quantization.Scales = append(t.Quantization.Scales, in.Quantization.Scale*s)
		}
	}
	r.fill(&t)
	return t
}

// quantise gives an output's description the range of what is expected there.
func (t *tensor) quantise(want []float64) {
	lo, hi := 0.0, 0.0
	for _, v := range want {
		lo, hi = min(lo, v), max(hi, v)
	}
	// A little less than the whole range, so that clamping happens too.
	scale := float32((hi - lo) / 240)
	switch t.Type {
	case xnnpack.QInt8:
		t.Quantization = xnnpack.Quantization{Scale: scale, ZeroPoint: int32(math.Round(-120 - lo/float64(scale)))}
	case xnnpack.QUint8:
		t.Quantization = xnnpack.Quantization{Scale: scale, ZeroPoint: int32(math.Round(8 - lo/float64(scale)))}
	}
}
