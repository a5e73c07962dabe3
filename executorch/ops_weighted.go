package executorch

import (
	"math"

	"xpwc/packing"
	"xpwc/xnnpack"
)

type fullyConnected struct{ xnnpack.FullyConnected }

func (n fullyConnected) operands() ([]xnnpack.ValueID, xnnpack.ValueID) {
	return present(n.Input, n.Filter, n.Bias), n.Output
}
func (n fullyConnected) shape(of shapes) ([]int, error) {
	in := of(n.Input)
	out, channels, err := n.channels(of)
	if err != nil {
		return nil, err
	}
	last := len(in) - 1
	if last < 0 || in[last] != channels {
		return nil, malformed("an input of shape %v for %d input channels", in, channels)
	}
	return append(append([]int{}, in[:last]...), out), bias(of, n.Bias, out)
}

// channels returns how many the node computes, and how many it reads.
func (n fullyConnected) channels(of shapes) (out, in int, err error) {
	filter := of(n.Filter)
	if len(filter) != 2 {
		return 0, 0, malformed("a filter of shape %v", filter)
	}
	if n.TransposeWeights {
		return filter[1], filter[0], nil
	}
	return filter[0], filter[1], nil
}
func (n fullyConnected) add(s *xnnpack.Subgraph, id func(xnnpack.ValueID) xnnpack.ValueID) error {
	n.Input, n.Filter, n.Bias, n.Output = id(n.Input), id(n.Filter), id(n.Bias), id(n.Output)
	return s.FullyConnected(n.FullyConnected)
}
func (n fullyConnected) between(input, output xnnpack.ValueID) operation {
	n.Input, n.Output = input, output
	return n
}
func (n fullyConnected) least(of shapes) ([]int, error) {
	_, channels, err := n.channels(of)
	return []int{1, channels}, err
}
func (n fullyConnected) weights() (kernel, bias xnnpack.ValueID) { return n.Filter, n.Bias }
func (n fullyConnected) looksUp() bool                           { return true }
func (n fullyConnected) packing(tensor func(xnnpack.ValueID) xnnpack.Tensor) packing.Identity {
	return n.Packing(tensor(n.Filter), tensor(n.Bias), tensor(n.Input), tensor(n.Output))
}

// bias checks a bias, if there is one.
func bias(of shapes, id xnnpack.ValueID, channels int) error {
	if id == xnnpack.InvalidValue {
		return nil
	}
	if s := of(id); len(s) != 1 || s[0] != channels {
		return malformed("a bias of shape %v for %d output channels", s, channels)
	}
	return nil
}

// kernelOf checks the shape of a kernel on images: four dimensions, of this height and width.
func kernelOf(filter []int, size xnnpack.Size) error {
	if len(filter) != 4 || filter[1] != size.Height || filter[2] != size.Width {
		return malformed("a filter of shape %v for a kernel of %d by %d", filter, size.Height, size.Width)
	}
	return nil
}

// leastImage is one in which the kernel has one place.
func leastImage(kernel, dilation xnnpack.Size, channels int64) ([]int, error) {
	height := int64(kernel.Height-1)*int64(dilation.Height) + 1
	width := int64(kernel.Width-1)*int64(dilation.Width) + 1
	for _, n := range []int64{height, width, channels} {
		if n <= 0 || n > maxElements {
			return nil, malformed("a kernel of %d by %d, of %d channels", kernel.Height, kernel.Width, channels)
		}
	}
	return []int{1, int(height), int(width), int(channels)}, nil
}

type convolution struct {
	xnnpack.Convolution2D
	kernel          xnnpack.Size
	inputs, outputs int // channels of a group
}

func (n convolution) operands() ([]xnnpack.ValueID, xnnpack.ValueID) {
	return present(n.Input, n.Filter, n.Bias), n.Output
}
func (n convolution) shape(of shapes) ([]int, error) {
	in, filter := of(n.Input), of(n.Filter)
	size, err := slides(in, n.kernel, n.Stride, n.Dilation, n.Padding, n.SamePadding)
	if err != nil {
		return nil, err
	}
	if err := grouped(in, filter, n.kernel, n.Groups, n.inputs, n.outputs); err != nil {
		return nil, err
	}
	return []int{in[0], size.Height, size.Width, filter[0]}, bias(of, n.Bias, filter[0])
}
func (n convolution) add(s *xnnpack.Subgraph, id func(xnnpack.ValueID) xnnpack.ValueID) error {
	n.Input, n.Filter, n.Bias, n.Output = id(n.Input), id(n.Filter), id(n.Bias), id(n.Output)
	return s.Convolution2D(n.Convolution2D)
}
func (n convolution) between(input, output xnnpack.ValueID) operation {
	n.Input, n.Output = input, output
	return n
}
func (n convolution) least(shapes) ([]int, error) {
	return leastImage(n.kernel, n.Dilation, int64(n.Groups)*int64(n.inputs))
}
func (n convolution) weights() (kernel, bias xnnpack.ValueID) { return n.Filter, n.Bias }

