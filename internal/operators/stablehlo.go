package operators

import "slices"

// Windows are parts of an operand that start where index vectors point, as StableHLO gathers and scatters them. The
// windows lie in an array of their own: the result of a gather, the updates of a scatter.
type Windows struct {
	Inside    []int // the array's dimensions that lie within a window; the others number the windows
	Collapsed []int // the operand's dimensions that the array lacks, in which a window has the length 1
	Start     []int // the operand's dimension of each number of an index vector
	Vector    int   // the indices' dimension along which an index vector lies; their rank if each number is a vector
}

// placement is a choice of windows of an operand of one shape, by indices of one shape.
type placement struct {
	Windows
	operand       []int
	size          []int // of a window, by the operand's dimensions
	strides       []int // of the operand
	windowStrides []int // strides of the array of windows, by the operand's dimensions
	count         []int // how many windows, by the array's dimensions
	apart         []int // strides of the array of windows, by the dimensions of count
	index         []int // strides of the indices, by the dimensions of count
	next          int   // stride of the indices along a vector
}

// place checks windows of these sizes against the operand and its indices. It returns the shape of their array.
func (w Windows) place(operand, size, indices []int) (p placement, shape []int) {
	p = placement{Windows: w, operand: operand, size: size, strides: Rows(operand),
		windowStrides: make([]int, len(operand))}
	vector := 1
	strides := Rows(indices)
	for d, n := range indices {
		if d == w.Vector {
			vector, p.next = n, strides[d]
			continue
		}
		p.count, p.index = append(p.count, n), append(p.index, strides[d])
	}
	fits := len(size) == len(operand) && w.Vector >= 0 && w.Vector <= len(indices) && vector == len(w.Start) &&
		len(w.Inside)+len(w.Collapsed) == len(operand) && distinct(w.Start, len(operand)) &&
		distinct(w.Collapsed, len(operand)) && distinct(w.Inside, len(p.count)+len(w.Inside)) &&
		slices.IsSorted(w.Inside)
	for d := range size {
		fits = fits && size[d] >= 1 && size[d] <= operand[d] && (size[d] == 1 || !slices.Contains(w.Collapsed, d))
	}
	if !fits {
		wrong("windows %v of %v of shape %v at indices of shape %v", w, size, operand, indices)
	}
	shape = make([]int, len(p.count)+len(w.Inside))
	counts, windows := p.count, []int(nil)
	for d := range operand {
		if !slices.Contains(w.Collapsed, d) {
			windows = append(windows, d)
		}
	}
	dims := windows
	for i := range shape {
		if slices.Contains(w.Inside, i) {
			shape[i], dims = size[dims[0]], dims[1:]
		} else {
			shape[i], counts = counts[0], counts[1:]
		}
	}
	for i, stride := range Rows(shape) {
		if slices.Contains(w.Inside, i) {
			p.windowStrides[windows[0]], windows = stride, windows[1:]
		} else {
			p.apart = append(p.apart, stride)
		}
	}
	return p, shape
}

// distinct reports whether numbers are dimensions of so many, each once.
func distinct(dims []int, rank int) bool {
	for i, d := range dims {
		if d < 0 || d >= rank || slices.Contains(dims[:i], d) {
			return false
		}
	}
	return true
}

// visit calls do for the runs of every window: where a run begins in the operand and in the array of windows, how many
// elements it has, and how far apart they are. The start of a window is clamped so that the window lies in the operand,
// or else only the elements in the operand are visited.
func (p *placement) visit(indices Array, clamped bool, do func(operand, window, n, step, stride int)) {
	start, skip, size := make([]int, len(p.operand)), make([]int, len(p.operand)), make([]int, len(p.operand))
	steps := [][]int{p.strides, p.windowStrides}
	walk(p.count, [][]int{p.index, p.apart}, func(_ int, places []int) {
		clear(start)
		for i, d := range p.Start {
			n := indices.Whole(places[0] + i*p.next)
			if clamped {
				n = max(n, 0)
			}
			start[d] = int(min(max(n, -int64(p.operand[d])), int64(p.operand[d])))
		}
		operand, window := 0, places[1]
		for d, length := range p.operand {
			if clamped {
				start[d] = min(start[d], length-p.size[d])
			}
			skip[d] = max(0, -start[d])
			size[d] = min(p.size[d], length-start[d]) - skip[d]
			if size[d] <= 0 {
				return
			}
			operand += (start[d] + skip[d]) * p.strides[d]
			window += skip[d] * p.windowStrides[d]
		}
		rows(size, steps, func(_, n int, offsets, apart []int) {
			do(operand+offsets[0], window+offsets[1], n, apart[0], apart[1])
		})
	})
}

