//go:build unix

package files

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/osdisk"
	"xpwc/internal/store"
	"xpwc/internal/tests/harness"
)

// moving are files of a directory whose owner renames it, and puts a link to another one there, at some moment.
type moving struct {
	osdisk.Files
	current func(operation, path string)
}

func (m moving) Open(path string, writable bool) (store.File, error) {
	m.current("open", path)
	return m.Files.Open(path, writable)
}

func (m moving) Create(path string) (store.File, error) {
	m.current("create", path)
	return m.Files.Create(path)
}

func (m moving) Rename(src, dst string) error {
	m.current("rename", dst)
	return m.Files.Rename(src, dst)
}

// A directory's owner, who is another user where the test is root's, has nothing made, replaced or removed elsewhere.
func TestAuxiliaryFilesStayInTheCachesDirectory(t *testing.T) {
	owner := os.Geteuid()
	if owner == 0 {
		owner = 65534
	}
	tensors, version := harness.Tensors(2, 20_000), map[string]int{}
	for _, c := range []struct{ operation, suffix string }{
		{"open", ".compact"}, {"create", ".compact"}, {"rename", ""},
		{"open", ".damaged"}, {"rename", ".damaged"},
	} {
		t.Run(c.operation+c.suffix, func(t *testing.T) {
			// Not t.TempDir, into which other users cannot look.
			theirs, err := os.MkdirTemp("", "xpwc-moved")
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, os.RemoveAll(theirs)) })
			require.NoError(t, os.Chmod(theirs, 0o755))
			dir, away, victim := filepath.Join(theirs, "dir"), filepath.Join(theirs, "away"), t.TempDir()
			require.NoError(t, os.Mkdir(dir, 0o755))
			for _, d := range []string{theirs, dir} {
				require.NoError(t, os.Chown(d, owner, -1))
			}
			path := filepath.Join(dir, "cache")
			cache := harness.Open(t, path, nil)
			use(t, cache, tensors, version)
			require.NoError(t, cache.Save())
			mine, err := os.ReadFile(path)
			require.NoError(t, err)
			present := []string{"cache.compact", "cache.damaged"}
			if c.suffix != ".damaged" { // else the cache begins a new file, wherever its path leads by then
				present = append(present, "cache")
			}
			for _, name := range present {
				require.NoError(t, os.WriteFile(filepath.Join(victim, name), mine, 0o600))
			}
			moved := false
			harness.SetFiles(cache, moving{current: func(operation, setting string) {
				if moved || operation != c.operation || !strings.HasSuffix(setting, "/cache"+c.suffix) {
					return
				}
				moved = true
				cmd := exec.Command("sh", "-c", `mv "$0" "$1" && ln -s "$2" "$0"`, dir, away, victim)
				if owner != os.Geteuid() {
					cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(owner)}}
				}
				out, err := cmd.CombinedOutput()
				require.NoError(t, err, "%s", out)
			}})
			if c.suffix == ".damaged" {
				require.NoError(t, os.Truncate(path, 5000))
				require.NoError(t, cache.Close())
				cache, err = harness.OpenAlone(path, (&xpwc.Options{}), harness.Files(cache))
				require.NoError(t, err)
				use(t, cache, tensors, version)
			} else {
				_ = cache.Compact() // which may find, when it has ended, that the path leads to another file
			}
			_ = cache.Close()
			require.True(t, moved)
			for _, name := range present {
				content, err := os.ReadFile(filepath.Join(victim, name))
				require.NoError(t, err)
				require.Equal(t, mine, content, name)
			}
			remains, err := os.ReadDir(away)
			require.NoError(t, err)
			require.Len(t, remains, 1, "what was made for a moment is gone")
		})
	}
}
