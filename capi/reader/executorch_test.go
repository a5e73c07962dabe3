//go:build linux && cgo

package reader_test

import (
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// ExecuTorch's own backend with the class in it is in examples/executorch/stock. Here are methods in several threads,
// and constants without names.
func TestTheClassForExecuTorchServesMethodsThatComeAndGo(t *testing.T) {
	const executorch = "../../third_party/executorch"
	start, smallTensors := program(t, "start.c"), "-DXPWC_READER_LITTLE=0"
	out, err := exec.Command("../../third_party/fetch-executorch").CombinedOutput()
	require.NoError(t, err, "%s", out)
	lib, err := filepath.Abs(executorch + "/lib")
	require.NoError(t, err)
	modes := [][]string{{"-O1"}}
	if !testing.Short() {
		modes = append(modes, sanitizers, []string{"-fsanitize=thread"})
	}
	for _, mode := range modes {
		reader := compiled(t, "xpwc_reader.c", append(slices.Clone(mode), "-c", smallTensors)...)
		// XNNPACK comes before libexecutorch, which would otherwise bring the system's libm.
		host := compiled(t, "testdata/executorch.cc", append(slices.Clone(mode), reader, smallTensors,
			"-DC10_USING_CUSTOM_GENERATED_MACROS", "-isystem", executorch+"/include",
			"-isystem", executorch+"/include/executorch/runtime/core/portable_type/c10",
			"-L"+lib, "-Wl,-rpath,"+lib, "-Wl,--no-as-needed", "-lXNNPACK", "-lexecutorch")...)
		chain := sealedChain(t, start, "float32", "6", "64", "96")
		out, err := exec.Command(host, append(slices.Delete(chain, 1, 2), chainProgram)...).CombinedOutput()
		require.NoError(t, err, "%v\n%s", mode, out)
	}
}
