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
	for of, why := range map[directory]string{
		{0o755, mine}: "", {0o777 | os.ModeSticky, mine}: "", {0o777, mine}: writable, {0o770, mine}: writable,
		{0o755, another}: notMine, {0o777 | os.ModeSticky, another}: notMine,
	} {
		t.Run(fmt.Sprint(of.mode, of.owner), func(t *testing.T) {
			if of.owner != mine && mine != 0 {
				t.Skip("only root can give a directory to another user")
			}
			out := filepath.Join(t.TempDir(), "out")
			require.NoError(t, os.Mkdir(out, 0o700))
			there := filepath.Join(out, "there.xpwc")
			require.NoError(t, os.WriteFile(there, content, 0o600))
			require.NoError(t, os.Chmod(out, of.mode))
			require.NoError(t, os.Chown(out, of.owner, -1))
			for _, args := range [][]string{
				{"pack", faceModel(t), "-o", filepath.Join(out, "packed")},
				{"convert", "model.xpwc", "--to", "xpwc2", "-o", filepath.Join(out, "converted")},
				{"report", "model.xpwc", "-o", filepath.Join(out, "page")},
				{"compact", there},
				{"prune", there, "--keep-layout", "current"},
			} {
				if why != "" {
					said := says(t, dir, exitFailed, args...)
					require.Contains(t, said, why)
					require.Contains(t, said, "--allow-shared-directory")
				}
				says(t, dir, 0, append(args, "--allow-shared-directory")...)
				if why == "" {
					says(t, dir, 0, args...)
				}
			}
			entries, err := os.ReadDir(out)
			require.NoError(t, err)
			require.Len(t, entries, 4, "nothing else is left")
		})
	}
}
