//go:build cgo

package registry_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/require"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/registry/remote"

	"xpwc/cachefile"
	"xpwc/internal/output"
	"xpwc/internal/tests/registrytest"
	"xpwc/registry"
	"xpwc/xnnpack"
)

func push(t *testing.T, ref string, files ...string) *registry.Pushed {
	t.Helper()
	pushed, err := registry.Push(t.Context(), ref, files, nil)
	require.NoError(t, err)
	return pushed
}

func TestAModelLoadedFromAPulledCachePacksNothing(t *testing.T) {
	s := registrytest.Start(t)
	cache, outputs := pack(t)
	layout := layoutOf(t, cache)
	pushed := push(t, s.Ref("face:v1"), cache)
	require.Len(t, pushed.Layouts, 1)
	require.Equal(t, layout, pushed.Layouts[0].Fingerprint)
	require.Positive(t, pushed.UploadedBytes)

	var done, total int64
	file := filepath.Join(t.TempDir(), "pulled.xpwc")
	progress := func(d, size int64) { done, total = d, size }
	pulled, err := pullAt(t.Context(), s.Ref("face:v1"), layout, file, &registry.Options{Progress: progress})
	require.NoError(t, err)
	require.Equal(t, pushed.Digest, pulled.Digest)
	require.Equal(t, pushed.Layouts, pulled.Layouts)
	require.Equal(t, pushed.UploadedBytes, done)
	require.Equal(t, done, total)
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	requireAlone(t, file)

	got, stats := run(t, modelFile(t), file)
	require.Equal(t, outputs, got)
	require.Zero(t, stats.Packed)
	require.Zero(t, stats.Misses)
	require.Empty(t, stats.Private)
	// That first load noted where the model lies here. The next ones only read.
	first, err := os.ReadFile(file)
	require.NoError(t, err)
	got, stats = run(t, modelFile(t), file)
	require.Equal(t, outputs, got)
	require.Zero(t, stats.WrittenBytes)
	second, err := os.ReadFile(file)
	require.NoError(t, err)
	require.True(t, bytes.Equal(first, second))
	for e := range entriesOf(t, file) {
		require.NotZero(t, e.KernelStamp, e.Name)
		require.NotZero(t, e.Source, e.Name)
	}
}

// requireAlone checks that there is nothing next to a file.
func requireAlone(t *testing.T, file string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(file))
	require.NoError(t, err)
	require.Len(t, entries, 1, "%v", entries)
}

func entriesOf(t *testing.T, cache string) map[cachefile.Entry]bool {
	t.Helper()
	f, err := cachefile.Open(cache)
	require.NoError(t, err)
	defer f.Close()
	entries := map[cachefile.Entry]bool{}
	for e, err := range f.Entries() {
		require.NoError(t, err)
		entries[e] = true
	}
	return entries
}

func TestPushingAgainUploadsNothing(t *testing.T) {
	s := registrytest.Start(t)
	cache, _ := pack(t)
	first := push(t, s.Ref("face:v1"), cache)
	require.NotZero(t, first.UploadedBytes)
	file := filepath.Join(t.TempDir(), "pulled.xpwc")
	_, err := pullAt(t.Context(), s.Ref("face:v1"), layoutOf(t, cache), file, nil)
	require.NoError(t, err)
	run(t, modelFile(t), file) // which makes a second generation of it

	elsewhere := filepath.Join(t.TempDir(), filepath.Base(modelFile(t)))
	content, err := os.ReadFile(modelFile(t))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(elsewhere, content, 0o600))

	for name, files := range map[string][]string{
		"the same file":                            {cache},
		"a pulled file that was used":              {file},
		"the same model packed elsewhere":          {packOn(t, "native", elsewhere)},
		"both":                                     {file, cache},
		"the same file under another tag's digest": {cache, cache},
	} {
		t.Run(name, func(t *testing.T) {
			w := &wire{}
			repeated, err := registry.Push(t.Context(), s.Ref("face:v1"), files, &registry.Options{Transport: w})
			require.NoError(t, err)
			require.Equal(t, first.Digest, repeated.Digest)
			require.Zero(t, repeated.UploadedBytes)
			require.Zero(t, w.requests[http.MethodPut]+w.requests[http.MethodPost]+w.requests[http.MethodPatch],
				"%v", w.requests)
		})
	}
	w := &wire{}
	second, err := registry.Push(t.Context(), s.Ref("face:v2"), []string{cache}, &registry.Options{Transport: w})
	require.NoError(t, err)
	require.Equal(t, first.Digest, second.Digest)
	require.Zero(t, second.UploadedBytes)
	require.Equal(t, 1, w.requests[http.MethodPut], "the tag alone: %v", w.requests)
	require.Zero(t, w.requests[http.MethodPost], "%v", w.requests)
}

