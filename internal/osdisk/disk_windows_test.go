package osdisk

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/windows"
)

// Whatever a system can do, the old file's readers keep it and the path leads to the new one; nothing is left beside
// it.
func TestAMappedFileIsReplaced(t *testing.T) {
	for name, replace := range map[string]func(src, dst string) error{
		"as the system can": rename,
		"aside":             renameAside,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "cache")
			require.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
			require.NoError(t, os.WriteFile(path+".new", []byte("new"), 0o600))
			old, err := Files{Insecure: true}.Open(path, true)
			require.NoError(t, err)
			mapped, err := old.Map(0, 3, false)
			require.NoError(t, err)
			require.NoError(t, replace(path+".new", path))
			require.Equal(t, "old", string(mapped.Data()))
			replaced, err := old.Replaced()
			require.NoError(t, err)
			require.True(t, replaced)
			content, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, "new", string(content))
			require.NoError(t, mapped.Unmap())
			require.NoError(t, old.Close())
			remaining, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Len(t, remaining, 1)
		})
	}
}

// Space is there before it is mapped, and only a file that has none of its own is refused.
func TestReservedSpaceIsAllocated(t *testing.T) {
	f, err := createFile(filepath.Join(t.TempDir(), "file"))
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	for _, end := range []int64{4096, 1 << 20, 1 << 16} {
		require.NoError(t, preallocate(f, end/2, end/2))
		info, err := f.Stat()
		require.NoError(t, err)
		var standard struct{ Allocated, End int64 } // FILE_STANDARD_INFO, which has 8 bytes more
		b := make([]byte, 24)
		err = windows.GetFileInformationByHandleEx(windows.Handle(f.Fd()), windows.FileStandardInfo, &b[0],
			uint32(len(b)))
		require.NoError(t, err)
		_, err = binary.Decode(b, binary.LittleEndian, &standard)
		require.NoError(t, err)
		require.GreaterOrEqual(t, info.Size(), end)
		require.GreaterOrEqual(t, standard.Allocated, info.Size())
	}
}
