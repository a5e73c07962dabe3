package xnnpack

import (
	"cmp"
	"fmt"
	"slices"
)

// Padding is how many pixels are thought to lie around an image. Their value is zero; pooling leaves them out.
type Padding struct{ Top, Right, Bottom, Left int }

// Size is a height and a width in pixels. As a stride or a dilation, the zero Size stands for 1 by 1.
type Size struct{ Height, Width int }

// orOne replaces zero Sizes.
func orOne(sizes ...*Size) {
	for _, s := range sizes {
		*s = cmp.Or(*s, Size{1, 1})
	}
}

// FullyConnected is xnn_define_fully_connected: Output = Input * Filterᵀ + Bias, over the last dimension of Input,
// limited to Activation. With a Float32 Input and a quantised Filter XNNPACK multiplies the Bias by the Filter's
// scales too. The error matches ErrKnownDefect where the XNNPACK in use is known to compute this node wrongly.
type FullyConnected struct {
	Input  ValueID // [..., input channels]
	Filter ValueID // [output channels, input channels], or [input channels, output channels] with TransposeWeights
	Bias   ValueID // [output channels], or InvalidValue for none
	Output ValueID // [..., output channels]

	Activation       Range
	TransposeWeights bool // XNN_FLAG_TRANSPOSE_WEIGHTS
}

func (n FullyConnected) node() node {
	operands := weighted(n.Input, n.Filter, n.Bias, n.Output)
	return node{self: n, op: "fully connected", operands: operands, check: func(v []*value) error {
		filter := v[1]
		if len(filter.Shape) != 2 {
			return fmt.Errorf("the filter needs 2 dimensions")
		}
		out, in := filter.Shape[0], filter.Shape[1]
		if n.TransposeWeights {
			out, in = in, out
			// XNNPACK would call a packing function that it does not have.
			if filter.Type == BlockQInt4 || filter.Type == ChannelQInt4 && v[0].Type == Float32 {
				return fmt.Errorf("a %v filter of a %v input cannot be transposed: %w", filter.Type, v[0].Type,
					UnsupportedParameter)
			}
		}
		if out == 0 || in == 0 {
			return fmt.Errorf("the filter is empty")
		}
		if r := len(v[0].Shape); r == 0 || v[0].Shape[r-1] != in {
			return fmt.Errorf("the input's last dimension must be the filter's %d input channels", in)
		}
		if err := defectOf(v[0], filter, out); err != nil {
			return err
		}
		return checkBias(v[2], out)
	}}
}

// Convolution2D is xnn_define_convolution_2d: each pixel of Output is computed from the pixels of Input under the
// kernel, limited to Activation. The filter's shape has the kernel's size and the channels of a group.
type Convolution2D struct {
	Input  ValueID // [batch, height, width, groups * group input channels]
	Filter ValueID // [groups * group output channels, kernel height, kernel width, group input channels]
	Bias   ValueID // [groups * group output channels], or InvalidValue for none
	Output ValueID // [batch, height, width, groups * group output channels]

	Padding     Padding // zero with SamePadding
	SamePadding bool    // TensorFlow's SAME padding (XNN_FLAG_TENSORFLOW_SAME_PADDING)
	Stride      Size
	Dilation    Size // distance of the pixels that the kernel takes
	Groups      int  // 0 stands for 1
	Activation  Range
}

func (n Convolution2D) node() node {
	orOne(&n.Stride, &n.Dilation)
	n.Groups = cmp.Or(n.Groups, 1)
	return node{self: n, op: "convolution 2d", operands: weighted(n.Input, n.Filter, n.Bias, n.Output),
		check: grouped(n.Groups, func(in *value, kernel Size) error {
			if err := checkSettings(n.Padding, n.Stride, n.Dilation); err != nil {
				return err
			}
			return checkWindow(in, n.Padding, n.SamePadding, kernel, n.Dilation)
		})}
}

