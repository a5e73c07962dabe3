//go:build linux && cgo

package stock

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/tests/testkit"
	"xpwc/models/safetensors"
)

// dropIn returns the stock host with the drop-in class in its XNNPACK backend, in place of the backend's own.
func dropIn(t *testing.T) host {
	t.Helper()
	return withClass(t, `cd "$0" && scripts/with-xnnpack scripts/build-lib "$1"`,
		compileClass+`-DXNNWeightsCacheManager=DropInManager @testdata/executorch/sources "$1/libxpwc.a" -ldl`)
}

// dropInOnReader does so with the class on the reader of sealed files.
func dropInOnReader(t *testing.T) host {
	t.Helper()
	return withClass(t, `cd "$0/capi/reader" && gcc -std=c99 -O1 -Wall -Wextra -Werror -fPIC -fvisibility=hidden -c `+
		`-DXPWC_READER_LITTLE=0 -o "$1/reader.o" -I. -I../include -I../.. $(go env CGO_CFLAGS) xpwc_reader.c`,
		compileClass+`-DON_READER -fno-exceptions -fno-rtti "$1/reader.o" -ldl`)
}

// compileClass makes the library of a class that takes the place of the backend's, of a compiler's further arguments.
const compileClass = `cd "$0/capi" && g++ -std=c++17 -O1 -Wall -Wextra -Werror -shared -fPIC ` +
	`-DXNNWeightsCache=DropIn -o "$1/drop_in.so" -Iinclude -Ireader $(go env CGO_CFLAGS) ` +
	`@testdata/executorch/flags testdata/executorch/real.cc `

func withClass(t *testing.T, commands ...string) host {
	t.Helper()
	h := stock(t)
	if runtime.GOARCH != "amd64" {
		t.Skip("the layout of the backend's class is known for x86-64")
	}
	root, err := filepath.Abs(filepath.Join("..", "..", ".."))
	require.NoError(t, err)
	dir := t.TempDir()
	for _, command := range commands {
		out, err := exec.Command("sh", "-c", command, root, dir).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	h.environment = []string{"LD_PRELOAD=" + filepath.Join(dir, "drop_in.so")}
	return h
}

// calibrationRows writes the input of the programs that are calibrated.
func calibrationRows(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "in.npy")
	header := "{'descr': '|i1', 'fortran_order': False, 'shape': (2, 24)}"
	content := fmt.Appendf(nil, "\x93NUMPY\x01\x00%c\x00%s", len(header), header)
	for i := range 2 * 24 {
		content = append(content, byte(i))
	}
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return path
}

// exportedAgain returns two programs with the same names for packed weights, whose scales differ.
func exportedAgain(t *testing.T) (programs []program) {
	t.Helper()
	input := calibrationRows(t)
	for _, name := range []string{"calibrated", "calibrated_again"} {
		path := filepath.Join("..", "..", "..", "models", "executorch", "testdata", name+".pte")
		programs = append(programs, program{path: path, inputs: []string{input}})
	}
	return programs
}

// hard are programs that the stock runtime's own cache gets wrong.
func hard(p program) bool {
	return slices.Contains(confused, p.name()) || strings.HasPrefix(p.name(), "prelu")
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
	plain, want := stock(t), map[string][]safetensors.Tensor{}
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
				runAll := func() {
					for _, p := range programs {
						require.Equal(t, want[p.path], on.mustRun(t, p, file).outputs, p.name())
					}
				}
				runAll()
				packed := stateOf(t, file)
				require.NotZero(t, packed)
				runAll()
				require.Equal(t, packed, stateOf(t, file), "next starts write nothing")
			})
		}
	}
}

// The stock runtime crashes on these, also without a cache: it frees the kernel. The outputs are PyTorch's.
func TestInTheRealBackendTheDropInKeepsKernelsThatInferenceReads(t *testing.T) {
	h := dropIn(t)
	for _, name := range []string{"linear_plus_kernel", "tied_autoencoder"} {
		path := filepath.Join(reportedPrograms, name)
		p := program{path: path + ".pte", inputs: []string{path + ".in0.npy"}}
		want := array(t, path+".out0.npy")
		for _, h := range []host{h, h.givingProgram()} {
			file := filepath.Join(t.TempDir(), "file")
			for range 2 {
				got := h.mustRun(t, p, file).outputs
				require.Len(t, got, 1)
				require.Less(t, relativeL2(t, got[0], want), 1e-5, name)
			}
		}
	}
}

// classCounts are packed weights of the class on the reader.
type classCounts struct{ lookups, compared, packed int }

