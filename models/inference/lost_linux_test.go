//go:build cgo

package inference_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/tests/thindisk"
	"xpwc/models/executorch"
	"xpwc/models/tflite"
)

func TestARunGivesNoOutputsOfWeightsThatTheDiskLost(t *testing.T) {
	dir, ballast := thindisk.Mount(t)
	cache := filepath.Join(dir, "cache")
	runner, err := executorch.Load(mlp, cache, allUseTheFile)
	require.NoError(t, err)
	require.NoError(t, runner.Close())
	thindisk.Sync(t, dir)
	thindisk.FillUp(t, ballast)

	r, err := tflite.Load(pose, cache, nil)
	require.NoError(t, err)
	input := sequence(256 * 256 * 3)
	require.Error(t, r.Cache().Save())
	outputs, err := r.Run(t.Context(), input)
	require.ErrorIs(t, err, xpwc.ErrLost)
	require.Nil(t, outputs)
	require.NoError(t, r.Close())
}