// DepthwiseConvolution2D is xnn_define_depthwise_convolution_2d: a convolution of each channel on its own, limited to
// Activation. The filter's shape has the kernel's size and the channels.
type DepthwiseConvolution2D struct {
	Input  ValueID // [batch, height, width, input channels]
	Filter ValueID // [1, kernel height, kernel width, input channels * multiplier]
	Bias   ValueID // [input channels * multiplier], or InvalidValue for none
	Output ValueID // [batch, height, width, input channels * multiplier]

	Padding         Padding // zero with SamePadding
	SamePadding     bool    // TensorFlow's SAME padding (XNN_FLAG_TENSORFLOW_SAME_PADDING)
	Stride          Size
	Dilation        Size // distance of the pixels that the kernel takes
	DepthMultiplier int  // output channels for each input channel; 0 stands for 1
	Activation      Range
}

func (n DepthwiseConvolution2D) node() node {
	orOne(&n.Stride, &n.Dilation)
	n.DepthMultiplier = cmp.Or(n.DepthMultiplier, 1)
	return node{self: n, op: "depthwise convolution 2d", operands: weighted(n.Input, n.Filter, n.Bias, n.Output),
		check: func(v []*value) error {
			if err := checkSettings(n.Padding, n.Stride, n.Dilation); err != nil {
				return err
			}
			filter := v[1].Shape
			if len(filter) != 4 || filter[0] != 1 || slices.Contains(filter, 0) {
				return fmt.Errorf("the filter's shape must be [1, height, width, channels]")
			}
			if n.DepthMultiplier < 0 || filter[3]%n.DepthMultiplier != 0 {
				return fmt.Errorf("the filter's %d channels are no multiple of the depth multiplier %d", filter[3],
					n.DepthMultiplier)
			}
			if err := checkImages(v[0], v[3], filter[3]/n.DepthMultiplier, filter[3]); err != nil {
				return err
			}
			if err := checkBias(v[2], filter[3]); err != nil {
				return err
			}
			return checkWindow(v[0], n.Padding, n.SamePadding, Size{filter[1], filter[2]}, n.Dilation)
		}}
}

// Deconvolution2D is xnn_define_deconvolution_2d, a transposed convolution, limited to Activation. The filter's shape
// has the kernel's size and the channels of a group. The height of Output is
//
//	Stride*(input height - 1) + Adjustment + Dilation*(kernel height - 1) + 1 - Padding.Top - Padding.Bottom
//
// and its width likewise.
type Deconvolution2D struct {
	Input  ValueID // [batch, height, width, groups * group input channels]
	Filter ValueID // [groups * group output channels, kernel height, kernel width, group input channels]
	Bias   ValueID // [groups * group output channels], or InvalidValue for none
	Output ValueID // [batch, height, width, groups * group output channels]

	Padding    Padding // taken off the output
	Adjustment Size    // added to the output's bottom and right
	Stride     Size    // the header's upsampling
	Dilation   Size    // distance of the pixels that the kernel reaches
	Groups     int     // 0 stands for 1
	Activation Range
}

func (n Deconvolution2D) node() node {
	orOne(&n.Stride, &n.Dilation)
	n.Groups = cmp.Or(n.Groups, 1)
	return node{self: n, op: "deconvolution 2d", operands: weighted(n.Input, n.Filter, n.Bias, n.Output),
		check: grouped(n.Groups, func(*value, Size) error {
			return checkSettings(n.Padding, n.Adjustment, n.Stride, n.Dilation)
		})}
}

// BatchMatrixMultiply is xnn_define_batch_matrix_multiply: Output = A * B for each matrix of the batch. A batch
// dimension that is missing or 1 is repeated. A static B is packed, unless it is Float16.
type BatchMatrixMultiply struct {
	A      ValueID // [batch..., m, k]
	B      ValueID // [batch..., k, n], or [batch..., n, k] with TransposeB
	Output ValueID // [batch..., m, n]

	TransposeB bool // XNN_FLAG_TRANSPOSE_B
}

