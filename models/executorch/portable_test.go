//go:build cgo

package executorch

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/models/npy"
)

// typedNumbers returns the elements of a .npy as the slice that a Runner takes.
func typedNumbers(t *testing.T, path string) any {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	a, err := npy.Read(content)
	require.NoError(t, err)
	examples := map[string]any{"BOOL": false, "I8": int8(0), "U8": uint8(0), "I16": int16(0), "I32": int32(0),
		"I64": int64(0), "F32": float32(0), "F64": float64(0)}
	if zero, ok := examples[string(a.Dtype)]; ok {
		kind := reflect.TypeOf(zero)
		n := len(a.Data) / int(kind.Size())
		slice := reflect.MakeSlice(reflect.SliceOf(kind), n, n).Interface()
		_, err := binary.Decode(a.Data, binary.LittleEndian, slice)
		require.NoError(t, err)
		return slice
	}
	t.Fatal(path, a.Dtype)
	return nil
}

// numbersOf returns a slice's elements as numbers.
func numbersOf(slice any) (numbers []float64) {
	v := reflect.ValueOf(slice)
	for i := range v.Len() {
		switch x := v.Index(i); {
		case x.CanFloat():
			numbers = append(numbers, x.Float())
		case x.CanInt():
			numbers = append(numbers, float64(x.Int()))
		case x.CanUint():
			numbers = append(numbers, float64(x.Uint()))
		case x.Bool():
			numbers = append(numbers, 1)
		default:
			numbers = append(numbers, 0)
		}
	}
	return numbers
}

func TestOperatorsOutsideOfDelegatesComputeWhatTheStockRuntimeDoes(t *testing.T) {
	programs, err := filepath.Glob(filepath.Join("testdata", "operators", "*.pte"))
	require.NoError(t, err)
	require.NotEmpty(t, programs)
	for _, program := range programs {
		stem := strings.TrimSuffix(program, ".pte")
		t.Run(filepath.Base(stem), func(t *testing.T) {
			bfloat16 := strings.HasSuffix(stem, "bfloat16")
			unsliced := bfloat16 || filepath.Base(stem) == "products"
			if unsliced && os.Getenv("XNNPACK") == "debian" { // as the Makefile sets it
				t.Skip("XNNPACK of 2024 slices neither bfloat16 nor integers")
			}
			p, err := Open(program)
			require.NoError(t, err)
			m := p.Methods()[0]
			require.NoError(t, m.Runnable())
			var inputs []any
			for i := range m.Inputs() {
				inputs = append(inputs, typedNumbers(t, fmt.Sprintf("%s.in%d.npy", stem, i)))
			}
			outputs, err := loaded(t, m, "").Run(t.Context(), inputs...)
			require.NoError(t, err)
			want, tolerance := typedNumbers(t, stem+".out.npy").([]float64), 1e-5
			switch {
			case bfloat16: // which has 8 bits of a number
				tolerance = 1e-2
			case strings.HasSuffix(stem, "half"): // 11 bits
				tolerance = 2e-3
			}
			for i, out := range outputs {
				got := numbersOf(out.Data)
				require.LessOrEqual(t, len(got), len(want), "output %d", i)
				for k, x := range got {
					if x != want[k] && !(math.IsNaN(x) && math.IsNaN(want[k])) {
						require.InDelta(t, want[k], x, tolerance*max(1, math.Abs(want[k])), "output %d, element %d",
							i, k)
					}
				}
				want = want[len(got):]
			}
			require.Empty(t, want)
		})
	}
}