// otherSizes is a transport to a registry that reports another size of every file.
type otherSizes struct{ uploads atomic.Int64 }

func (o *otherSizes) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(r)
	if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/blobs/uploads/") {
		o.uploads.Add(1)
	}
	if err == nil && r.Method == http.MethodHead && strings.Contains(r.URL.Path, "/blobs/") {
		resp.ContentLength = 1
		resp.Header.Set("Content-Length", "1")
	}
	return resp, err
}

// What a registry has under a digest and in another size is not what was pushed: it is pushed again.
func TestAPushDoesNotBelieveARegistryThatSaysAnotherSize(t *testing.T) {
	s := registrytest.Start(t)
	cache, _ := pack(t)
	push(t, s.Ref("face:v1"), cache)
	w := &otherSizes{}
	_, err := registry.Push(t.Context(), s.Ref("face:v2"), []string{cache}, &registry.Options{Transport: w})
	require.NoError(t, err)
	require.Positive(t, w.uploads.Load())
}

func TestEachKindOfNodeAddsItsLayoutAndPullsItsOwn(t *testing.T) {
	s := registrytest.Start(t)
	ref := s.Ref("models/face:v1")
	local, outputs := pack(t)
	remote := packOn(t, lesser, modelFile(t))
	mine, theirs := layoutOf(t, local), layoutOf(t, remote)
	require.NotEqual(t, mine, theirs)

	// A node of which there is nothing yet.
	first := push(t, ref, remote)
	missing := filepath.Join(t.TempDir(), "none.xpwc")
	_, err := pullAt(t.Context(), ref, mine, missing, nil)
	require.ErrorIs(t, err, registry.ErrNoLayout)
	require.ErrorContains(t, err, theirs.String(), "it lists what there is")
	require.ErrorContains(t, err, mine.String())
	require.NoFileExists(t, missing)

	second := push(t, ref, local)
	require.Equal(t, first.Layouts, second.Kept)
	listed, err := registry.List(t.Context(), ref, nil)
	require.NoError(t, err)
	require.ElementsMatch(t, append(first.Layouts, second.Layouts...), listed)

	file := filepath.Join(t.TempDir(), "c.xpwc")
	_, err = pullAt(t.Context(), ref, mine, file, nil)
	require.NoError(t, err)
	require.Equal(t, mine, layoutOf(t, file))
	got, stats := run(t, modelFile(t), file)
	require.Equal(t, outputs, got)
	require.Zero(t, stats.Packed)
	_, err = pullAt(t.Context(), ref, theirs, file, nil)
	require.NoError(t, err)
	require.Equal(t, theirs, layoutOf(t, file))

	// What a digest leads to stays.
	repository, _, _ := strings.Cut(ref, ":v1")
	_, err = pullAt(t.Context(), repository+"@"+first.Digest, mine, file, nil)
	require.ErrorIs(t, err, registry.ErrNoLayout)

	// What was pulled is pushed again: nothing is new.
	requireAlone(t, file)
	problems, err := cachefile.Verify(file, nil)
	require.NoError(t, err)
	require.Empty(t, problems)
	repeated := push(t, ref, file)
	require.Equal(t, second.Digest, repeated.Digest)
	require.Zero(t, repeated.UploadedBytes)

	// A layout that is there already is replaced.
	part := filepath.Join(t.TempDir(), "part.xpwc")
	writePart(t, local, part, 0)
	replaced := push(t, ref, part)
	require.Equal(t, first.Layouts, replaced.Kept)
	require.Less(t, replaced.Layouts[0].Entries, second.Layouts[0].Entries)
	listed, err = registry.List(t.Context(), ref, nil)
	require.NoError(t, err)
	require.ElementsMatch(t, append(first.Layouts, replaced.Layouts...), listed)
}

