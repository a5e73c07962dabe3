//go:build unix

package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/tests/registrytest"
)

func TestFilesHaveTheModeOfWhatTheyReplaceOrTheUmasks(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o027))
	s := registrytest.Start(t)
	dir, file := packed(t, face)
	printed(t, dir, 0, "push", s.Ref("face:v1"), file)
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
		printed(t, dir, 0, command...)
		require.EqualValues(t, 0o640, mode("out.xpwc"), command)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "out.xpwc"), nil, 0o600))
		require.NoError(t, os.Chmod(filepath.Join(dir, "out.xpwc"), 0o604))
		if command[0] != "pack" {
			printed(t, dir, 0, command...)
			require.EqualValues(t, 0o604, mode("out.xpwc"), command)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "out.xpwc"), nil, 0o600))
			require.NoError(t, os.Chmod(filepath.Join(dir, "out.xpwc"), 0o666))
			printed(t, dir, 0, command...)
			require.EqualValues(t, 0o644, mode("out.xpwc"), "programs would refuse what others can write to")
		}
		require.NoError(t, os.RemoveAll(filepath.Join(dir, "out.xpwc")))
		printed(t, dir, 0, append(command, "--mode", "0444")...)
		require.EqualValues(t, 0o444, mode("out.xpwc"), command)
		printed(t, dir, 0, append(command, "--mode", "0440")...) // also of a file that stays
		require.EqualValues(t, 0o440, mode("out.xpwc"), command)
		for mode, reason := range map[string]string{
			"0664": "others not to write", "rw": "octal", "04755": "octal", "0": "octal",
		} {
			require.Contains(t, printed(t, dir, 2, append(command, "--mode", mode)...), reason)
		}
	}
}

// The advice is for the command line: Options is a type of Go programs.
func TestTheAdviceForAFileThatOthersCanChangeIsForTheCommandLine(t *testing.T) {
	dir, file := packed(t, face)
	require.NoError(t, os.Chmod(file, 0o666))
	for _, command := range [][]string{
		{"run", testModel(t, face), "--cache", file}, {"explain", testModel(t, face), "--cache", file},
		{"verify", file}, {"compact", file},
	} {
		message := printed(t, dir, exitFailed, command...)
		require.Contains(t, message, "correct its owner and mode, or give another path", command)
		require.NotContains(t, message, "Options", command)
	}
}

// It is not up to date, since programs do not open it: others can change it.
func TestPullReplacesAFileThatProgramsRefuse(t *testing.T) {
	s := registrytest.Start(t)
	dir, file := packed(t, face)
	printed(t, dir, 0, "push", s.Ref("face:v1"), file)
	out := filepath.Join(dir, "out.xpwc")
	pull := func() string { return printed(t, dir, 0, "pull", s.Ref("face:v1"), "-o", "out.xpwc") }
	pull()
	require.Contains(t, pull(), "up to date")
	refused := map[string]func() error{"its mode": func() error { return os.Chmod(out, 0o666) }}
	if os.Geteuid() == 0 {
		refused["its owner"] = func() error { return os.Chown(out, 65534, 65534) }
	}
	for reason, spoil := range refused {
		t.Run(reason, func(t *testing.T) {
			original, err := os.Stat(out)
			require.NoError(t, err)
			require.NoError(t, spoil())
			printed(t, dir, 1, "run", testModel(t, face), "--cache", "out.xpwc")
			require.NotContains(t, pull(), "up to date")
			final, err := os.Stat(out)
			require.NoError(t, err)
			require.False(t, os.SameFile(original, final), "who has it open cannot write to the new one")
			report, _ := runJSON(t, dir, testModel(t, face), "--cache", "out.xpwc")
			require.Zero(t, report.Cache.Packed)
			require.Contains(t, pull(), "up to date")
		})
	}
}
