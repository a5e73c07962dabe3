//go:build cgo

package registry_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/require"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/registry/remote"

	"xpwc/internal/tests/registrytest"
	"xpwc/registry"
)

func TestADamagedBlobIsRefusedAndNothingAppears(t *testing.T) {
	s := registrytest.Start(t)
	cache, _ := pack(t)
	layout := layoutOf(t, cache)
	push(t, s.Ref("face:v1"), cache)
	blobs := s.Blobs(t, 64<<10)
	require.Len(t, blobs, 1)
	whole, err := os.ReadFile(blobs[0])
	require.NoError(t, err)
	saved := filepath.Join(t.TempDir(), "kept.xpwc")
	_, err = pullAt(t.Context(), s.Ref("face:v1"), layout, saved, nil)
	require.NoError(t, err)
	original, err := os.ReadFile(saved)
	require.NoError(t, err)

	flip := func(offset int) []byte {
		b := bytes.Clone(whole)
		b[offset] ^= 1
		return b
	}
	for name, content := range map[string][]byte{
		"a bit of a payload":                           flip(len(whole) / 2),
		"a bit that no checksum of the cache file has": flip(300),
		"its end": whole[:len(whole)-1],
		"more":    append(bytes.Clone(whole), 0),
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, os.WriteFile(blobs[0], content, 0o600))
			file := filepath.Join(t.TempDir(), "c.xpwc")
			_, err := pullAt(t.Context(), s.Ref("face:v1"), layout, file, nil)
			require.Error(t, err)
			if len(content) == len(whole) {
				require.ErrorIs(t, err, registry.ErrDamaged)
			}
			entries, err := os.ReadDir(filepath.Dir(file))
			require.NoError(t, err)
			require.Empty(t, entries)

			_, err = pullAt(t.Context(), s.Ref("face:v1"), layout, saved, nil)
			require.Error(t, err)
			reread, err := os.ReadFile(saved)
			require.NoError(t, err)
			require.True(t, bytes.Equal(original, reread), "what was there stays")
			requireAlone(t, saved)
		})
	}
}

// forge tags, as face:forged, what face:v1 has with another layer of its one layout, with a size of so many
// bytes; of its own size if the size is 0. All digests are right. It returns the reference.
func forge(t *testing.T, s *registrytest.Server, said int64, change func(*remote.Repository, *ocispec.Descriptor),
) (ref string) {
	t.Helper()
	repo, err := remote.NewRepository(s.Ref("face:v1"))
	require.NoError(t, err)
	repo.PlainHTTP = true
	_, b, err := oras.FetchBytes(t.Context(), repo, "v1", oras.DefaultFetchBytesOptions)
	require.NoError(t, err)
	var index ocispec.Index
	require.NoError(t, json.Unmarshal(b, &index))
	b, err = content.FetchAll(t.Context(), repo, index.Manifests[0])
	require.NoError(t, err)
	var manifest ocispec.Manifest
	require.NoError(t, json.Unmarshal(b, &manifest))
	change(repo, &manifest.Layers[0])
	b, err = json.Marshal(manifest)
	require.NoError(t, err)
	pushed, err := oras.PushBytes(t.Context(), repo, ocispec.MediaTypeImageManifest, b)
	require.NoError(t, err)
	listed := &index.Manifests[0]
	listed.Digest, listed.Size = pushed.Digest, pushed.Size
	if said != 0 {
		listed.Annotations["dev.xpwc.file-bytes"] = strconv.FormatInt(said, 10)
	}
	b, err = json.Marshal(index)
	require.NoError(t, err)
	_, err = oras.TagBytes(t.Context(), repo, ocispec.MediaTypeImageIndex, b, "forged")
	require.NoError(t, err)
	return s.Ref("face:forged")
}

// What another program pushed, or one that is broken: the digests are right, and what they are of is not.
func TestABlobThatIsNotWhatItIsSaidToBeIsRefused(t *testing.T) {
	s := registrytest.Start(t)
	cache, _ := pack(t)
	layout := layoutOf(t, cache)
	push(t, s.Ref("face:v1"), cache)
	blobs := s.Blobs(t, 64<<10)
	require.Len(t, blobs, 1)
	whole, err := os.ReadFile(blobs[0])
	require.NoError(t, err)
	damaged := bytes.Clone(whole)
	damaged[len(whole)/2] ^= 1
	another, err := os.ReadFile(packOn(t, lesser, modelFile(t)))
	require.NoError(t, err)

	for name, blob := range map[string][]byte{
		"damaged": damaged, "of another layout": another, "no cache file": []byte("something else"),
	} {
		t.Run(name, func(t *testing.T) {
			ref := forge(t, s, int64(len(blob)), func(repo *remote.Repository, layer *ocispec.Descriptor) {
				pushed, err := oras.PushBytes(t.Context(), repo, registry.CacheMediaType, blob)
				require.NoError(t, err)
				layer.Digest, layer.Size = pushed.Digest, pushed.Size
			})
			file := filepath.Join(t.TempDir(), "c.xpwc")
			_, err := pullAt(t.Context(), ref, layout, file, nil)
			require.ErrorIs(t, err, registry.ErrDamaged)
			entries, err := os.ReadDir(filepath.Dir(file))
			require.NoError(t, err)
			require.Empty(t, entries)
		})
	}
}

func TestPushRefusesWhatIsNoSoundCache(t *testing.T) {
	s := registrytest.Start(t)
	cache, _ := pack(t)
	content, err := os.ReadFile(cache)
	require.NoError(t, err)
	content[8192] ^= 1 // in a payload
	dir := t.TempDir()
	write := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, content, 0o600))
		return path
	}
	for _, path := range []string{
		write("damaged.xpwc", content), write("text", []byte("text")), write("empty", nil),
		filepath.Join(dir, "nothing"), dir,
	} {
		w := &wire{}
		_, err := registry.Push(t.Context(), s.Ref("face:v1"), []string{cache, path}, &registry.Options{Transport: w})
		require.ErrorIs(t, err, registry.ErrBadFile, path)
		require.ErrorContains(t, err, path)
		require.Empty(t, w.requests)
	}
	_, err = registry.Push(t.Context(), s.Ref("face@sha256:"+strings.Repeat("0", 64)), []string{cache}, nil)
	require.ErrorIs(t, err, registry.ErrDigestReference)
}

func TestOtherArtifactsAreLeftAlone(t *testing.T) {
	s := registrytest.Start(t)
	cache, _ := pack(t)
	repo, err := remote.NewRepository(s.Ref("app"))
	require.NoError(t, err)
	repo.PlainHTTP = true
	image, err := oras.PackManifest(t.Context(), repo, oras.PackManifestVersion1_0, "application/vnd.example.app",
		oras.PackManifestOptions{})
	require.NoError(t, err)
	require.NoError(t, repo.Tag(t.Context(), image, "v1"))

	_, err = registry.Push(t.Context(), s.Ref("app:v1"), []string{cache}, nil)
	require.ErrorIs(t, err, registry.ErrOtherArtifact)
	_, err = pullAt(t.Context(), s.Ref("app:v1"), layoutOf(t, cache), filepath.Join(t.TempDir(), "c"), nil)
	require.ErrorIs(t, err, registry.ErrOtherArtifact)
	_, err = registry.List(t.Context(), s.Ref("app:v1"), nil)
	require.ErrorIs(t, err, registry.ErrOtherArtifact)
	resolved, err := repo.Resolve(t.Context(), "v1")
	require.NoError(t, err)
	require.Equal(t, image.Digest, resolved.Digest)
}