func (n BatchMatrixMultiply) node() node {
	operands := factors(n.A, n.B, n.Output)
	return node{self: n, op: "batch matrix multiply", operands: operands, check: func(v []*value) error {
		a, b := v[0].Shape, v[1].Shape
		if len(a) < 2 || len(b) < 2 {
			return fmt.Errorf("both factors need at least 2 dimensions")
		}
		rows, columns := len(b)-2, len(b)-1
		if n.TransposeB {
			rows, columns = columns, rows
		}
		if a[len(a)-1] != b[rows] {
			return fmt.Errorf("the inner dimensions %d and %d differ", a[len(a)-1], b[rows])
		}
		// XNNPACK reads a scale for each column of each matrix, whatever the tensor's channels are.
		q := &v[1].Quantization
		if v[1].Type == ChannelQInt8 && (q.ChannelDim != columns || len(q.Scales) != b[columns]*matrices(b)) {
			return fmt.Errorf("b needs scales along dimension %d for each of %d matrices", columns, matrices(b))
		}
		return defectOf(v[0], v[1], b[columns])
	}}
}

func weighted(input, filter, bias, output ValueID) []operand {
	return []operand{{role: "input", id: input}, {role: "filter", id: filter},
		{role: "bias", id: bias, optional: true}, {role: "output", id: output}}
}

// grouped checks the operands of a convolution or its transpose against each other: XNNPACK reads as many elements as
// the node sets, whatever the tensors' shapes are.
func grouped(groups int, settings func(in *value, kernel Size) error) func([]*value) error {
	return func(v []*value) error {
		filter := v[1].Shape
		if len(filter) != 4 || slices.Contains(filter, 0) {
			return fmt.Errorf("the filter's shape must be [output channels, height, width, input channels]")
		}
		if groups < 0 || filter[0]%groups != 0 {
			return fmt.Errorf("%d output channels do not make %d groups", filter[0], groups)
		}
		channels, ok := multiply(filter[3], groups)
		if !ok {
			return fmt.Errorf("%d groups are too many", groups)
		}
		if err := checkImages(v[0], v[3], channels, filter[0]); err != nil {
			return err
		}
		if err := checkBias(v[2], filter[0]); err != nil {
			return err
		}
		return settings(v[0], Size{filter[1], filter[2]})
	}
}

func checkImages(in, out *value, inChannels, outChannels int) error {
	if len(in.Shape) != 4 || in.Shape[3] != inChannels {
		return fmt.Errorf("the input's shape must be [batch, height, width, %d]", inChannels)
	}
	if len(out.Shape) != 4 || out.Shape[3] != outChannels {
		return fmt.Errorf("the output's shape must be [batch, height, width, %d]", outChannels)
	}
	return nil
}

// checkWindow checks that a kernel or pooling window fits the padded image: XNNPACK puts a larger one at one place
// all the same, and reads pixels that are not there. SAME padding makes any window fit.
func checkWindow(image *value, p Padding, samePadding bool, window, dilation Size) error {
	fits := func(image, padding, window, dilation int) bool {
		reach, ok := multiply(max(window-1, 0), dilation)
		return ok && reach < image+padding
	}
	height, width := image.Shape[1], image.Shape[2]
	if samePadding || fits(height, p.Top+p.Bottom, window.Height, dilation.Height) &&
		fits(width, p.Left+p.Right, window.Width, dilation.Width) {
		return nil
	}
	return fmt.Errorf("a window of %v with dilation %v does not fit an image of %d by %d with padding %+v", window,
		dilation, height, width, p)
}

func checkBias(v *value, channels int) error {
	if v != nil && (len(v.Shape) != 1 || v.Shape[0] != channels) {
		return fmt.Errorf("the bias' shape must be [%d]", channels)
	}
	return nil
}

func checkSettings(p Padding, sizes ...Size) error {
	if err := checkNumbers(p.Top, p.Right, p.Bottom, p.Left); err != nil {
		return err
	}
	for _, s := range sizes {
		if err := checkNumbers(s.Height, s.Width); err != nil {
			return err
		}
	}
	return nil
}

// checkNumbers checks that settings fit XNNPACK's uint32.
func checkNumbers(numbers ...int) error {
	for _, n := range numbers {
		if n < 0 || int64(n) > 1<<31-1 {
			return fmt.Errorf("setting %d must be from 0 to %d", n, 1<<31-1)
		}
	}
	return nil
}
