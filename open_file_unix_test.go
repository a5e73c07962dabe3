//go:build unix

package xpwc

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAFileThatIsHandedOverNeedsNoName(t *testing.T) {
	named := handOver(t, packedFile(t, someTensors(1, 100)), os.O_RDONLY)
	descriptor, err := syscall.Dup(int(named.Fd()))
	require.NoError(t, err)
	c := mustOpenFile(t, os.NewFile(uintptr(descriptor), ""), nil)
	require.Equal(t, "a descriptor", c.Path())
	open(t, c, someTensors(1, 100)).close(t)
	require.EqualValues(t, 1, c.Stats().Hits.Entries)
}
