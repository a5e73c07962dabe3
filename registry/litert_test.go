//go:build cgo

package registry_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/require"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/registry/remote"

	"xpwc/internal/tests/registrytest"
	"xpwc/models/litert"
	"xpwc/registry"
)

// forLiteRT returns a file for LiteRT on a CPU, which LiteRT wrote.
func forLiteRT(t *testing.T, cpu string) registry.LiteRTFile {
	t.Helper()
	path := filepath.Join("..", "models", "litert", "testdata", "embedding_int8.litert_cache")
	return registry.LiteRTFile{Path: path, SHA256: sumOf(t, path), Model: strings.Repeat("a", 64),
		For: litert.Target{Version: "2.3.0", Architecture: "amd64", CPU: cpu}}
}

func sumOf(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

func pushLiteRT(t *testing.T, ref string, file registry.LiteRTFile) *registry.Pushed {
	t.Helper()
	pushed, err := registry.PushLiteRT(t.Context(), ref, file, nil)
	require.NoError(t, err)
	return pushed
}

// pullLiteRT returns what was written, also if there was an error.
func pullLiteRT(t *testing.T, ref string, target litert.Target, o *registry.Options) (string, *registry.Pulled, error) {
	t.Helper()
	out, err := os.Create(filepath.Join(t.TempDir(), "c"))
	require.NoError(t, err)
	defer out.Close()
	pulled, err := registry.PullLiteRT(t.Context(), ref, target, out, o)
	return out.Name(), pulled, err
}

func TestEachKindOfNodePullsItsFileForLiteRT(t *testing.T) {
	s := registrytest.Start(t)
	ref := s.Ref("embedding:v1")
	avx2, vnni := forLiteRT(t, "avx2"), forLiteRT(t, "avx512vnni")
	first := pushLiteRT(t, ref, avx2)
	require.NotZero(t, first.UploadedBytes)
	require.True(t, pushLiteRT(t, ref, avx2).UpToDate)
	second := pushLiteRT(t, ref, vnni)
	require.Equal(t, first.Layouts, second.Kept)
	require.Zero(t, second.UploadedBytes, "the same bytes")
	listed, err := registry.List(t.Context(), ref, nil)
	require.NoError(t, err)
	require.ElementsMatch(t, append(first.Layouts, second.Layouts...), listed)

	for _, file := range []registry.LiteRTFile{avx2, vnni} {
		path, pulled, err := pullLiteRT(t, ref, file.For, nil)
		require.NoError(t, err)
		require.Equal(t, file.SHA256, sumOf(t, path))
		require.Equal(t, file.Model, pulled.Layouts[0].Model)
		require.Equal(t, file.For.Version, pulled.Layouts[0].LiteRT)
	}
	_, pulled, err := pullLiteRT(t, ref, avx2.For, &registry.Options{Have: avx2.Path})
	require.NoError(t, err)
	require.True(t, pulled.UpToDate)

	// Another LiteRT, CPU or architecture is another layout. The error lists the layouts.
	for _, target := range []litert.Target{
		{Version: "2.4.0", Architecture: "amd64", CPU: "avx2"}, {Version: "2.3.0", Architecture: "amd64", CPU: "avx"},
		{Version: "2.3.0", Architecture: "arm64", CPU: "avx2"},
	} {
		path, _, err := pullLiteRT(t, ref, target, nil)
		require.ErrorIs(t, err, registry.ErrNoLayout)
		require.ErrorContains(t, err, target.String())
		require.ErrorContains(t, err, avx2.For.String())
		require.Empty(t, readFile(t, path))
	}
	_, _, err = pullLiteRT(t, ref, avx2.For, &registry.Options{MaxBytes: 10})
	require.ErrorIs(t, err, registry.ErrTooLarge)
	_, err = pullAt(t.Context(), ref, avx2.For.Layout(), filepath.Join(t.TempDir(), "c"), nil)
	require.ErrorIs(t, err, registry.ErrNoLayout, "it is no cache file of xpwc")
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return b
}

// LiteRT would take one model's packed weights for the other's.
func TestATagHasFilesForLiteRTOfOneModel(t *testing.T) {
	s := registrytest.Start(t)
	ref := s.Ref("embedding:v1")
	file, vnniFile := forLiteRT(t, "avx2"), forLiteRT(t, "avx512vnni")
	pushed := pushLiteRT(t, ref, file)
	vnniFile.Model = strings.Repeat("b", 64)
	_, err := registry.PushLiteRT(t.Context(), ref, vnniFile, nil)
	require.ErrorIs(t, err, registry.ErrOtherModel)
	listed, err := registry.List(t.Context(), ref, nil)
	require.NoError(t, err)
	require.Equal(t, pushed.Layouts, listed)
	pushLiteRT(t, s.Ref("embedding:v2"), vnniFile)
}

func TestWhatIsNoFileForLiteRTIsNotPushed(t *testing.T) {
	s := registrytest.Start(t)
	good := forLiteRT(t, "avx2")
	content := readFile(t, good.Path)
	stale := bytes.Clone(content)
	stale[litert.StaleAt] = 1
	dir := t.TempDir()
	written := func(name string, content []byte) registry.LiteRTFile {
		f := good
		f.Path = filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(f.Path, content, 0o600))
		f.SHA256 = sumOf(t, f.Path)
		return f
	}
	changed := good
	changed.SHA256 = strings.Repeat("0", 64)
	absent := good
	absent.Path = filepath.Join(dir, "absent")
	for name, file := range map[string]registry.LiteRTFile{
		"text": written("text", []byte("my notes")), "cut": written("cut", content[:len(content)-1]),
		"stale": written("stale", stale), "changed meanwhile": changed, "absent": absent,
	} {
		w := &wire{}
		_, err := registry.PushLiteRT(t.Context(), s.Ref("m:v1"), file, &registry.Options{Transport: w})
		require.ErrorIs(t, err, registry.ErrBadFile, name)
		require.Empty(t, w.requests, name)
	}
}

