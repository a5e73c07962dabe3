package tflite

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/models"
	"xpwc/models/inference"
	"xpwc/models/npy"
)

const autoencoder = "testdata/signatures/autoencoder.tflite"

// floatsOf returns an array in the model's directory: its inputs, and what the stock runtime answers.
func floatsOf(t *testing.T, name string) ([]float32, []int) {
	t.Helper()
	file, err := os.ReadFile(filepath.Join(filepath.Dir(autoencoder), name+".npy"))
	require.NoError(t, err)
	a, err := npy.Read(file)
	require.NoError(t, err)
	out := make([]float32, len(a.Data)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(a.Data[4*i:]))
	}
	return out, a.Shape
}

func TestSignaturesAreRunByName(t *testing.T) {
	picture, shape := floatsOf(t, "picture")
	gain, gainShape := floatsOf(t, "gain")
	code, codeShape := floatsOf(t, "code")
	loudness, _ := floatsOf(t, "loudness")
	decoded, _ := floatsOf(t, "decoded")

	run := func(o Options, inputs map[string][]float32) map[string]any {
		m, err := Open(autoencoder, &o)
		require.NoError(t, err)
		require.Equal(t, []string{"decode", "encode"}, m.Signatures())
		r, err := inference.Load(m, "", nil)
		require.NoError(t, err)
		defer func() { require.NoError(t, r.Close()) }()
		var args []any
		for _, v := range r.Inputs() {
			require.Contains(t, inputs, v.Name)
			args = append(args, inputs[v.Name])
		}
		outputs, err := r.Run(t.Context(), args...)
		require.NoError(t, err)
		out := map[string]any{}
		for i, v := range r.Outputs() {
			out[v.Name] = outputs[i].Data
		}
		return out
	}
	encoded := run(Options{Signature: "encode", Shapes: [][]int{gainShape, shape}},
		map[string][]float32{"picture": picture, "gain": gain})
	require.InDeltaSlice(t, code, encoded["code"], 1e-6)
	require.InDeltaSlice(t, loudness, encoded["loudness"], 1e-6)
	back := run(Options{Signature: "decode"}, map[string][]float32{"code": code[:codeShape[1]]})
	require.InDeltaSlice(t, decoded, back["picture"], 1e-6)
}

func TestSignaturesOfAFileAreOpenedWhenTheyAreNeeded(t *testing.T) {
	f, err := OpenFile(autoencoder, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"decode", "encode"}, f.Signatures())
	for _, name := range f.Signatures() {
		want, err := Open(autoencoder, &Options{Signature: name})
		require.NoError(t, err)
		inputs, err := f.Inputs(name)
		require.NoError(t, err)
		require.Equal(t, want.Inputs(), inputs)
		m, err := f.Open(name)
		require.NoError(t, err)
		require.Equal(t, want.Inputs(), m.Inputs())
		require.Equal(t, want.Outputs(), m.Outputs())
		require.NoError(t, want.Close())
		require.NoError(t, m.Close(), "the file stays open")
		subgraph, err := m.Subgraph(models.NewMemory(m.DataMap()))
		require.NoError(t, err)
		require.NoError(t, subgraph.Delete())
	}
	_, err = f.Inputs("train")
	require.ErrorIs(t, err, ErrUnknownSignature)
	_, err = f.Open("train")
	require.ErrorIs(t, err, ErrUnknownSignature)
	require.NoError(t, f.Close())
	require.NoError(t, f.Close())
	_, err = f.Inputs("decode")
	require.ErrorIs(t, err, xpwc.ErrClosed)
	_, err = f.Open("decode")
	require.ErrorIs(t, err, xpwc.ErrClosed)
}

func TestWhatAModelDoesNotHaveIsRefusedByName(t *testing.T) {
	for name, c := range map[string]struct {
		o    Options
		want error
		says string
	}{
		"signature":     {Options{Signature: "train"}, ErrUnknownSignature, `it has ["decode" "encode"]`},
		"fixed shape":   {Options{Signature: "decode", Shapes: [][]int{{2, 3}}}, ErrShape, "the file has [1 3]"},
		"other size":    {Options{Signature: "encode", Shapes: [][]int{nil, {2, 5}}}, ErrShape, "the file has [1 4]"},
		"other rank":    {Options{Signature: "encode", Shapes: [][]int{nil, {2, 4, 1}}}, ErrShape, ""},
		"no elements":   {Options{Signature: "encode", Shapes: [][]int{nil, {0, 4}}}, ErrShape, ""},
		"beyond memory": {Options{Signature: "encode", Shapes: [][]int{nil, {1 << 40, 4}}}, ErrShape, ""},
		"too few":       {Options{Signature: "encode", Shapes: [][]int{nil}}, ErrShape, "1 shapes for 2 inputs"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Open(autoencoder, &c.o)
			require.ErrorIs(t, err, c.want)
			require.ErrorContains(t, err, c.says)
			require.ErrorContains(t, err, autoencoder)
		})
	}
}