func TestAPushBetweenReadingAndTaggingIsNotLost(t *testing.T) {
	s := registrytest.Start(t)
	ref := s.Ref("face:v1")
	local, _ := pack(t)
	remote := packOn(t, lesser, modelFile(t))
	w := &wire{}
	var between *registry.Pushed
	w.request = func(r *http.Request) {
		// The first upload of a blob: the tag was read, and not yet written.
		if r.Method == http.MethodPost && between == nil {
			between = push(t, ref, remote)
		}
	}
	pushed, err := registry.Push(t.Context(), ref, []string{local}, &registry.Options{Transport: w})
	require.NoError(t, err)
	require.NotNil(t, between)
	require.Equal(t, between.Layouts, pushed.Kept)
	listed, err := registry.List(t.Context(), ref, nil)
	require.NoError(t, err)
	require.ElementsMatch(t, append(between.Layouts, pushed.Layouts...), listed)

	// One that comes in between every time is reported, and not waited for without end.
	tag := s.Ref("busy:v1")
	parts := []string{filepath.Join(t.TempDir(), "odd.xpwc"), filepath.Join(t.TempDir(), "even.xpwc")}
	for i, part := range parts {
		writePart(t, local, part, i)
	}
	n := 0
	w = &wire{response: func(r *http.Request) {
		if r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/manifests/v1") {
			push(t, tag, parts[n%2]) // the same layout with other entries
			n++
		}
	}}
	_, err = registry.Push(t.Context(), tag, []string{local}, &registry.Options{Transport: w})
	require.ErrorIs(t, err, registry.ErrConcurrent)
	require.Greater(t, n, 1)
}

// Each kind of machine pushes its layout to one tag, when all of them have packed.
func TestPushesAtOnceKeepEachOthersLayouts(t *testing.T) {
	s := registrytest.Start(t)
	var caches []string
	layouts := map[registry.Fingerprint]bool{}
	for _, level := range xnnpack.CPULevels() {
		if len(caches) == 3 {
			break
		}
		cache := packOn(t, level, modelFile(t))
		if layout := layoutOf(t, cache); !layouts[layout] {
			layouts[layout] = true
			caches = append(caches, cache)
		}
	}
	rounds := 5
	if !testing.Short() {
		rounds = 40
	}
	for round := range rounds {
		ref := s.Ref(fmt.Sprintf("face:v%d", round))
		ended := make(chan error, len(caches))
		for _, cache := range caches {
			go func() {
				_, err := registry.Push(t.Context(), ref, []string{cache}, nil)
				ended <- err
			}()
		}
		for range caches {
			require.NoError(t, <-ended)
		}
		listed, err := registry.List(t.Context(), ref, nil)
		require.NoError(t, err)
		require.Len(t, listed, len(caches), "round %d", round)
	}
}

// Docker's registry finds a blob through a file that it empties and writes again when the blob is pushed again.
func TestABlobThatAnotherPushIsAboutToWriteIsWaitedFor(t *testing.T) {
	s := registrytest.Start(t)
	cache, _ := pack(t)
	ref := s.Ref("face:v1")
	links := map[string][]byte{}
	ofManifest := func(r *http.Request) bool {
		return r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/manifests/sha256:")
	}
	w := &wire{request: func(r *http.Request) {
		if !ofManifest(r) || len(links) > 0 {
			return
		}
		layers := filepath.Join(s.Dir, "docker/registry/v2/repositories/face/_layers/sha256")
		paths, err := filepath.Glob(filepath.Join(layers, "*/link"))
		require.NoError(t, err)
		for _, path := range paths {
			links[path], err = os.ReadFile(path)
			require.NoError(t, err)
			require.NoError(t, os.Truncate(path, 0))
		}
	}, response: func(r *http.Request) {
		if !ofManifest(r) {
			return
		}
		for path, b := range links {
			require.NoError(t, os.WriteFile(path, b, 0o600))
		}
	}}
	pushed, err := registry.Push(t.Context(), ref, []string{cache}, &registry.Options{Transport: w})
	require.NoError(t, err)
	require.NotEmpty(t, links)
	listed, err := registry.List(t.Context(), ref, nil)
	require.NoError(t, err)
	require.Equal(t, pushed.Layouts, listed)
}

