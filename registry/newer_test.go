//go:build cgo

package registry_test

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/require"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/registry/remote"

	"xpwc/internal/tests/registrytest"
	"xpwc/registry"
)

// withNewer adds to face:v1 what a later version of this program might have pushed there: each of its layouts, and
// another one, in version 9 of the format, and a layout with fewer annotations.
func withNewer(t *testing.T, s *registrytest.Server) (another registry.Fingerprint) {
	t.Helper()
	another = registry.Fingerprint{0: 0xfe}
	repo, b := fetched(t, s.Ref("face:v1"))
	var index ocispec.Index
	require.NoError(t, json.Unmarshal(b, &index))
	var newer []ocispec.Descriptor
	add := func(desc ocispec.Descriptor, change func(annotations map[string]string)) {
		desc.Annotations = maps.Clone(desc.Annotations)
		desc.Annotations["dev.xpwc.format"] = "9"
		change(desc.Annotations)
		b, err := json.Marshal(ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2},
			MediaType: ocispec.MediaTypeImageManifest, ArtifactType: desc.ArtifactType,
			Config: ocispec.DescriptorEmptyJSON, Annotations: desc.Annotations,
			Layers: []ocispec.Descriptor{ocispec.DescriptorEmptyJSON}})
		require.NoError(t, err)
		pushed, err := oras.PushBytes(t.Context(), repo, ocispec.MediaTypeImageManifest, b)
		require.NoError(t, err)
		desc.Digest, desc.Size = pushed.Digest, pushed.Size
		newer = append(newer, desc)
	}
	_, err := oras.PushBytes(t.Context(), repo, ocispec.MediaTypeEmptyJSON, ocispec.DescriptorEmptyJSON.Data)
	require.NoError(t, err)
	for _, m := range index.Manifests {
		add(m, func(map[string]string) {})
	}
	add(index.Manifests[0], func(a map[string]string) { a["dev.xpwc.layout"] = another.String() })
	add(index.Manifests[0], func(a map[string]string) { a["dev.xpwc.layout"] = "of a new kind" })
	index.Manifests = append(newer, index.Manifests...)
	b, err = json.Marshal(index)
	require.NoError(t, err)
	_, err = oras.TagBytes(t.Context(), repo, ocispec.MediaTypeImageIndex, b, "v1")
	require.NoError(t, err)
	return another
}

func TestATagWithNewerLayoutsIsOfUseAsFarAsItIsUnderstood(t *testing.T) {
	s := registrytest.Start(t)
	ref := s.Ref("face:v1")
	cache, outputs := pack(t)
	layout := layoutOf(t, cache)
	push(t, ref, cache)
	another := withNewer(t, s)

	file := filepath.Join(t.TempDir(), "pulled.xpwc")
	_, err := pullAt(t.Context(), ref, layout, file, nil)
	require.NoError(t, err)
	got, stats := run(t, modelFile(t), file)
	require.Equal(t, outputs, got)
	require.Zero(t, stats.Packed)

	_, err = pullAt(t.Context(), ref, another, file, nil)
	require.ErrorIs(t, err, registry.ErrVersion)
	require.ErrorContains(t, err, "version 9")

	// What is pushed to it leaves all that in place.
	listed := func() string {
		layouts, err := registry.List(t.Context(), ref, nil)
		require.NoError(t, err)
		b, err := json.Marshal(layouts)
		require.NoError(t, err)
		return string(b)
	}
	prev := listed()
	require.Equal(t, 2, strings.Count(prev, `"format_version":9`))
	pushed := push(t, ref, packOn(t, lesser, modelFile(t)))
	require.Len(t, pushed.Kept, 3)
	require.Equal(t, 2, strings.Count(listed(), `"format_version":9`))
	_, index := fetched(t, ref)
	require.Contains(t, string(index), "of a new kind")
}

// fetched returns the index that a tag leads to.
func fetched(t *testing.T, ref string) (*remote.Repository, []byte) {
	t.Helper()
	repo, err := remote.NewRepository(ref)
	require.NoError(t, err)
	repo.PlainHTTP = true
	_, b, err := oras.FetchBytes(t.Context(), repo, repo.Reference.Reference, oras.DefaultFetchBytesOptions)
	require.NoError(t, err)
	return repo, b
}
