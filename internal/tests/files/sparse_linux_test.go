//go:build cgo

package files

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"xpwc"
	"xpwc/internal/format"
	"xpwc/internal/tests/harness"
	"xpwc/internal/tests/testkit"
)

// A small file can claim an index larger than the memory of the machine.
func TestASparseIndexTakesNoMemory(t *testing.T) {
	if os.Getenv(testkit.Emulator) != "" {
		t.Skip("under the emulator, mappings of files count as memory")
	}
	harness.InProcess(t, "TestOpenASparseIndex", harness.EnvDir+"="+t.TempDir())
}

// TestOpenASparseIndex is the process of the test above: it has memory for nothing that a hole claims.
func TestOpenASparseIndex(t *testing.T) {
	dir := os.Getenv(harness.EnvDir)
	if dir == "" {
		t.Skip("a part of TestASparseIndexTakesNoMemory")
	}
	const limit, size = 512 << 20, 64 << 30
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: limit, Max: limit}))
	le := binary.LittleEndian
	footer := make([]byte, format.FooterSize)
	le.PutUint32(footer[8:], 1<<31) // entries, from the beginning on
	le.PutUint32(footer[12:], 0x58505743)
	le.PutUint32(footer[16:], format.TrailerVersion)
	header := format.NewHeader([16]byte{1})
	slot, offset := format.Slot{Generation: 1, IndexOffset: 8192, IndexSize: size - 16384,
		End: size}.Encode([16]byte{1})
	copy(header[offset:], slot)
	for name, parts := range map[string]map[int64][]byte{
		"ExecuTorch's": {0: []byte("packed"), size - format.FooterSize: footer},
		"native":       {0: header},
	} {
		path := filepath.Join(dir, name)
		testkit.Sparse(t, path, size, parts)
		_, err := xpwc.Open(path, &xpwc.Options{Strict: true})
		require.ErrorIs(t, err, xpwc.ErrDamaged, name)
	}
}
