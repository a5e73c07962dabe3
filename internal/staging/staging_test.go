//go:build cgo

package staging_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/staging"
	"xpwc/models"
	"xpwc/xnnpack"
)

type id = xnnpack.ValueID

// subgraph is what one was asked for.
type subgraph struct {
	steps           []int
	inputs, outputs []id
}

// step computes value out from others; Go computes it if inGo.
func step(inGo bool, out id, in ...id) staging.Step {
	s := staging.Step{Inputs: in, Outputs: []id{out}}
	if inGo {
		s.Compute = func(inputs, outputs [][]byte) error {
			for _, b := range inputs {
				outputs[0][0] += b[0]
			}
			return nil
		}
	}
	return s
}

// of returns a model whose subgraphs are noted as they are asked for.
func of(inputs, outputs []id, subgraphs *[]subgraph, steps ...staging.Step) *staging.Model {
	return &staging.Model{Inputs: inputs, Outputs: outputs, Steps: steps,
		Size:     func(value id) int { return 10 * int(value) },
		Constant: func(id) func([]byte) error { return nil },
		Subgraph: func(steps []int, inputs, outputs []id, _ models.Loader) (*xnnpack.Subgraph, error) {
			*subgraphs = append(*subgraphs, subgraph{steps, inputs, outputs})
			return nil, nil
		},
	}
}

func TestThereAreAsFewSubgraphsAsCanBe(t *testing.T) {
	var subgraphs []subgraph
	// XNNPACK and Go take turns in this order, but 3 needs nothing of 2, and 5 nothing of 4.
	m := of([]id{0, 1}, []id{7}, &subgraphs,
		step(false, 2, 0), step(true, 3, 1), step(false, 4, 2), step(true, 5, 3), step(false, 6, 4, 5),
		step(false, 7, 6, 2))
	stages, between := m.Stages()
	for _, s := range stages {
		if s.Subgraph != nil {
			_, err := s.Subgraph(nil)
			require.NoError(t, err)
		}
	}
	require.Len(t, stages, 3)
	require.Equal(t, []subgraph{{[]int{0, 2, 4, 5}, []id{0, 5}, []id{7}}}, subgraphs)
	require.Equal(t, []models.Buffer{{Size: 30}, {Size: 50}}, between)
	require.Equal(t, []int{0, 4}, stages[2].Inputs, "buffers: two inputs, an output, and those between")
	require.Equal(t, []int{2}, stages[2].Outputs)
}

func TestAStateBecomesTheNextOneWhenAllElseIsComputed(t *testing.T) {
	var subgraphs []subgraph
	m := of([]id{1}, []id{3, 1}, &subgraphs, step(true, 4, 1, 2), step(true, 3, 2))
	m.States = []staging.State{{Value: 2, Next: 4, Initial: func(dst []byte) error { dst[0] = 7; return nil }}}
	stages, between := m.Stages()
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
			give := func(of []int) (out [][]byte) {
				for _, i := range of {
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
