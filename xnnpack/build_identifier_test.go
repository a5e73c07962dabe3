package xnnpack_test

import (
	"debug/elf"
	"encoding/hex"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/models/executorch"
	"xpwc/xnnpack"
)

func TestTheBuildIdentifierSaysWhichXNNPACKThisIs(t *testing.T) {
	id := xnnpack.BuildIdentifier()
	switch os.Getenv("XNNPACK") { // as the Makefile sets it
	case "executorch":
		require.NotEmpty(t, executorch.ReleasesOf(runtime.GOARCH, id))
	case "litert-lm": // whose library has no function for it
		require.Equal(t, buildID(t, filepath.Join("..", "third_party", "litert-lm", "lib", "liblitert-lm.so")), id)
	default:
		require.Regexp(t, "^[0-9a-f]{64}$", id)
	}
}

// buildID returns the identifier that the linker gave a library.
func buildID(t *testing.T, path string) string {
	t.Helper()
	library, err := elf.Open(path)
	require.NoError(t, err)
	defer library.Close()
	note, err := library.Section(".note.gnu.build-id").Data()
	require.NoError(t, err)
	return hex.EncodeToString(note[16:]) // after three sizes and the name GNU
}
