//go:build unix

package npy

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLinksLeadToFilesAndToTheDirectoryButNotToOthers(t *testing.T) {
	file := v1(sound, 24)
	dir := directory(t, map[string][]byte{"a.npy": file, "a/b.npy": file})
	require.NoError(t, os.Symlink(filepath.Join(dir, "a.npy"), filepath.Join(dir, "link.npy")))
	require.NoError(t, os.Symlink(filepath.Join(dir, "a"), filepath.Join(dir, "linked")))
	outside := filepath.Join(t.TempDir(), "link to it")
	require.NoError(t, os.Symlink(dir, outside))
	for _, path := range []string{dir, outside} {
		require.Equal(t, []string{"a", "a/b", "link"}, names(openDir(t, path)))
	}
	require.NoError(t, os.Symlink(filepath.Join(dir, "gone.npy"), filepath.Join(dir, "broken.npy")))
	_, err := Open(dir)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "broken.npy")
}
