package optable

import (
	"encoding/binary"
	"math"

	"xpwc/packing"
	"xpwc/xnnpack"
)

// sparse is a model of the only form that XNNPACK turns into NCHW: a 3x3 convolution with stride 2 of 3 channels, 1x1
// convolutions most of whose weights are zero, a depthwise convolution, a mean over the image. On amd64 it does so on
// CPUs below AVX only.
func sparse() []Case {
	return []Case{{Name: "nchw-f32", Flags: xnnpack.HintSparseInference, Packs: Varies, define: (*builder).sparse}}
}

func (b *builder) sparse() error {
	in, x, _, err := b.begin(f32, 3, 1, 17, 15, 3)
	if err != nil {
		return err
	}
	last, shape, real := in, x.Shape, x.real
	for i, layer := range []struct {
		kernel    []int // of the grouped convolution
		depthwise bool
		geometry  window
	}{
		{kernel: []int{16, 3, 3, 3}, geometry: window{padding: one, stride: two}},
		{kernel: []int{24, 1, 1, 16}},
		{kernel: []int{24, 3, 3, 1}, depthwise: true, geometry: window{padding: one}},
		{kernel: []int{12, 1, 1, 24}},
	} {
		kernel := b.float(layerName("kernel", i), xnnpack.Float32, layer.kernel...)
		if layer.kernel[1] == 1 {
			b.thinOut(&kernel)
		}
		channels := layer.kernel[0]
		bias := b.float(layerName("bias", i), xnnpack.Float32, channels)
		g, weights := layer.geometry, kernel.real
		if layer.depthwise {
			g.groups = channels
			kernel.Shape = []int{1, layer.kernel[1], layer.kernel[2], channels}
			weights = grouped(kernel.real, layer.kernel[1], layer.kernel[2], channels)
		}
		r := convolve(real, shape, make([]float64, len(real)), weights, layer.kernel, g)
		r.addBias(&bias)
		next, err := b.g.Tensor(xnnpack.Tensor{Name: layerName("image", i), Type: xnnpack.Float32, Shape: r.shape})
		if err != nil {
			return err
		}
		in, out := xnnpack.Tensor{Type: xnnpack.Float32}, xnnpack.Tensor{Type: xnnpack.Float32}
		packed := xnnpack.Convolution2D{Padding: g.padding, Stride: g.stride}.Packing(kernel.Tensor, bias.Tensor, in,
			out)
		if layer.depthwise {
			packed = xnnpack.DepthwiseConvolution2D{Padding: g.padding}.Packing(kernel.Tensor, bias.Tensor, in, out)
		}
		packed.Flags |= packing.SparseInference
		k, err := b.static(kernel, atCreation, packed)
		if err != nil {
			return err
		}
		c, err := b.static(bias, atCreation, packing.Identity{})
		if err != nil {
			return err
		}
		if layer.depthwise {
			err = b.g.Add(xnnpack.DepthwiseConvolution2D{Input: last, Filter: k, Bias: c,
				Output: next, Padding: g.padding})
		} else {
			err = b.g.Add(xnnpack.Convolution2D{Input: last, Filter: k, Bias: c, Output: next,
				Padding: g.padding, Stride: g.stride})
		}
		if err != nil {
			return err
		}
		last, shape, real = next, r.shape, r.real
	}
	mean := newResult(1, 1, 1, shape[3])
	pixels := shape[1] * shape[2]
	for i, v := range real {
		mean.add(i%shape[3], v, 1/float64(pixels), 0)
	}
	for i := range mean.magnitude {
		mean.magnitude[i] += 10 // the layers' own roundings
	}
	out, _, err := b.output(xnnpack.Float32, mean)
	if err != nil {
		return err
	}
	return b.g.Add(xnnpack.StaticReduce{Op: xnnpack.ReduceMean, Axes: []int{1, 2}, KeepDims: true,
		Input: last, Output: out})
}

// thinOut zeroes three quarters of a float32 kernel.
func (b *builder) thinOut(t *tensor) {
	for i := range t.real {
		if i%4 != 0 {
			t.real[i] = 0
			binary.LittleEndian.PutUint32(t.content[4*i:], math.Float32bits(0))
		}
	}
}

func layerName(what string, layer int) string { return what + " " + string(rune('1'+layer)) }
