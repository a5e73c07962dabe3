//go:build cgo && linux

package identity

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/tests/harness"
	"xpwc/internal/tests/testkit"
)

// countedDigests returns the tensors of a data map, and counts the reads for their digests.
type countedDigests struct {
	xpwc.DataMap
	n *atomic.Int64 // look-ups compute digests at the same time
}

func (c countedDigests) Tensor(name string) (xpwc.Tensor, error) {
	t, err := c.DataMap.Tensor(name)
	if digest := t.Identity.Digest; err == nil && digest != nil {
		t.Identity.Digest = func() (xpwc.Digest, error) { c.n.Add(1); return digest() }
	}
	return t, err
}

// A modelStart is what one process does with the model at a path: it maps the model, runs it, and closes the cache.
type modelStart struct {
	digests int // tensors that were read
	stats   xpwc.Stats
	answer  []float32
}

func startWith(t *testing.T, model, cache string, o *xpwc.Options) (s modelStart) {
	t.Helper()
	c := harness.OpenCache(t, cache, o)
	var digests atomic.Int64
	s.answer = harness.ThreeLayers.Run(t, c, countedDigests{opened(t, model), &digests})
	require.NoError(t, c.Close())
	s.digests, s.stats = int(digests.Load()), c.Stats()
	return s
}

// packedModel makes a model with its cache in a directory.
func packedModel(t *testing.T, dir string, salt uint32) (model, cache string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o755))
	model, cache = filepath.Join(dir, "model.safetensors"), filepath.Join(dir, "model.xpwc")
	require.NoError(t, os.WriteFile(model, harness.Safetensors(t, harness.ThreeLayers.Weights(salt)), 0o644))
	testkit.Settled(t, model)
	if tensor, err := opened(t, model).Tensor("w1"); err != nil || tensor.Identity.Stamp == "" {
		t.Skip("files have no stamps here")
	}
	startWith(t, model, cache, nil)
	require.Zero(t, startWith(t, model, cache, nil).digests)
	return model, cache
}

func copyFile(t *testing.T, src, dst string) string {
	t.Helper()
	content, err := os.ReadFile(src)
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Dir(dst), 0o755))
	require.NoError(t, os.WriteFile(dst, content, 0o600))
	return dst
}

// believed requires that a start reads no tensor, packs nothing and writes nothing.
func (s modelStart) believed(t *testing.T, want []float32) {
	t.Helper()
	require.Zero(t, s.digests, "tensors were read")
	require.Zero(t, s.stats.Misses)
	require.Zero(t, s.stats.WrittenBytes)
	require.Equal(t, want, s.answer)
}

func TestAModelCopiedWithItsCacheIsReadOnce(t *testing.T) {
	dir, want := t.TempDir(), harness.ThreeLayers.Plain(t, harness.ThreeLayers.Weights(1))
	model, cache := packedModel(t, filepath.Join(dir, "a"), 1)
	copied := testkit.Settled(t, copyFile(t, model, filepath.Join(dir, "b", "model.safetensors")))
	copiedCache := copyFile(t, cache, filepath.Join(dir, "b", "model.xpwc"))
	first := startWith(t, copied, copiedCache, nil)
	require.NotZero(t, first.digests)
	require.Zero(t, first.stats.Misses)
	require.Equal(t, want, first.answer)
	for range 2 {
		startWith(t, copied, copiedCache, nil).believed(t, want)
	}
	startWith(t, model, cache, nil).believed(t, want)
}

// Each container may have a copy of the model, and all of them one cache.
func TestCopiesThatShareACacheAreReadOnceEach(t *testing.T) {
	dir, want := t.TempDir(), harness.ThreeLayers.Plain(t, harness.ThreeLayers.Weights(1))
	model, cache := packedModel(t, filepath.Join(dir, "a"), 1)
	models := []string{model}
	for _, dst := range []string{"b", "c", "d"} {
		copied := testkit.Settled(t, copyFile(t, model, filepath.Join(dir, dst, "model.safetensors")))
		require.NotZero(t, startWith(t, copied, cache, nil).digests)
		models = append(models, copied)
	}
	for range 2 {
		for _, model := range models {
			startWith(t, model, cache, nil).believed(t, want)
		}
	}
	t.Run("also after the file was compacted", func(t *testing.T) {
		c := harness.OpenCache(t, cache, nil)
		require.NoError(t, c.Compact())
		require.NoError(t, c.Close())
		for _, model := range models {
			startWith(t, model, cache, nil).believed(t, want)
		}
	})
	t.Run("also where one path has another copy each time", func(t *testing.T) {
		link := filepath.Join(dir, "model.safetensors")
		for range 2 {
			for _, model := range models {
				_ = os.Remove(link)
				if err := os.Symlink(model, link); err != nil {
					t.Skip(err)
				}
				startWith(t, link, cache, nil).believed(t, want)
			}
		}
	})
}

