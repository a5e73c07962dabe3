package executorch_test

import (
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/models/executorch"
)

func TestAReleaseIsFoundByItsXNNPACK(t *testing.T) {
	for _, r := range executorch.Releases() {
		require.NotEmpty(t, r.XNNPACK)
		for arch, id := range r.XNNPACK {
			b, err := hex.DecodeString(id)
			require.NoError(t, err)
			require.Len(t, b, 32, "a SHA-256")
			require.Contains(t, executorch.ReleasesOf(arch, id), r)
		}
	}
	require.Empty(t, executorch.ReleasesOf("amd64", ""))
	require.Empty(t, executorch.ReleasesOf("riscv64", ""))
	require.Empty(t, executorch.ReleasesOf("amd64", executorch.Releases()[0].XNNPACK["arm64"]))
}
