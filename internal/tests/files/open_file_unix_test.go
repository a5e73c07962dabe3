//go:build unix

package files

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/tests/harness"
)

func TestAnOpenFileNeedsNoName(t *testing.T) {
	named := handOver(t, packedFile(t, harness.Tensors(1, 100)), os.O_RDONLY)
	descriptor, err := syscall.Dup(int(named.Fd()))
	require.NoError(t, err)
	c := mustOpenFile(t, os.NewFile(uintptr(descriptor), ""), nil)
	require.Equal(t, "a descriptor", c.Path())
	harness.PackTensors(t, c, harness.Tensors(1, 100)).MustClose(t)
	require.EqualValues(t, 1, c.Stats().Hits.Entries)
}
