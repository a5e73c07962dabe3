package tflite

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/tests/modeltest"
)

// modelPath returns where a fetched model lies.
func modelPath(t testing.TB, name string) string {
	t.Helper()
	dir := os.Getenv("XPWC_MODELS")
	if dir == "" {
		dir = filepath.Join("..", "..", "third_party", "models")
	}
	path := filepath.Join(dir, name)
	_, err := os.Stat(path)
	require.NoError(t, err, "the models are not there: run make third_party")
	return path
}

func openModel(t testing.TB, path string) *Model {
	t.Helper()
	m, err := Open(path, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m
}

type tolerance struct {
	RelativeL2      float64 `json:"relative_l2"`
	MaxAbsOverMax   float64 `json:"max_abs_over_max_ref"`
	SingleElementOf float64 `json:"single_element_abs"`
}

// deviation returns the manifest's measures: the relative L2 norm of the difference, its maximum over the
// reference's, and itself.
func deviation(got, want []float32) (l2, maxRel, maxAbs float64) {
	var diff, ref, top float64
	for i := range want {
		d := math.Abs(float64(got[i]) - float64(want[i]))
		diff, ref = diff+d*d, ref+float64(want[i])*float64(want[i])
		maxAbs, top = math.Max(maxAbs, d), math.Max(top, math.Abs(float64(want[i])))
	}
	return math.Sqrt(diff / ref), maxAbs / top, maxAbs
}

func requireClose(t *testing.T, name string, got, want []float32, tol tolerance) {
	t.Helper()
	require.Len(t, got, len(want), name)
	l2, maxRel, maxAbs := deviation(got, want)
	t.Logf("%-28s %7d elements  relative l2 %.2e  max/max %.2e  max abs %.2e", name, len(want), l2, maxRel, maxAbs)
	if len(want) == 1 {
		require.LessOrEqual(t, maxAbs, tol.SingleElementOf, name)
		return
	}
	require.LessOrEqual(t, l2, tol.RelativeL2, name)
	require.LessOrEqual(t, maxRel, tol.MaxAbsOverMax, name)
}

// knuth is the second input set of the manifest.
func knuth(n int) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(float64(uint32(i)*2654435761) / (1 << 32))
	}
	return out
}

func portrait(t *testing.T, file string) []float32 {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "golden", file))
	require.NoError(t, err)
	out := make([]float32, len(b))
	for i, v := range b {
		out[i] = float32(v) / 255
	}
	return out
}

func littleEndian(x []float32) []byte {
	b := make([]byte, 0, 4*len(x))
	for _, f := range x {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
	}
	return b
}

func readFloats(t *testing.T, path string) []float32 {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	out := make([]float32, len(b)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return out
}

func hash(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

type manifest struct {
	Models []struct {
		Model  string
		SHA256 string
		Input  struct {
			Set    string
			Shape  []int
			SHA256 string `json:"sha256_of_float32_bytes"`
			File   string
		}
		Tolerance tolerance
		Outputs   []struct {
			Index int
			Name  string
			Shape []int
			File  string
		}
	}
}

func TestModelsGiveTheOutputsOfAnIndependentRuntime(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("testdata", "golden", "manifest.json"))
	require.NoError(t, err)
	var golden manifest
	require.NoError(t, json.Unmarshal(b, &golden))
	require.NotEmpty(t, golden.Models)
	for _, c := range golden.Models {
		t.Run(c.Model+"/"+c.Input.Set, func(t *testing.T) {
			path := modelPath(t, c.Model)
			file, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, c.SHA256, hash(file), "not the model of the manifest")
			m := openModel(t, path)

			require.Len(t, m.Inputs(), 1)
			require.Equal(t, c.Input.Shape, m.Inputs()[0].Shape)
			var input []float32
			if c.Input.Set == "knuth" {
				n, err := elements(c.Input.Shape)
				require.NoError(t, err)
				input = knuth(n)
			} else {
				input = portrait(t, c.Input.File)
			}
			require.Equal(t, c.Input.SHA256, hash(littleEndian(input)), "not the input of the manifest")

			got := modeltest.Run(t, m, input)
			require.Len(t, got, len(c.Outputs))
			for i, o := range c.Outputs {
				require.Equal(t, o.Name, m.Outputs()[i].Name)
				require.Equal(t, o.Shape, m.Outputs()[i].Shape)
				requireClose(t, o.Name, got[i], readFloats(t, filepath.Join("testdata", "golden", o.File)), c.Tolerance)
			}
		})
	}
}

// TestEveryModelOfThePackagesAgreesWithItsDefinition runs all models, also those without outputs of another runtime,
// against the operators' definitions in double precision. The input is cut out of the portrait: on noise the
// segmentations are zero.
func TestEveryModelOfThePackagesAgreesWithItsDefinition(t *testing.T) {
	for name, tol := range map[string]tolerance{
		"face_detection_full_range.tflite":        {1e-4, 1e-4, 1e-4},
		"face_detection_full_range_sparse.tflite": {1e-4, 1e-4, 1e-4},
		"face_detection_short_range.tflite":       {1e-5, 1e-5, 1e-4},
		"hand_landmark_full.tflite":               {1e-4, 1e-4, 1e-4},
		"hand_landmark_lite.tflite":               {1e-4, 1e-4, 1e-4},
		"pose_landmark_full.tflite":               {2e-3, 5e-3, 1e-4},
		"pose_landmark_heavy.tflite":              {2e-3, 5e-3, 1e-4},
		"pose_landmark_lite.tflite":               {2e-3, 5e-3, 1e-4},
		"selfie_segmentation.tflite":              {1e-5, 1e-4, 1e-4},
		"selfie_segmentation_landscape.tflite":    {1e-5, 1e-4, 1e-4},
	} {
		t.Run(name, func(t *testing.T) {
			path := modelPath(t, name)
			m := openModel(t, path)
			file, err := os.ReadFile(path)
			require.NoError(t, err)
			if testing.Short() && len(file) > 4<<20 {
				t.Skip("with -short, not the models whose definition takes long to compute")
			}
			input := cut(portrait(t, "input/portrait_256.u8"), 256, m.Inputs()[0].Shape)
			got, want := modeltest.Run(t, m, input), interpret(t, file, input)
			for i, v := range m.Outputs() {
				requireClose(t, v.Name, got[i], want[i], tol)
			}
		})
	}
}

// cut returns the middle of a square image with three channels.
func cut(image []float32, width int, shape []int) []float32 {
	h, w := shape[1], shape[2]
	top, column := (width-h)/2, (width-w)/2
	var out []float32
	for y := range h {
		out = append(out, image[3*((top+y)*width+column):][:3*w]...)
	}
	return out
}
