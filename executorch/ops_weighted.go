package executorch

import (
	"math"

	"xpwc/internal/fault"
	"xpwc/xnnpack"
)

type fullyConnected struct{ xnnpack.FullyConnected }

func (n fullyConnected) shape(of shapes) []int {
	in := of(n.Input)
	out, channels := n.channels(of)
	last := len(in) - 1
	if last < 0 || in[last] != channels {
		fault.Check(malformed("an input of shape %v for %d input channels", in, channels))
	}
	bias(of, n.Bias, out)
	return append(append([]int{}, in[:last]...), out)
}

// channels returns how many the node computes, and how many it reads.
func (n fullyConnected) channels(of shapes) (out, in int) {
	filter := of(n.Filter)
	if len(filter) != 2 {
		fault.Check(malformed("a filter of shape %v", filter))
	}
	if n.TransposeWeights {
		return filter[1], filter[0]
	}
	return filter[0], filter[1]
}
func (n fullyConnected) between(input, output xnnpack.ValueID) operation {
	n.Input, n.Output = input, output
	return n
}
func (n fullyConnected) least(of shapes) []int {
	_, channels := n.channels(of)
	return []int{1, channels}
}
func (n fullyConnected) weights() (kernel, bias xnnpack.ValueID) { return n.Filter, n.Bias }
func (n fullyConnected) looksUp() bool                           { return true }

// bias checks a bias, if there is one.
func bias(of shapes, id xnnpack.ValueID, channels int) {
	if id == xnnpack.InvalidValue {
		return
	}
	if s := of(id); len(s) != 1 || s[0] != channels {
		fault.Check(malformed("a bias of shape %v for %d output channels", s, channels))
	}
}

// kernelOf checks the shape of a kernel on images: four dimensions, of this height and width.
func kernelOf(filter []int, size xnnpack.Size) {
	if len(filter) != 4 || filter[1] != size.Height || filter[2] != size.Width {
		fault.Check(malformed("a filter of shape %v for a kernel of %d by %d", filter, size.Height, size.Width))
	}
}

// leastImage is one in which the kernel has one place.
func leastImage(kernel, dilation xnnpack.Size, channels int64) []int {
	height := int64(kernel.Height-1)*int64(dilation.Height) + 1
	width := int64(kernel.Width-1)*int64(dilation.Width) + 1
	for _, n := range []int64{height, width, channels} {
		if n <= 0 || n > maxElements {
			fault.Check(malformed("a kernel of %d by %d, of %d channels", kernel.Height, kernel.Width, channels))
		}
	}
	return []int{1, int(height), int(width), int(channels)}
}

type convolution struct {
	xnnpack.Convolution2D
	kernel          xnnpack.Size
	inputs, outputs int // channels of a group
}

func (n convolution) shape(of shapes) []int {
	in, filter := of(n.Input), of(n.Filter)
	size := slides(in, n.kernel, n.Stride, n.Dilation, n.Padding, n.SamePadding)
	grouped(in, filter, n.kernel, n.Groups, n.inputs, n.outputs)
	bias(of, n.Bias, filter[0])
	return []int{in[0], size.Height, size.Width, filter[0]}
}
func (n convolution) between(input, output xnnpack.ValueID) operation {
	n.Input, n.Output = input, output
	return n
}
func (n convolution) least(shapes) []int {
	return leastImage(n.kernel, n.Dilation, int64(n.Groups)*int64(n.inputs))
}
func (n convolution) weights() (kernel, bias xnnpack.ValueID) { return n.Filter, n.Bias }

// looksUp is false where XNNPACK makes the node a depthwise convolution.
func (n convolution) looksUp() bool { return n.inputs != 1 || n.outputs != 1 }

// grouped checks a convolution's groups against its filter, [groups * outputs, height, width, inputs], and its input.
func grouped(in, filter []int, kernel xnnpack.Size, groups, inputs, outputs int) {
	kernelOf(filter, kernel)
	wide := int64(groups) // products of two numbers of 31 bits
	if wide*int64(outputs) != int64(filter[0]) || inputs != filter[3] || wide*int64(inputs) != int64(in[3]) {
		fault.Check(malformed("%d groups of %d to %d channels for an input of shape %v and a filter of shape %v",
			groups, inputs, outputs, in, filter))
	}
}

type depthwise struct {
	xnnpack.DepthwiseConvolution2D
	kernel xnnpack.Size
	groups int // input channels
}