// GatherWindows has windows of the first input, of some sizes, where the index vectors of the second point. A window
// that would reach out of the input is moved into it.
func GatherWindows(w Windows, size []int) Operator {
	return func(shapes [][]int) Kernel {
		p, shape := w.place(shapes[0], size, shapes[1])
		return moving(shape, func(out Array, in []Array) {
			size := out.Element.Size()
			p.visit(in[1], true, func(operand, window, n, step, stride int) {
				moveRun(out.Data[window*size:], in[0].Data[operand*size:], n, stride*size, step*size, size)
			})
		})
	}
}

// moveRun moves n elements of some bytes, that are so many bytes apart.
func moveRun(dst, src []byte, n, dstStep, srcStep, size int) {
	if dstStep == size && srcStep == size {
		copy(dst[:n*size], src)
		return
	}
	for k := range n {
		copy(dst[k*dstStep:][:size], src[k*srcStep:])
	}
}

// ScatterWindows has the first input with windows in it, the third input, where the index vectors of the second point.
// An element that would lie outside is dropped. An operation combines what is there with each element in turn; without
// one the element replaces it.
func ScatterWindows(w Windows, operation *Operation) Operator {
	return func(shapes [][]int) Kernel {
		size := slices.Repeat([]int{1}, len(shapes[0]))
		inside := w.Inside
		for d := range size {
			if slices.Contains(w.Collapsed, d) {
				continue
			}
			if len(inside) == 0 || inside[0] < 0 || inside[0] >= len(shapes[2]) {
				wrong("windows %v of shape %v in updates of shape %v", w, shapes[0], shapes[2])
			}
			size[d], inside = shapes[2][inside[0]], inside[1:]
		}
		p, shape := w.place(shapes[0], size, shapes[1])
		if !slices.Equal(shape, shapes[2]) {
			wrong("updates of shape %v, not %v", shapes[2], shape)
		}
		k := updating(shapes[0], func(out Array, in []Array) {
			size := out.Element.Size()
			p.visit(in[1], false, func(operand, window, n, step, stride int) {
				if operation == nil {
					moveRun(out.Data[operand*size:], in[2].Data[window*size:], n, step*size, stride*size, size)
					return
				}
				for i := range n {
					place := out.elem(operand + i*step)
					operation.apply(out.Element, place, place, in[2].elem(window+i*stride))
				}
			})
		})
		return k.moves(0, 2)
	}
}

// PadInside puts an element, the second input, around the input and between its elements. Low and high are how many
// come before and after each dimension; negative ones cut elements off. Interior is how many come between neighbours.
func PadInside(low, high, interior []int) Operator {
	return func(shapes [][]int) Kernel {
		in := shapes[0]
		if len(low) != len(in) || len(high) != len(in) || len(interior) != len(in) || product(shapes[1]) != 1 {
			wrong("paddings of %v, %v and %v for shape %v", low, high, interior, in)
		}
		shape := make([]int, len(in))
		for d, n := range in {
			if interior[d] < 0 || max(interior[d], low[d], high[d], -low[d], -high[d]) > MostIndices {
				wrong("paddings of %v, %v and %v for shape %v", low, high, interior, in)
			}
			shape[d] = low[d] + high[d] + n + (n-1)*interior[d]
			if shape[d] < 1 || shape[d] > MostIndices {
				wrong("paddings of %v, %v and %v for shape %v", low, high, interior, in)
			}
		}
		kernel := moving(shape, func(out Array, src []Array) {
			places := make([][]int, len(in))
			for d, n := range shape {
				places[d] = slices.Repeat([]int{-1}, n)
				for i := range in[d] {
					if p := low[d] + i*(interior[d]+1); p >= 0 && p < n {
						places[d][p] = i
					}
				}
			}
			take(out, src[0], places, src[1].elem(0))
		})
		return kernel.moves(0, 1)
	}
}
