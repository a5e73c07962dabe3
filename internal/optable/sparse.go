package optable

import (
	"encoding/binary"
	"math"

	"xpwc/internal/fault"
	"xpwc/packing"
	"xpwc/xnnpack"
)

// sparse is a model of the only form that XNNPACK turns into NCHW: a 3x3 convolution with stride 2 of 3 channels, 1x1
// convolutions most of whose weights are zero, a depthwise convolution, a mean over the image. On amd64 it does so on
// CPUs below AVX only.
func sparse() []Case {
	return []Case{{Name: "nchw-f32", Flags: xnnpack.HintSparseInference, Packs: Varies, define: (*builder).sparse}}
}

func (b *builder) sparse() {
	x := b.activation(xnnpack.Float32, 1, 17, 15, 3)
	last, at := b.input(x), image{shape: x.Shape, real: x.real}
	for i, layer := range []struct {
		kernel    []int
		depthwise bool
		geometry  window
	}{
		{kernel: []int{16, 3, 3, 3}, geometry: window{padding: one, stride: two}},
		{kernel: []int{24, 1, 1, 16}},
		{kernel: []int{1, 3, 3, 24}, depthwise: true, geometry: window{padding: one}},
		{kernel: []int{12, 1, 1, 24}},
	} {
		kernel := b.float(layerName("kernel", i), xnnpack.Float32, layer.kernel...)
		if layer.kernel[1] == 1 {
			b.thinOut(&kernel)
		}
		g, weights := layer.geometry, image{shape: layer.kernel, real: kernel.real}
		var node xnnpack.WeightedNode = xnnpack.Convolution2D{Input: inputOf, Filter: kernelOf, Bias: biasOf,
			Output: outputOf, Padding: g.padding, Stride: g.stride}
		if layer.depthwise {
			weights = grouped(weights)
			g.groups = weights.shape[0]
			node = xnnpack.DepthwiseConvolution2D{Input: inputOf, Filter: kernelOf, Bias: biasOf, Output: outputOf,
				Padding: g.padding}
		}
		bias := b.float(layerName("bias", i), xnnpack.Float32, weights.shape[0])
		at.errors = make([]float64, len(at.real))
		r := convolve(at, weights, g)
		r.addBias(&bias)
		next := xnnpack.Tensor{Name: layerName("image", i), Type: xnnpack.Float32, Shape: r.shape}
		packed := node.Packing(kernel.Tensor, bias.Tensor, xnnpack.Tensor{Type: xnnpack.Float32}, next)
		packed.Flags |= packing.SparseInference
		ids := []xnnpack.ValueID{last, b.static(kernel, atCreation, packed),
			b.static(bias, atCreation, packing.Identity{}), fault.Value(b.g.Tensor(next))}
		fault.Check(b.g.AddRenamed(node, func(id xnnpack.ValueID) xnnpack.ValueID { return ids[id] }))
		last, at = ids[outputOf], image{shape: r.shape, real: r.real}
	}
	channels := at.shape[3]
	mean := newResult(1, 1, 1, channels)
	for i, v := range at.real {
		mean.add(i%channels, v, float64(channels)/float64(len(at.real)), 0)
	}
	for i := range mean.magnitude {
		mean.magnitude[i] += 10 // the layers' own roundings
	}
	out, _ := b.output(xnnpack.Float32, mean)
	fault.Check(b.g.Add(xnnpack.StaticReduce{Op: xnnpack.ReduceMean, Axes: []int{1, 2}, KeepDims: true, Input: last,
		Output: out}))
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
