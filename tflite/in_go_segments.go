package tflite

import (
	"slices"
	"sort"

	"xpwc/internal/compute"
)

// BUCKETIZE: how many boundaries each number has reached.
func planBucketize(c *call) {
	in := c.data(0)
	boundaries := c.op.options.Float32s(bucketBoundaries)
	if !slices.IsSorted(boundaries) {
		malformed("boundaries %v in no order", boundaries)
	}
	if out := c.output(0); out.dtype != typeInt32 {
		unsupported("buckets of type %v", out.dtype)
	}
	c.define(0, in.shape...)
	bucket := func(x float64) float64 {
		return float64(sort.Search(len(boundaries), func(i int) bool { return x < float64(boundaries[i]) }))
	}
	c.do(func(r *run) { compute.Apply(bucket, r.out[0], r.in[0]) })
}

// planSegments plans SEGMENT_SUM, and UNSORTED_SEGMENT_SUM and those like it. A row of nothing has a number, perhaps
// another for integers.
func planSegments(o compute.Operation, empty, emptyWhole float64) func(*call) {
	return func(c *call) {
		sorted := c.op.code == "SEGMENT_SUM"
		in, at := c.data(0), c.data(1)
		c.index(1)
		rows, fill := 0, empty
		if !sorted {
			rows = c.oneInteger(2)
		} else if of := c.integers(1); len(of) > 0 {
			rows = of[len(of)-1] + 1
		}
		switch in.dtype {
		case typeFloat32:
		case typeInt32:
			fill = emptyWhole
		default:
			unsupported("segments of type %v", in.dtype)
		}
		n := len(at.shape)
		if n > len(in.shape) || !slices.Equal(at.shape, in.shape[:n]) || rows < 1 || sorted && n != 1 {
			malformed("rows of %v for %d indices of %v", in.shape, rows, at.shape)
		}
		c.sameTypes(in)
		c.define(0, slices.Insert(slices.Clone(in.shape[n:]), 0, rows)...)
		c.do(func(r *run) { compute.Segments(o, r.out[0], r.in[0], r.in[1], fill) })
	}
}
