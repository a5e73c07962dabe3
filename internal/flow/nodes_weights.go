package flow

import (
	"math"

	"xpwc/internal/fault"
	"xpwc/xnnpack"
)

// Operations of nodes that can pack weights.
var (
	FullyConnected = constructor(kind[xnnpack.FullyConnected]{
		shape: func(n xnnpack.FullyConnected, shapes [][]int) []int {
			in := shapes[0]
			out, channels := fullChannels(n, shapes[1])
			last := len(in) - 1
			if last < 0 || in[last] != channels {
				wrong("an input of shape %v for %d input channels", in, channels)
			}
			bias(shapes, out)
			return append(append([]int{}, in[:last]...), out)
		},
		looksUp: func(xnnpack.FullyConnected, []int) bool { return true },
		minInput: func(n xnnpack.FullyConnected, kernel []int) []int {
			_, channels := fullChannels(n, kernel)
			return []int{1, channels}
		}})
	Convolution2D = constructor(kind[xnnpack.Convolution2D]{
		shape: func(n xnnpack.Convolution2D, shapes [][]int) []int {
			out := slides(shapes[0], kernelSize(shapes[1]), n.Stride, n.Dilation, n.Padding, n.SamePadding)
			out[3] = grouped(shapes, n.Groups)
			return out
		},
		// XNNPACK makes a depthwise convolution of one with a channel in each group.
		looksUp: func(n xnnpack.Convolution2D, kernel []int) bool { return kernel[3] != 1 || kernel[0] != n.Groups },
		minInput: func(n xnnpack.Convolution2D, kernel []int) []int {
			return leastImage(kernelSize(kernel), n.Dilation, int64(n.Groups)*int64(kernel[3]))
		}})
	DepthwiseConvolution2D = constructor(kind[xnnpack.DepthwiseConvolution2D]{
		shape: func(n xnnpack.DepthwiseConvolution2D, shapes [][]int) []int {
			filter := shapes[1]
			out := slides(shapes[0], kernelSize(filter), n.Stride, n.Dilation, n.Padding, n.SamePadding)
			if filter[0] != 1 || int64(out[3])*int64(n.DepthMultiplier) != int64(filter[3]) {
				wrong("1 to %d channels for an input of shape %v and a filter of %v",
					n.DepthMultiplier, shapes[0], filter)
			}
			bias(shapes, filter[3])
			out[3] = filter[3]
			return out
		},
		// It never looks up, also with several outputs in a group: XNNPACK of 2024 reads the filter before.
		minInput: func(n xnnpack.DepthwiseConvolution2D, kernel []int) []int {
			return leastImage(kernelSize(kernel), n.Dilation, int64(kernel[3]/max(1, n.DepthMultiplier)))
		}})
	Deconvolution2D = constructor(kind[xnnpack.Deconvolution2D]{
		shape: func(n xnnpack.Deconvolution2D, shapes [][]int) []int {
			in, kernel, stride, adjust, p := shapes[0], kernelSize(shapes[1]), n.Stride, n.Adjustment, n.Padding
			Images(in)
			channels := grouped(shapes, n.Groups)
			height := stretched(in[1], kernel.Height, stride.Height, n.Dilation.Height, adjust.Height, p.Top+p.Bottom)
			width := stretched(in[2], kernel.Width, stride.Width, n.Dilation.Width, adjust.Width, p.Left+p.Right)
			fault.Value(Elements(in[0], height, width, kernel.Height, kernel.Width))
			fault.Value(Elements(stride.Height, stride.Width)) // XNNPACK has a record for each
			return []int{in[0], height, width, channels}
		},
		// As large as the kernel, for which no padding is too wide that suits the kernel.
		minInput: func(n xnnpack.Deconvolution2D, kernel []int) []int {
			return leastImage(kernelSize(kernel), n.Dilation, int64(n.Groups)*int64(kernel[3]))
		}})
	BatchMatrixMultiply = constructor(kind[xnnpack.BatchMatrixMultiply]{
		shape: func(n xnnpack.BatchMatrixMultiply, shapes [][]int) []int {
			a, b := shapes[0], shapes[1]
			if len(a) < 2 || len(b) < 2 {
				wrong("factors of shapes %v and %v", a, b)
			}
			batch := broadcast(a[:len(a)-2], b[:len(b)-2])
			inner, columns := b[len(b)-2], b[len(b)-1]
			if n.TransposeB {
				inner, columns = columns, inner
			}
			if a[len(a)-1] != inner {
				wrong("factors of shapes %v and %v", a, b)
			}
			return append(batch, a[len(a)-2], columns)
		},
		minInput: func(n xnnpack.BatchMatrixMultiply, b []int) []int {
			if len(b) < 2 {
				wrong("a factor of shape %v", b)
			}
			if n.TransposeB {
				return []int{1, b[len(b)-1]}
			}
			return []int{1, b[len(b)-2]}
		}})
)

// fullChannels returns how many channels the node computes, and how many it reads.
func fullChannels(n xnnpack.FullyConnected, filter []int) (out, in int) {
	if len(filter) != 2 {
		wrong("a filter of shape %v", filter)
	}
	if n.TransposeWeights {
		return filter[1], filter[0]
	}
	return filter[0], filter[1]
}

// bias checks a bias, if there is one.
func bias(shapes [][]int, channels int) {
	if len(shapes) > 2 && (len(shapes[2]) != 1 || shapes[2][0] != channels) {
		wrong("a bias of shape %v for %d output channels", shapes[2], channels)
	}
}

// kernelSize returns the size of a kernel on images: [outputs, height, width, inputs].
func kernelSize(filter []int) xnnpack.Size {
	if len(filter) != 4 {
		wrong("a filter of shape %v", filter)
	}
	return xnnpack.Size{Height: filter[1], Width: filter[2]}
}

// leastImage is one in which the kernel has one place.
func leastImage(kernel, dilation xnnpack.Size, channels int64) []int {
	height := int64(kernel.Height-1)*int64(dilation.Height) + 1
	width := int64(kernel.Width-1)*int64(dilation.Width) + 1
	for _, n := range []int64{height, width, channels} {
		if n <= 0 || n > MaxElements {
			wrong("a kernel of %d by %d, of %d channels", kernel.Height, kernel.Width, channels)
		}
	}
	return []int{1, int(height), int(width), int(channels)}
}

// grouped checks a convolution's groups against its filter, [groups * outputs, height, width, inputs], its bias and its
// input. It returns how many channels it computes.
func grouped(shapes [][]int, groups int) int {
	in, filter := shapes[0], shapes[1]
	if groups < 1 || filter[0]%groups != 0 || int64(groups)*int64(filter[3]) != int64(in[3]) {
		wrong("%d groups for an input of shape %v and a filter of shape %v", groups, in, filter)
	}
	bias(shapes, filter[0])
	return filter[0]
}

// stretched returns the length of the image that a deconvolution computes, along one dimension.
func stretched(in, kernel, stride, dilation, adjustment, padding int) int {
	for _, d := range []int{kernel, stride, dilation} {
		if d <= 0 || d > math.MaxInt16 {
			wrong("a kernel of %d with stride %d and dilation %d", kernel, stride, dilation)
		}
	}
	if adjustment >= stride {
		wrong("an adjustment of %d with stride %d", adjustment, stride)
	}
	out := int64(stride)*int64(in-1) + int64(adjustment) + int64(dilation)*int64(kernel-1) + 1 - int64(padding)
	if out <= 0 || out > MaxElements {
		wrong("an image of %d", out)
	}
	return int(out)
}