// More copies than a cache has room for are read, and compute the same.
func TestTheLatestOfManyCopiesAreTrusted(t *testing.T) {
	dir, want := t.TempDir(), harness.ThreeLayers.Plain(t, harness.ThreeLayers.Weights(1))
	model, cache := packedModel(t, filepath.Join(dir, "a"), 1)
	var copies []string
	for i := range 12 {
		copied := testkit.Settled(t, copyFile(t, model, filepath.Join(dir, string(rune('b'+i)), "model.safetensors")))
		require.Equal(t, want, startWith(t, copied, cache, nil).answer)
		copies = append(copies, copied)
	}
	for _, copied := range copies[len(copies)-8:] {
		startWith(t, copied, cache, nil).believed(t, want)
	}
	require.NotZero(t, startWith(t, copies[0], cache, nil).digests)
}

func TestAModelInARenamedDirectoryIsNotReread(t *testing.T) {
	dir, want := t.TempDir(), harness.ThreeLayers.Plain(t, harness.ThreeLayers.Weights(1))
	packedModel(t, filepath.Join(dir, "a"), 1)
	moved := filepath.Join(dir, "b")
	require.NoError(t, os.Rename(filepath.Join(dir, "a"), moved))
	startWith(t, filepath.Join(moved, "model.safetensors"), filepath.Join(moved, "model.xpwc"), nil).believed(t, want)
}

// A service may not write to the cache that was deployed for it.
func TestAVersionLinkReadsNoTensorsWithAReadOnlyCache(t *testing.T) {
	dir, current := t.TempDir(), filepath.Join(t.TempDir(), "current")
	for salt, version := range []string{"v3", "v4"} {
		packedModel(t, filepath.Join(dir, version), uint32(salt))
	}
	for range 2 {
		for salt, version := range []string{"v3", "v4"} {
			_ = os.Remove(current)
			if err := os.Symlink(filepath.Join(dir, version), current); err != nil {
				t.Skip(err)
			}
			model, cache := filepath.Join(current, "model.safetensors"), filepath.Join(current, "model.xpwc")
			want := harness.ThreeLayers.Plain(t, harness.ThreeLayers.Weights(uint32(salt)))
			startWith(t, model, cache, &xpwc.Options{ReadOnly: true}).believed(t, want)
		}
	}
}

// What is read there cannot be noted anywhere.
func TestACopyWithAReadOnlyCacheIsReadAtEachStart(t *testing.T) {
	dir, want := t.TempDir(), harness.ThreeLayers.Plain(t, harness.ThreeLayers.Weights(1))
	model, cache := packedModel(t, filepath.Join(dir, "a"), 1)
	copied := testkit.Settled(t, copyFile(t, model, filepath.Join(dir, "b", "model.safetensors")))
	require.NoError(t, os.Chmod(cache, 0o444))
	for range 2 {
		s := startWith(t, copied, cache, nil)
		require.NotZero(t, s.digests)
		require.Zero(t, s.stats.Misses)
		require.Zero(t, s.stats.WrittenBytes)
		require.Equal(t, want, s.answer)
	}
	startWith(t, model, cache, nil).believed(t, want)
}

// The stamps of a copy are of its content at that time.
func TestARewrittenCopyIsReread(t *testing.T) {
	dir := t.TempDir()
	model, cache := packedModel(t, filepath.Join(dir, "a"), 1)
	copied := testkit.Settled(t, copyFile(t, model, filepath.Join(dir, "b", "model.safetensors")))
	startWith(t, copied, cache, nil)
	harness.Overwrite(t, copied, harness.Safetensors(t, harness.ThreeLayers.Weights(2)))
	testkit.Settled(t, copied)
	for range 2 {
		require.Equal(t, harness.ThreeLayers.Plain(t, harness.ThreeLayers.Weights(2)), startWith(t, copied, cache,
			nil).answer)
		require.Equal(t, harness.ThreeLayers.Plain(t, harness.ThreeLayers.Weights(1)), startWith(t, model, cache,
			nil).answer)
	}
	startWith(t, copied, cache, nil).believed(t, harness.ThreeLayers.Plain(t, harness.ThreeLayers.Weights(2)))
}
