//go:build cgo

package executorch

import (
	"context"
	"fmt"
	"math"
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

// viewedState is a program that writes a row into a state of four, and computes exp of a view of the state: the export
// gives both one place in memory and writes no instruction for the view.
func viewedState() mprogram {
	p := invoked("llama::update_cache.out", []any{shaped{1, 1, 1, 2}, shaped{1, 4, 1, 2}, 1}, shaped{1})
	m := &p.methods[0]
	shared := func(shape ...int32) table {
		t := mtensor{dtype: Float, sizes: shape, planned: true}.table()
		t[1].(table)[6] = table{0: uint32(1), 1: uint32(64)}
		return t
	}
	const state = 1
	m.values[state], m.inputs = shared(1, 4, 1, 2), m.inputs[:state]
	view := int32(len(m.values))
	m.values = append(m.values, shared(4, 2), mtensor{dtype: Float, sizes: []int32{4, 2}}.table())
	m.operators = append(m.operators, "aten::exp.out")
	m.instructions = append(m.instructions, kernel(1, view, view+1))
	m.outputs = []int32{view + 1}
	return p
}

func TestAViewOfAStateHasWhatTheStateIsThen(t *testing.T) {
	p := viewedState()
	r := loaded(t, openBytes(t, p.bytes()).Methods()[0], "")
	for _, x := range []float32{0.5, -1} {
		out, err := r.Run(t.Context(), []float32{x, x})
		require.NoError(t, err)
		y := float32(math.Exp(float64(x)))
		require.InDeltaSlice(t, []float32{1, 1, y, y, 1, 1, 1, 1}, out[0].Data, 1e-5)
	}
	m := &p.methods[0]
	m.instructions[0], m.instructions[1] = m.instructions[1], m.instructions[0]
	out, err := loaded(t, openBytes(t, p.bytes()).Methods()[0], "").Run(t.Context(), []float32{1, 1})
	require.NoError(t, err)
	require.InDeltaSlice(t, []float32{1, 1, 1, 1, 1, 1, 1, 1}, out[0].Data, 1e-5, "it is read before")

	m.instructions = append(m.instructions, m.instructions[0])
	require.ErrorContains(t, openBytes(t, p.bytes()).Methods()[0].Runnable(), "read before and after it changes")
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
