//go:build unix

package main

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A user who can rename the directory exchanges it between the check and the write.
func TestWhatIsReplacedIsWhatWasLookedAt(t *testing.T) {
	for name, make := range map[string]func(path string) (*pendingOutput, error){
		"added to": func(path string) (*pendingOutput, error) {
			ctx, _ := newJob(io.Discard)
			return newPendingOutput(ctx, path, placing{})
		},
		"replaced": func(path string) (*pendingOutput, error) {
			ctx, _ := newJob(io.Discard)
			return newReplacing(ctx, path, placing{}, onlyCaches)
		},
	} {
		t.Run(name, func(t *testing.T) {
			parent := t.TempDir()
			dir, away := filepath.Join(parent, "dir"), filepath.Join(parent, "away")
			require.NoError(t, os.Mkdir(dir, 0o700))
			s, err := make(filepath.Join(dir, "file"))
			require.NoError(t, err)
			defer s.discard()
			require.NoError(t, os.Rename(dir, away))
			require.NoError(t, os.Mkdir(dir, 0o700))
			mine := filepath.Join(away, "file")
			require.NoError(t, os.WriteFile(mine, []byte("mine"), 0o600))
			require.Error(t, s.publish())
			content, err := os.ReadFile(mine)
			require.NoError(t, err)
			require.Equal(t, "mine", string(content))
		})
	}
}

// The page is another file when it is looked at first.
func TestAReportReplacesNoOtherFileThatIsShownLater(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "page")
	require.NoError(t, os.WriteFile(path, []byte("mine"), 0o600))
	ctx, _ := newJob(io.Discard)
	s, err := newPendingOutput(ctx, path, placing{})
	require.NoError(t, err)
	defer s.discard()
	s.replaces = onlyReports
	require.ErrorContains(t, s.publish(), "is no page")
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "mine", string(content))
}

// A user who can write to the directory puts links and pipes in the place of outputs.
func TestOutputsOfAModelAreNewFiles(t *testing.T) {
	for name, put := range map[string]func(t *testing.T, theirs, output string){
		"a name of another file": func(t *testing.T, theirs, output string) {
			require.NoError(t, os.Link(theirs, output))
		},
		"a pipe": func(t *testing.T, _, output string) { require.NoError(t, syscall.Mkfifo(output, 0o600)) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			out, theirs := filepath.Join(dir, "out"), filepath.Join(dir, "theirs")
			require.NoError(t, os.Mkdir(out, 0o700))
			require.NoError(t, os.WriteFile(theirs, []byte("theirs"), 0o600))
			output := filepath.Join(out, "output_0.f32")
			put(t, theirs, output)
			printed(t, dir, 0, "run", faceModel(t), "--output-dir", "out")
			content, err := os.ReadFile(theirs)
			require.NoError(t, err)
			require.Equal(t, "theirs", string(content))
			info, err := os.Lstat(output)
			require.NoError(t, err)
			require.True(t, info.Mode().IsRegular())
		})
	}
}
