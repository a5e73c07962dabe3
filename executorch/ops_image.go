package executorch

import (
	"slices"

	"xpwc/internal/fault"
	"xpwc/xnnpack"
)

// images checks that a value has the shape [batch, height, width, channels].
func images(shape []int) {
	if len(shape) != 4 {
		fault.Check(malformed("an input of shape %v, not [batch, height, width, channels]", shape))
	}
}

// window is how a kernel or pool moves over an image along one dimension.
type window struct{ size, stride, dilation, padding int }

// slide returns how many positions the window has along in pixels. With SAME padding that is what the stride gives.
func (w window) slide(in int, same bool) int {
	for _, n := range []int{w.size, w.stride, w.dilation} {
		if n <= 0 || n > maxElements {
			fault.Check(malformed("a window of %d with stride %d and dilation %d", w.size, w.stride, w.dilation))
		}
	}
	if same {
		return (in-1)/w.stride + 1
	}
	reach := int64(w.size-1)*int64(w.dilation) + 1
	padded := int64(in) + int64(w.padding)
	if reach > padded {
		fault.Check(malformed("a window that reaches over %d of an image of %d", reach, padded))
	}
	return int((padded-reach)/int64(w.stride) + 1)
}

// slides returns the size of the image that a window makes. XNNPACK keeps a pointer for each pixel under the window
// at each position, and computes the size of that without looking for an overflow.
func slides(in []int, kernel, stride, dilation xnnpack.Size, p xnnpack.Padding, same bool) xnnpack.Size {
	images(in)
	y := window{kernel.Height, stride.Height, dilation.Height, p.Top + p.Bottom}
	x := window{kernel.Width, stride.Width, dilation.Width, p.Left + p.Right}
	size := xnnpack.Size{Height: y.slide(in[1], same), Width: x.slide(in[2], same)}
	fault.Value(elements(in[0], size.Height, size.Width, kernel.Height, kernel.Width))
	return size
}

type maxPooling struct{ xnnpack.MaxPooling2D }

func (n maxPooling) shape(of shapes) []int {
	in := of(n.Input)
	size := slides(in, n.Pooling, n.Stride, n.Dilation, n.Padding, n.SamePadding)
	return []int{in[0], size.Height, size.Width, in[3]}
}

type averagePooling struct{ xnnpack.AveragePooling2D }

func (n averagePooling) shape(of shapes) []int {
	in := of(n.Input)
	size := slides(in, n.Pooling, n.Stride, xnnpack.Size{Height: 1, Width: 1}, n.Padding, n.SamePadding)
	return []int{in[0], size.Height, size.Width, in[3]}
}

// reduce is a sum or a mean along dimensions.
type reduce struct{ xnnpack.StaticReduce }

func (n reduce) shape(of shapes) []int {
	in := of(n.Input)
	var out []int
	for i, d := range in {
		switch {
		case !slices.Contains(n.Axes, i):
			out = append(out, d)
		case n.KeepDims:
			out = append(out, 1)
		}
	}
	if len(n.Axes) == 0 || len(out) == 0 {
		fault.Check(malformed("dimensions %v of %v", n.Axes, in))
	}
	return out
}

type resize struct{ xnnpack.StaticResizeBilinear2D }

func (n resize) shape(of shapes) []int {
	in := of(n.Input)
	images(in)
	return []int{in[0], n.NewSize.Height, n.NewSize.Width, in[3]}
}