func (n depthwise) shape(of shapes) []int {
	in, filter := of(n.Input), of(n.Filter)
	size := slides(in, n.kernel, n.Stride, n.Dilation, n.Padding, n.SamePadding)
	kernelOf(filter, n.kernel)
	if filter[0] != 1 || n.groups != in[3] || int64(n.groups)*int64(n.DepthMultiplier) != int64(filter[3]) {
		fault.Check(malformed("%d groups of 1 to %d channels for an input of shape %v and a filter of shape %v",
			n.groups, n.DepthMultiplier, in, filter))
	}
	bias(of, n.Bias, filter[3])
	return []int{in[0], size.Height, size.Width, filter[3]}
}
func (n depthwise) between(input, output xnnpack.ValueID) operation {
	n.Input, n.Output = input, output
	return n
}
func (n depthwise) least(shapes) []int                      { return leastImage(n.kernel, n.Dilation, int64(n.groups)) }
func (n depthwise) weights() (kernel, bias xnnpack.ValueID) { return n.Filter, n.Bias }

// looksUp is false also with several outputs in a group: XNNPACK of 2024 reads the filter before it looks up.
func (n depthwise) looksUp() bool { return false }

type deconvolution struct {
	xnnpack.Deconvolution2D
	kernel          xnnpack.Size
	inputs, outputs int // channels of a group
}

func (n deconvolution) shape(of shapes) []int {
	in, filter := of(n.Input), of(n.Filter)
	images(in)
	grouped(in, filter, n.kernel, n.Groups, n.inputs, n.outputs)
	length := func(in, kernel, stride, dilation, adjustment, padding int) int {
		for _, d := range []int{kernel, stride, dilation} {
			if d <= 0 || d > math.MaxInt16 {
				fault.Check(malformed("a kernel of %d with stride %d and dilation %d", kernel, stride, dilation))
			}
		}
		if adjustment >= stride {
			fault.Check(malformed("an adjustment of %d with stride %d", adjustment, stride))
		}
		out := int64(stride)*int64(in-1) + int64(adjustment) + int64(dilation)*int64(kernel-1) + 1 - int64(padding)
		if out <= 0 || out > maxElements {
			fault.Check(malformed("an image of %d", out))
		}
		return int(out)
	}
	height := length(in[1],
		n.kernel.Height, n.Stride.Height, n.Dilation.Height, n.Adjustment.Height, n.Padding.Top+n.Padding.Bottom)
	width := length(in[2],
		n.kernel.Width, n.Stride.Width, n.Dilation.Width, n.Adjustment.Width, n.Padding.Left+n.Padding.Right)
	fault.Value(elements(in[0], height, width, n.kernel.Height, n.kernel.Width))
	bias(of, n.Bias, filter[0])
	return []int{in[0], height, width, filter[0]}
}
func (n deconvolution) between(input, output xnnpack.ValueID) operation {
	n.Input, n.Output = input, output
	return n
}

// least is as large as the kernel, for which no padding is too wide that suits the kernel.
func (n deconvolution) least(shapes) []int {
	return leastImage(n.kernel, n.Dilation, int64(n.Groups)*int64(n.inputs))
}
func (n deconvolution) weights() (kernel, bias xnnpack.ValueID) { return n.Filter, n.Bias }
func (n deconvolution) looksUp() bool                           { return false }

type batchMatrixMultiply struct{ xnnpack.BatchMatrixMultiply }

func (n batchMatrixMultiply) shape(of shapes) []int {
	a, b := of(n.A), of(n.B)
	if len(a) < 2 || len(b) < 2 {
		fault.Check(malformed("factors of shapes %v and %v", a, b))
	}
	batch := broadcast(a[:len(a)-2], b[:len(b)-2])
	inner, columns := b[len(b)-2], b[len(b)-1]
	if n.TransposeB {
		inner, columns = columns, inner
	}
	if a[len(a)-1] != inner {
		fault.Check(malformed("factors of shapes %v and %v", a, b))
	}
	return append(batch, a[len(a)-2], columns)
}
func (n batchMatrixMultiply) between(input, output xnnpack.ValueID) operation {
	n.A, n.Output = input, output
	return n
}
func (n batchMatrixMultiply) least(of shapes) []int {
	b := of(n.B)
	if len(b) < 2 {
		fault.Check(malformed("a factor of shape %v", b))
	}
	if n.TransposeB {
		return []int{1, b[len(b)-1]}
	}
	return []int{1, b[len(b)-2]}
}
func (n batchMatrixMultiply) weights() (kernel, bias xnnpack.ValueID) {
	return n.B, xnnpack.InvalidValue
}
func (n batchMatrixMultiply) looksUp() bool { return false }
