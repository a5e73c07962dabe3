package executorch

import (
	"fmt"

	"xpwc/xnnpack"
)

type reshape struct{ xnnpack.StaticReshape }

func (n reshape) operands() ([]xnnpack.ValueID, xnnpack.ValueID) {
	return ids{n.Input}, n.Output
}
func (n reshape) shape(of shapes) ([]int, error) {
	whole, err := elements(of(n.Input)...)
	if err != nil {
		return nil, err
	}
	out, free, rest := append([]int{}, n.Shape...), -1, 1
	for i, d := range out {
		switch {
		case d == 0 && free < 0:
			free = i
		case d <= 0 || d > maxElements/rest:
			return nil, malformed("the new shape %v", n.Shape)
		default:
			rest *= d
		}
	}
	if free >= 0 {
		out[free] = whole / rest
		rest *= out[free]
	}
	if rest != whole {
		return nil, malformed("the new shape %v for %d elements", n.Shape, whole)
	}
	return out, nil
}
func (n reshape) add(s *xnnpack.Subgraph, id func(xnnpack.ValueID) xnnpack.ValueID) error {
	n.Input, n.Output = id(n.Input), id(n.Output)
	return s.StaticReshape(n.StaticReshape)
}

type transpose struct{ xnnpack.StaticTranspose }

func (n transpose) operands() ([]xnnpack.ValueID, xnnpack.ValueID) {
	return ids{n.Input}, n.Output
}
func (n transpose) shape(of shapes) ([]int, error) {
	in := of(n.Input)
	if !permutation(n.Permutation, len(in)) {
		return nil, malformed("%v is no permutation of %d dimensions", n.Permutation, len(in))
	}
	var out []int
	for _, d := range n.Permutation {
		out = append(out, in[d])
	}
	return out, nil
}
func (n transpose) add(s *xnnpack.Subgraph, id func(xnnpack.ValueID) xnnpack.ValueID) error {
	n.Input, n.Output = id(n.Input), id(n.Output)
	return s.StaticTranspose(n.StaticTranspose)
}

type slice struct{ xnnpack.StaticSlice }

func (n slice) operands() ([]xnnpack.ValueID, xnnpack.ValueID) {
	return ids{n.Input}, n.Output
}
func (n slice) shape(of shapes) ([]int, error) {
	in := of(n.Input)
	if len(n.Offsets) != len(in) || len(n.Sizes) != len(in) {
		return nil, malformed("a part at %v of sizes %v of shape %v", n.Offsets, n.Sizes, in)
	}
	for i, d := range in {
		if n.Sizes[i] == 0 {
			return nil, fmt.Errorf("%w: a part of sizes %v, of which one is 0", ErrUnsupported, n.Sizes)
		}
		if n.Offsets[i] > d || n.Sizes[i] > d-n.Offsets[i] {
			return nil, malformed("a part at %v of sizes %v of shape %v", n.Offsets, n.Sizes, in)
		}
	}
	return n.Sizes, nil
}
func (n slice) add(s *xnnpack.Subgraph, id func(xnnpack.ValueID) xnnpack.ValueID) error {
	n.Input, n.Output = id(n.Input), id(n.Output)
	return s.StaticSlice(n.StaticSlice)
}

type pad struct{ xnnpack.StaticConstantPad }

func (n pad) operands() ([]xnnpack.ValueID, xnnpack.ValueID) {
	return ids{n.Input}, n.Output
}
func (n pad) shape(of shapes) ([]int, error) {
	in := of(n.Input)
	if len(n.Pre) != len(in) || len(n.Post) != len(in) {
		return nil, malformed("%v and %v elements around shape %v", n.Pre, n.Post, in)
	}
	var out []int
	for i, d := range in {
		sum := int64(n.Pre[i]) + int64(d) + int64(n.Post[i])
		if sum > maxElements {
			return nil, malformed("%v and %v elements around shape %v", n.Pre, n.Post, in)
		}
		out = append(out, int(sum))
	}
	return out, nil
}
func (n pad) add(s *xnnpack.Subgraph, id func(xnnpack.ValueID) xnnpack.ValueID) error {
	n.Input, n.Output = id(n.Input), id(n.Output)
	return s.StaticConstantPad(n.StaticConstantPad)
}

type concatenate struct{ xnnpack.Concatenate }

func (n concatenate) operands() ([]xnnpack.ValueID, xnnpack.ValueID) { return n.Inputs, n.Output }
func (n concatenate) shape(of shapes) ([]int, error) {
	out := append([]int{}, of(n.Inputs[0])...)
	axis := n.Axis
	if axis < 0 {
		axis += len(out)
	}
	if axis < 0 || axis >= len(out) {
		return nil, malformed("axis %d of shape %v", n.Axis, out)
	}
	for _, input := range n.Inputs[1:] {
		in := of(input)
		for i := range max(len(in), len(out)) {
			if len(in) != len(out) || i != axis && in[i] != out[i] {
				return nil, malformed("shapes %v and %v along axis %d", of(n.Inputs[0]), in, axis)
			}
		}
		if in[axis] > maxElements-out[axis] {
			return nil, malformed("more than %d elements along axis %d", maxElements, axis)
		}
		out[axis] += in[axis]
	}
	return out, nil
}
func (n concatenate) add(s *xnnpack.Subgraph, id func(xnnpack.ValueID) xnnpack.ValueID) error {
	inputs := make([]xnnpack.ValueID, len(n.Inputs))
	for i, input := range n.Inputs {
		inputs[i] = id(input)
	}
	n.Inputs, n.Output = inputs, id(n.Output)
	return s.Concatenate(n.Concatenate)
}
