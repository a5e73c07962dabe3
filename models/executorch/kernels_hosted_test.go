//go:build cgo

package executorch

import (
	"fmt"
	"math"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/operators"
	"xpwc/models"
	"xpwc/models/inference"
)

// typed is the shape of a tensor of another type than floats.
type typed struct {
	element ScalarType
	shape   []int32
}

// loaded makes a method ready to run.
func loaded(t *testing.T, m *Method, file string) *inference.Runner {
	t.Helper()
	require.NoError(t, m.Runnable())
	r, err := inference.Load(m, file, &inference.Options{CacheFrom: 1})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r
}

func TestOperatorsThatXNNPACKDoesNotHaveAreComputedInGo(t *testing.T) {
	floats, longs, truths := shaped{2, 3}, typed{Long, []int32{2, 3}}, typed{Bool, []int32{2, 3}}
	x := []float32{-1, 0, 1, 2, 3, 4}
	n := []int64{-1, 0, 1, 2, 3, 4}
	b := []bool{false, true, false, true, true, false}
	for _, c := range []struct {
		operator string
		args     []any
		out      any
		inputs   []any
		want     any
	}{
		{"aten::embedding.out", []any{shaped{3, 2}, typed{Long, []int32{2}}, -1, false, false}, shaped{2, 2},
			[]any{x, []int64{2, 0}}, []float32{3, 4, -1, 0}},
		{"aten::eq.Scalar_out", []any{floats, 1.0}, truths, []any{x}, []bool{false, false, true, false, false, false}},
		{"aten::eq.Scalar_out", []any{shaped{2}, 0.1}, typed{Bool, []int32{2}}, []any{[]float32{0.1, 0.2}},
			[]bool{true, false}},
		{"aten::remainder.Scalar_out", []any{shaped{2}, 0.1}, shaped{2}, []any{[]float32{0.1, -0.1}}, []float32{0, 0}},
		{"aten::lt.Tensor_out", []any{longs, typed{Long, []int32{3}}}, truths, []any{n, []int64{0, 0, 9}},
			[]bool{true, false, true, false, false, true}},
		{"aten::logical_not.out", []any{truths}, truths, []any{b}, []bool{true, false, true, false, false, true}},
		{"aten::logical_and.out", []any{truths, typed{Bool, []int32{1}}}, truths, []any{b, []bool{true}}, b},
		{"aten::any.out", []any{truths, -1, true}, typed{Bool, []int32{2, 1}}, []any{b}, []bool{true, true}},
		{"aten::where.self_out", []any{truths, floats, shaped{1}}, floats, []any{b, x, []float32{9}},
			[]float32{9, 0, 9, 2, 3, 9}},
		{"aten::argmax.out", []any{floats, 0, false}, typed{Long, []int32{3}}, []any{x}, []int64{1, 1, 1}},
		{"aten::argmax.out", []any{floats, nothing{}, false}, typed{Long, []int32{}}, []any{x}, []int64{5}},
		{"aten::argmin.out", []any{floats, 1, true}, typed{Long, []int32{2, 1}}, []any{x}, []int64{0, 0}},
		{"aten::pow.Tensor_Tensor_out", []any{shaped{}, typed{Int, []int32{3}}}, shaped{3},
			[]any{[]float32{2}, []int32{0, 3, -1}}, []float32{1, 8, 0.5}},
		{"aten::copy.out", []any{longs, typed{Long, []int32{1}}, false}, longs, []any{n, []int64{7}},
			[]int64{7, 7, 7, 7, 7, 7}},
		{"aten::unfold_copy.out", []any{floats, 1, 2, 1}, shaped{2, 2, 2}, []any{x},
			[]float32{-1, 0, 0, 1, 2, 3, 3, 4}},
		{"aten::avg_pool2d.out",
			[]any{shaped{1, 1, 2, 3}, wholes{2, 2}, wholes{2, 2}, wholes{1, 1}, true, true, nothing{}},
			shaped{1, 1, 2, 2}, []any{x}, []float32{-0.25, 0.25, 0.5, 1.75}},
		{"aten::avg_pool2d.out",
			[]any{shaped{1, 1, 1, 4}, wholes{1, 3}, wholes{1, 2}, wholes{0, 1}, true, true, nothing{}},
			shaped{1, 1, 1, 3}, []any{[]float32{3, 3, 3, 6}}, []float32{2, 4, 3}},
		{"aten::avg_pool2d.out", []any{shaped{1, 1, 2, 3}, wholes{2, 2}, wholes{1, 1}, wholes{0, 0}, false, true, 2},
			shaped{1, 1, 1, 2}, []any{x}, []float32{2, 4}},
		{"aten::amax.out", []any{floats, wholes{1}, true}, shaped{2, 1}, []any{x}, []float32{1, 4}},
		{"aten::amin.out", []any{floats, wholes{}, false}, shaped{}, []any{x}, []float32{-1}},
		{"aten::_log_softmax.out", []any{floats, 1, false}, floats, []any{[]float32{9, 9, -999, 9, 9, -999}},
			[]float32{-math.Ln2, -math.Ln2, -1008 - math.Ln2, -math.Ln2, -math.Ln2, -1008 - math.Ln2}},
		{"aten::expm1.out", []any{shaped{1}}, shaped{1}, []any{[]float32{1e-20}}, []float32{1e-20}},
		{"aten::arange.start_out", []any{2, 8, 1}, longs, nil, []int64{2, 3, 4, 5, 6, 7}},
		{"aten::full.out", []any{wholes{2, 3}, true}, truths, nil, []bool{true, true, true, true, true, true}},
		{"aten::add.out", []any{longs, typed{Long, []int32{}}, 1}, longs, []any{n, []int64{5}},
			[]int64{4, 5, 6, 7, 8, 9}},
		{"aten::mul.Scalar_out", []any{longs, 3}, longs, []any{n}, []int64{-3, 0, 3, 6, 9, 12}},
		{"aten::view_copy.out", []any{longs, wholes{3, 2}}, typed{Long, []int32{3, 2}}, []any{n}, n},
		{"aten::expand_copy.out", []any{typed{Bool, []int32{2, 1}}, wholes{2, 3}, false}, truths,
			[]any{[]bool{true, false}}, []bool{true, true, true, false, false, false}},
		{"aten::slice_copy.Tensor_out", []any{longs, 1, 0, nothing{}, 2}, typed{Long, []int32{2, 2}}, []any{n},
			[]int64{-1, 1, 2, 4}},
		{"aten::slice_copy.Tensor_out", []any{floats, 1, 0, nothing{}, 2}, shaped{2, 2}, []any{x},
			[]float32{-1, 1, 2, 4}},
		{"aten::select_copy.int_out", []any{longs, 0, -1}, typed{Long, []int32{3}}, []any{n}, []int64{2, 3, 4}},
		{"aten::permute_copy.out", []any{longs, wholes{1, 0}}, typed{Long, []int32{3, 2}}, []any{n},
			[]int64{-1, 2, 0, 3, 1, 4}},
		{"aten::transpose_copy.int_out", []any{longs, 0, 1}, typed{Long, []int32{3, 2}}, []any{n},
			[]int64{-1, 2, 0, 3, 1, 4}},
		{"aten::constant_pad_nd.out", []any{longs, wholes{1, 0}, 7}, typed{Long, []int32{2, 4}}, []any{n},
			[]int64{7, -1, 0, 1, 7, 2, 3, 4}},
		{"aten::_to_copy.out", []any{truths, false, nothing{}}, floats, []any{b}, []float32{0, 1, 0, 1, 1, 0}},
		{"aten::_to_copy.out", []any{floats, false, nothing{}}, longs, []any{x}, n},
	} {
		t.Run(fmt.Sprint(c.operator, c.args), func(t *testing.T) {
			m := openBytes(t, invoked(c.operator, c.args, c.out).bytes()).Methods()[0]
			if len(c.inputs) == 0 { // a method has some
				p := invoked(c.operator, append(c.args, shaped{1}), c.out)
				args := p.methods[0].instructions[0][1].(table)[1].([]int32)
				p.methods[0].instructions[0][1].(table)[1] = append(args[:len(args)-2:len(args)-2], args[len(args)-1])
				m, c.inputs = openBytes(t, p.bytes()).Methods()[0], []any{[]float32{0}}
			}
			out, err := loaded(t, m, "").Run(t.Context(), c.inputs...)
			require.NoError(t, err)
			require.Equal(t, c.want, out[0].Data)
		})
	}
}

