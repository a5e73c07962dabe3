package npy_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/models/npy"
	"xpwc/models/safetensors"
)

func TestArraysThatNumPyWroteAreRead(t *testing.T) {
	encoded := func(values any) []byte {
		b, err := binary.Append(nil, binary.LittleEndian, values)
		require.NoError(t, err)
		return b
	}
	small := safetensors.Tensor{Dtype: safetensors.I16, Shape: []int{1, 2, 1}, Data: encoded([]int16{-1, 256})}
	for name, want := range map[string]safetensors.Tensor{
		"empty": {Dtype: safetensors.U8, Shape: []int{0, 3}, Data: []byte{}},
		"kernel": {Dtype: safetensors.F32, Shape: []int{2, 3},
			Data: encoded([]float32{-2.5, -1.5, -0.5, 0.5, 1.5, 2.5})},
		"layer/bias": {Dtype: safetensors.F32, Shape: []int{2}, Data: encoded([]float32{0.5, -0.5})},
		"scalar":     {Dtype: safetensors.F64, Shape: []int{}, Data: encoded(0.5)},
		"v1":         small,
		"v2":         small,
		"v3":         small,
	} {
		content, err := os.ReadFile(filepath.Join("testdata", "reference", filepath.FromSlash(name)+".npy"))
		require.NoError(t, err)
		got, err := npy.Read(content)
		require.NoError(t, err, name)
		require.Equal(t, want, got, name)
	}
	_, err := npy.Read(nil)
	require.ErrorIs(t, err, npy.ErrMalformed)
}
