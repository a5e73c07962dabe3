package safetensors_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/models/safetensors"
)

// originals are tensors of several types, some of sizes that align nothing after them.
func originals() []safetensors.Tensor {
	return []safetensors.Tensor{
		{Name: "a", Dtype: safetensors.U8, Shape: []int{3}, Data: []byte{1, 2, 3}},
		{Name: "b", Dtype: safetensors.F32, Shape: []int{2, 2}, Data: bytes.Repeat([]byte{7}, 16)},
		{Name: "c", Dtype: safetensors.BF16, Shape: []int{5}, Data: bytes.Repeat([]byte{9}, 10)},
		{Name: "none", Dtype: safetensors.F64, Shape: []int{0, 4}, Data: []byte{}},
		{Name: "d", Dtype: safetensors.I64, Shape: []int{}, Data: bytes.Repeat([]byte{5}, 8)},
	}
}

func writeFile(t *testing.T, write func(*bytes.Buffer) error) *safetensors.File {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, write(&b))
	path := filepath.Join(t.TempDir(), "m.safetensors")
	require.NoError(t, os.WriteFile(path, b.Bytes(), 0o600))
	f, err := safetensors.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f
}

func TestPackedWeightsLieBesideTheTensorsUnchanged(t *testing.T) {
	original := writeFile(t, func(b *bytes.Buffer) error {
		return safetensors.Write(b, originals(),
			&safetensors.WriteOptions{Metadata: map[string]string{"format": "pt", "mine": "old"}})
	})
	for _, size := range []int{0, 1, 4096, 100_001} {
		for _, alignment := range []int{0, 8, 4096, 1 << 20} {
			t.Run(fmt.Sprint(size, " bytes aligned to ", alignment), func(t *testing.T) {
				image := bytes.Repeat([]byte("packed!"), size/7+1)[:size]
				packed := writeFile(t, func(b *bytes.Buffer) error {
					return original.WritePacked(b, image, alignment, map[string]string{"mine": "new"})
				})
				offset, n, err := packed.Section(safetensors.PackedName)
				require.NoError(t, err)
				require.EqualValues(t, size, n)
				want := max(alignment, 8)
				if alignment == 0 {
					want = 65536
				}
				require.Zero(t, offset%int64(want))
				got, ok := packed.Lookup(safetensors.PackedName)
				require.True(t, ok)
				require.True(t, bytes.Equal(image, got.Data))
				metadata := packed.Metadata()
				require.Equal(t, map[string]string{"format": "pt", "mine": "new"}, metadata)
				content, err := os.ReadFile(packed.Path())
				require.NoError(t, err)
				require.True(t, bytes.Equal(image, content[offset:][:size]))

				others := 0
				for _, tensor := range packed.Tensors() {
					if tensor.Name != safetensors.PackedName &&
						!strings.HasPrefix(tensor.Name, safetensors.PaddingPrefix) {
						others++
					}
				}
				require.Equal(t, len(originals()), others)
				for _, want := range originals() {
					got, ok := packed.Lookup(want.Name)
					require.True(t, ok)
					require.Equal(t, want.Dtype, got.Dtype)
					require.Equal(t, want.Shape, append([]int{}, got.Shape...))
					require.True(t, bytes.Equal(want.Data, got.Data))
					offset, _, err := packed.Section(want.Name)
					require.NoError(t, err)
					require.Zero(t, offset%int64(want.Dtype.Bits()/8), "elements stay aligned")
				}

				rewritten := writeFile(t,
					func(b *bytes.Buffer) error { return packed.WritePacked(b, []byte("other"), 0, nil) })
				got, _ = rewritten.Lookup(safetensors.PackedName)
				require.Equal(t, "other", string(got.Data), "it takes the old one's place")
				require.Equal(t, packed.Metadata(), rewritten.Metadata())
			})
		}
	}
	require.ErrorIs(t, original.WritePacked(new(bytes.Buffer), nil, 3, nil), safetensors.ErrInvalid)
}

func TestAFileWithoutPackedWeightsSaysSo(t *testing.T) {
	f := writeFile(t, func(b *bytes.Buffer) error { return safetensors.Write(b, originals(), nil) })
	_, err := f.OpenPacked(nil)
	require.ErrorIs(t, err, xpwc.ErrUnknownTensor)
	require.ErrorContains(t, err, f.Path())
	_, _, err = f.Section("x")
	require.ErrorIs(t, err, xpwc.ErrUnknownTensor)
}

func TestPackedWeightsThatCannotBeMappedAreAnErrorWithAWayOut(t *testing.T) {
	tensors := append(originals(), safetensors.Tensor{Name: safetensors.PackedName, Dtype: safetensors.U8,
		Shape: []int{5000}, Data: make([]byte, 5000)})
	f := writeFile(t, func(b *bytes.Buffer) error { return safetensors.Write(b, tensors, nil) })
	_, err := f.OpenPacked(nil)
	require.ErrorIs(t, err, xpwc.ErrMisaligned)
	require.ErrorContains(t, err, "65536")
}
