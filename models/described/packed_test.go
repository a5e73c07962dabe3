package described_test

import (
	"bytes"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/models/described"
	"xpwc/models/safetensors"
)

// counted counts how many contents are read to be compared.
type counted struct {
	xpwc.DataMap
	digests atomic.Int64
}

func (c *counted) Tensor(name string) (xpwc.Tensor, error) {
	t, err := c.DataMap.Tensor(name)
	digest := t.Identity.Digest
	t.Identity.Digest = func() (xpwc.Digest, error) {
		c.digests.Add(1)
		return digest()
	}
	return t, err
}

// packedModel writes a file with the packed and the original weights, and opens it alone.
func packedModel(t *testing.T, original *described.Model) *described.Model {
	t.Helper()
	image := filepath.Join(t.TempDir(), "cache.xpwc")
	cache, err := xpwc.Open(image, nil)
	require.NoError(t, err)
	cached(t, original, cache, original.DataMap())
	require.NoError(t, cache.Close())
	content, err := os.ReadFile(image)
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, original.File().WritePacked(&b, content, 0,
		map[string]string{described.MetadataName: original.Description()}))
	path := filepath.Join(t.TempDir(), "packed.safetensors")
	require.NoError(t, os.WriteFile(path, b.Bytes(), 0o600))
	m, err := described.Open(path, "")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m
}

func TestPackedWeightsInTheFileServeItsTensors(t *testing.T) {
	ts, description := everyUse()
	original := open(t, ts, description)
	want := plain(t, original)
	m := packedModel(t, original)
	cache, err := m.File().OpenPacked(nil)
	require.NoError(t, err)
	data := &counted{DataMap: m.DataMap()}
	require.Equal(t, want, cached(t, m, cache, data))
	require.NoError(t, cache.Close())
	stats := cache.Stats()
	require.Zero(t, stats.Packed)
	require.Empty(t, stats.Private)
	require.Positive(t, stats.Hits.Entries)
	require.Positive(t, data.digests.Load())
}

func TestADescriptionMayLieInTheFile(t *testing.T) {
	ts, description := settings()
	m := packedModel(t, open(t, ts, description))
	require.Equal(t, description, m.Description())
	path := filepath.Join(t.TempDir(), "m.safetensors")
	ts.write(t, path)
	_, err := described.Open(path, "")
	require.ErrorIs(t, err, described.ErrInvalid)
	require.ErrorContains(t, err, described.MetadataName)
	var b bytes.Buffer
	require.NoError(t, safetensors.Write(&b, ts.list,
		&safetensors.WriteOptions{Metadata: map[string]string{described.MetadataName: "{"}}))
	require.NoError(t, os.WriteFile(path, b.Bytes(), 0o600))
	_, err = described.Open(path, "")
	require.ErrorIs(t, err, described.ErrInvalid)
	require.ErrorContains(t, err, path)
}
