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

// tensor is a tensor's description and content.
type tensor struct {
	xnnpack.Tensor
	content []byte
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
	case xnnpack.ChannelQInt4, xnnpack.BlockQInt4: // two in a byte: all rows are even
		for range n / 2 {
			t.content = append(t.content, byte(r.between(0, 255)))
		}
	}
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

// randomKernel is a random kernel. Scales run along dimension channel; a 4-bit one has the given zero point.
func (r *random) randomKernel(kind xnnpack.Datatype, channel int, zero int32, blockSize int, shape ...int) tensor {
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

// randomBias is a random bias for an input and a kernel: XNNPACK takes its scales to be the products of theirs.
func (r *random) randomBias(kind xnnpack.Datatype, in, kernel *tensor, channels int) tensor {
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
