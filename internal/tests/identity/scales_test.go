//go:build cgo

package identity

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/tests/harness"
	"xpwc/xnnpack"
)

// A host that quantises sets a filter's scales when its content is computed, and at a next start not at all.
func TestScalesMayBeSetWhenTheContentIsComputed(t *testing.T) {
	const outputs, inputs = 24, 40
	channelScales := make([]float32, outputs)
	for i := range channelScales {
		channelScales[i] = 0.01 * float32(i+1)
	}
	fill := func(dst []byte) {
		for i := range dst {
			dst[i] = byte(int8(i*37%255 - 127))
		}
	}
	// run computes a layer of the filter "w", which has these scales when it is defined.
	run := func(t *testing.T, c *xpwc.Cache, input xnnpack.Datatype, scales []float32, compute func(dst []byte) error,
	) []float32 {
		session, err := c.NewSession(computed{"w": {Size: outputs * inputs, Fill: compute,
			Identity: xpwc.Identity{Source: "test", Stamp: "1"}}})
		require.NoError(t, err)
		defer session.Close()
		subgraph, err := xnnpack.NewSubgraph(2)
		require.NoError(t, err)
		defer subgraph.Delete()
		x := xnnpack.Tensor{Type: xnnpack.Float32, Shape: []int{1, inputs}}
		y := xnnpack.Tensor{Type: xnnpack.Float32, Shape: []int{1, outputs}}
		require.NoError(t, subgraph.Input(0, x))
		require.NoError(t, subgraph.Output(1, y))
		node := xnnpack.FullyConnected{Input: 0, Bias: xnnpack.InvalidValue, Output: 1}
		if input == xnnpack.DynamicQInt8 {
			x.Type, x.Quantization.NonBatchDims = input, 1
			node.Input, err = subgraph.Tensor(x)
			require.NoError(t, err)
			require.NoError(t, subgraph.Add(xnnpack.Unary{Op: xnnpack.ConvertElements, Input: 0, Output: node.Input}))
		}
		filter := xnnpack.Tensor{Type: xnnpack.ChannelQInt8, Shape: []int{outputs, inputs}}
		filter.Quantization.Scales = slices.Repeat([]float32{1}, outputs) // the same for every look-up
		packed := xpwc.PackedAs(node.Packing(filter, xnnpack.Tensor{}, x, y))
		filter.Quantization.Scales = scales
		filter.Data, err = session.Load("w", packed)
		require.NoError(t, err)
		node.Filter, err = subgraph.Tensor(filter)
		require.NoError(t, err)
		require.NoError(t, subgraph.Add(node))
		runtime, err := xnnpack.NewRuntime(subgraph, &xnnpack.RuntimeOptions{WeightsCache: session})
		require.NoError(t, err)
		defer runtime.Delete()
		require.NoError(t, session.Finalize())
		in, out := make([]float32, inputs), make([]float32, outputs)
		for i := range in {
			in[i] = float32(i%7) - 3
		}
		return inferOnce(t, runtime, in, out)
	}
	for _, input := range []xnnpack.Datatype{xnnpack.Float32, xnnpack.DynamicQInt8} {
		t.Run(input.String(), func(t *testing.T) {
			memory := harness.OpenCache(t, "", nil)
			want := run(t, memory, input, channelScales, func(dst []byte) error { fill(dst); return nil })
			path := harness.Path(t)
			first := harness.OpenCache(t, path, nil)
			scales := slices.Repeat([]float32{1}, outputs)
			require.Equal(t, want, run(t, first, input, scales, func(dst []byte) error {
				copy(scales, channelScales)
				fill(dst)
				return nil
			}))
			require.NoError(t, first.Close())
			next := harness.OpenCache(t, path, nil)
			require.Equal(t, want, run(t, next, input, slices.Repeat([]float32{1}, outputs), func([]byte) error {
				return errors.New("it was computed again")
			}))
		})
	}
}

// computed is a data map of tensors that are computed.
type computed map[string]xpwc.Tensor

func (c computed) Tensor(name string) (xpwc.Tensor, error) { return c[name], nil }

// inferOnce runs a model of one input and one output.
func inferOnce(t *testing.T, runtime *xnnpack.Runtime, in, out []float32) []float32 {
	t.Helper()
	memory := map[xnnpack.ValueID]*xnnpack.Buffer{}
	for id, values := range [][]float32{in, out} {
		b, err := xnnpack.NewBuffer(4 * len(values))
		require.NoError(t, err)
		defer b.Free()
		copy(b.Float32s(), values)
		memory[xnnpack.ValueID(id)] = b
	}
	require.NoError(t, runtime.Reshape())
	require.NoError(t, runtime.Setup(map[xnnpack.ValueID][]byte{0: memory[0].Bytes(), 1: memory[1].Bytes()}))
	require.NoError(t, runtime.Invoke())
	return append(out[:0], memory[1].Float32s()...)
}