func TestATokenThatIsNotInTheVocabularyIsAnError(t *testing.T) {
	m := openBytes(t, invoked("aten::embedding.out",
		[]any{shaped{3, 2}, typed{Long, []int32{2}}, -1, false, false}, shaped{2, 2}).bytes()).Methods()[0]
	r := loaded(t, m, "")
	for _, token := range []int64{-1, 3, 1 << 40} {
		_, err := r.Run(t.Context(), make([]float32, 6), []int64{0, token})
		require.ErrorIs(t, err, operators.ErrIndex)
	}
	_, err := r.Run(t.Context(), make([]float32, 6), []int64{0, 2})
	require.NoError(t, err)
}

// An input of integers that nothing reads, and outputs that are inputs or come twice.
func TestAMethodMayReturnWhatItWasGiven(t *testing.T) {
	truths := typed{Bool, []int32{2}}
	p := invoked("aten::logical_not.out", []any{truths, typed{Long, []int32{1}}}, truths)
	m := &p.methods[0]
	m.instructions = []table{kernel(0, 0, 2)}
	m.outputs = []int32{2, 1, 2, 0}
	out, err := loaded(t, openBytes(t, p.bytes()).Methods()[0], "").Run(t.Context(), []bool{true, false}, []int64{7})
	require.NoError(t, err)
	require.Equal(t, []any{[]bool{false, true}, []int64{7}, []bool{false, true}, []bool{true, false}},
		[]any{out[0].Data, out[1].Data, out[2].Data, out[3].Data})
}

