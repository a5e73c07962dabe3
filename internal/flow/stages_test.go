//go:build cgo

package flow

import (
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/models"
	"xpwc/xnnpack"
)

// values are so many bytes each as ten times their number, and no constants.
type values struct{ Values }

func (values) Array(id ID) Array {
	return Array{Element: models.Uint8, Shape: []int{10 * int(id)}}
}
func (values) Bare(ID) xnnpack.Tensor     { return xnnpack.Tensor{} }
func (values) InGo(ID) bool               { return false }
func (values) Constant(ID) (string, bool) { return "", false }
func (values) View(do func())             { do() }

// sum is a step in Go.
func sum(out ID, in ...ID) *Step {
	return &Step{Operation: Hosted{Inputs: in, Results: IDs{out}, Compute: func(out, in []Array) {
		for _, a := range in {
			out[0].Data[0] += a.Data[0]
		}
	}}}
}

// node is a step of XNNPACK.
func node(out ID, in ...ID) *Step {
	if len(in) == 1 {
		return &Step{Operation: Copy(xnnpack.Copy{Input: in[0], Output: out})}
	}
	return &Step{Operation: Concatenate(xnnpack.Concatenate{Inputs: in, Output: out})}
}

func TestThereAreAsFewSubgraphsAsCanBe(t *testing.T) {
	// XNNPACK and Go take turns in this order, but 3 needs nothing of 2, and 5 nothing of 4.
	p := Part{Values: values{}, Inputs: IDs{0, 1}, Outputs: IDs{7}, Steps: []*Step{
		node(2, 0), sum(3, 1), node(4, 2), sum(5, 3), node(6, 4, 5), node(7, 6, 2)}}
	stages, between := p.Stages()
	require.Len(t, stages, 3)
	for i, s := range stages {
		require.Equal(t, i == 2, s.Subgraph != nil)
	}
	require.Equal(t, []models.Buffer{{Size: 30}, {Size: 50}}, between)
	require.Equal(t, []int{0, 4}, stages[2].Inputs, "buffers: two inputs, an output, and those between")
	require.Equal(t, []int{2}, stages[2].Outputs)
}

func TestValuesThatDoNotExistAtTheSameTimeShareMemory(t *testing.T) {
	keep := func([]byte) error { return nil }
	p := Part{Values: values{}, Inputs: IDs{0}, Outputs: IDs{6}, States: []State{{Value: 1, Next: 1, Initial: keep}},
		Steps: []*Step{sum(2, 0), sum(3, 2), sum(4, 3), sum(5, 4, 3), sum(6, 5, 1)}}
	stages, between := p.Stages()
	var sizes []int
	for _, b := range between {
		sizes = append(sizes, b.Size)
	}
	require.Equal(t, []int{10}, sizes[:1], "a state has memory of its own")
	require.Equal(t, []int{40, 30, 50}, sizes[1:], "4 lies where 2 was; 5 is computed of 3 and 4")
	require.Equal(t, [][]int{{0}, {3}, {4}, {3, 4}}, [][]int{
		stages[0].Inputs, stages[1].Inputs, stages[2].Inputs, stages[3].Inputs})
}

func TestAStateBecomesTheNextOneWhenAllElseIsComputed(t *testing.T) {
	p := Part{Values: values{}, Inputs: IDs{1}, Outputs: IDs{3, 1}, Steps: []*Step{sum(4, 1, 2), sum(3, 2)},
		States: []State{{Value: 2, Next: 4, Initial: func(dst []byte) error { dst[0] = 7; return nil }}}}
	stages, between := p.Stages()
	require.Len(t, stages, 4)
	require.Len(t, between, 2)
	buffers := make([][]byte, 5)
	for i := range buffers {
		buffers[i] = make([]byte, 1)
	}
	require.NoError(t, between[0].Initial(buffers[3]))
	buffers[0][0] = 1
	for want := byte(7); want < 10; want++ {
		clear(buffers[1])
		clear(buffers[4])
		for _, s := range stages {
			give := func(numbers []int) (out [][]byte) {
				for _, i := range numbers {
					out = append(out, buffers[i])
				}
				return out
			}
			require.NoError(t, s.Compute(give(s.Inputs), give(s.Outputs)))
		}
		require.Equal(t, want, buffers[1][0], "the output is made of the state as it was")
		require.EqualValues(t, 1, buffers[2][0], "an input that is an output")
	}
}

func TestAStateThatIsUpdatedStaysInItsMemoryUnlessAnotherStepReadsIt(t *testing.T) {
	update := &Step{Operation: Hosted{Inputs: IDs{2, 1}, Results: IDs{4}, Updates: true,
		Compute: func(out, in []Array) { out[0].Data[0] += in[1].Data[0] }}}
	initial := func([]byte) error { return nil }
	p := Part{Values: values{}, Inputs: IDs{1}, Outputs: IDs{3}, Steps: []*Step{update, sum(3, 4)},
		States: []State{{Value: 2, Next: 4, Initial: initial}}}
	stages, between := p.Stages()
	require.Len(t, stages, 2, "nothing is copied")
	require.Len(t, between, 1)
	require.Equal(t, stages[0].Inputs[0], stages[0].Outputs[0])

	p.Steps = []*Step{update, sum(3, 4, 2)}
	stages, between = p.Stages()
	require.Len(t, stages, 3, "a step reads the state as it was")
	require.Len(t, between, 2)
	require.NotEqual(t, stages[0].Inputs[0], stages[0].Outputs[0])
}

func TestWhatDependsOnNothingIsComputedOnce(t *testing.T) {
	computed := 0
	count := &Step{Operation: Hosted{Results: IDs{1}, Compute: func(out, _ []Array) {
		computed++
		out[0].Data[0] = 7
	}}}
	p := Part{Values: values{}, Inputs: IDs{0}, Outputs: IDs{2}, Steps: []*Step{count, sum(2, 1, 0)},
		Constants: &Constants{}}
	for range 2 { // instances
		stages, _ := p.Stages()
		require.Len(t, stages, 2)
		for range 3 {
			constant := make([]byte, 20) // the buffer of other values, too, and larger
			require.NoError(t, stages[0].Compute(nil, [][]byte{constant}))
			require.Equal(t, byte(7), constant[0])
		}
	}
	require.Equal(t, 1, computed)
}
