package tflite

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/modeltest"
	"xpwc/npy"
)

// numbersIn reads a file of NumPy's as single precision.
func numbersIn(t *testing.T, path string) []float32 {
	t.Helper()
	file, err := os.ReadFile(path)
	require.NoError(t, err)
	a, err := npy.Read(file)
	require.NoError(t, err)
	width := 4
	out := make([]float32, len(a.Data)/width)
	for i := range out {
		bits := binary.LittleEndian.Uint32(a.Data[i*width:])
		if a.Dtype == npy.Int32 {
			out[i] = float32(int32(bits))
			continue
		}
		out[i] = math.Float32frombits(bits)
	}
	return out
}

// TestModelsOfUsersAnswerAsLiteRTDoes runs small models that Keras and TensorFlow's converter made, in four kinds.
func TestModelsOfUsersAnswerAsLiteRTDoes(t *testing.T) {
	dir := os.Getenv("XPWC_ZOO")
	if dir == "" {
		dir = filepath.Join("testdata", "zoo")
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.tflite"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, path := range files {
		stem := strings.TrimSuffix(path, ".tflite")
		t.Run(filepath.Base(stem), func(t *testing.T) {
			most := 1e-3
			if strings.HasSuffix(stem, "_dyn") || strings.HasSuffix(stem, "_int8") {
				most = 5e-2
			}
			m := openModel(t, path)
			var inputs [][]float32
			for i := range m.Inputs() {
				inputs = append(inputs, numbersIn(t, stem+".in"+string(rune('0'+i))+".npy"))
			}
			got := modeltest.Run(t, m, inputs...)
			file := filepath.Join(t.TempDir(), "packed.xpwc")
			for _, start := range []string{"first", "next"} {
				cache, err := xpwc.Open(file, nil)
				require.NoError(t, err)
				require.Equal(t, got, modeltest.RunCached(t, m, cache, m.DataMap(), inputs...), "the %s start", start)
				require.NoError(t, cache.Close())
			}
			for i := range m.Outputs() {
				want := numbersIn(t, stem+".out"+string(rune('0'+i))+".npy")
				require.Len(t, got[i], len(want))
				var apart, size float64
				for j, w := range want {
					d := float64(got[i][j]) - float64(w)
					apart, size = apart+d*d, size+float64(w)*float64(w)
				}
				t.Logf("output %d: distance %.2e of %.2e", i, math.Sqrt(apart), math.Sqrt(size))
				require.LessOrEqual(t, math.Sqrt(apart), most*math.Sqrt(size)) // some answer zeros
			}
		})
	}
}
