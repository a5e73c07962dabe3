//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestADirectoryThatOthersCanChangeIsRefusedUnlessAllowed(t *testing.T) {
	dir, file := packed(t, face)
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	type directory struct {
		mode  os.FileMode
		owner int
	}
	const another = 65534
	const writable, notMine = "lets others write to it", "it belongs to user 65534"
	mine := os.Geteuid()
	for d, reason := range map[directory]string{
		{0o755, mine}: "", {0o777 | os.ModeSticky, mine}: "", {0o777, mine}: writable, {0o770, mine}: writable,
		{0o755, another}: notMine, {0o777 | os.ModeSticky, another}: notMine,
	} {
		t.Run(fmt.Sprint(d.mode, d.owner), func(t *testing.T) {
			if d.owner != mine && mine != 0 {
				t.Skip("only root can give a directory to another user")
			}
			out := filepath.Join(t.TempDir(), "out")
			require.NoError(t, os.Mkdir(out, 0o700))
			existing := filepath.Join(out, "there.xpwc")
			require.NoError(t, os.WriteFile(existing, content, 0o600))
			require.NoError(t, os.Chmod(out, d.mode))
			require.NoError(t, os.Chown(out, d.owner, -1))
			for _, args := range [][]string{
				{"pack", faceModel(t), "-o", filepath.Join(out, "packed")},
				{"convert", "model.xpwc", "--to", "xpwc2", "-o", filepath.Join(out, "converted")},
				{"report", "model.xpwc", "-o", filepath.Join(out, "page")},
				{"compact", existing},
				{"prune", existing, "--keep-layout", "current"},
			} {
				if reason != "" {
					said := printed(t, dir, exitFailed, args...)
					require.Contains(t, said, reason)
					require.Contains(t, said, "--allow-shared-directory")
				}
				printed(t, dir, 0, append(args, "--allow-shared-directory")...)
				if reason == "" {
					printed(t, dir, 0, args...)
				}
			}
			entries, err := os.ReadDir(out)
			require.NoError(t, err)
			require.Len(t, entries, 4, "nothing else is left")
		})
	}
}
