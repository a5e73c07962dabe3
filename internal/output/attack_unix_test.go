//go:build unix

package output_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// private makes a directory with a file that nobody else may read.
func private(t *testing.T) (dir, file string) {
	t.Helper()
	dir = t.TempDir()
	file = filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, []byte("mine"), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "more"), 0o700))
	return dir, file
}

func requireUntouched(t *testing.T, dir string) {
	t.Helper()
	require.Equal(t, []string{"file", "more"}, names(t, dir))
	content, err := os.ReadFile(filepath.Join(dir, "file"))
	require.NoError(t, err)
	require.Equal(t, "mine", string(content))
	info, err := os.Stat(filepath.Join(dir, "file"))
	require.NoError(t, err)
	require.EqualValues(t, 0o600, info.Mode().Perm())
}

// A user who can rename the directory puts a link there while a file is written.
func TestALinkInThePlaceOfTheDirectoryIsNotFollowed(t *testing.T) {
	for name, make := range makers {
		t.Run(name, func(t *testing.T) {
			victim, _ := private(t)
			parent := t.TempDir()
			dir, away := filepath.Join(parent, "dir"), filepath.Join(parent, "away")
			require.NoError(t, os.Mkdir(dir, 0o700))
			published, err := make(filepath.Join(dir, "file"))
			require.NoError(t, err)
			discarded, err := make(filepath.Join(dir, "file"))
			require.NoError(t, err)
			require.NoError(t, os.Rename(dir, away))
			require.NoError(t, os.Symlink(victim, dir))
			require.NoError(t, published.Publish(0o644))
			published.Discard()
			discarded.Discard()
			requireUntouched(t, victim)
			require.Equal(t, []string{"file"}, names(t, away))
		})
	}
}

// A user who can write to the directory replaces each file in it by a link while one is written.
func TestALinkInThePlaceOfTheFileIsNotFollowed(t *testing.T) {
	for name, make := range makers {
		t.Run(name, func(t *testing.T) {
			victim, file := private(t)
			dir := t.TempDir()
			path := filepath.Join(dir, "file")
			require.NoError(t, os.Symlink(file, path))
			published, err := make(path)
			require.NoError(t, err)
			discarded, err := make(path)
			require.NoError(t, err)
			for _, name := range names(t, dir) {
				require.NoError(t, os.Remove(filepath.Join(dir, name)))
				require.NoError(t, os.Symlink(file, filepath.Join(dir, name)))
			}
			require.NoError(t, published.Publish(0o644))
			published.Discard()
			discarded.Discard()
			requireUntouched(t, victim)
			require.Equal(t, []string{"file"}, names(t, dir))
		})
	}
}
