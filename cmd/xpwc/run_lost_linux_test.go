package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/tests/thindisk"
)

// What the disk has lost may have been computed with: that is an error, and no output is written or printed.
func TestNoOutputIsGivenThatWasComputedFromWhatTheDiskLost(t *testing.T) {
	dir, ballast := thindisk.Mount(t)
	small, err := filepath.Abs(filepath.Join("..", "..", "models", "executorch", "testdata", "programs",
		"mlp_dyn_fp32.pte"))
	require.NoError(t, err)
	cache, outputs := filepath.Join(dir, "c.xpwc"), filepath.Join(t.TempDir(), "out")
	runJSON(t, t.TempDir(), small, "--cache", cache)
	want, _ := runJSON(t, t.TempDir(), faceModel(t))
	thindisk.Sync(t, dir)
	thindisk.FillUp(t, ballast)

	code, stdout, stderr := xpwcIn(t, t.TempDir(), "run", faceModel(t), "--cache", cache, "--output-dir", outputs)
	require.NotZero(t, code, stderr)
	require.Empty(t, stdout)
	require.Contains(t, stderr, "packed weights in use were lost")
	require.NoFileExists(t, filepath.Join(outputs, "output_0.f32"))

	require.NoError(t, os.Remove(ballast))
	got, _ := runJSON(t, t.TempDir(), faceModel(t), "--cache", cache)
	require.Equal(t, want.Outputs, got.Outputs)
	require.Positive(t, got.Cache.Packed, "the next run packs again")
}
