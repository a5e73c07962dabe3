package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"xpwc/internal/tests/testkit"
)

// holder starts a process that has a cache open until the test ends.
func holder(t *testing.T, path string) *exec.Cmd {
	t.Helper()
	cmd := testkit.Command()
	cmd.Env = append(os.Environ(), envHolds+"="+path)
	testkit.Await(t, cmd, "<nil>")
	return cmd
}

func TestWhoHasACacheMappedAndWhetherItIsShared(t *testing.T) {
	dir, file := packed(t, face)
	survey := func() (*usersReport, map[int]userReport, string) {
		t.Helper()
		r := reported[usersReport](t, dir, 0, "who", "model.xpwc")
		require.Equal(t, file, r.Path)
		processes := map[int]userReport{}
		for _, p := range r.Processes {
			processes[p.PID] = p
			require.Positive(t, p.Resident)
			require.Equal(t, p.Resident, p.Shared+p.Private)
		}
		text := printed(t, dir, 0, "who", "model.xpwc")
		for line := range strings.Lines(text) {
			require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimRight(line, "\n")), 80, line)
		}
		require.True(t, strings.HasSuffix(strings.ReplaceAll(text, "\n", " "), " "+r.Answer+" "), text)
		return &r, processes, text
	}

	r, _, _ := survey()
	require.Empty(t, r.Processes)
	require.False(t, r.Shared)
	require.Contains(t, r.Answer, "no process has the file mapped")
	require.EqualValues(t, 1, r.Generation)
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, info.Size(), r.FileBytes)

	first := holder(t, file)
	r, processes, _ := survey()
	require.False(t, r.Shared)
	require.Contains(t, r.Answer, fmt.Sprintf("only %d ", first.Process.Pid))
	require.EqualValues(t, 1, processes[first.Process.Pid].Generation)

	runJSON(t, dir, testModel(t, selfie), "--cache", "model.xpwc") // a second generation of the same file
	second := holder(t, file)
	r, processes, text := survey()
	require.True(t, r.Shared)
	require.Contains(t, r.Answer, "Shared: 2 processes")
	require.EqualValues(t, 2, r.Generation)
	require.EqualValues(t, 1, processes[first.Process.Pid].Generation)
	require.EqualValues(t, 2, processes[second.Process.Pid].Generation)
	require.True(t, processes[first.Process.Pid].Current)
	require.Regexp(t, fmt.Sprintf(`(?m)^ *%d .* 1 `, first.Process.Pid), text)
	require.Regexp(t, fmt.Sprintf(`(?m)^ *%d .* 2 `, second.Process.Pid), text)

	runJSON(t, dir, testModel(t, "selfie_segmentation_landscape.tflite"), "--cache", "model.xpwc")
	runJSON(t, dir, testModel(t, "face_detection_full_range.tflite"), "--cache", "model.xpwc")
	_, processes, _ = survey()
	require.Zero(t, processes[first.Process.Pid].Generation, "the header knows two generations")

	printed(t, dir, 0, "compact", "model.xpwc")
	third := holder(t, file)
	r, processes, text = survey()
	require.False(t, r.Shared)
	require.Contains(t, r.Answer, "2 processes still have an earlier file")
	require.True(t, processes[third.Process.Pid].Current)
	require.False(t, processes[second.Process.Pid].Current)
	require.Contains(t, text, " (earlier) ")

	require.NoError(t, os.Remove(file))
	r, _, text = survey()
	require.False(t, r.Present)
	require.Len(t, r.Processes, 3)
	require.Contains(t, text, "nothing is there now")
}

func TestWhoOfWhatIsNoCache(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "notes"), []byte("my notes"), 0o600))
	require.Contains(t, printed(t, dir, 0, "who", "notes"), "no process has the file mapped")
	require.Contains(t, printed(t, dir, 1, "who", "absent"), "absent: no such file")
	require.Contains(t, printed(t, dir, 1, "who", "."), "not a regular file")
	require.Contains(t, printed(t, dir, 2, "who"), "usage: xpwc who FILE")
}
