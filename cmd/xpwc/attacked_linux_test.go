package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// The owner of an output's directory replaces a command's files by links.
func TestNobodyElseChoosesWhatACommandRemovesOrChanges(t *testing.T) {
	model := testModel(t, heavy)
	for name, args := range map[string][]string{
		"convert": {"convert", "there.xpwc", "--to", "native", "-o", "out/new"},
		"pack":    {"pack", model, "-o", "out/new"},
		"verify":  {"verify", "there.xpwc", "--model", model},
	} {
		t.Run(name, func(t *testing.T) {
			dir, victim := workplace(t), t.TempDir()
			require.NoError(t, os.Mkdir(filepath.Join(dir, "out"), 0o700))
			for _, name := range []string{"converted", "packing.xpwc", "proving.xpwc", "diary"} {
				require.NoError(t, os.WriteFile(filepath.Join(victim, name), []byte("mine"), 0o600))
			}
			original := contents(t, victim)
			cmd, stderr := stopAt(t, dir, moment{name, args, func(t testing.TB, cmd *exec.Cmd, dir string) bool {
				return writing(1<<20)(t, cmd, dir) || hasFile("*/.xpwc-*/*", 1<<20)(t, cmd, dir)
			}})
			for _, place := range []string{"out", "temporary"} {
				entries, err := os.ReadDir(filepath.Join(dir, place))
				require.NoError(t, err)
				for _, e := range entries {
					path := filepath.Join(dir, place, e.Name())
					require.NoError(t, os.Rename(path, filepath.Join(dir, e.Name()+".away")))
					require.NoError(t, os.Symlink(victim, path))
				}
			}
			require.NoError(t, cmd.Process.Signal(syscall.SIGCONT))
			ended := cmd.Wait()
			requireSame(t, original, contents(t, victim))
			for path, content := range original {
				if content == aDirectory {
					continue
				}
				info, err := os.Stat(path)
				require.NoError(t, err)
				require.EqualValues(t, 0o600, info.Mode().Perm(), path)
			}
			require.NoError(t, ended, stderr)
		})
	}
}
