package executorch

import (
	"fmt"

	"xpwc/internal/fault"
	"xpwc/xnnpack"
)

type reshape struct{ xnnpack.StaticReshape }

func (n reshape) shape(of shapes) []int {
	whole := fault.Value(elements(of(n.Input)...))
	out, free, rest := append([]int{}, n.Shape...), -1, 1
	for i, d := range out {
		switch {
		case d == 0 && free < 0:
			free = i
		case d <= 0 || d > maxElements/rest:
			fault.Check(malformed("the new shape %v", n.Shape))
		default:
			rest *= d
		}
	}
	if free >= 0 {
		out[free] = whole / rest
		rest *= out[free]
	}
	if rest != whole {
		fault.Check(malformed("the new shape %v for %d elements", n.Shape, whole))
	}
	return out
}

type transpose struct{ xnnpack.StaticTranspose }

func (n transpose) shape(of shapes) []int {
	in := of(n.Input)
	if !permutation(n.Permutation, len(in)) {
		fault.Check(malformed("%v is no permutation of %d dimensions", n.Permutation, len(in)))
	}
	var out []int
	for _, d := range n.Permutation {
		out = append(out, in[d])
	}
	return out
}

type slice struct{ xnnpack.StaticSlice }

func (n slice) shape(of shapes) []int {
	in := of(n.Input)
	if len(n.Offsets) != len(in) || len(n.Sizes) != len(in) {
		fault.Check(malformed("a part at %v of sizes %v of shape %v", n.Offsets, n.Sizes, in))
	}
	for i, d := range in {
		if n.Sizes[i] == 0 {
			fault.Check(fmt.Errorf("%w: a part of sizes %v, of which one is 0", ErrUnsupported, n.Sizes))
		}
		if n.Offsets[i] > d || n.Sizes[i] > d-n.Offsets[i] {
			fault.Check(malformed("a part at %v of sizes %v of shape %v", n.Offsets, n.Sizes, in))
		}
	}
	return n.Sizes
}

type pad struct{ xnnpack.StaticConstantPad }

func (n pad) shape(of shapes) []int {
	in := of(n.Input)
	if len(n.Pre) != len(in) || len(n.Post) != len(in) {
		fault.Check(malformed("%v and %v elements around shape %v", n.Pre, n.Post, in))
	}
	var out []int
	for i, d := range in {
		sum := int64(n.Pre[i]) + int64(d) + int64(n.Post[i])
		if sum > maxElements {
			fault.Check(malformed("%v and %v elements around shape %v", n.Pre, n.Post, in))
		}
		out = append(out, int(sum))
	}
	return out
}

type concatenate struct{ xnnpack.Concatenate }

func (n concatenate) shape(of shapes) []int {
	out := append([]int{}, of(n.Inputs[0])...)
	axis := n.Axis
	if axis < 0 {
		axis += len(out)
	}
	if axis < 0 || axis >= len(out) {
		fault.Check(malformed("axis %d of shape %v", n.Axis, out))
	}
	for _, input := range n.Inputs[1:] {
		in := of(input)
		for i := range max(len(in), len(out)) {
			if len(in) != len(out) || i != axis && in[i] != out[i] {
				fault.Check(malformed("shapes %v and %v along axis %d", of(n.Inputs[0]), in, axis))
			}
		}
		if in[axis] > maxElements-out[axis] {
			fault.Check(malformed("more than %d elements along axis %d", maxElements, axis))
		}
		out[axis] += in[axis]
	}
	return out
}
