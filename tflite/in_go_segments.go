package tflite

import (
	"slices"
	"sort"

	"xpwc/internal/compute"
)

// BUCKETIZE: how many boundaries each number has reached.
func planBucketize(c *call) func(*emitter) error {
	if !c.arity(1, 1) {
		return nil
	}
	in := c.data(0)
	boundaries := c.op.options.Float32s(bucketBoundaries)
	if c.err == nil {
		c.err = c.op.options.Err()
	}
	if c.err == nil && !slices.IsSorted(boundaries) {
		c.malformed("boundaries %v in no order", boundaries)
	}
	if out := c.output(0); c.err == nil && out.dtype != typeInt32 {
		c.unsupported("buckets of type %v", out.dtype)
	}
	if c.err != nil {
		return nil
	}
	c.define(0, in.shape...)
	bucket := func(x float64) float64 {
		return float64(sort.Search(len(boundaries), func(i int) bool { return x < float64(boundaries[i]) }))
	}
	return c.do(func(r *run) error { return compute.Apply(bucket, r.out[0], r.in[0]) })
}

// planSegments plans SEGMENT_SUM, and UNSORTED_SEGMENT_SUM and those like it. A row of nothing has a number, perhaps
// another for integers.
func planSegments(o compute.Operation, empty, emptyWhole float64) func(*call) func(*emitter) error {
	return func(c *call) func(*emitter) error {
		sorted := c.op.code == opSegmentSum
		if sorted && !c.arity(2, 2) || !sorted && !c.arity(3, 3) {
			return nil
		}
		in, at := c.data(0), c.data(1)
		rows, fill := 0, empty
		if c.index(1); sorted {
			if of := c.integers(1); len(of) > 0 {
				rows = of[len(of)-1] + 1
			}
		} else {
			rows = c.oneInteger(2)
		}
		if c.err != nil {
			return nil
		}
		switch in.dtype {
		case typeFloat32:
		case typeInt32:
			fill = emptyWhole
		default:
			c.unsupported("segments of type %v", in.dtype)
			return nil
		}
		n := len(at.shape)
		if n > len(in.shape) || !slices.Equal(at.shape, in.shape[:n]) || rows < 1 || sorted && n != 1 {
			c.malformed("rows of %v for %d indices of %v", in.shape, rows, at.shape)
			return nil
		}
		c.sameTypes(in)
		c.define(0, slices.Insert(slices.Clone(in.shape[n:]), 0, rows)...)
		return c.do(func(r *run) error { return compute.Segments(o, r.out[0], r.in[0], r.in[1], fill) })
	}
}
