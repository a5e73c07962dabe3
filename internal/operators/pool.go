package operators

import (
	"slices"

	"xpwc/models"
)

// AdaptiveMean computes the mean of each part of images, along the last dimensions, which it divides into so many
// parts; these may overlap by a pixel.
func AdaptiveMean(size []int) Operator {
	return func(shapes [][]int) Kernel {
		in := shapes[0]
		rank := len(in) - 2
		if rank < 0 || len(size) != 2 || size[0] < 1 || size[1] < 1 {
			wrong("%v parts of shape %v", size, in)
		}
		height, width := in[rank], in[rank+1]
		if height < 1 || width < 1 {
			wrong("the mean of images of shape %v", in)
		}
		return computing(append(slices.Clone(in[:rank]), size...), func(out Array, in []Array) {
			image, columns := New(models.Float64, height, width), New(models.Float64, width)
			sums, row := make([]float64, width), make([]float64, size[1])
			pixels := image.Element.Size() * width // of a row, in bytes
			for i := range product(out.Shape) / size[1] {
				part := i % size[0]
				if part == 0 {
					cast(image, in[0].part(i/size[0]*height*width, height*width).shaped(image.Shape))
				}
				first, end := partOf(part, size[0], height)
				rows := Array{image.Element, []int{end - first, width}, image.Data[first*pixels : end*pixels]}
				reduce(Sum, columns, rows, []int{1, width})
				columns.numbers(sums, 0, 1)
				for x := range row {
					begin, limit := partOf(x, size[1], width)
					row[x] = 0
					for _, sum := range sums[begin:limit] {
						row[x] += sum
					}
				}
				for x := range row {
					begin, limit := partOf(x, size[1], width)
					row[x] /= float64((end - first) * (limit - begin))
				}
				out.putNumbers(row, i*size[1], 1)
			}
		})
	}
}

// partOf returns where part i of so many parts of a length begins and ends.
func partOf(i, parts, length int) (first, end int) {
	return i * length / parts, ((i+1)*length + parts - 1) / parts
}

// MaxPool computes the largest element under a window at each of its places, and where it is in its image, row by row.
// NaN counts as the largest. The window has two dimensions.
func MaxPool(w Window, places []int) Operator {
	return func(shapes [][]int) Kernel {
		in := shapes[0]
		w.check(in, places)
		for d := range places {
			if len(places) != 2 || w.Pre[d]/w.Dilation[d] >= w.Size[d] {
				wrong("a window of %v with %v around", w.Size, w.Pre)
			}
		}
		shape := slices.Concat(in[:2], places)
		return Kernel{Shapes: [][]int{shape, shape}, Run: func(out, in []Array) { maxPool(w, out, in[0]) }}
	}
}

func maxPool(w Window, out []Array, in Array) {
	height, width := in.Shape[2], in.Shape[3]
	rows, columns := out[0].Shape[2], out[0].Shape[3]
	put := out[0].putter(in)
	for i := range product(out[0].Shape) {
		image, y, x := i/(rows*columns), i/columns%rows*w.Stride[0]-w.Pre[0], i%columns*w.Stride[1]-w.Pre[1]
		best, largest := -1, 0.0
		for a := range w.Size[0] {
			row := y + a*w.Dilation[0]
			if row < 0 || row >= height {
				continue
			}
			for b := range w.Size[1] {
				column := x + b*w.Dilation[1]
				if column < 0 || column >= width {
					continue
				}
				k := row*width + column
				if n := in.Number(image*height*width + k); best < 0 || n > largest || n != n && largest == largest {
					best, largest = k, n
				}
			}
		}
		if best < 0 {
			wrong("a window of %v beyond shape %v", w.Size, in.Shape)
		}
		put(i, image*height*width+best)
		if len(out) > 1 {
			putWhole(out[1].Element, out[1].elem(i), int64(best))
		}
	}
}

// Fold adds the elements under a window at each of its places, which is the reverse of [Patches]: the input is [batch *
// groups, places, channels of a group * elements of the window], and the output [batch, channels, …].
func Fold(w Window, batch int, shape, places []int) Operator {
	return func(shapes [][]int) Kernel {
		in := shapes[0]
		whole := slices.Concat([]int{batch}, shape)
		w.check(whole, places)
		if len(in) != 3 || in[0]%batch != 0 || in[1] != product(places) || shape[0]%(in[0]/batch) != 0 ||
			in[2] != shape[0]/(in[0]/batch)*product(w.Size) {
			wrong("patches of shape %v for %v", in, whole)
		}
		return computing(whole, func(out Array, in []Array) { foldPatches(w, out, in[0], places) })
	}
}

func foldPatches(w Window, out, in Array, places []int) {
	clear(out.Data)
	size := product(w.Size)
	images, inner := product(in.Shape)/(product(places)*size), product(out.Shape[2:])
	channels := in.Shape[2] / size
	add := out.adder(in)
	far, strides := Rows(out.Shape[2:]), Rows(w.Size)
	index := make([]int, len(w.Size))
	walkIndices(places, func(place int, point []int) {
		for k := range size {
			offset, inside := 0, true
			for d := range index {
				n := point[d]*w.Stride[d] - w.Pre[d] + k/strides[d]%w.Size[d]*w.Dilation[d]
				inside = inside && n >= 0 && n < out.Shape[d+2]
				offset += n * far[d]
			}
			if !inside {
				continue
			}
			for i := range images {
				group, ch := i/channels, i%channels
				add(i*inner+offset, (group*in.Shape[1]+place)*in.Shape[2]+ch*size+k)
			}
		}
	})
}

// First has only the first output of an operator.
func First(op Operator) Operator {
	return func(shapes [][]int) Kernel {
		k := op(shapes)
		k.Shapes = k.Shapes[:1]
		return k
	}
}