func TestWhatGoComputesLiesBetweenSubgraphsThatShareACache(t *testing.T) {
	path := filepath.Join("..", "..", "internal", "tests", "zoo", "testdata", "pte", "encoder_fp32.pte")
	file := filepath.Join(t.TempDir(), "cache.xpwc")
	var first any
	for start := range 2 {
		p, err := Open(path)
		require.NoError(t, err)
		m := p.Methods()[0]
		stages, _ := m.Stages()
		require.Greater(t, len(stages), 3)
		_, err = m.Subgraph(models.NewMemory(m.DataMap()))
		require.ErrorIs(t, err, models.ErrStaged)
		r := loaded(t, m, file)
		x := make([]float32, 20*64)
		for i := range x {
			x[i] = float32(i%13) / 8
		}
		out, err := r.Run(t.Context(), x)
		require.NoError(t, err)
		require.NoError(t, r.Close())
		stats := r.Cache().Stats()
		require.Empty(t, stats.Private)
		if start == 0 {
			require.NotZero(t, stats.Packed.Entries)
			first = out[0].Data
			continue
		}
		require.Zero(t, stats.Packed.Entries)
		require.Equal(t, first, out[0].Data, "bit for bit")
	}
}

// The program adds the first row of what it is given to a state, and the state to what it computes.
func TestAStateIsKeptFromOneRunToTheNextUntilItIsReset(t *testing.T) {
	for _, file := range []string{"", filepath.Join(t.TempDir(), "cache.xpwc")} {
		p, err := Open(filepath.Join("..", "..", "internal", "tests", "zoo", "testdata", "pte",
			"state_counter_fp32.pte"))
		require.NoError(t, err)
		r := loaded(t, p.Methods()[0], file)
		x := []float32{0.5, -1, 2, 3, 4, 5}
		run := func() []float32 {
			out, err := r.Run(t.Context(), x)
			require.NoError(t, err)
			return out[0].Data.([]float32)
		}
		first := run()
		for n := 1; n < 4; n++ {
			for i, y := range run() {
				require.InDelta(t, first[i]+float32(n)*x[i%3], y, 1e-5)
			}
		}
		require.NoError(t, r.Reset(t.Context()))
		require.Equal(t, first, run())
		require.NoError(t, r.Close())
		require.ErrorIs(t, r.Reset(t.Context()), xpwc.ErrClosed)
	}
}
