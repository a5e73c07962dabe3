package tflite

import "xpwc/internal/fault"

// sparsity maps stored elements to places in a dense tensor, in the schema's variant of the TACO format
// (http://tensor-compiler.org/kjolstad-oopsla17-tensor-compiler.pdf): the dimensions in the order in which they are
// traversed, each dense or with the coordinates of its stored elements as compressed sparse rows have them. Blocks
// are further dimensions within the tensor's own.
type sparsity struct {
	traversalOrder []int32
	blockMap       []int32 // which of the tensor's dimensions each block dimension divides
	dims           []sparseDim
}

type sparseDim struct {
	format   byte
	size     int32
	segments []int32
	indices  []int32
}

// scatter is a checked sparsity: how to place the stored elements of a tensor of a given shape.
type scatter struct {
	levels []level
	stored int // elements in the file
	dense  int // elements of the dense tensor
}

// level is one dimension in the order of traversal; each coordinate of it is stride elements of the dense tensor away
// from the next.
type level struct {
	sparseDim
	length, stride int
}

// scatter checks every index against the shape, so that place needs no checks.
func (s *sparsity) scatter(shape []int) *scatter {
	rank, blocks := len(shape), len(s.blockMap)
	if rank > maxRank || blocks > rank || len(s.traversalOrder) != rank+blocks || len(s.dims) != rank+blocks {
		malformed("a tensor of %d dimensions has a sparsity of %d with %d block dimensions", rank, len(s.dims), blocks)
	}
	strides, dense := make([]int, rank), 1
	for i := rank - 1; i >= 0; i-- {
		strides[i], dense = dense, dense*shape[i]
	}
	// A block dimension takes the innermost part of the dimension it divides.
	size, stride := append([]int(nil), shape...), append([]int(nil), strides...)
	blockSize, blockStride := make([]int, blocks), make([]int, blocks)
	for i := blocks - 1; i >= 0; i-- {
		block, n := int(s.blockMap[i]), int(s.dims[rank+i].size)
		if block < 0 || block >= rank || n <= 0 || size[block]%n != 0 || s.dims[rank+i].format != dimensionDense {
			malformed("block dimension %d of a sparse tensor does not divide it", i)
		}
		blockSize[i], blockStride[i] = n, stride[block]
		size[block], stride[block] = size[block]/n, stride[block]*n
	}
	out := &scatter{dense: dense, stored: 1}
	seen := make([]bool, rank+blocks)
	for i, dim := range s.traversalOrder {
		d := int(dim)
		if d < 0 || d >= len(seen) || seen[d] || (d < rank) != (i < rank) {
			malformed("the traversal order of a sparse tensor is no permutation")
		}
		seen[d] = true
		l := level{sparseDim: s.dims[i]}
		if d < rank {
			l.length, l.stride = size[d], stride[d]
		} else {
			l.length, l.stride = blockSize[d-rank], blockStride[d-rank]
		}
		fault.Wrap(func() { out.stored = l.check(out.stored) }, "dimension %d of a sparse tensor", i)
		out.levels = append(out.levels, l)
	}
	return out
}

// check returns how many elements of this level there are below the given number of elements of the one above.
func (l level) check(above int) int {
	switch l.format {
	case dimensionDense:
		if int(l.size) != l.length {
			malformed("it has %d coordinates, not %d", l.size, l.length)
		} else if above > maxElements/max(l.length, 1) {
			malformed("more than %d elements", maxElements)
		}
		return above * l.length
	case dimensionSparseCSR:
		if len(l.segments) != above+1 || l.segments[0] != 0 || int(l.segments[above]) != len(l.indices) {
			malformed("%d segments of %d indices do not fit %d rows", len(l.segments), len(l.indices), above)
		}
		for i := range above {
			if l.segments[i] > l.segments[i+1] {
				malformed("segment %d ends before it begins", i)
			}
		}
		for _, x := range l.indices {
			if x < 0 || int(x) >= l.length {
				malformed("index %d is not below %d", x, l.length)
			}
		}
	default:
		malformed("unknown format %d", l.format)
	}
	return len(l.indices)
}

// place writes the stored elements, of width bytes each, to their places in dst and zeroes the rest.
func (s *scatter) place(dst, stored []byte, width int) {
	clear(dst)
	s.walk(0, 0, 0, func(begin, end int) {
		copy(dst[end*width:(end+1)*width], stored[begin*width:])
	})
}

func (s *scatter) walk(depth, start, offset int, place func(begin, end int)) {
	if depth == len(s.levels) {
		place(start, offset)
		return
	}
	l := s.levels[depth]
	if l.format == dimensionDense {
		for i := range l.length {
			s.walk(depth+1, start*l.length+i, offset+i*l.stride, place)
		}
		return
	}
	for i := int(l.segments[start]); i < int(l.segments[start+1]); i++ {
		s.walk(depth+1, i, offset+int(l.indices[i])*l.stride, place)
	}
}