// writePart makes a cache file of every second entry of another.
func writePart(t *testing.T, cache, part string, first int) {
	t.Helper()
	f, err := cachefile.Open(cache)
	require.NoError(t, err)
	defer f.Close()
	n := first
	keep := func(cachefile.Entry) bool { n++; return n%2 == 0 }
	require.NoError(t, output.Write(part, func(w *os.File) error {
		return f.Write(w, keep, cachefile.WriteOptions{})
	}))
}

func TestARegistryThatIsAwayOrHasNothingIsToldPlainly(t *testing.T) {
	s := registrytest.Start(t)
	cache, _ := pack(t)
	file := filepath.Join(t.TempDir(), "c.xpwc")
	for _, ref := range []string{s.Ref("nothing:v1"), s.Ref("nothing@sha256:" + strings.Repeat("0", 64))} {
		_, err := pullAt(t.Context(), ref, layoutOf(t, cache), file, nil)
		require.ErrorIs(t, err, registry.ErrNotFound)
		require.ErrorContains(t, err, ref)
	}
	_, err := registry.Tags(t.Context(), s.Ref("nothing"), nil)
	require.ErrorIs(t, err, registry.ErrNotFound)
	s.Stop()
	_, err = pullAt(t.Context(), s.Ref("face:v1"), layoutOf(t, cache), file, nil)
	require.ErrorContains(t, err, s.Host)
	require.ErrorContains(t, err, "connection refused")
	_, err = registry.Push(t.Context(), s.Ref("face:v1"), []string{cache}, nil)
	require.ErrorContains(t, err, "connection refused")
	require.NoFileExists(t, file)
	for _, ref := range []string{
		"", "face", "face:v1", s.Host, s.Host + "/UPPER:v1", s.Host + "/face:", s.Host + "/face@sha256:12",
	} {
		_, err := registry.List(t.Context(), ref, nil)
		require.Error(t, err, ref)
	}
}

func TestAnInterruptedPullLeavesNothing(t *testing.T) {
	s := registrytest.Start(t)
	cache, _ := pack(t)
	push(t, s.Ref("face:v1"), cache)
	ctx, cancel := context.WithCancel(t.Context())
	dir := t.TempDir()
	_, err := pullAt(ctx, s.Ref("face:v1"), layoutOf(t, cache), filepath.Join(dir, "c.xpwc"),
		&registry.Options{Progress: func(int64, int64) { cancel() }})
	require.ErrorIs(t, err, context.Canceled)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries)
}

// Tools find the packed weights of a model from the model, and copy or delete them with it.
func TestPackedWeightsReferToTheirModel(t *testing.T) {
	s := registrytest.Start(t)
	cache, _ := pack(t)
	second := packOn(t, lesser, modelFile(t))
	repo, err := remote.NewRepository(s.Ref("face"))
	require.NoError(t, err)
	repo.PlainHTTP = true
	model, err := oras.PackManifest(t.Context(), repo, oras.PackManifestVersion1_1, "application/vnd.example.model",
		oras.PackManifestOptions{})
	require.NoError(t, err)
	require.NoError(t, repo.Tag(t.Context(), model, "v1"))

	pushed, err := registry.Push(t.Context(), s.Ref("face:packed"), []string{cache}, &registry.Options{Subject: "v1"})
	require.NoError(t, err)
	require.Equal(t, model.Digest.String(), pushed.Subject)
	referrers := func() (digests []string) {
		collect := func(ds []ocispec.Descriptor) error {
			for _, d := range ds {
				digests = append(digests, d.Digest.String())
			}
			return nil
		}
		require.NoError(t, repo.Referrers(t.Context(), model, registry.ArtifactType, collect))
		return digests
	}
	require.Equal(t, []string{pushed.Digest}, referrers())
	require.Equal(t, pushed.Digest, push(t, s.Ref("face:packed"), cache).Digest, "nothing is new")

	added := push(t, s.Ref("face:packed"), second) // another node, which need not know the model's tag
	require.Equal(t, model.Digest.String(), added.Subject)
	require.Contains(t, referrers(), added.Digest)

	_, err = registry.Push(t.Context(), s.Ref("face:packed"), []string{cache}, &registry.Options{Subject: "v9"})
	require.ErrorIs(t, err, registry.ErrNotFound)
	require.ErrorContains(t, err, "subject v9")
}