// looksUp is false where XNNPACK makes the node a depthwise convolution.
func (n convolution) looksUp() bool { return n.inputs != 1 || n.outputs != 1 }
func (n convolution) packing(tensor func(xnnpack.ValueID) xnnpack.Tensor) packing.Identity {
	return n.Packing(tensor(n.Filter), tensor(n.Bias), tensor(n.Input), tensor(n.Output))
}

// grouped checks a convolution's groups against its filter, [groups * outputs, height, width, inputs], and its input.
func grouped(in, filter []int, kernel xnnpack.Size, groups, inputs, outputs int) error {
	if err := kernelOf(filter, kernel); err != nil {
		return err
	}
	wide := int64(groups) // products of two numbers of 31 bits
	if wide*int64(outputs) != int64(filter[0]) || inputs != filter[3] || wide*int64(inputs) != int64(in[3]) {
		return malformed("%d groups of %d to %d channels for an input of shape %v and a filter of shape %v",
			groups, inputs, outputs, in, filter)
	}
	return nil
}

type depthwise struct {
	xnnpack.DepthwiseConvolution2D
	kernel xnnpack.Size
	groups int // input channels
}

func (n depthwise) operands() ([]xnnpack.ValueID, xnnpack.ValueID) {
	return present(n.Input, n.Filter, n.Bias), n.Output
}
func (n depthwise) shape(of shapes) ([]int, error) {
	in, filter := of(n.Input), of(n.Filter)
	size, err := slides(in, n.kernel, n.Stride, n.Dilation, n.Padding, n.SamePadding)
	if err != nil {
		return nil, err
	}
	if err := kernelOf(filter, n.kernel); err != nil {
		return nil, err
	}
	if filter[0] != 1 || n.groups != in[3] || int64(n.groups)*int64(n.DepthMultiplier) != int64(filter[3]) {
		return nil, malformed("%d groups of 1 to %d channels for an input of shape %v and a filter of shape %v",
			n.groups, n.DepthMultiplier, in, filter)
	}
	return []int{in[0], size.Height, size.Width, filter[3]}, bias(of, n.Bias, filter[3])
}
func (n depthwise) add(s *xnnpack.Subgraph, id func(xnnpack.ValueID) xnnpack.ValueID) error {
	n.Input, n.Filter, n.Bias, n.Output = id(n.Input), id(n.Filter), id(n.Bias), id(n.Output)
	return s.DepthwiseConvolution2D(n.DepthwiseConvolution2D)
}
func (n depthwise) between(input, output xnnpack.ValueID) operation {
	n.Input, n.Output = input, output
	return n
}
func (n depthwise) least(shapes) ([]int, error) {
	return leastImage(n.kernel, n.Dilation, int64(n.groups))
}
func (n depthwise) weights() (kernel, bias xnnpack.ValueID) { return n.Filter, n.Bias }

// looksUp is false also with several outputs in a group: XNNPACK of 2024 reads the filter before it looks up.
func (n depthwise) looksUp() bool { return false }
func (n depthwise) packing(tensor func(xnnpack.ValueID) xnnpack.Tensor) packing.Identity {
	return n.Packing(tensor(n.Filter), tensor(n.Bias), tensor(n.Input), tensor(n.Output))
}

type deconvolution struct {
	xnnpack.Deconvolution2D
	kernel          xnnpack.Size
	inputs, outputs int // channels of a group
}

