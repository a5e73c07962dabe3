//go:build unix

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestADirectoryThatOthersCanChangeIsRefusedUnlessAllowed(t *testing.T) {
	dir, file := packed(t, face)
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	for mode, shared := range map[os.FileMode]bool{
		0o755: false, 0o777 | os.ModeSticky: false, 0o777: true, 0o770: true,
	} {
		t.Run(mode.String(), func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "out")
			require.NoError(t, os.Mkdir(out, 0o700))
			there := filepath.Join(out, "there.xpwc")
			require.NoError(t, os.WriteFile(there, content, 0o600))
			require.NoError(t, os.Chmod(out, mode))
			for _, args := range [][]string{
				{"pack", faceModel(t), "-o", filepath.Join(out, "packed")},
				{"convert", "model.xpwc", "--to", "xpwc2", "-o", filepath.Join(out, "converted")},
				{"report", "model.xpwc", "-o", filepath.Join(out, "page")},
				{"compact", there},
				{"prune", there, "--keep-layout", "current"},
			} {
				if shared {
					said := says(t, dir, exitFailed, args...)
					require.Contains(t, said, "lets others write to it")
					require.Contains(t, said, "--allow-shared-directory")
				}
				says(t, dir, 0, append(args, "--allow-shared-directory")...)
				if !shared {
					says(t, dir, 0, args...)
				}
			}
			entries, err := os.ReadDir(out)
			require.NoError(t, err)
			require.Len(t, entries, 4, "nothing else is left")
		})
	}
}
