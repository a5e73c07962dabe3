//go:build linux && cgo

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/testkit"
	"xpwc/npy"
)

// dropIn returns the stock host with the drop-in class in its XNNPACK backend, in place of the backend's own.
func dropIn(t *testing.T) host {
	t.Helper()
	h := stock(t)
	if runtime.GOARCH != "amd64" {
		t.Skip("the layout of the backend's class is known for x86-64")
	}
	root, err := filepath.Abs(filepath.Join("..", "..", ".."))
	require.NoError(t, err)
	dir := t.TempDir()
	library := filepath.Join(dir, "drop_in.so")
	for _, command := range []string{
		`cd "$0" && scripts/with-xnnpack scripts/build-lib "$1"`,
		`cd "$0/capi" && g++ -std=c++17 -O1 -Wall -Wextra -Werror -shared -fPIC -DXNNWeightsCache=DropIn ` +
			`-DXNNWeightsCacheManager=DropInManager -o "$1/drop_in.so" -Iinclude $(go env CGO_CFLAGS) ` +
			`@testdata/executorch/flags testdata/executorch/real.cc @testdata/executorch/sources "$1/libxpwc.a" -ldl`,
	} {
		out, err := exec.Command("sh", "-c", command, root, dir).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	h.environment = []string{"LD_PRELOAD=" + library}
	return h
}

// exportedAgain returns two programs with the same names for packed weights, whose scales differ.
func exportedAgain(t *testing.T) (programs []program) {
	t.Helper()
	input := filepath.Join(t.TempDir(), "in.npy")
	rows := make([]byte, 2*24)
	for i := range rows {
		rows[i] = byte(i)
	}
	require.NoError(t, os.WriteFile(input, append(npy.Header(npy.Int8, []int{2, 24}), rows...), 0o600))
	for _, name := range []string{"calibrated", "calibrated_again"} {
		path := filepath.Join("..", "..", "..", "executorch", "testdata", name+".pte")
		programs = append(programs, program{path: path, inputs: []string{input}})
	}
	return programs
}

// hard are programs that the stock runtime's own cache gets wrong.
func hard(p program) bool {
	return slices.Contains(taken, p.name()) || strings.HasPrefix(p.name(), "prelu")
}

// ExecuTorch's real backend makes the calls here, with its names, and with scales that only the program has. All
// programs share one file: what one has left there, another one may take for its own.
func TestInTheRealBackendTheDropInAnswersTheSameInWhateverOrderProgramsCome(t *testing.T) {
	h := dropIn(t)
	programs := exportedAgain(t)
	seed := testkit.Seed(t)
	for i, p := range zoo(t) {
		if !testing.Short() || hard(p) || i%8 == int(seed%8) {
			programs = append(programs, p)
		}
	}
	plain, want := stock(t), map[string][]npy.Array{}
	for _, p := range programs {
		want[p.path] = plain.mustRun(t, p, "").outputs
	}
	reversed := slices.Clone(programs)
	slices.Reverse(reversed)
	for _, mode := range testkit.Drawn(t, []string{"", "XPWC_SET_PROGRAM=1"}) {
		for order, programs := range map[string][]program{"forwards": programs, "backwards": reversed} {
			t.Run(order+" "+mode, func(t *testing.T) {
				t.Parallel()
				on := h
				on.environment = append(slices.Clone(h.environment), mode)
				file := filepath.Join(t.TempDir(), "file")
				all := func() {
					for _, p := range programs {
						require.Equal(t, want[p.path], on.mustRun(t, p, file).outputs, p.name())
					}
				}
				all()
				packed := stateOf(t, file)
				require.NotZero(t, packed)
				all()
				require.Equal(t, packed, stateOf(t, file), "next starts write nothing")
			})
		}
	}
}
