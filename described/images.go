package described

// shapeImages gives the operator an input and an output: one row, or the smallest image that the window fits. The
// weights are packed for images of any size.
func (s *step) shapeImages() error {
	f := s.filter.Shape
	if s.Op == fullyConnected {
		in, out := f[1], f[0]
		if s.Transposed {
			in, out = out, in
		}
		s.input.Shape, s.output.Shape = []int{1, in}, []int{1, out}
		return nil
	}
	in, out := f[3]*s.Groups, f[0]
	if s.Op == depthwise {
		if f[0] != 1 || f[3]%s.DepthMultiplier != 0 {
			return invalid("weights %q of shape %v are not [1, height, width, a multiple of %d]", s.Weights, f,
				s.DepthMultiplier)
		}
		in, out = f[3]/s.DepthMultiplier, f[3]
	} else if f[0]%s.Groups != 0 {
		return invalid("%d output channels do not make %d groups", f[0], s.Groups)
	}
	// Of groups of one channel XNNPACK makes a depthwise convolution.
	s.blind = s.Op == depthwise || s.Op == deconvolution || s.Groups > 1 && f[3] == 1
	height, outHeight := s.extent(f[1], s.stride.Height, s.dilation.Height, s.padding.Top+s.padding.Bottom,
		s.adjustment.Height)
	width, outWidth := s.extent(f[2], s.stride.Width, s.dilation.Width, s.padding.Left+s.padding.Right,
		s.adjustment.Width)
	s.input.Shape, s.output.Shape = []int{1, height, width, in}, []int{1, outHeight, outWidth, out}
	// Nobody wants an image of a window that reaches this far; XNNPACK counts its bytes and its pointers to pixels
	// without a check for overflow.
	for _, factors := range [][]int{
		s.input.Shape, s.output.Shape, {outHeight, outWidth, f[1], f[2]}, {s.stride.Height, s.stride.Width, f[1], f[2]},
	} {
		if n, ok := product(factors...); !ok || n > maxElements/8 {
			return invalid("a window of %v with stride %v and dilation %v is too large", f[1:3], s.stride, s.dilation)
		}
	}
	return nil
}

// extent returns the smallest input of a window in one dimension, and the output it makes.
func (s *step) extent(window, stride, dilation, padding, adjustment int) (in, out int) {
	reach := (window-1)*dilation + 1
	if s.Op == deconvolution {
		more := max(0, 1-(adjustment+reach-padding)) // inputs that the output's first pixel needs
		in = 1 + (more+stride-1)/stride
		return in, stride*(in-1) + adjustment + reach - padding
	}
	if s.SamePadding {
		return reach, (reach + stride - 1) / stride
	}
	in = max(1, reach-padding)
	return in, (in+padding-reach)/stride + 1
}

// product multiplies positive numbers, and reports whether they are and their product is no more than maxElements.
func product(factors ...int) (int, bool) {
	n := 1
	for _, f := range factors {
		if f <= 0 || f > maxElements/n {
			return 0, false
		}
		n *= f
	}
	return n, true
}
