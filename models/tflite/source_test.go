//go:build cgo

package tflite

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/tests/modeltest"
	"xpwc/models"
	"xpwc/models/inference"
)

const segmentation = "selfie_segmentation.tflite"

// archived returns an open zip that has content without compression, and where.
func archived(t *testing.T, content []byte) (f *os.File, offset int64) {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "assets.zip"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	z := zip.NewWriter(f)
	w, err := z.CreateHeader(&zip.FileHeader{Name: "model.tflite", Method: zip.Store})
	require.NoError(t, err)
	_, err = w.Write(content)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	info, err := f.Stat()
	require.NoError(t, err)
	r, err := zip.NewReader(f, info.Size())
	require.NoError(t, err)
	offset, err = r.File[0].DataOffset()
	require.NoError(t, err)
	return f, offset
}

// answers loads a model and returns its outputs, and how many weights were packed.
func answers(t *testing.T, s models.Source, cacheFile string, input []float32) (outputs []any, packed int64) {
	t.Helper()
	m, err := LoadSource(s, cacheFile, &Options{Options: inference.Options{CacheFrom: 1}})
	require.NoError(t, err)
	values, err := m.Run(t.Context(), input)
	require.NoError(t, err)
	for _, v := range values {
		outputs = append(outputs, v.Data)
	}
	require.NoError(t, m.Close())
	return outputs, int64(m.Cache().Stats().Packed.Entries)
}

func TestModelsInMemoryAndInOtherFilesAnswerAndShareAFile(t *testing.T) {
	path := modelPath(t, segmentation)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	input := make([]float32, 256*256*3)
	var want []any
	for _, output := range modeltest.Run(t, openModel(t, path), input) {
		want = append(want, output)
	}
	archive, offset := archived(t, content)
	require.NotZero(t, offset%16, "its tensors lie elsewhere than in a file of its own")
	file := filepath.Join(t.TempDir(), "model.xpwc")
	for i, s := range []models.Source{
		models.Bytes("embedded", content),
		models.Bytes("embedded", content),
		models.Reader("decrypted", bytes.NewReader(content), int64(len(content))),
		models.Section(archive, offset, int64(len(content))),
	} {
		got, packed := answers(t, s, file, input)
		require.Equal(t, want, got, s.Name())
		require.Equal(t, i == 0, packed > 0, "%d: %s", i, s.Name())
	}
}

// negated returns a model with other weights, as another training has.
func negated(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	m := openModel(t, path)
	for _, c := range m.data.constants {
		if p := c.place(); p.Size > 1000 && p.Size%2 == 0 {
			for i := p.Offset; i < p.Offset+p.Size; i += 2 {
				half := content[i:][:2]
				binary.LittleEndian.PutUint16(half, binary.LittleEndian.Uint16(half)^0x8000)
			}
		}
	}
	return content
}

func TestAModelInMemoryNeverGetsTheWeightsOfAnotherOfItsName(t *testing.T) {
	path := modelPath(t, segmentation)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	input := make([]float32, 256*256*3)
	for i := range input {
		input[i] = float32(i%251) / 251
	}
	file := filepath.Join(t.TempDir(), "model.xpwc")
	old, _ := answers(t, models.Bytes("embedded", content), file, input)
	retrained := negated(t, path)
	want, _ := answers(t, models.Bytes("embedded", retrained), "", input)
	require.NotEqual(t, old, want)
	got, packed := answers(t, models.Bytes("embedded", retrained), file, input)
	require.Equal(t, want, got)
	require.NotZero(t, packed)
	got, _ = answers(t, models.Bytes("embedded", content), file, input)
	require.Equal(t, old, got)
}

func TestModelsOfOneNameThatLoadAtOnceGetTheirOwnWeights(t *testing.T) {
	path := modelPath(t, segmentation)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	sources := []models.Source{models.Bytes("embedded", content), models.Bytes("embedded", negated(t, path))}
	input := make([]float32, 256*256*3)
	for i := range input {
		input[i] = float32(i%251) / 251
	}
	var want [2][]any
	for i, s := range sources {
		want[i], _ = answers(t, s, "", input)
	}
	file := filepath.Join(t.TempDir(), "model.xpwc")
	for i := range 8 {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			got, _ := answers(t, sources[i%2], file, input)
			require.Equal(t, want[i%2], got)
		})
	}
}

func TestTheBytesOfAModelMayChangeOnceItIsOpen(t *testing.T) {
	path := modelPath(t, segmentation)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	input := make([]float32, 256*256*3)
	want := modeltest.Run(t, openModel(t, path), input)
	m, err := OpenSource(models.Bytes("overwritten", content), nil)
	require.NoError(t, err)
	defer m.Close()
	clear(content)
	require.Equal(t, want, modeltest.Run(t, m, input))
}

func TestASourceWithoutAModelIsAnErrorWithItsName(t *testing.T) {
	for _, c := range []struct {
		source models.Source
		want   error
	}{
		{models.Bytes("text", []byte("no model")), ErrMalformed},
		{models.Bytes("nothing", nil), ErrMalformed},
		{models.Reader("cut off", bytes.NewReader(make([]byte, 10)), 20), io.ErrUnexpectedEOF},
	} {
		_, err := OpenSource(c.source, nil)
		require.ErrorIs(t, err, c.want)
		require.ErrorContains(t, err, c.source.Name())
	}
	archive, offset := archived(t, []byte("no model"))
	_, err := OpenSource(models.Section(archive, offset, 1<<40), nil)
	require.ErrorIs(t, err, ErrMalformed)
	require.ErrorContains(t, err, archive.Name())
	whole, err := os.Open(modelPath(t, segmentation))
	require.NoError(t, err)
	defer whole.Close()
	_, err = OpenSource(models.Section(whole, 0, 0), nil)
	require.ErrorIs(t, err, ErrMalformed, "no bytes are not the whole file")
	require.ErrorContains(t, err, whole.Name())
	_, err = LoadSource(models.Source{}, "", nil)
	require.Error(t, err)
}
