//go:build linux && cgo

package stock

import (
	"cmp"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/tests/testkit"
)

// confused are programs in which the stock runtime mixes up two packings: two nodes share a kernel and a bias, but have
// different scales.
var confused = []string{"encoder_int8", "two_int8"}

// packsEachTime reports whether a program has deconvolutions, whose weights XNNPACK does not look up.
func packsEachTime(p program) bool {
	return strings.HasPrefix(p.name(), "conv_transpose") || strings.HasPrefix(p.name(), "unet")
}

// zoo returns the programs of package zoo, or of the directory that XPWC_ZOO names.
func zoo(t *testing.T) (programs []program) {
	t.Helper()
	dir := cmp.Or(os.Getenv("XPWC_ZOO"), filepath.Join("..", "..", "..", "internal", "tests", "zoo", "testdata"))
	paths, err := filepath.Glob(filepath.Join(dir, "pte", "*.pte"))
	require.NoError(t, err)
	require.NotEmpty(t, paths, dir)
	for _, path := range paths {
		p := program{path: path}
		p.inputs, err = filepath.Glob(strings.TrimSuffix(path, ".pte") + ".in*.npy")
		require.NoError(t, err)
		require.NotEmpty(t, p.inputs, path)
		programs = append(programs, p)
	}
	return programs
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
				if slices.Contains(confused, p.name()) {
					require.ErrorContains(t, pack(built.tool, p, level, filepath.Join(t.TempDir(), "file")),
						"would take one for another")
					return
				}
				if strings.HasPrefix(p.name(), "prelu") {
					require.ErrorContains(t, pack(built.tool, p, level, filepath.Join(t.TempDir(), "file")),
						"the stock runtime crashes with any file of packed weights")
					return
				}
				on := h
				if level != "native" {
					on = h.onCPU(level)
				}
				file := packFor(t, p, level)
				prev := stateOf(t, file)
				got := on.mustRun(t, p, file)
				require.Equal(t, on.mustRun(t, p, "").outputs, got.outputs, "bit for bit")
				require.Equal(t, packsEachTime(p), got.PackedEntries > 0)
				if prev == (state{}) {
					return
				}
				requireSkeleton(t, on, p, file, got)
				require.Equal(t, prev, stateOf(t, file), "the file is left as it was")
				require.Contains(t, got.Log, "Loaded packed weight cache: "+file)
				require.NotContains(t, got.Log, "mismatch")
			})
		}
	}
}

// stripped are programs of the zoo that a skeleton can be made of. All others are refused.
var stripped = []string{
	"batch_norm1d_fp32", "batch_norm_fp32", "conv1d_dyn", "conv1d_fp32", "conv2d_dw_fp32", "conv2d_fp32",
	"conv2d_groups_fp32", "conv2d_padmode_fp32", "conv2d_same_fp32", "gru_fp32", "linear_1d_fp32",
	"linear_4d_relu_fp32", "linear_bn_fp32", "linear_fp32", "lstm_fp32", "mha_fp32", "mlp_elu_fp32", "mlp_gelu_fp32",
	"state_counter_fp32",
}

// requireSkeleton checks that a program without the weights that a file has computes the same with that file, and
// without it nothing that one might believe, whatever a CPU's kernels make of a NaN where they limit results.
func requireSkeleton(t *testing.T, on host, p program, file string, got run) {
	t.Helper()
	skeleton := p
	skeleton.path = filepath.Join(t.TempDir(), "skeleton.pte")
	out, err := exec.Command(built.tool, "strip", p.path, "--packed", file, "-o", skeleton.path).CombinedOutput()
	if os.Getenv("XPWC_ZOO") == "" {
		require.Equal(t, slices.Contains(stripped, p.name()), err == nil, "%s", out)
	}
	if err != nil {
		require.Contains(t, string(out), "no skeleton can be made of it")
		return
	}
	prev := stateOf(t, file)
	repeated := on.mustRun(t, skeleton, file)
	require.Equal(t, got.outputs, repeated.outputs, "bit for bit")
	require.Equal(t, got.PackedEntries, repeated.PackedEntries)
	require.Equal(t, prev, stateOf(t, file))
	for _, cache := range []string{"", filepath.Join(t.TempDir(), "own")} {
		for _, output := range on.mustRun(t, skeleton, cache).outputs {
			for _, x := range floats(t, output) {
				require.True(t, math.IsNaN(x) || math.IsInf(x, 0), "%g", x)
			}
		}
	}
}