func (n deconvolution) operands() ([]xnnpack.ValueID, xnnpack.ValueID) {
	return present(n.Input, n.Filter, n.Bias), n.Output
}
func (n deconvolution) shape(of shapes) ([]int, error) {
	in, filter := of(n.Input), of(n.Filter)
	if err := images(in); err != nil {
		return nil, err
	}
	if err := grouped(in, filter, n.kernel, n.Groups, n.inputs, n.outputs); err != nil {
		return nil, err
	}
	length := func(in, kernel, stride, dilation, adjustment, padding int) (int, error) {
		for _, d := range []int{kernel, stride, dilation} {
			if d <= 0 || d > math.MaxInt16 {
				return 0, malformed("a kernel of %d with stride %d and dilation %d", kernel, stride, dilation)
			}
		}
		if adjustment >= stride {
			return 0, malformed("an adjustment of %d with stride %d", adjustment, stride)
		}
		out := int64(stride)*int64(in-1) + int64(adjustment) + int64(dilation)*int64(kernel-1) + 1 - int64(padding)
		if out <= 0 || out > maxElements {
			return 0, malformed("an image of %d", out)
		}
		return int(out), nil
	}
	height, err := length(in[1],
		n.kernel.Height, n.Stride.Height, n.Dilation.Height, n.Adjustment.Height, n.Padding.Top+n.Padding.Bottom)
	if err != nil {
		return nil, err
	}
	width, err := length(in[2],
		n.kernel.Width, n.Stride.Width, n.Dilation.Width, n.Adjustment.Width, n.Padding.Left+n.Padding.Right)
	if err != nil {
		return nil, err
	}
	if _, err := elements(in[0], height, width, n.kernel.Height, n.kernel.Width); err != nil {
		return nil, err
	}
	return []int{in[0], height, width, filter[0]}, bias(of, n.Bias, filter[0])
}
func (n deconvolution) add(s *xnnpack.Subgraph, id func(xnnpack.ValueID) xnnpack.ValueID) error {
	n.Input, n.Filter, n.Bias, n.Output = id(n.Input), id(n.Filter), id(n.Bias), id(n.Output)
	return s.Deconvolution2D(n.Deconvolution2D)
}
func (n deconvolution) between(input, output xnnpack.ValueID) operation {
	n.Input, n.Output = input, output
	return n
}

// least is as large as the kernel, for which no padding is too wide that suits the kernel.
func (n deconvolution) least(shapes) ([]int, error) {
	return leastImage(n.kernel, n.Dilation, int64(n.Groups)*int64(n.inputs))
}
func (n deconvolution) weights() (kernel, bias xnnpack.ValueID) { return n.Filter, n.Bias }
func (n deconvolution) looksUp() bool                           { return false }
func (n deconvolution) packing(tensor func(xnnpack.ValueID) xnnpack.Tensor) packing.Identity {
	return n.Packing(tensor(n.Filter), tensor(n.Bias), tensor(n.Input), tensor(n.Output))
}

type batchMatrixMultiply struct{ xnnpack.BatchMatrixMultiply }

func (n batchMatrixMultiply) operands() ([]xnnpack.ValueID, xnnpack.ValueID) {
	return ids{n.A, n.B}, n.Output
}
func (n batchMatrixMultiply) shape(of shapes) ([]int, error) {
	a, b := of(n.A), of(n.B)
	if len(a) < 2 || len(b) < 2 {
		return nil, malformed("factors of shapes %v and %v", a, b)
	}
	batch, err := broadcast(a[:len(a)-2], b[:len(b)-2])
	if err != nil {
		return nil, err
	}
	inner, columns := b[len(b)-2], b[len(b)-1]
	if n.TransposeB {
		inner, columns = columns, inner
	}
	if a[len(a)-1] != inner {
		return nil, malformed("factors of shapes %v and %v", a, b)
	}
	return append(batch, a[len(a)-2], columns), nil
}
func (n batchMatrixMultiply) add(s *xnnpack.Subgraph, id func(xnnpack.ValueID) xnnpack.ValueID) error {
	n.A, n.B, n.Output = id(n.A), id(n.B), id(n.Output)
	return s.BatchMatrixMultiply(n.BatchMatrixMultiply)
}
func (n batchMatrixMultiply) between(input, output xnnpack.ValueID) operation {
	n.A, n.Output = input, output
	return n
}
func (n batchMatrixMultiply) least(of shapes) ([]int, error) {
	b := of(n.B)
	if len(b) < 2 {
		return nil, malformed("a factor of shape %v", b)
	}
	if n.TransposeB {
		return []int{1, b[len(b)-1]}, nil
	}
	return []int{1, b[len(b)-2]}, nil
}
func (n batchMatrixMultiply) weights() (kernel, bias xnnpack.ValueID) {
	return n.B, xnnpack.InvalidValue
}
func (n batchMatrixMultiply) looksUp() bool { return false }
func (n batchMatrixMultiply) packing(tensor func(xnnpack.ValueID) xnnpack.Tensor) packing.Identity {
	return n.Packing(tensor(n.B), tensor(n.A), tensor(n.Output))
}
