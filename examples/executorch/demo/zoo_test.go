//go:build linux && cgo

package main

import (
	"cmp"
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

// taken are programs in which the stock runtime takes one packing for another: two nodes have one kernel and bias, and
// other scales.
var taken = []string{"encoder_int8", "two_int8"}

// packsEachTime reports whether a program has deconvolutions, whose weights XNNPACK does not look up.
func packsEachTime(p program) bool {
	return strings.HasPrefix(p.name(), "conv_transpose") || strings.HasPrefix(p.name(), "unet")
}

// zoo returns the programs of package zoo, or of the directory that XPWC_ZOO names.
func zoo(t *testing.T) (all []program) {
	t.Helper()
	dir := cmp.Or(os.Getenv("XPWC_ZOO"), filepath.Join("..", "..", "..", "internal", "zoo", "testdata"))
	paths, err := filepath.Glob(filepath.Join(dir, "pte", "*.pte"))
	require.NoError(t, err)
	require.NotEmpty(t, paths, dir)
	for _, path := range paths {
		p := program{path: path}
		p.inputs, err = filepath.Glob(strings.TrimSuffix(path, ".pte") + ".in*.npy")
		require.NoError(t, err)
		require.NotEmpty(t, p.inputs, path)
		all = append(all, p)
	}
	return all
}

func (p program) name() string { return strings.TrimSuffix(filepath.Base(p.path), ".pte") }

func TestWithAFileThatWasPackedAheadOfTimeTheStockRuntimeAnswersTheSame(t *testing.T) {
	h := stock(t)
	levels := []string{"native"}
	if runtime.GOARCH == "amd64" {
		levels = []string{"sse2", "avx2", "native"}
	}
	for _, p := range zoo(t) {
		for _, level := range testkit.Drawn(t, levels) {
			t.Run(p.name()+"/"+level, func(t *testing.T) {
				t.Parallel()
				if slices.Contains(taken, p.name()) {
					require.ErrorContains(t, pack(built.tool, p, level, filepath.Join(t.TempDir(), "file")),
						"would take one for another")
					return
				}
				on := h
				if level != "native" {
					on = h.onCPU(level)
				}
				file := packFor(t, p, level)
				if strings.HasPrefix(p.name(), "prelu") {
					t.Skip("with any cache the stock runtime gives the slopes of PReLU back, and then reads them")
				}
				before := stateOf(t, file)
				with := on.mustRun(t, p, file)
				require.Equal(t, on.mustRun(t, p, "").outputs, with.outputs, "bit for bit")
				require.Equal(t, packsEachTime(p), with.PackedEntries > 0)
				if before == (state{}) {
					return
				}
				require.Equal(t, before, stateOf(t, file), "the file is left as it was")
				require.Contains(t, with.Log, "Loaded packed weight cache: "+file)
				require.NotContains(t, with.Log, "mismatch")
			})
		}
	}
}

// A host need not know whether its program has anything to pack.
func TestAProgramWithNothingToPackRunsWithAPathOfNoFile(t *testing.T) {
	h := stock(t)
	p := program{path: filepath.Join("..", "..", "..", "executorch", "testdata", "no_weights.pte")}
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, pack(built.tool, p, "native", file))
	require.NoFileExists(t, file)
	require.Equal(t, h.mustRun(t, p, "").outputs, h.mustRun(t, p, file).outputs)
}

// That is why each deployment has a file of its own, and proves it.
func TestTheStockRuntimeBelievesAFileThatIsLeftBesideAnExportedAgainProgram(t *testing.T) {
	h := stock(t)
	testdata := filepath.Join("..", "..", "..", "executorch", "testdata")
	again := program{path: filepath.Join(testdata, "calibrated_again.pte")}
	input := filepath.Join(t.TempDir(), "in.npy")
	rows := make([]byte, 2*24)
	for i := range rows {
		rows[i] = byte(i)
	}
	require.NoError(t, os.WriteFile(input, append(npy.Header(npy.Int8, []int{2, 24}), rows...), 0o600))
	again.inputs = []string{input}
	want := h.mustRun(t, again, "").outputs
	require.Equal(t, want, requireUntouched(t, h, again, packFor(t, again, "native")).outputs)

	stale := packFor(t, program{path: filepath.Join(testdata, "calibrated.pte")}, "native")
	require.NotEqual(t, want, requireUntouched(t, h, again, stale).outputs, "without a word")
	out, err := exec.Command(built.tool, "verify", stale, "--model", again.path).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "is another program: pack it")
}
