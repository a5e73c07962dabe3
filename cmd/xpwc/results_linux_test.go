package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestResultsThatCannotBePrintedAreAnError(t *testing.T) {
	dir, _ := packed(t, face)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	defer full.Close()
	for _, c := range []struct {
		code int
		args []string
	}{
		{1, []string{"verify", "model.xpwc"}},
		{1, []string{"who", "model.xpwc", "--json"}},
		{1, []string{"report", "model.xpwc", "-o", "report.html"}},
		{1, []string{"compact", "model.xpwc"}},
		{1, []string{"inspect", "--help"}},
		{2, []string{"diff", "model.xpwc", "model.xpwc"}},
		{2, []string{"diff", "model.xpwc", "model.xpwc", "--json"}},
	} {
		cmd := exec.Command(tool, c.args...)
		var stderr bytes.Buffer
		cmd.Dir, cmd.Stdout, cmd.Stderr = dir, full, &stderr
		require.Error(t, cmd.Run(), "%v", c.args)
		require.Equal(t, c.code, cmd.ProcessState.ExitCode(), "%v", c.args)
		require.Equal(t, "xpwc: /dev/stdout: no space left on device\n", stderr.String(), "%v", c.args)
	}
}

func TestMessagesDoNothingToATerminal(t *testing.T) {
	dir := t.TempDir()
	require.Equal(t, "xpwc: no?[31m?file: no such file or directory\n",
		printed(t, dir, 1, "inspect", "no\x1b[31m\u202efile"))
}

// A path with U+202E shows the end of a name as another one: "\u202exwpx.txt" as "txt.xpwx".
func TestPathsDoNotReorderResults(t *testing.T) {
	dir := t.TempDir()
	const name = "model\u202ecwpx"
	printed(t, dir, 0, "pack", faceModel(t), "-o", name)
	for _, args := range [][]string{
		{"inspect", name}, {"inspect", name, "--map"}, {"verify", name}, {"report", name, "-o", "page"},
		{"who", name}, {"diff", name, name}, {"inspect", name, "--json"}, {"verify", name, "--json"},
		{"run", faceModel(t), "--cache", name, "--json"},
	} {
		require.NotContains(t, printed(t, dir, 0, args...), "\u202e", args)
	}
	require.NotContains(t, string(contentOf(t, filepath.Join(dir, "page"))), "\u202e")
	require.Equal(t, name, reported[inspection](t, dir, 0, "inspect", name).File, "JSON has the path itself")
}

func TestACacheThatIsNoRegularFileIsRefusedWithAdviceThatHelps(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	for _, path := range []string{"pipe", os.DevNull} {
		said := printed(t, dir, 1, "run", faceModel(t), "--cache", path)
		require.Contains(t, said, "is not a regular file; choose another path")
		require.NotContains(t, said, "owner and mode")
	}
}

// Levels of CPU are packed by processes of their own.
func TestWhyPackingFailedIsKnownToPrograms(t *testing.T) {
	dir := t.TempDir()
	full := smallDisk(t, dir)
	for name, command := range map[string][]string{
		"xpwc": {"pack", faceModel(t), "-o", "full/model"}, "LiteRT": packsForLiteRT(faceModel(t), "-o", "full/model"),
	} {
		t.Run(name, func(t *testing.T) {
			if name == "LiteRT" {
				needsLiteRT(t)
			}
			e := failed(t, dir, exitFailed, command...)
			require.Equal(t, kindNoSpace, e.Kind)
			require.Contains(t, e.Message, "no space left on device")
			entries, err := os.ReadDir(full)
			require.NoError(t, err)
			require.Empty(t, entries)
		})
	}
}

// smallDisk mounts a disk at "full" in a directory, and returns its path. It takes no packed model.
func smallDisk(t *testing.T, dir string) string {
	t.Helper()
	full := filepath.Join(dir, "full")
	require.NoError(t, os.Mkdir(full, 0o700))
	if err := unix.Mount("none", full, "tmpfs", 0, "size=200k"); err != nil {
		t.Skipf("mount a small disk: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(full, 0)) })
	return full
}

func TestAFullDirectoryForTemporaryFilesIsNamed(t *testing.T) {
	dir, model := t.TempDir(), faceModel(t)
	full := smallDisk(t, dir)
	require.Contains(t, printed(t, dir, 0, "pack", model, "-o", "f.xpwc"), "packed")
	for name, verify := range map[string][]string{
		"xpwc": {"verify", "f.xpwc", "--model", model}, "LiteRT": {"verify", "f.litert", "--model", model},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "LiteRT" {
				needsLiteRT(t)
				litertPack(t, dir, model, "-o", "f.litert")
				verify = append(verify, "--litert-lm", libraryForLiteRT)
			}
			t.Setenv("TMPDIR", full)
			e := failed(t, dir, exitFailed, verify...)
			require.Equal(t, kindNoSpace, e.Kind)
			require.Contains(t, e.Message, "a temporary file in "+full+" (TMPDIR)")
		})
	}
}
