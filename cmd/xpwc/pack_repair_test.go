package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPackingAgainRepairsWhatIsDamaged(t *testing.T) {
	dir := t.TempDir()
	first := packJSON(t, dir, faceModel(t), "-o", "c.xpwc")
	entry := reported[inspection](t, dir, 0, "inspect", "c.xpwc").Entries[3]
	path := filepath.Join(dir, "c.xpwc")
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	content[entry.Offset] ^= 1
	require.NoError(t, os.WriteFile(path, content, 0o600))
	printed(t, dir, exitFailed, "verify", "c.xpwc")
	second := packJSON(t, dir, faceModel(t), "-o", "c.xpwc")
	require.EqualValues(t, 1, second.Levels[0].Packed)
	require.Equal(t, 1, second.LeftOut)
	require.Equal(t, first.Entries, second.Entries)
	printed(t, dir, 0, "verify", "c.xpwc")
}

func TestPackingAnotherModelLeavesOutWhatItCannotRepair(t *testing.T) {
	dir := t.TempDir()
	first := packJSON(t, dir, faceModel(t), "-o", "c.xpwc")
	faces := reported[inspection](t, dir, 0, "inspect", "c.xpwc").Entries[0]
	packJSON(t, dir, testModel(t, selfie), "-o", "c.xpwc")
	path := filepath.Join(dir, "c.xpwc")
	v := reported[inspection](t, dir, 0, "inspect", "c.xpwc")
	i := slices.IndexFunc(v.Entries, func(e entryReport) bool { return e.Sum == faces.Sum })
	require.GreaterOrEqual(t, i, 0)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	content[v.Entries[i].Offset] ^= 1
	require.NoError(t, os.WriteFile(path, content, 0o600))
	text := printed(t, dir, 0, "pack", testModel(t, selfie), "-o", "c.xpwc")
	require.Contains(t, text, "note: 1 entry had a wrong checksum and was left out")
	require.Equal(t, v.Total-1, reported[verification](t, dir, 0, "verify", "c.xpwc").Entries)
	require.EqualValues(t, 1, packJSON(t, dir, faceModel(t), "-o", "c.xpwc").Levels[0].Packed)
	require.Less(t, first.Entries, v.Total)
}

// The description of a layout names an architecture, and is the same for all levels of CPU.
func TestPackReportsTheLayoutOfEachLevel(t *testing.T) {
	dir := t.TempDir()
	levels := "native"
	if runtime.GOARCH == "amd64" {
		levels = "sse2,native"
	}
	report := packJSON(t, dir, faceModel(t), "-o", "c.xpwc", "--cpu", levels)
	v := reported[inspection](t, dir, 0, "inspect", "c.xpwc")
	require.Equal(t, v.Current, report.Levels[len(report.Levels)-1].Layout)
	for _, level := range report.Levels {
		n := 0
		for _, e := range v.Entries {
			if e.Layout.String() == level.Layout {
				n++
			}
		}
		require.EqualValues(t, level.Packed, n, level.CPU)
	}
	require.Contains(t, printed(t, dir, 0, "pack", faceModel(t), "-o", "c.xpwc"), v.Current[:shortLayout])
}

func TestAPackThatFailsSaysWhyAndThatNothingWasWritten(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there is no limit of file sizes")
	}
	dir := t.TempDir()
	cmd := exec.Command("sh", "-c", `ulimit -f 100 && exec "$0" "$@"`, tool, "pack", faceModel(t), "-o", "c.xpwc")
	cmd.Dir = dir
	said, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Equal(t, exitFailed, cmd.ProcessState.ExitCode())
	require.Contains(t, string(said), "file too large")
	require.Contains(t, string(said), "nothing was written to c.xpwc")
	require.NotContains(t, string(said), "exit status")
	requireNoStage(t, dir)
	require.NoFileExists(t, filepath.Join(dir, "c.xpwc"))
}

// Ctrl-C reaches all processes in front of a terminal, and this one may hear of the other's end first.
func TestAProcessThatWasInterruptedDidNotFail(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("processes do not end by signals")
	}
	for script, want := range map[string]bool{"kill -INT $$": true, "kill -TERM $$": true, "kill -KILL $$": false,
		"exit 1": false} {
		var exit *exec.ExitError
		require.ErrorAs(t, exec.Command("sh", "-c", script).Run(), &exit)
		require.Equal(t, want, stopped(exit), script)
	}
}
