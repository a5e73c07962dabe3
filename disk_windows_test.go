package xpwc

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/windows"

	"xpwc/internal/osdisk"
)

// What the cache has mapped keeps its bytes: nobody can cut it off or write over it.
func TestAMappedFileCannotBeCutOff(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	c := mustOpen(t, path, nil)
	o := open(t, c, someTensors(2, 100_000))
	require.NoError(t, c.Save())
	require.ErrorIs(t, os.Truncate(path, 5000), windows.ERROR_USER_MAPPED_FILE)
	require.ErrorIs(t, os.WriteFile(path, nil, 0o600), windows.ERROR_USER_MAPPED_FILE)
	o.close(t)
	require.NoError(t, c.Close())
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, c.Stats().FileBytes, info.Size(), "what could not be given back while it was mapped")
}

// A process that ends while a file is replaced leaves either it or its successor in force.
func TestAFileThatSteppedAsideComesBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	tensors := someTensors(2, 1000)
	c := mustOpen(t, path, nil)
	open(t, c, tensors).close(t)
	require.NoError(t, c.Close())
	require.NoError(t, os.Rename(path, path+".replacing"))
	for range 2 {
		c = mustOpen(t, path, &Options{Strict: true, ReadOnly: true})
		open(t, c, tensors).close(t)
		require.EqualValues(t, 2, c.Stats().Hits.Entries)
		require.NoError(t, c.Close())
	}
	require.NoFileExists(t, path+".replacing")
}

// Sessions of a file that is replaced keep it, and those that begin afterwards have its successor.
func TestAMappedFileIsReplaced(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "cache")
	old, successor := someTensors(1, 1000), someTensors(2, 1000)
	c := mustOpen(t, path, nil)
	o := open(t, c, old)
	require.NoError(t, c.Save())
	theirs := otherProcess(t, path+".new")
	open(t, theirs, successor).close(t)
	require.NoError(t, theirs.Close())
	require.NoError(t, osdisk.Files{}.Rename(path+".new", path))
	o.check(t)
	open(t, c, successor).close(t)
	require.EqualValues(t, 2, c.Stats().Hits.Entries)
	o.close(t)
	require.NoError(t, c.Close())
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 1)
}

// Another user who could change the file could have every runtime compute what he likes.
func TestAFileThatOthersMayWriteToIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	c := mustOpen(t, path, nil)
	open(t, c, someTensors(1, 100)).close(t)
	require.NoError(t, c.Close())
	c = mustOpen(t, path, nil)
	require.NoError(t, c.Close())

	everyone, err := windows.SecurityDescriptorFromString("D:P(A;;FA;;;WD)")
	require.NoError(t, err)
	list, _, err := everyone.DACL()
	require.NoError(t, err)
	require.NoError(t, windows.SetNamedSecurityInfo(path, windows.SE_FILE_OBJECT, windows.DACL_SECURITY_INFORMATION,
		nil, nil, list, nil))
	_, err = Open(path, nil)
	require.ErrorIs(t, err, ErrUnsafeFile)
	c = mustOpen(t, path, &Options{AllowUnsafeFile: true})
	require.NoError(t, c.Close())
}
