package described

import (
	"errors"
	"fmt"

	"xpwc"
	"xpwc/models"
	"xpwc/xnnpack"
)

// Subgraph makes a new subgraph of all operators, and asks l for their weights and biases. The external values are
// those of Inputs and Outputs. The caller deletes the subgraph, as soon as a runtime is made of it.
func (m *Model) Subgraph(l models.Loader) (*xnnpack.Subgraph, error) { return emit(m.steps, l) }

func emit(steps []*step, l models.Loader) (*xnnpack.Subgraph, error) {
	g, err := xnnpack.NewSubgraph(2 * len(steps))
	if err != nil {
		return nil, err
	}
	for i, s := range steps {
		if err := s.emit(g, l, xnnpack.ValueID(i), xnnpack.ValueID(len(steps)+i)); err != nil {
			return nil, errors.Join(fmt.Errorf("%s of weights %q: %w", s.Op, s.Weights, err), g.Delete())
		}
	}
	return g, nil
}

// emit adds the operator, with what converts its input from float32 and its output to it.
func (s *step) emit(g *xnnpack.Subgraph, l models.Loader, in, out xnnpack.ValueID) error {
	filter, bias, err := s.load(g, l)
	if err != nil {
		return err
	}
	from := xnnpack.Tensor{Name: s.Weights + " input", Type: xnnpack.Float32, Shape: s.input.Shape}
	to := xnnpack.Tensor{Name: s.Weights + " output", Type: xnnpack.Float32, Shape: s.output.Shape}
	if err := errors.Join(g.Input(in, from), g.Output(out, to)); err != nil {
		return err
	}
	input, output := in, out
	if s.input.Type != xnnpack.Float32 {
		if input, err = g.Tensor(s.input); err != nil {
			return err
		}
		if err := g.Add(xnnpack.Unary{Op: xnnpack.ConvertElements, Input: in, Output: input}); err != nil {
			return err
		}
	}
	if s.output.Type != xnnpack.Float32 {
		if output, err = g.Tensor(s.output); err != nil {
			return err
		}
	}
	if err := g.Add(s.node(input, filter, bias, output)); err != nil {
		return err
	}
	if output != out {
		return g.Add(xnnpack.Unary{Op: xnnpack.ConvertElements, Input: output, Output: out})
	}
	return nil
}

// node returns the operator as XNNPACK takes it.
func (s *step) node(in, filter, bias, out xnnpack.ValueID) xnnpack.WeightedNode {
	switch s.Op {
	case fullyConnected:
		return xnnpack.FullyConnected{Input: in, Filter: filter, Bias: bias, Output: out, Activation: s.limits,
			TransposeWeights: s.Transposed}
	case convolution:
		return xnnpack.Convolution2D{Input: in, Filter: filter, Bias: bias, Output: out, Padding: s.padding,
			SamePadding: s.SamePadding, Stride: s.stride, Dilation: s.dilation, Groups: s.Groups, Activation: s.limits}
	case depthwise:
		return xnnpack.DepthwiseConvolution2D{Input: in, Filter: filter, Bias: bias, Output: out, Padding: s.padding,
			SamePadding: s.SamePadding, Stride: s.stride, Dilation: s.dilation, DepthMultiplier: s.DepthMultiplier,
			Activation: s.limits}
	default:
		return xnnpack.Deconvolution2D{Input: in, Filter: filter, Bias: bias, Output: out, Padding: s.padding,
			Adjustment: s.adjustment, Stride: s.stride, Dilation: s.dilation, Groups: s.Groups, Activation: s.limits}
	}
}

// load defines the weights and the bias.
func (s *step) load(g *xnnpack.Subgraph, l models.Loader) (filter, bias xnnpack.ValueID, err error) {
	b := s.bias
	bias = xnnpack.InvalidValue
	if s.hasBias {
		// With a dynamically quantised input XNNPACK packs the bias in without naming it, and the key has its content.
		if b.Data, err = s.read(l, b, s.blind || s.dynamic()); err != nil {
			return 0, 0, err
		}
		if bias, err = g.Tensor(b); err != nil {
			return 0, 0, err
		}
	}
	f := s.filter
	const none = xnnpack.InvalidValue // which values it has makes no difference
	node := s.node(none, none, none, none)
	// XNNPACK of 2026 converts half precision before it looks it up, where the CPU has no arithmetic for it.
	eager := s.blind || s.weights == xnnpack.Float16
	if f.Data, err = s.read(l, f, eager, xpwc.PackedAs(node.Packing(f, b, s.input, s.output))); err != nil {
		return 0, 0, err
	}
	filter, err = g.Tensor(f)
	return filter, bias, err
}

func (s *step) read(l models.Loader, t xnnpack.Tensor, eager bool, options ...xpwc.LoadOption) ([]byte, error) {
	options = append(options, xpwc.PackOnly())
	if eager {
		options = append(options, xpwc.Eager())
	}
	return l.Load(t.Name, options...)
}
