//go:build cgo

package executorch

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/models/inference"
)

// attend runs attention.pte at one of the positions for which the stock runtime's answers are there.
func attend(t *testing.T, r *inference.Runner, number int) (got, want []inference.Tensor) {
	t.Helper()
	read := func(kind string, count int) (tensors []inference.Tensor) {
		for i := range count {
			name := fmt.Sprintf("attention.%d.%s%d.npy", number, kind, i)
			tensors = append(tensors, tensorOf(t, filepath.Join("testdata", "states", name)))
		}
		return tensors
	}
	var inputs []any
	for _, x := range read("in", 5) {
		inputs = append(inputs, x)
	}
	outputs, err := r.Run(t.Context(), inputs...)
	require.NoError(t, err)
	for _, o := range outputs {
		got = append(got, inference.Tensor{Shape: o.Shape, Data: o.Data})
	}
	return got, read("out", 3)
}

// The program has llama::sdpa_with_kv_cache, and llama::custom_sdpa after llama::update_cache, at positions 0, 2 and 3.
func TestKeysAndValuesStayFromOneRunToTheNext(t *testing.T) {
	r, err := Load("testdata/states/attention.pte", "", nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	for range 2 {
		require.NoError(t, r.Reset(t.Context()))
		for number := range 3 {
			got, want := attend(t, r, number)
			for i := range want {
				require.InDeltaSlice(t, want[i].Data, got[i].Data, 1e-5, "run %d, output %d", number, i)
			}
		}
	}
}

func TestKeysAndValuesAreWrittenInPlace(t *testing.T) {
	m, err := Open("testdata/states/attention.pte")
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	stages, between := m.Methods()[0].Stages()
	updates, states := 0, 0
	for _, b := range between {
		if b.Initial != nil {
			states++
		}
	}
	for _, s := range stages {
		if s.Updates {
			require.Equal(t, s.Inputs[0], s.Outputs[0], "a state is updated in its own memory")
			updates++
		}
	}
	require.Equal(t, 4, states)
	require.Equal(t, states, updates)
}

func TestAPositionOutOfRangeIsAnError(t *testing.T) {
	r, err := Load("testdata/states/attention.pte", "", nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	inputs := []any{make([]float32, 32), make([]float32, 16), make([]float32, 16), make([]float32, 16)}
	for _, position := range []int64{-1, 7, 1 << 40} {
		_, err = r.Run(context.Background(), append(inputs, []int64{position})...)
		require.ErrorContains(t, err, "an index is out of range")
	}
}

func TestAttentionIsComputedInSinglePrecisionOnly(t *testing.T) {
	attention := func(out any) error {
		keys := shaped{1, 4, 1, 2}
		p := invoked("llama::custom_sdpa.out",
			[]any{shaped{1, 1, 1, 2}, keys, keys, 0, nothing{}, 0.0, true, nothing{}}, out)
		return openBytes(t, p.bytes()).Methods()[0].Runnable()
	}
	require.NoError(t, attention(shaped{1, 1, 1, 2}))
	require.ErrorContains(t, attention(typed{Bool, []int32{1, 1, 1, 2}}), "attention of bool")
}

func TestAMethodOfNumbersReturnsThem(t *testing.T) {
	p, err := Open("../llm/testdata/small.pte")
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close()) }()
	for name, want := range map[string][]any{"get_eos_ids": {int64(2)}, "get_max_context_len": {int64(64)},
		"use_kv_cache": {true}, "forward": nil} {
		m, err := p.Method(name)
		require.NoError(t, err)
		require.Equal(t, want, m.Metadata())
	}
}
