package xnnpack_test

import (
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/models/executorch"
	"xpwc/xnnpack"
)

func TestTheBuildIdentifierSaysWhichXNNPACKThisIs(t *testing.T) {
	id := xnnpack.BuildIdentifier()
	require.Regexp(t, "^[0-9a-f]{64}$", id)
	if os.Getenv("XNNPACK") == "executorch" { // as the Makefile sets it
		require.NotEmpty(t, executorch.ReleasesOf(runtime.GOARCH, id))
	}
}
