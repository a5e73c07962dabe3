//go:build unix

package files

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/store"
	"xpwc/internal/tests/harness"
)

// linking puts a symbolic link in the place of each file that a cache creates, as who owns the directory can.
type linking struct {
	store.Files
	dst string
}

func (l linking) Create(path string) (store.File, error) {
	d, err := l.Files.Create(path)
	if err == nil {
		err = os.Remove(path)
	}
	if err == nil {
		err = os.Symlink(l.dst, path)
	}
	return d, err
}

func TestACompactionChangesTheModeOfNoOtherFile(t *testing.T) {
	path, private := harness.Path(t), filepath.Join(t.TempDir(), "private")
	require.NoError(t, os.WriteFile(private, []byte("mine"), 0o600))
	c := harness.Open(t, path, nil)
	tensors, version := harness.Tensors(2, 20_000), map[string]int{}
	use(t, c, tensors, version)
	require.NoError(t, c.Save())
	require.NoError(t, os.Chmod(path, 0o644))
	harness.SetFiles(c, linking{harness.Files(c), private})
	_ = c.Compact()
	info, err := os.Stat(private)
	require.NoError(t, err)
	require.EqualValues(t, 0o600, info.Mode().Perm())
	_ = c.Close()
}
