package flow

import (
	"slices"

	"xpwc/internal/fault"
	"xpwc/internal/operators"
	"xpwc/xnnpack"
)

// Operations of nodes that keep the shape.
var (
	Unary   = constructor(kind[xnnpack.Unary]{shape: first[xnnpack.Unary]})
	Copy    = mover(func(xnnpack.Copy) operators.Operator { return operators.Copy() })
	Softmax = constructor(kind[xnnpack.Softmax]{shape: first[xnnpack.Softmax]})
	Binary  = constructor(kind[xnnpack.Binary]{shape: broadcasts})
)

// Convert changes the type of the elements.
func Convert(src, dst ID) Node {
	return Unary(xnnpack.Unary{Op: xnnpack.ConvertElements, Input: src, Output: dst})
}

func first[N any](_ N, in [][]int) []int { return in[0] }

func broadcasts(_ xnnpack.Binary, in [][]int) []int { return broadcast(in[0], in[1]) }

// broadcast aligns shapes at their last dimensions; one that is missing or 1 is repeated.
func broadcast(a, b []int) []int {
	shape, ok := operators.Broadcast(a, b)
	if !ok {
		wrong("shapes %v and %v", a, b)
	}
	return shape
}

// Operations of nodes on images.
var (
	MaxPooling2D = constructor(kind[xnnpack.MaxPooling2D]{
		shape: func(n xnnpack.MaxPooling2D, in [][]int) []int {
			return slides(in[0], n.Pooling, n.Stride, n.Dilation, n.Padding, n.SamePadding)
		}})
	AveragePooling2D = constructor(kind[xnnpack.AveragePooling2D]{
		shape: func(n xnnpack.AveragePooling2D, in [][]int) []int {
			unit := xnnpack.Size{Height: 1, Width: 1}
			return slides(in[0], n.Pooling, n.Stride, unit, n.Padding, n.SamePadding)
		}})
	StaticResizeBilinear2D = constructor(kind[xnnpack.StaticResizeBilinear2D]{
		shape: func(n xnnpack.StaticResizeBilinear2D, in [][]int) []int {
			Images(in[0])
			return []int{in[0][0], n.NewSize.Height, n.NewSize.Width, in[0][3]}
		}})
)

// Images checks that a value has the shape [batch, height, width, channels].
func Images(shape []int) {
	if len(shape) != 4 {
		wrong("an input of shape %v, not [batch, height, width, channels]", shape)
	}
}

// A Window is how a kernel or pool moves over an image along one dimension.
type Window struct{ Size, Stride, Dilation, Padding int }

// Windows returns how a kernel or pool moves down an image, and across it.
func Windows(size, stride, dilation xnnpack.Size) (y, x Window) {
	return Window{Size: size.Height, Stride: stride.Height, Dilation: dilation.Height},
		Window{Size: size.Width, Stride: stride.Width, Dilation: dilation.Width}
}

// Reach returns over how many pixels it reaches at once.
func (w Window) Reach() int64 { return int64(w.Size-1)*int64(w.Dilation) + 1 }

// Slide returns how many positions the window has along in pixels. With SAME padding that is what the stride gives.
func (w Window) Slide(in int, samePadding bool) int {
	for _, n := range []int{w.Size, w.Stride, w.Dilation} {
		if n <= 0 || n > MaxElements {
			wrong("a window of %d with stride %d and dilation %d", w.Size, w.Stride, w.Dilation)
		}
	}
	if samePadding {
		return (in-1)/w.Stride + 1
	}
	reach, padded := w.Reach(), int64(in)+int64(w.Padding)
	if reach > padded {
		wrong("a window that reaches over %d of an image of %d", reach, padded)
	}
	return int((padded-reach)/int64(w.Stride) + 1)
}

// slides returns the shape of the images that a window makes. XNNPACK keeps a pointer for each pixel under the window
// at each position, and computes the size of that without looking for an overflow.
func slides(in []int, kernel, stride, dilation xnnpack.Size, p xnnpack.Padding, samePadding bool) []int {
	Images(in)
	y, x := Windows(kernel, stride, dilation)
	y.Padding, x.Padding = p.Top+p.Bottom, p.Left+p.Right
	height, width := y.Slide(in[1], samePadding), x.Slide(in[2], samePadding)
	fault.Value(Elements(in[0], height, width, kernel.Height, kernel.Width))
	return []int{in[0], height, width, in[3]}
}

// Operations of nodes that reduce, and that move elements.
var (
	StaticReduce    = constructor(kind[xnnpack.StaticReduce]{shape: reduced})
	StaticReshape   = mover(func(n xnnpack.StaticReshape) operators.Operator { return operators.Reshape(n.Shape) })
	StaticTranspose = mover(func(n xnnpack.StaticTranspose) operators.Operator {
		return operators.Transpose(n.Permutation)
	})
	StaticSlice = mover(func(n xnnpack.StaticSlice) operators.Operator {
		return operators.Slice(n.Offsets, n.Sizes)
	})
	StaticConstantPad = mover(func(n xnnpack.StaticConstantPad) operators.Operator {
		return operators.PadWith(n.Pre, n.Post, float64(n.Value))
	})
	Concatenate    = mover(func(n xnnpack.Concatenate) operators.Operator { return operators.Concatenate(n.Axis) })
	DepthToSpace2D = constructor(kind[xnnpack.DepthToSpace2D]{
		shape: func(n xnnpack.DepthToSpace2D, in [][]int) []int {
			square := squared(in[0], n.BlockSize)
			if in[0][3]%square != 0 {
				wrong("blocks of %d for shape %v", n.BlockSize, in[0])
			}
			return []int{in[0][0], in[0][1] * n.BlockSize, in[0][2] * n.BlockSize, in[0][3] / square}
		}})
	SpaceToDepth2D = constructor(kind[xnnpack.SpaceToDepth2D]{
		shape: func(n xnnpack.SpaceToDepth2D, in [][]int) []int {
			square := squared(in[0], n.BlockSize)
			if in[0][1]%n.BlockSize != 0 || in[0][2]%n.BlockSize != 0 {
				wrong("blocks of %d for shape %v", n.BlockSize, in[0])
			}
			return []int{in[0][0], in[0][1] / n.BlockSize, in[0][2] / n.BlockSize, in[0][3] * square}
		}})
)

// squared returns how many pixels of images of a shape are in a square block.
func squared(images []int, block int) int {
	Images(images)
	return fault.Value(Elements(block, block))
}

func reduced(n xnnpack.StaticReduce, shapes [][]int) (out []int) {
	for i, d := range shapes[0] {
		switch {
		case !slices.Contains(n.Axes, i):
			out = append(out, d)
		case n.KeepDims:
			out = append(out, 1)
		}
	}
	if len(n.Axes) == 0 || len(out) == 0 {
		wrong("dimensions %v of %v", n.Axes, shapes[0])
	}
	return out
}

// Permutation reports whether order has each number below n once.
func Permutation(order []int, n int) bool { return operators.Permutation(order, n) }
