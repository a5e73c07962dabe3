package files

import (
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/digest"
	"xpwc/internal/format"
	"xpwc/internal/tests/harness"
)

// sourced makes a cache file with an entry for each name, whose tensor has the source.
func sourced(t *testing.T, sources map[string]string) (path string) {
	t.Helper()
	path = harness.Path(t)
	tensors := harness.TensorMap{}
	contents := map[string][]byte{}
	for name, source := range sources {
		contents[name] = harness.Content(name, 100)
		tensors[name] = xpwc.Tensor{Data: contents[name], Identity: xpwc.Identity{Source: source}}
	}
	c := harness.Open(t, path, nil)
	s, err := c.NewSession(tensors)
	require.NoError(t, err)
	harness.PackSession(t, s, contents).MustClose(t)
	require.NoError(t, c.Close())
	return path
}

func TestASourceIsNamedByItsFileName(t *testing.T) {
	want := map[string]string{
		"":                                 "",
		"/srv/models/pose.tflite":          "pose.tflite",
		"https://host/models/pose.tflite/": "pose.tflite",
		"weights of the service":           "weights of the service",
		"/srv/\x1b[2Jpose.tflite":          "?[2Jpose.tflite",
	}
	sources := map[string]string{}
	for source := range want {
		sources["of "+source] = source
	}
	_, index := harness.ReadIndex(t, sourced(t, sources))
	require.Equal(t, len(want), index.Len())
	for i := range index.Len() {
		r := harness.Record(t, index, i)
		require.Equal(t, want[sources[r.Kernel]], r.SourceName, r.Kernel)
	}
}

func TestPruningKeepsEntriesOfTheNamedSources(t *testing.T) {
	for _, c := range []struct {
		source, name string
		retained     bool
	}{
		{"/a/pose.tflite", "pose.tflite", true},
		{"/a/pose.tflite", "", true},
		{"/b/hand.tflite", "hand.tflite", true},
		{"", "", true},
		{"", "pose.tflite", true},
		{"", "hand.tflite", true},
		{"/b/pose.tflite", "pose.tflite", false},
		{"/b/face.tflite", "", false},
		{"", "face.tflite", false},
	} {
		require.Equal(t, c.retained, keptByPrune(t, c.source, c.name, "/a/pose.tflite", "hand.tflite"), "%q %q",
			c.source, c.name)
	}
	require.False(t, keptByPrune(t, "/b/face.tflite", "", ""), "what has no name is not called so")
}

// keptByPrune reports whether an entry of that source and name stays when sources are kept.
func keptByPrune(t *testing.T, source, name string, sources ...string) bool {
	t.Helper()
	path := sourced(t, map[string]string{"w": "/some/model"})
	harness.Resize(t, path, func(r *format.Record, payload []byte) []byte {
		r.Source, r.SourceName = xpwc.Digest{}, name
		if source != "" {
			r.Source = digest.OfStrings(source)
		}
		return payload
	})
	c := harness.Open(t, path, nil)
	require.Equal(t, 1, c.Stats().Entries)
	require.NoError(t, c.Prune(xpwc.PruneOptions{KeepSources: sources}))
	entries := c.Stats().Entries
	require.NoError(t, c.Close())
	return entries == 1
}
