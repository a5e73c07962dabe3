//go:build cgo

package registry_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/cachefile"
	"xpwc/internal/format"
	"xpwc/internal/output"
	"xpwc/internal/registrytest"
	"xpwc/registry"
)

// evidenceIn returns what a file says of a layout.
func evidenceIn(t *testing.T, cache string, layout registry.Fingerprint) format.Evidence {
	t.Helper()
	for _, l := range infoOf(t, cache).Layouts {
		if l.Fingerprint == layout {
			return format.DecodeEvidence(l.Evidence)
		}
	}
	return format.Evidence{}
}

// on returns what machines are said to pack, of others.
func on(said format.Evidence, machines ...format.Digest) format.Evidence {
	return format.Evidence{Machines: machines, Families: said.Families}
}

// packWithEvidence makes a cache file as pack does, and returns its layout and what it says of that too.
func packWithEvidence(t *testing.T) (cache string, outputs []float32, here registry.Fingerprint, own format.Evidence) {
	t.Helper()
	cache, outputs = pack(t)
	here = layoutOf(t, cache)
	if own = evidenceIn(t, cache, here); len(own.Machines) == 0 {
		t.Skip("this XNNPACK does not say which it is")
	}
	return cache, outputs, here, own
}

// saying returns a copy of a cache file that says something else of its layouts.
func saying(t *testing.T, cache string, evidence format.Evidence) string {
	t.Helper()
	b, err := os.ReadFile(cache)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "saying.xpwc")
	require.NoError(t, output.Write(path, func(to *os.File) error {
		return cachefile.Install(to, func(w io.Writer) error { _, err := w.Write(b); return err }, nil,
			func(cachefile.Layout) string { return evidence.Encode() })
	}))
	return path
}

// pull pulls a layout, and returns what the file says of it.
func pull(t *testing.T, ref string, layout registry.Fingerprint, o *registry.Options) format.Evidence {
	t.Helper()
	file := filepath.Join(t.TempDir(), "pulled.xpwc")
	_, err := pullAt(t.Context(), ref, layout, file, o)
	require.NoError(t, err)
	return evidenceIn(t, file, layout)
}

func TestAPulledFileSaysWhatWasSeenOfTheMachinesThatPackSo(t *testing.T) {
	s := registrytest.Start(t)
	ref := s.Ref("face:v1")
	cache, outputs, here, own := packWithEvidence(t)
	first := push(t, ref, cache)
	require.Equal(t, own, pull(t, ref, here, nil))

	// A machine that packs alike. The cache file is the same, and what both saw stays.
	another := on(own, format.Digest{1})
	both := another.And(own)
	theirs := saying(t, cache, another)
	second := push(t, ref, theirs)
	require.Zero(t, second.UploadedBytes)
	require.NotEqual(t, first.Digest, second.Digest)
	require.Equal(t, both, pull(t, ref, here, nil))
	w := &wire{}
	for _, files := range [][]string{{cache}, {theirs}, {cache, theirs}} {
		again, err := registry.Push(t.Context(), ref, files, &registry.Options{Transport: w})
		require.NoError(t, err)
		require.Equal(t, second.Digest, again.Digest)
	}
	require.Zero(t, w.requests[http.MethodPut], "%v", w.requests)

	// What was pulled is what would be pulled, whatever it says of machines.
	pulled, err := pullAt(t.Context(), ref, here, cache, &registry.Options{Have: cache})
	require.NoError(t, err)
	require.True(t, pulled.UpToDate)
	file := filepath.Join(t.TempDir(), "all.xpwc")
	_, err = pullAllAt(t.Context(), ref, file, nil)
	require.NoError(t, err)
	require.Equal(t, both, evidenceIn(t, file, here))
	got, stats := run(t, modelFile(t), file)
	require.Equal(t, outputs, got)
	require.Zero(t, stats.Packed)
	require.Zero(t, stats.DamagedPayloads)
}

// The machine that pulls is the one that will run. It knows how it packs.
func TestAPulledFileSaysHowThisMachinePacks(t *testing.T) {
	s := registrytest.Start(t)
	ref := s.Ref("face:v1")
	cache, _, here, own := packWithEvidence(t)
	another := on(own, format.Digest{1})
	there := packOn(t, lesser, modelFile(t))
	elsewhere := layoutOf(t, there)
	push(t, ref, saying(t, cache, another), saying(t, there, another.And(own)))

	require.Equal(t, another.And(own), pull(t, ref, here, nil))
	require.Equal(t, another, pull(t, ref, elsewhere, nil), "this one packs otherwise")
	file := filepath.Join(t.TempDir(), "all.xpwc")
	_, err := pullAllAt(t.Context(), ref, file, nil)
	require.NoError(t, err)
	require.Equal(t, another.And(own), evidenceIn(t, file, here))
	require.Equal(t, another, evidenceIn(t, file, elsewhere))

	withXNNPACK := format.SeenHere
	t.Cleanup(func() { format.SeenHere = withXNNPACK })
	format.SeenHere = nil // as in a program that has none
	require.Equal(t, another, pull(t, ref, here, nil), "it does not know how it packs")
}
