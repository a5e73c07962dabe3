//go:build unix

package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/registrytest"
)

func TestFilesHaveTheModeOfWhatTheyReplaceOrTheUmasks(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o027))
	s := registrytest.Start(t)
	dir, file := packed(t, face)
	says(t, dir, 0, "push", s.Ref("face:v1"), file)
	mode := func(name string) os.FileMode {
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		return info.Mode().Perm()
	}
	pull := []string{"pull", s.Ref("face:v1"), "-o", "out.xpwc"}
	convert := []string{"convert", "model.xpwc", "--to", "xpwc2", "-o", "out.xpwc"}
	pack := []string{"pack", testModel(t, face), "-o", "out.xpwc"}
	for _, command := range [][]string{pull, convert, pack} {
		require.NoError(t, os.RemoveAll(filepath.Join(dir, "out.xpwc")))
		says(t, dir, 0, command...)
		require.EqualValues(t, 0o640, mode("out.xpwc"), command)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "out.xpwc"), nil, 0o600))
		require.NoError(t, os.Chmod(filepath.Join(dir, "out.xpwc"), 0o604))
		if command[0] != "pack" {
			says(t, dir, 0, command...)
			require.EqualValues(t, 0o604, mode("out.xpwc"), command)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "out.xpwc"), nil, 0o600))
			require.NoError(t, os.Chmod(filepath.Join(dir, "out.xpwc"), 0o666))
			says(t, dir, 0, command...)
			require.EqualValues(t, 0o644, mode("out.xpwc"), "programs would refuse what others can write to")
		}
		require.NoError(t, os.RemoveAll(filepath.Join(dir, "out.xpwc")))
		says(t, dir, 0, append(command, "--mode", "0444")...)
		require.EqualValues(t, 0o444, mode("out.xpwc"), command)
		says(t, dir, 0, append(command, "--mode", "0440")...) // also of a file that stays
		require.EqualValues(t, 0o440, mode("out.xpwc"), command)
		for mode, why := range map[string]string{
			"0664": "lets others write", "rw": "octal", "04755": "octal", "0": "octal",
		} {
			require.Contains(t, says(t, dir, 2, append(command, "--mode", mode)...), why)
		}
	}
}