// The runtime finds packed weights by names, and other programs have some of these: with other biases, scales or
// calibration, where a name shows none of them.
func TestASkeletonNeverAnswersWithAnotherProgramsPackedWeights(t *testing.T) {
	h := stock(t)
	programs := append(zoo(t), reported(t)...)
	if !testkit.Complete() {
		programs = slices.DeleteFunc(programs, func(p program) bool {
			return filepath.Dir(p.path) != reportedPrograms && !slices.Contains(stripped, p.name())
		})
	}
	names, files := make([]map[string]bool, len(programs)), make([]string, len(programs))
	for i, p := range programs {
		files[i], names[i] = filepath.Join(t.TempDir(), "file"), map[string]bool{}
		if pack(built.tool, p, "native", files[i]) == nil && stateOf(t, files[i]) != (state{}) {
			for name := range entriesOf(t, files[i]) {
				names[i][name] = true
			}
		}
	}
	for i, p := range programs {
		if !slices.Contains(stripped, p.name()) && !slices.Contains(mixed, p.name()) {
			continue
		}
		t.Run(p.name(), func(t *testing.T) {
			t.Parallel()
			want := h.mustRun(t, p, "").outputs
			skeleton := p
			skeleton.path = filepath.Join(t.TempDir(), "skeleton.pte")
			strip := exec.Command(built.tool, "strip", p.path, "--packed", files[i], "-o", skeleton.path)
			out, err := strip.CombinedOutput()
			require.NoError(t, err, "%s", out)
			require.Equal(t, want, h.mustRun(t, skeleton, copied(t, files[i])).outputs)
			shared := 0
			for j, another := range programs {
				if i == j || !intersect(names[i], names[j]) {
					continue
				}
				shared++
				outputs := h.mustRun(t, skeleton, copied(t, files[j])).outputs
				if reflect.DeepEqual(want, outputs) {
					continue // all that the skeleton lacks is the same there
				}
				for _, output := range outputs {
					for _, x := range floats(t, output) {
						require.True(t, math.IsNaN(x) || math.IsInf(x, 0), "file of %s: %g", another.name(), x)
					}
				}
			}
			require.True(t, shared > 0 || !slices.Contains(mixed, p.name()), "it shares no names")
		})
	}
}

// mixed are reported programs whose last layer is the same, of floats, after layers of int8 with one kernel and other
// biases or scales.
var mixed = []string{"mixd1", "mixd2", "mixd3", "nb1", "nb2"}

// copied returns a copy of a file. As root the runtime locks a file, and writes to it.
func copied(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	duplicate := filepath.Join(t.TempDir(), "copy")
	require.NoError(t, os.WriteFile(duplicate, content, 0o444))
	return duplicate
}

func intersect(a, b map[string]bool) bool {
	for name := range a {
		if b[name] {
			return true
		}
	}
	return false
}

// A host need not know whether its program has anything to pack.
func TestAProgramWithNothingToPackRunsWithAPathOfNoFile(t *testing.T) {
	h := stock(t)
	p := program{path: filepath.Join("..", "..", "..", "models", "executorch", "testdata", "no_weights.pte")}
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, pack(built.tool, p, "native", file))
	require.NoFileExists(t, file)
	require.Equal(t, h.mustRun(t, p, "").outputs, h.mustRun(t, p, file).outputs)
}

// reportedPrograms is the folder of programs that users reported.
var reportedPrograms = filepath.Join("..", "..", "..", "models", "executorch", "testdata", "reported")

// reported returns the programs that users reported.
func reported(t *testing.T) (programs []program) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(reportedPrograms, "*.pte"))
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		p := program{path: path}
		p.inputs, err = filepath.Glob(strings.TrimSuffix(path, ".pte") + ".in*.npy")
		require.NoError(t, err)
		programs = append(programs, p)
	}
	return programs
}

// crashing are reported programs that read slopes of a PReLU or a kernel at inference.
var crashing = []string{"srnet_fp32", "prelu4", "prelu_m", "linear_plus_kernel", "tied_autoencoder"}

// In half precision XNNPACK packs a layer otherwise where it can fuse it with its neighbours in the method.
func TestTheStockRuntimePacksNothingOfReportedPrograms(t *testing.T) {
	h := stock(t)
	for _, p := range reported(t) {
		t.Run(p.name(), func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "file")
			err := pack(built.tool, p, "native", file)
			if slices.Contains(crashing, p.name()) {
				require.ErrorContains(t, err, "the stock runtime crashes with any file of packed weights")
				require.NoFileExists(t, file)
				return
			}
			require.NoError(t, err)
			without := h.mustRun(t, p, "").outputs
			if stateOf(t, file) == (state{}) {
				return // it has nothing to pack
			}
			require.Equal(t, without, requireUntouched(t, h, p, file).outputs, "bit for bit")
			own := filepath.Join(t.TempDir(), "own")
			h.mustRun(t, p, own)
			require.Equal(t, entriesOf(t, own), entriesOf(t, file), "what ExecuTorch would have packed")
		})
	}
}

// That is why each deployment has a file of its own, and proves it.
func TestTheStockRuntimeBelievesAFileThatIsLeftBesideAnExportedAgainProgram(t *testing.T) {
	h := stock(t)
	testdata := filepath.Join("..", "..", "..", "models", "executorch", "testdata")
	calibrated := program{path: filepath.Join(testdata, "calibrated_again.pte")}
	input := calibrationRows(t)
	calibrated.inputs = []string{input}
	want := h.mustRun(t, calibrated, "").outputs
	require.Equal(t, want, requireUntouched(t, h, calibrated, packFor(t, calibrated, "native")).outputs)

	stale := packFor(t, program{path: filepath.Join(testdata, "calibrated.pte")}, "native")
	require.NotEqual(t, want, requireUntouched(t, h, calibrated, stale).outputs, "without a word")
	out, err := exec.Command(built.tool, "verify", stale, "--model", calibrated.path).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "is another program: pack it")
}
