//go:build cgo

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/models/safetensors"
)

// XNNPACK reads what is mapped, and nobody can catch what happens in it. A start may be over, or not have begun to
// read, when the file is cut off: then it is tried again.
func TestAModelThatIsCutOffWhileItIsPackedIsSaidInWords(t *testing.T) {
	model := filepath.Join(t.TempDir(), "model.safetensors")
	var whole bytes.Buffer
	require.NoError(t, safetensors.Write(&whole, []safetensors.Tensor{
		{Name: "w", Dtype: safetensors.F32, Shape: []int{2048, 4096}, Data: make([]byte, 32<<20)}}, nil))
	require.NoError(t, os.WriteFile(model+".json",
		[]byte(`[{"op": "fully_connected", "datatype": "f32", "weights": "w"}]`), 0o600))
	for range 200 {
		require.NoError(t, os.WriteFile(model, whole.Bytes(), 0o600))
		cmd := exec.Command(tool, "run", model)
		var said strings.Builder
		cmd.Stdout, cmd.Stderr = &said, &said
		require.NoError(t, cmd.Start())
		for !hasMapped(cmd.Process.Pid, model) && cmd.ProcessState == nil {
			if _, err := os.Stat(fmt.Sprintf("/proc/%d/exe", cmd.Process.Pid)); err != nil {
				break // it has ended
			}
		}
		require.NoError(t, os.Truncate(model, 4096))
		err := cmd.Wait()
		if strings.Contains(said.String(), "was cut off or overwritten while it was in use") {
			require.Equal(t, exitFailed, cmd.ProcessState.ExitCode())
			require.NotContains(t, said.String(), "goroutine")
			return
		}
		t.Log(err, said.String())
	}
	require.Fail(t, "no start reported it")
}

// hasMapped reports whether a process has a file mapped.
func hasMapped(pid int, path string) bool {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	return err == nil && bytes.Contains(maps, []byte(path))
}
