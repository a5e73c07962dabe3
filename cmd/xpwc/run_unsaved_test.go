//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// runWithLimit is xpwc run --json where no file may have more than so many blocks of 512 bytes.
func runWithLimit(t *testing.T, dir string, blocks int64) (report runReport, stderr string) {
	t.Helper()
	cmd := exec.Command("sh", "-c", fmt.Sprintf(`ulimit -f %d; exec "$0" run --json --cache c.xpwc "$1"`, blocks), tool,
		faceModel(t))
	cmd.Dir = dir
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	require.NoError(t, cmd.Run(), "%d blocks: %s", blocks, &errs)
	require.NoError(t, json.Unmarshal(out.Bytes(), &report))
	return report, errs.String()
}

func TestAModelThatRanIsASuccessWhetherOrNotItIsSaved(t *testing.T) {
	dir := t.TempDir()
	whole, _ := runJSON(t, dir, faceModel(t), "--cache", "c.xpwc")
	path := filepath.Join(dir, "c.xpwc")
	const block = 512
	needed := whole.Cache.FileBytes/block + 1
	payloads := whole.Cache.PayloadBytes / block
	for _, blocks := range []int64{0, 8, needed / 2, payloads, payloads + 2, payloads + 8, (payloads + needed) / 2,
		needed - 1} {
		require.NoError(t, os.Remove(path))
		report, stderr := runWithLimit(t, dir, blocks)
		require.Equal(t, whole.Outputs, report.Outputs)
		require.Contains(t, stderr, "note: the cache c.xpwc could not be saved completely: ", "%d blocks", blocks)
		if _, err := os.Stat(path); err != nil {
			runJSON(t, dir, faceModel(t), "--cache", "c.xpwc") // for the next to remove
		}
	}
}
