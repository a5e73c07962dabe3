// Package modeltest is what tests of models have in common: it runs them, with a cache and without, and packs them.
package modeltest

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/instance"
	"xpwc/internal/operators"
	"xpwc/models"
	"xpwc/xnnpack"
)

// Run computes a model's outputs without a cache, and checks that XNNPACK's shapes are the model's. The test is skipped
// where this XNNPACK is known to compute the model wrongly.
func Run(t testing.TB, m models.Model, inputs ...[]float32) [][]float32 {
	t.Helper()
	return run(t, m, instance.PackedInHeap, inputs)
}

// RunCached is Run with sessions of the cache, which are given the data map in place of the model's own.
func RunCached(t testing.TB, m models.Model, cache *xpwc.Cache, data xpwc.DataMap, inputs ...[]float32) [][]float32 {
	t.Helper()
	return run(t, reading{m, data}, instance.PackedIn(cache), inputs)
}

// reading is a model that has its constants from a data map.
type reading struct {
	models.Model
	data xpwc.DataMap
}

func (r reading) DataMap() xpwc.DataMap { return r.data }

func (r reading) Stages() ([]models.Stage, []models.Buffer) { return models.StagesOf(r.Model) }

func run(t testing.TB, m models.Model, b instance.Backing, inputs [][]float32) (out [][]float32) {
	t.Helper()
	e, err := instance.New(m, b, 1)
	if errors.Is(err, xnnpack.ErrKnownDefect) {
		t.Skip(err)
	}
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close()) }()
	for i, v := range m.Inputs() {
		store(t, v, e.Inputs[i], inputs[i])
	}
	_, err = e.Infer()
	require.NoError(t, err)
	for i, v := range m.Outputs() {
		shape, err := e.ComputedShape(i)
		require.NoError(t, err)
		if len(v.Shape) == 0 && len(shape) == 1 {
			require.Equal(t, []int{1}, shape, "of a number, to XNNPACK")
		} else {
			require.Equal(t, append([]int{}, v.Shape...), append([]int{}, shape...), "of %s", v.Name)
		}
		out = append(out, fetch(v, e.Outputs[i]))
	}
	return out
}

// numbers are the stored numbers of a value: steps from zero.
func numbers(v models.Value, b *xnnpack.Buffer) (stored operators.Array, step float32, zero float64) {
	element, step := v.Element(), v.Quantization.Scale
	if v.Widened() {
		element = models.Float32
	}
	if step == 0 {
		step = 1
	}
	return operators.Array{Element: element, Data: b.Bytes()}, step, float64(v.Quantization.ZeroPoint)
}

// store quantises where the input is quantised.
func store(t testing.TB, v models.Value, b *xnnpack.Buffer, x []float32) {
	t.Helper()
	stored, step, zero := numbers(v, b)
	require.Len(t, x, len(stored.Data)/stored.Element.Size())
	for i, f := range x {
		n := float64(f / step)
		if stored.Element != models.Float32 {
			n = math.RoundToEven(n)
		}
		stored.Put(i, n+zero)
	}
}

func fetch(v models.Value, b *xnnpack.Buffer) []float32 {
	stored, step, zero := numbers(v, b)
	out := make([]float32, len(stored.Data)/stored.Element.Size())
	for i := range out {
		out[i] = step * float32(stored.Number(i)-zero)
	}
	return out
}
