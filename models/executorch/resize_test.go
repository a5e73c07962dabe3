//go:build cgo

package executorch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/models/inference"
	"xpwc/models/npy"
	"xpwc/xnnpack"
)

// dynamicPrograms are exported with dynamic dimensions. Each has the stock runtime's answers for several shapes, in
// testdata/dynamic/NAME.CASE.*.npy.
var dynamicPrograms = []string{"batch_dq", "batch_image", "batch_length", "cumulative", "fixed_beside", "image_size",
	"length", "length_portable", "sizes"}

// tensorOf reads a .npy.
func tensorOf(t testing.TB, path string) inference.Tensor {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	a, err := npy.Read(content)
	require.NoError(t, err)
	if a.Dtype == "I64" {
		var numbers []int64
		for b := a.Data; len(b) > 0; b = b[8:] {
			numbers = append(numbers, int64(binary.LittleEndian.Uint64(b)))
		}
		return inference.Tensor{Shape: a.Shape, Data: numbers}
	}
	require.EqualValues(t, "F32", a.Dtype, path)
	var floats []float32
	for b := a.Data; len(b) > 0; b = b[4:] {
		floats = append(floats, math.Float32frombits(binary.LittleEndian.Uint32(b)))
	}
	return inference.Tensor{Shape: a.Shape, Data: floats}
}

// dynamicCase reads the inputs or outputs of a case.
func dynamicCase(t testing.TB, name string, number int, kind string) (tensors []inference.Tensor) {
	t.Helper()
	for i := 0; ; i++ {
		path := filepath.Join("testdata", "dynamic", fmt.Sprintf("%s.%d.%s%d.npy", name, number, kind, i))
		if _, err := os.Stat(path); err != nil {
			return tensors
		}
		tensors = append(tensors, tensorOf(t, path))
	}
}

// loadDynamic loads a program. The test is skipped where this XNNPACK computes it wrongly.
func loadDynamic(t testing.TB, name, cache string) *inference.Runner {
	t.Helper()
	r, err := Load(filepath.Join("testdata", "dynamic", name+".pte"), cache,
		&Options{Options: inference.Options{CacheFrom: 1}})
	if errors.Is(err, xnnpack.ErrKnownDefect) {
		t.Skip(err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r
}

func runCase(t testing.TB, r *inference.Runner, name string, number int) []inference.Result {
	t.Helper()
	var inputs []any
	for _, x := range dynamicCase(t, name, number, "in") {
		inputs = append(inputs, x)
	}
	outputs, err := r.Run(t.Context(), inputs...)
	require.NoError(t, err)
	return outputs
}

func TestDynamicProgramsAnswerAsTheStockRuntimeInEachShape(t *testing.T) {
	for _, name := range dynamicPrograms {
		t.Run(name, func(t *testing.T) {
			r := loadDynamic(t, name, "")
			for _, number := range []int{0, 1, 2, 3, 1, 0} { // up and down
				outputs := runCase(t, r, name, number)
				wants := dynamicCase(t, name, number, "out")
				require.Len(t, outputs, len(wants))
				for i, want := range wants {
					require.True(t, slices.Equal(want.Shape, outputs[i].Shape), "%v", outputs[i].Shape)
					distance, norm := 0.0, 0.0
					for k, f := range want.Data.([]float32) {
						d := float64(f - outputs[i].Data.([]float32)[k])
						distance, norm = distance+d*d, norm+float64(f)*float64(f)
					}
					require.LessOrEqual(t, math.Sqrt(distance), 1e-5*math.Sqrt(norm), "case %d, output %d", number, i)
				}
			}
		})
	}
}

func TestAShapeComputesTheSameAfterOthersAsAtFirst(t *testing.T) {
	for _, name := range dynamicPrograms {
		t.Run(name, func(t *testing.T) {
			used := loadDynamic(t, name, "")
			for _, number := range []int{1, 0, 2, 3, 0, 1, 3, 2} {
				require.Equal(t, runCase(t, loadDynamic(t, name, ""), name, number), runCase(t, used, name, number))
			}
		})
	}
}

func TestPackedWeightsAreFoundWhateverTheShape(t *testing.T) {
	for _, name := range dynamicPrograms {
		t.Run(name, func(t *testing.T) {
			cache := filepath.Join(t.TempDir(), "model.xpwc")
			first := loadDynamic(t, name, cache)
			runCase(t, first, name, 2)
			require.NoError(t, first.Close())
			packed := first.Cache().Stats().Packed.Entries
			if name != "length_portable" {
				require.NotZero(t, packed)
			}
			next := loadDynamic(t, name, cache)
			for number := range 4 {
				runCase(t, next, name, number)
			}
			require.Zero(t, next.Cache().Stats().Packed.Entries)
		})
	}
}

func TestManyShapesKeepABoundedNumberOfSessions(t *testing.T) {
	cache, err := xpwc.Open("", nil)
	require.NoError(t, err)
	r, err := Load(filepath.Join("testdata", "dynamic", "length.pte"), "",
		&Options{Options: inference.Options{Cache: cache}})
	require.NoError(t, err)
	var open []string
	for range 2 {
		for n := 1; n <= 24; n++ {
			_, err := r.Run(t.Context(), make([]int64, n), make([]float32, n))
			require.NoError(t, err)
		}
		err := cache.Close()
		require.ErrorContains(t, err, "sessions are still open")
		open = append(open, err.Error())
	}
	require.Equal(t, open[0], open[1])
	require.NoError(t, r.Close())
	require.NoError(t, cache.Close(), "no session is open")
}

func TestAShapeThatTheProgramDoesNotTakeIsAnErrorWithTheLimits(t *testing.T) {
	r := loadDynamic(t, "length", "")
	for _, c := range []struct {
		ids, mask []int
		reason    string
	}{
		{[]int{1, 25}, []int{1, 25}, "input 0 takes shapes up to [1 24], not [1 25]"},
		{[]int{2, 7}, []int{2, 7}, "input 0 takes shapes up to [1 24], not [2 7]"},
		{[]int{7}, []int{7}, "input 0 takes shapes up to [1 24], not [7]"},
		{[]int{1, 7}, []int{1, 8}, "inputs of shapes [1 7] [1 8], at most [1 24] [1 24]"},
	} {
		_, err := r.Run(t.Context(), inference.Tensor{Shape: c.ids, Data: make([]int64, xnnpack.Elements(c.ids))},
			inference.Tensor{Shape: c.mask, Data: make([]float32, xnnpack.Elements(c.mask))})
		require.ErrorIs(t, err, inference.ErrInputShape)
		require.ErrorContains(t, err, c.reason)
		runCase(t, r, "length", 3)
	}
	_, err := r.Run(t.Context(), inference.Tensor{Shape: []int{1, 7}, Data: make([]int64, 6)}, make([]float32, 7))
	require.ErrorIs(t, err, inference.ErrInputSize)
}

func TestTheDynamicDimensionsOfAProgramAreFound(t *testing.T) {
	for name, want := range map[string][][]int{"batch_dq": {{0}}, "batch_length": {{0, 1}}, "image_size": {{2, 3}},
		"length": {{1}, {1}}, "length_portable": {{1}, {1}}} {
		p, err := Open(filepath.Join("testdata", "dynamic", name+".pte"))
		require.NoError(t, err)
		m, err := p.Method("")
		require.NoError(t, err)
		require.Equal(t, want, m.DynamicDims(), name)
		require.NoError(t, p.Close())
	}
}
