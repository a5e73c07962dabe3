package optable

import (
	"xpwc/internal/fault"
	"xpwc/xnnpack"
	"xpwc/xnnpack/packing"
)

// sparse is a model of the only form that XNNPACK turns into NCHW: a 3x3 convolution with stride 2 of 3 channels, 1x1
// convolutions most of whose weights are zero, a depthwise convolution, a mean over the image. On amd64 it does so on
// CPUs below AVX only.
func sparse() []Case {
	return []Case{{Name: "nchw-f32", Flags: xnnpack.HintSparseInference, Packs: Varies, define: (*builder).sparse}}
}

func (b *builder) sparse() {
	b.defineInput(b.activation(xnnpack.Float32, 1, 17, 15, 3))
	last, dims := inputID, b.input.Shape
	for i, shape := range []convShape{
		{kernel: [4]int{16, 3, 3, 3}, geometry: window{padding: pad1, stride: two}},
		{kernel: [4]int{24, 1, 1, 16}},
		{kernel: [4]int{1, 3, 3, 24}, geometry: window{padding: pad1}},
		{kernel: [4]int{12, 1, 1, 24}},
	} {
		copy(shape.in[:], dims)
		l := shape.convolution(f32)
		if shape.kernel[0] == 1 {
			l = shape.depthwise(f32)
		}
		channels := l.out[3]
		l.kernel = b.float(layerName("kernel", i), xnnpack.Float32, l.shape...)
		if l.shape[1] == 1 {
			thinOut(l.kernel.content)
		}
		l.bias = b.float(layerName("bias", i), xnnpack.Float32, channels)
		next := xnnpack.Tensor{Name: layerName("image", i), Type: xnnpack.Float32, Shape: l.out}
		packed := l.node.Packing(l.kernel.Tensor, l.bias.Tensor, xnnpack.Tensor{Type: xnnpack.Float32}, next)
		packed.Flags |= packing.SparseInference
		ids := []xnnpack.ValueID{last, b.static(l.kernel, atCreation, packed),
			b.static(l.bias, atCreation, packing.Identity{}), fault.Value(b.g.Tensor(next))}
		b.add(l, ids)
		last, dims = ids[outputOf], l.out
	}
	b.defineOutput(xnnpack.Float32, []int{1, 1, 1, dims[3]}, 1)
	b.mean = true
	fault.Check(b.g.Add(xnnpack.StaticReduce{Op: xnnpack.ReduceMean, Axes: []int{1, 2}, KeepDims: true, Input: last,
		Output: outputID}))
}

// thinOut zeroes three quarters of a float32 kernel.
func thinOut(content []byte) {
	for i := range content {
		if i/4%4 != 0 {
			content[i] = 0
		}
	}
}

func layerName(prefix string, layer int) string { return prefix + " " + string(rune('1'+layer)) }
