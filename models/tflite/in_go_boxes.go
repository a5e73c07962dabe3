package tflite

import (
	"slices"

	"xpwc/internal/operators"
	"xpwc/models"
)

// NON_MAX_SUPPRESSION_V4: boxes [n, 4], scores [n], how many stay at most, the overlap, the least score. V5 has sigma,
// too. The outputs are indices, in V5 their scores, and how many there are.
func planSuppression(c *call) {
	soft := c.op.code == "NON_MAX_SUPPRESSION_V5"
	operands, outputs := 5, 2
	if soft {
		operands, outputs = 6, 3
	}
	boxes, scores, most := c.data(0), c.data(1), c.oneInteger(2)
	for i := 3; i < operands; i++ {
		if v := c.data(i); v.dtype != typeFloat32 || len(v.shape) > 0 {
			malformed("input %d of %v%v", i, v.dtype, v.shape)
		}
	}
	if len(scores.shape) != 1 || !slices.Equal(boxes.shape, []int{scores.shape[0], 4}) ||
		len(c.op.outputs) != outputs {
		malformed("boxes of shape %v, scores of %v, and %d outputs", boxes.shape, scores.shape, len(c.op.outputs))
	}
	if boxes.dtype != typeFloat32 || scores.dtype != typeFloat32 {
		unsupported("boxes of type %v, scores of %v", boxes.dtype, scores.dtype)
	}
	want := []elementType{typeInt32, typeFloat32, typeInt32}
	for i, n := range c.op.outputs {
		shape := []int{most}
		if i == outputs-1 {
			i, shape = 2, nil
		}
		if t := &c.plan.graph.tensors[n]; t.dtype != want[i] {
			malformed("output %q of type %v", t.name, t.dtype)
		}
		c.define(len(c.defined), shape...)
	}
	c.do(func(r *run) {
		s := operators.Suppression{Overlap: float32(r.in[3].Number(0)), Least: float32(r.in[4].Number(0))}
		best := operators.Array{Element: models.Float32, Shape: []int{most}, Data: make([]byte, 4*most)}
		if soft {
			s.Sigma, best = float32(r.in[5].Number(0)), r.out[1]
		}
		r.out[outputs-1].Put(0, float64(s.Boxes(r.out[0], best, r.in[0], r.in[1])))
	})
}
