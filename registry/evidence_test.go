//go:build cgo

package registry_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/format"
	"xpwc/internal/tests/registrytest"
	"xpwc/registry"
)

// evidenceIn returns a file's evidence of a layout.
func evidenceIn(t *testing.T, cache string, layout registry.Fingerprint) format.Evidence {
	t.Helper()
	for _, l := range infoOf(t, cache).Layouts {
		if l.Fingerprint == layout {
			return format.DecodeEvidence(l.Evidence)
		}
	}
	return format.Evidence{}
}

// The machine that pulls is the one that will run. It knows how it packs.
func TestAPulledFileSaysHowThisMachinePacks(t *testing.T) {
	s := registrytest.Start(t)
	ref := s.Ref("face:v1")
	cache, outputs := pack(t)
	layout := layoutOf(t, cache)
	local := evidenceIn(t, cache, layout)
	if len(local.Machines) == 0 {
		t.Skip("this XNNPACK does not say which it is")
	}
	remote := packOn(t, lesser, modelFile(t))
	push(t, ref, cache, remote)

	pull := func(layout registry.Fingerprint) (file string) {
		file = filepath.Join(t.TempDir(), "pulled.xpwc")
		_, err := pullAt(t.Context(), ref, layout, file, nil)
		require.NoError(t, err)
		return file
	}
	file := pull(layout)
	require.Equal(t, local, evidenceIn(t, file, layout))
	require.Empty(t, evidenceIn(t, pull(layoutOf(t, remote)), layoutOf(t, remote)), "this one packs otherwise")
	got, stats := run(t, modelFile(t), file)
	require.Equal(t, outputs, got)
	require.Zero(t, stats.Packed)
	require.Zero(t, stats.DamagedPayloads)

	// A pulled file counts as up to date, whatever its evidence.
	pulled, err := pullAt(t.Context(), ref, layout, cache, &registry.Options{Have: cache})
	require.NoError(t, err)
	require.True(t, pulled.UpToDate)

	withXNNPACK := format.SeenHere
	t.Cleanup(func() { format.SeenHere = withXNNPACK })
	format.SeenHere = nil // as in a program that has none
	require.Empty(t, evidenceIn(t, pull(layout), layout), "it does not know how it packs")
}