func countsOf(t *testing.T, r run) (c classCounts) {
	t.Helper()
	_, line, ok := strings.Cut(r.Log, "drop-in: ")
	require.True(t, ok, r.Log)
	_, err := fmt.Sscanf(line, "found %d, compared %d, packed %d", &c.lookups, &c.compared, &c.packed)
	require.NoError(t, err)
	return c
}

// givingProgram is the host whose backend gives the class the bytes of each delegate.
func (h host) givingProgram() host {
	h.environment = append(slices.Clone(h.environment), "XPWC_SET_PROGRAM=1")
	return h
}

// sealedFor packs a program for the class on the reader: packed_cache_path; "" if the program packs nothing.
func sealedFor(t *testing.T, p program) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	out, err := exec.Command(built.tool, "pack", p.path, "--sealed", "-o", file).CombinedOutput()
	require.NoError(t, err, "%s", out)
	_, line, ok := strings.Cut(string(out), "sealed for the model ")
	if !ok {
		require.Contains(t, string(out), "no weights that XNNPACK packs through a cache")
		return ""
	}
	return file + "#" + strings.Fields(line)[0]
}

// An app ships its program with a sealed file: its starts pack nothing, and need no library but XNNPACK.
func TestInTheRealBackendTheDropInOnTheReaderPacksNothingThatTheSealedFileHas(t *testing.T) {
	h, plain := dropInOnReader(t), stock(t)
	seed := testkit.Seed(t)
	for i, p := range slices.Concat(exportedAgain(t), zoo(t)) {
		if testing.Short() && i%8 != int(seed%8) {
			continue
		}
		t.Run(p.name(), func(t *testing.T) {
			t.Parallel()
			sealed := sealedFor(t, p)
			if sealed == "" {
				return
			}
			file, digest, _ := strings.Cut(sealed, "#")
			want := plain.mustRun(t, p, "").outputs
			start := func(h host, cache string) classCounts {
				r := h.mustRun(t, p, cache)
				require.Equal(t, want, r.outputs, "bit for bit")
				return countsOf(t, r)
			}
			for _, without := range []string{filepath.Join(t.TempDir(), "absent#") + digest, file} {
				c := start(h, without)
				require.Zero(t, c.lookups+c.compared)
				require.Positive(t, c.packed)
			}
			prev := stateOf(t, file)
			withoutBytes, withBytes := start(h, sealed), start(h.givingProgram(), sealed)
			require.Equal(t, prev, stateOf(t, file))
			if slices.Contains(confused, p.name()) {
				return // the bytes do not decide which of several packings a node uses
			}
			require.Zero(t, withoutBytes.packed+withBytes.packed)
			require.Zero(t, withoutBytes.lookups, "shapes and scales could differ")
			switch {
			case packsEachTime(p):
			case strings.HasPrefix(p.name(), "calibrated"): // its constant's name is no hash of the content
				require.Zero(t, withBytes.lookups)
			default:
				require.Zero(t, withBytes.compared)
				require.Positive(t, withBytes.lookups)
			}
			stale := file + "#" + strings.Repeat("0", len(digest))
			require.Positive(t, start(h, stale).packed, "the file is of another model")
			if withBytes.compared == 0 {
				require.Equal(t, withBytes, start(h.givingProgram(), stale), "the bytes identify the program")
			}
		})
	}
}

// An app may leave an old file and its digest next to a program that was exported again.
func TestInTheRealBackendTheDropInOnTheReaderComputesAnExportedAgainProgramRight(t *testing.T) {
	h, plain := dropInOnReader(t), stock(t)
	var otherBias []program // of kernels whose inputs are quantised at inference
	for _, name := range []string{"b1", "b2"} {
		path := filepath.Join(reportedPrograms, name)
		otherBias = append(otherBias, program{path: path + ".pte", inputs: []string{path + ".in0.npy"}})
	}
	for _, pair := range [][]program{exportedAgain(t), otherBias} {
		for i, packed := range pair {
			sibling := pair[1-i]
			stale := sealedFor(t, packed)
			require.NotEqual(t, plain.mustRun(t, packed, "").outputs, plain.mustRun(t, sibling, "").outputs)
			for _, h := range []host{h, h.givingProgram()} {
				require.Equal(t, plain.mustRun(t, sibling, "").outputs, h.mustRun(t, sibling, stale).outputs,
					sibling.name())
				want := plain.mustRun(t, packed, "").outputs
				require.Equal(t, want, h.mustRun(t, packed, stale).outputs, packed.name())
			}
			first, second := h.givingProgram().mustRun(t, packed, stale), h.givingProgram().mustRun(t, sibling, stale)
			require.Zero(t, countsOf(t, first).packed)
			require.Zero(t, countsOf(t, second).lookups, "the export changed the delegate")
		}
	}
}
