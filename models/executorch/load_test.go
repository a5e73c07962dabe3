//go:build cgo

package executorch

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/models"
	"xpwc/models/inference"
	"xpwc/models/npy"
	"xpwc/xnnpack"
)

// inputOf returns the slice that Run takes, of a .npy.
func inputOf(t testing.TB, path string, element models.Element) (input any, shape []int) {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	a, err := npy.Read(b)
	require.NoError(t, err)
	switch element {
	case models.Float32:
		return floats32(t, a.Data, xnnpack.Float32), a.Shape
	case models.Float16:
		bits := make([]uint16, len(a.Data)/2)
		for i := range bits {
			bits[i] = uint16(a.Data[2*i]) | uint16(a.Data[2*i+1])<<8
		}
		return bits, a.Shape
	}
	require.Fail(t, "no such golden input", element)
	return nil, nil
}

func TestLoadedProgramsComputeTheSameWithoutAFileAtTheFirstStartAndAtTheNext(t *testing.T) {
	for _, c := range programs {
		t.Run(c.name, func(t *testing.T) {
			p := openProgram(t, c.name)
			m, err := p.Method("forward")
			require.NoError(t, err)
			golden := p.Path()[:len(p.Path())-len(".pte")]
			var inputs []any
			var contents [][]byte
			var shapes [][]int
			for i, v := range m.Inputs() {
				path := fmt.Sprintf("%s.in%d.npy", golden, i)
				input, shape := inputOf(t, path, v.Element())
				content, _ := readArray(t, path)
				inputs, contents, shapes = append(inputs, input), append(contents, content), append(shapes, shape)
			}
			want, _ := execution{}.run(t, m, contents, shapes)
			o := &Options{Options: inference.Options{Threads: 2, CacheFrom: 1}}
			if _, err := os.Stat(golden + ".ptd"); err == nil {
				o.Data = []string{golden + ".ptd"}
			}
			file := filepath.Join(t.TempDir(), "model.xpwc")
			for _, start := range []struct {
				file  string
				packs bool
			}{{"", true}, {file, true}, {file, false}} {
				loaded, err := Load(p.Path(), start.file, o)
				require.NoError(t, err)
				outputs, err := loaded.Run(t.Context(), inputs...)
				require.NoError(t, err)
				for i, v := range m.Outputs() {
					content, shape := readArray(t, fmt.Sprintf("%s.out%d.npy", golden, i))
					require.Equal(t, shape, outputs[i].Shape)
					require.Equal(t, bytesOf(t, outputs[i].Data), want[i], "bit for bit")
					l2 := relativeL2(floats32(t, bytesOf(t, outputs[i].Data), v.Type), floats32(t, content, v.Type))
					require.LessOrEqual(t, l2, c.relativeL2)
				}
				require.NoError(t, loaded.Close())
				require.Equal(t, start.packs, loaded.Cache().Stats().Packed.Entries > 0)
			}
		})
	}
}

// bytesOf returns an output as a .npy has it.
func bytesOf(t testing.TB, data any) (b []byte) {
	t.Helper()
	switch data := data.(type) {
	case []float32:
		return floats(data...)
	case []uint16:
		for _, n := range data {
			b = append(b, byte(n), byte(n>>8))
		}
		return b
	}
	require.Fail(t, "no golden output", "%T", data)
	return nil
}

func TestLoadTakesTheMethodThatIsNamed(t *testing.T) {
	path := filepath.Join("testdata", "two_methods.pte")
	p, err := Open(path)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "model.xpwc")
	for _, m := range p.Methods() {
		loaded, err := Load(path, file, &Options{Options: inference.Options{CacheFrom: 1}, Method: m.Name()})
		require.NoError(t, err)
		require.Equal(t, m.Inputs(), loaded.Inputs())
		require.Equal(t, m.Outputs(), loaded.Outputs())
		require.NoError(t, loaded.Close())
	}
	require.NoError(t, p.Close())
	_, err = Load(path, file, &Options{Method: "backward"})
	require.ErrorIs(t, err, ErrUnknownMethod)
}

func TestDynamicInputsThatDoNotFitTogetherAreAnErrorAndNoHarm(t *testing.T) {
	p := tokens()
	const rows, width = 4, 3
	planOf := func(dtype ScalarType) table {
		return mtensor{dtype: dtype, sizes: []int32{rows, width}, dynamic: 1}.table()
	}
	for i, dtype := range []ScalarType{Long, Char, Bool, Float, Float, Float, Char} {
		p.methods[0].values[i] = planOf(dtype)
	}
	p.segments[0] = tokensGraph([]uint32{rows, width}).bytes()
	path := filepath.Join(t.TempDir(), "tokens.pte")
	require.NoError(t, os.WriteFile(path, p.bytes(), 0o600))
	m, err := Load(path, "", nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	require.True(t, m.Inputs()[2].Dynamic)
	token, half, bit := []int64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, make([]int8, 12), make([]bool, 12)
	for i := range bit {
		bit[i] = true
	}
	want := []float32{1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5, 10.5, 11.5, 12.5}
	for _, n := range []int{4, 3, 1, 2, 4} {
		n *= width
		got, err := m.Run(t.Context(), token[:n], half[:n], bit[:n])
		require.NoError(t, err)
		require.Equal(t, []int{n / width, width}, got[0].Shape)
		require.Equal(t, want[:n], got[0].Data)
		_, err = m.Run(t.Context(), token[:2*width], half[:3*width], bit[:4*width])
		require.ErrorIs(t, err, inference.ErrInputShape)
	}
}

// What an output of fixed shape has beyond the rows that were computed would be of an earlier Run.
func TestFewerRowsThanAnOutputOfFixedShapeHasAreAnErrorAndNoHarm(t *testing.T) {
	const rows, width = 4, 6
	sizes := []int32{rows, width}
	p := mprogram{segments: [][]byte{doubled(rows, width).bytes()}, methods: []mmethod{{
		name: "forward", delegates: []table{inSegment(0)},
		values: tensors(mtensor{dtype: Float, sizes: sizes, dynamic: 1}, mtensor{dtype: Float, sizes: sizes}),
		inputs: []int32{0}, outputs: []int32{1}, instructions: []table{call(0, 0, 1)},
	}}}
	path := filepath.Join(t.TempDir(), "model.pte")
	require.NoError(t, os.WriteFile(path, p.bytes(), 0o600))
	m, err := Load(path, "", nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	x := sequence(rows*width, 0)
	whole, err := m.Run(t.Context(), x)
	require.NoError(t, err)
	for _, n := range []int{1, 3, 3} {
		_, err := m.Run(t.Context(), inference.Tensor{Shape: []int{n, width}, Data: x[:n*width]})
		require.ErrorIs(t, err, inference.ErrInputShape)
	}
	repeated, err := m.Run(t.Context(), x)
	require.NoError(t, err)
	require.Equal(t, whole, repeated)
}

func TestAProgramThatCannotBeRunHereIsNotLoaded(t *testing.T) {
	dir := t.TempDir()
	path, file := filepath.Join(dir, "model.pte"), filepath.Join(dir, "model.xpwc")
	outside := betweenFormats()
	outside.methods[0].operators[0] = "aten::median"
	require.NoError(t, os.WriteFile(path, outside.bytes(), 0o600))
	_, err := Load(path, file, nil)
	require.ErrorIs(t, err, ErrUnsupportedOp)
	require.NoFileExists(t, file)
	cache, err := xpwc.Open(file, &xpwc.Options{ReadOnly: true})
	require.NoError(t, err, "nothing of it is open")
	require.NoError(t, cache.Close())
}