func TestADamagedFileForLiteRTIsNotPulled(t *testing.T) {
	s := registrytest.Start(t)
	ref := s.Ref("face:v1")
	file := forLiteRT(t, "avx2")
	pushLiteRT(t, ref, file)

	// What another program pushed: the digests are right, and what they are of is not.
	content := readFile(t, file.Path)
	stale := bytes.Clone(content)
	stale[litert.StaleAt] = 1
	for name, forged := range map[string][]byte{"text": bytes.Repeat([]byte("text"), len(content)/4), "stale": stale} {
		for _, kind := range []string{registry.LiteRTMediaType, registry.CacheMediaType} {
			ref := forge(t, s, 0, func(repo *remote.Repository, layer *ocispec.Descriptor) {
				pushed, err := oras.PushBytes(t.Context(), repo, kind, forged)
				require.NoError(t, err)
				*layer = pushed
			})
			_, _, err := pullLiteRT(t, ref, file.For, nil)
			require.ErrorIs(t, err, registry.ErrDamaged, name)
		}
	}

	// Damage in a payload, which no checksum of LiteRT's covers.
	blobs := s.Blobs(t, 0)
	index := slices.IndexFunc(blobs, func(path string) bool { return strings.Contains(path, file.SHA256) })
	require.GreaterOrEqual(t, index, 0)
	content[200] ^= 1
	require.NoError(t, os.WriteFile(blobs[index], content, 0o600))
	_, _, err := pullLiteRT(t, ref, file.For, nil)
	require.ErrorIs(t, err, registry.ErrDamaged)
}

// Nodes with LiteRT and those with xpwc pull from one tag.
func TestATagHasFilesForLiteRTBesideThoseOfXpwc(t *testing.T) {
	s := registrytest.Start(t)
	ref := s.Ref("face:v1")
	cache, _ := pack(t)
	file := forLiteRT(t, "avx2")
	native := push(t, ref, cache)
	pushed := pushLiteRT(t, ref, file)
	require.Equal(t, native.Layouts, pushed.Kept)
	require.Equal(t, pushed.Layouts, push(t, ref, cache).Kept)

	path, _, err := pullLiteRT(t, ref, file.For, nil)
	require.NoError(t, err)
	require.Equal(t, file.SHA256, sumOf(t, path))
	pulled, err := pullAt(t.Context(), ref, layoutOf(t, cache), filepath.Join(t.TempDir(), "c.xpwc"), nil)
	require.NoError(t, err)
	require.Equal(t, native.Layouts, pulled.Layouts)
}
