package files

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/windows"

	"xpwc"
	"xpwc/internal/osdisk"
	"xpwc/internal/tests/harness"
)

// What the cache has mapped keeps its bytes: nobody can cut it off or write over it.
func TestAMappedFileCannotBeShortened(t *testing.T) {
	path := harness.Path(t)
	c := harness.Open(t, path, nil)
	o := harness.PackTensors(t, c, harness.Tensors(2, 100_000))
	require.NoError(t, c.Save())
	require.ErrorIs(t, os.Truncate(path, 5000), windows.ERROR_USER_MAPPED_FILE)
	require.ErrorIs(t, os.WriteFile(path, nil, 0o600), windows.ERROR_USER_MAPPED_FILE)
	o.MustClose(t)
	require.NoError(t, c.Close())
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, c.Stats().FileBytes, info.Size(), "what could not be given back while it was mapped")
}

// A process that ends while a file is replaced leaves either it or its successor in force.
func TestAHalfDoneReplacementKeepsAFile(t *testing.T) {
	path := harness.Path(t)
	tensors := harness.Tensors(2, 1000)
	c := harness.Open(t, path, nil)
	harness.PackTensors(t, c, tensors).MustClose(t)
	require.NoError(t, c.Close())
	require.NoError(t, os.Rename(path, path+".replacing"))
	for range 2 {
		c = harness.Open(t, path, &xpwc.Options{Strict: true, ReadOnly: true})
		harness.PackTensors(t, c, tensors).MustClose(t)
		require.EqualValues(t, 2, c.Stats().Hits.Entries)
		require.NoError(t, c.Close())
	}
	require.NoFileExists(t, path+".replacing")
}

// Sessions of a file that is replaced keep it, and later sessions use its successor.
func TestAMappedFileIsReplaced(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "cache")
	old, successor := harness.Tensors(1, 1000), harness.Tensors(2, 1000)
	c := harness.Open(t, path, nil)
	o := harness.PackTensors(t, c, old)
	require.NoError(t, c.Save())
	theirs := harness.OpenProcess(t, path+".new")
	harness.PackTensors(t, theirs, successor).MustClose(t)
	require.NoError(t, theirs.Close())
	require.NoError(t, osdisk.Files{}.Rename(path+".new", path))
	o.Check(t)
	harness.PackTensors(t, c, successor).MustClose(t)
	require.EqualValues(t, 2, c.Stats().Hits.Entries)
	o.MustClose(t)
	require.NoError(t, c.Close())
	remains, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, remains, 1)
}

// Another user who could change the file could have every runtime compute what he likes.
func TestAFileWritableByOtherUsersIsRefused(t *testing.T) {
	path := harness.Path(t)
	c := harness.Open(t, path, nil)
	harness.PackTensors(t, c, harness.Tensors(1, 100)).MustClose(t)
	require.NoError(t, c.Close())
	c = harness.Open(t, path, nil)
	require.NoError(t, c.Close())

	everyone, err := windows.SecurityDescriptorFromString("D:P(A;;FA;;;WD)")
	require.NoError(t, err)
	list, _, err := everyone.DACL()
	require.NoError(t, err)
	require.NoError(t, windows.SetNamedSecurityInfo(path, windows.SE_FILE_OBJECT, windows.DACL_SECURITY_INFORMATION,
		nil, nil, list, nil))
	_, err = xpwc.Open(path, nil)
	require.ErrorIs(t, err, xpwc.ErrUnsafeFile)
	c = harness.Open(t, path, &xpwc.Options{AllowUnsafeFile: true})
	require.NoError(t, c.Close())
}
