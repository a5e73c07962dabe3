//go:build linux && cgo

package stock

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"xpwc/cachefile"
	"xpwc/internal/instance"
	"xpwc/models/executorch"
	"xpwc/models/npy"
	"xpwc/models/safetensors"
	"xpwc/xnnpack"
)

// These tests run where this project is built on the XNNPACK that the host has too.
var onExecuTorch = len(executorch.ReleasesOf(runtime.GOARCH, xnnpack.BuildIdentifier())) > 0

var built struct {
	host      host
	tool      string // xpwc
	lesserCPU string // the library that makes the host one of a lesser CPU
}

func TestMain(m *testing.M) {
	code, err := buildAndRun(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func buildAndRun(m *testing.M) (int, error) {
	if !onExecuTorch {
		return m.Run(), nil
	}
	dir, err := os.MkdirTemp("", "stock")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	built.host.path = filepath.Join(dir, "host")
	built.tool = filepath.Join(dir, "xpwc")
	built.lesserCPU = filepath.Join(dir, "lesser_cpu.so")
	shims := filepath.Join("..", "..", "..", "xnnpack")
	include := filepath.Join("..", "..", "..", "third_party", "executorch-xnnpack", "include")
	for _, command := range [][]string{
		{"make", "-C", "..", "BUILD=" + dir, "CXXFLAGS=-O1 -Werror"},
		{"go", "build", "-C", filepath.Join("..", "..", "..", "cmd", "xpwc"), "-o", built.tool, "."},
		{"gcc", "-Wall", "-Wextra", "-Werror", "-O1", "-fPIC", "-shared", "-o", built.lesserCPU,
			"-I", shims, "-I", include, filepath.Join("testdata", "lesser_cpu.c"), filepath.Join(shims, "limit_cpu.c")},
	} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			return 0, fmt.Errorf("%s: %w\n%s", strings.Join(command, " "), err, out)
		}
	}
	return m.Run(), nil
}

// stock returns the built host.
func stock(t *testing.T) host {
	t.Helper()
	if !onExecuTorch {
		t.Skip("the XNNPACK of these tests is not ExecuTorch's")
	}
	return built.host
}

// onCPU returns the host as it is on a lesser CPU, a level of xnnpack.LimitCPU.
func (h host) onCPU(level string) host {
	h.environment = []string{
		"LD_PRELOAD=" + built.lesserCPU,
		fmt.Sprint("LESSER_CPU=", slices.Index(xnnpack.CPULevels(), level)),
	}
	return h
}

// goldenPrograms are programs that ExecuTorch exported and ran, and how far its outputs on other CPUs may be from
// these.
var goldenPrograms = []struct {
	name       string
	relativeL2 float64
}{
	{"mlp_fp32", 1e-4},
	{"mlp_dyn_fp32", 1e-4},
	{"mlp_fp16", 5e-3},
	{mobilenet, 3e-2},
	{"mobilenet_v2_fp32_ext", 1e-3},
	{"llama_8da4w_g32", 5e-2},
}

const mobilenet = "mobilenet_v3_small_int8"

// golden returns a program with its inputs, and the paths of its outputs, from the repository or, if it is too large
// for that, from the directory that XPWC_PROGRAMS names. Without that the test is skipped.
func golden(t *testing.T, name string) (p program, outputs []string) {
	t.Helper()
	dir := filepath.Join("..", "..", "..", "models", "executorch", "testdata", "programs")
	if _, err := os.Stat(filepath.Join(dir, name+".pte")); err != nil {
		if dir = os.Getenv("XPWC_PROGRAMS"); dir == "" {
			t.Skip("XPWC_PROGRAMS does not say where ", name, " is")
		}
	}
	p.path = filepath.Join(dir, name+".pte")
	require.FileExists(t, p.path)
	for pattern, files := range map[string]*[]string{".ptd": &p.data, ".in*.npy": &p.inputs, ".out*.npy": &outputs} {
		var err error
		*files, err = filepath.Glob(filepath.Join(dir, name+pattern))
		require.NoError(t, err)
	}
	return p, outputs
}

func array(t *testing.T, path string) safetensors.Tensor {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	a, err := npy.Read(b)
	require.NoError(t, err)
	return a
}

// A run is what the host reports, and its outputs.
type run struct {
	*report
	outputs []safetensors.Tensor
}

func (h host) mustRun(t *testing.T, p program, cache string) run {
	t.Helper()
	dir := t.TempDir()
	r, err := h.run(p, cache, dir)
	require.NoError(t, err)
	out := run{report: r}
	for _, path := range r.outputFiles(dir) {
		out.outputs = append(out.outputs, array(t, path))
	}
	return out
}

// floats returns the elements of an array of single or half precision.
func floats(t *testing.T, a safetensors.Tensor) []float64 {
	t.Helper()
	var out []float64
	switch a.Dtype {
	case safetensors.F32:
		for b := range slices.Chunk(a.Data, 4) {
			out = append(out, float64(math.Float32frombits(binary.LittleEndian.Uint32(b))))
		}
	case safetensors.F16:
		wide := make([]byte, 2*len(a.Data))
		require.NoError(t, xnnpack.WidenF16(wide, a.Data))
		return floats(t, safetensors.Tensor{Dtype: safetensors.F32, Data: wide})
	default:
		t.Fatal(a.Dtype)
	}
	return out
}

// relativeL2 is the norm of the difference over the norm of the expected values.
func relativeL2(t *testing.T, got, want safetensors.Tensor) float64 {
	t.Helper()
	require.Equal(t, want.Shape, got.Shape)
	require.Equal(t, want.Dtype, got.Dtype)
	g := floats(t, got)
	var difference, norm float64
	for i, w := range floats(t, want) {
		difference, norm = difference+(g[i]-w)*(g[i]-w), norm+w*w
	}
	return math.Sqrt(difference / norm)
}

// A state is how a file is left.
type state struct {
	size     int64
	sum      [sha256.Size]byte
	modified time.Time
}

// stateOf returns no state if there is no file.
func stateOf(t *testing.T, path string) state {
	t.Helper()
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return state{}
	}
	require.NoError(t, err)
	info, err := os.Stat(path)
	require.NoError(t, err)
	return state{info.Size(), sha256.Sum256(b), info.ModTime()}
}

// An entry is what ExecuTorch's file has under a name.
type entry struct {
	seed   uint32
	packed []byte
}

func entriesOf(t *testing.T, path string) map[string]entry {
	t.Helper()
	f, err := cachefile.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	entries := map[string]entry{}
	for e, err := range f.Entries() {
		require.NoError(t, err)
		packed, err := io.ReadAll(f.Payload(e))
		require.NoError(t, err)
		entries[e.Name] = entry{e.Seed, packed}
	}
	return entries
}

func TestTheStockRuntimePacksNothingOfAFileThatWasPackedAheadOfTime(t *testing.T) {
	h := stock(t)
	for _, c := range goldenPrograms {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p, want := golden(t, c.name)
			without := h.mustRun(t, p, "")
			require.Len(t, without.outputs, len(want))
			for i, path := range want {
				l2 := relativeL2(t, without.outputs[i], array(t, path))
				t.Logf("output %d: relative l2 %.1e", i, l2)
				require.LessOrEqual(t, l2, c.relativeL2)
			}

			file := packFor(t, p, "native")
			require.Equal(t, without.outputs, requireUntouched(t, h, p, file).outputs, "bit for bit")

			ownFile := filepath.Join(t.TempDir(), "own")
			cold := h.mustRun(t, p, ownFile)
			require.Equal(t, without.outputs, cold.outputs)
			require.Positive(t, cold.PackedBytes)
			require.Equal(t, entriesOf(t, ownFile), entriesOf(t, file), "what ExecuTorch would have packed")
			t.Logf("ExecuTorch alone packs %d bytes in %d entries", cold.PackedBytes, cold.PackedEntries)
		})
	}
}

func TestGoComputesWhatTheStockRuntimeDoes(t *testing.T) {
	h := stock(t)
	for _, c := range goldenPrograms {
		t.Run(c.name, func(t *testing.T) {
			p, _ := golden(t, c.name)
			opened, err := executorch.Open(p.path, p.data...)
			require.NoError(t, err)
			defer func() { require.NoError(t, opened.Close()) }()
			m, err := opened.Method("forward")
			require.NoError(t, err)
			if err := m.Runnable(); err != nil {
				t.Skip("ExecuTorch alone runs it: ", err)
			}
			e, err := instance.New(m, instance.PackedInHeap, 1)
			require.NoError(t, err)
			defer func() { require.NoError(t, e.Close()) }()
			var shapes [][]int
			for i, path := range p.inputs {
				a, v := array(t, path), m.Inputs()[i]
				require.Equal(t, len(a.Data), copy(e.Inputs[i].Bytes(), a.Data))
				if shapes = append(shapes, v.Shape); v.Dynamic {
					shapes[i] = a.Shape
				}
			}
			require.NoError(t, e.ShapeInputs(shapes))
			_, err = e.Infer()
			require.NoError(t, err)
			for i, want := range h.mustRun(t, p, "").outputs {
				content, shape, err := e.Output(i)
				require.NoError(t, err)
				require.Equal(t, want.Shape, shape)
				require.True(t, bytes.Equal(want.Data, content), "bit for bit")
			}
		})
	}
}

// packFor packs a program ahead of time for a level of CPU. Where this CPU cannot be one of that level, the test is
// skipped.
func packFor(t *testing.T, p program, level string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "for-"+level)
	err := pack(built.tool, p, level, file)
	if !slices.Contains(xnnpack.CPULevels(), level) ||
		err != nil && strings.Contains(err.Error(), level+": this CPU does not have") {
		t.Skip("this CPU cannot be one of ", level)
	}
	require.NoError(t, err)
	return file
}

// requireUntouched checks that the stock runtime takes all from a file, packs nothing, and leaves the file as it is.
func requireUntouched(t *testing.T, h host, p program, file string) run {
	t.Helper()
	require.FileExists(t, file)
	prev := stateOf(t, file)
	r := h.mustRun(t, p, file)
	require.Zero(t, r.PackedBytes)
	require.Zero(t, r.PackedEntries)
	require.Contains(t, r.Log, "Loaded packed weight cache: "+file)
	require.NotContains(t, r.Log, "mismatch")
	require.Equal(t, prev, stateOf(t, file), "the file is left as it was")
	return r
}

func TestEachLevelOfCPUHasItsFile(t *testing.T) {
	h := stock(t)
	p, _ := golden(t, mobilenet)
	for _, level := range xnnpack.CPULevels() {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			file, on := packFor(t, p, level), h
			if level != "native" {
				on = h.onCPU(level)
			}
			require.Equal(t, on.mustRun(t, p, "").outputs, requireUntouched(t, on, p, file).outputs)
		})
	}
}

// With VNNI and without it, XNNPACK packs other bytes of int8 convolutions under the same names and seeds, and
// ExecuTorch compares no more.
func TestTheStockRuntimeBelievesAFileOfAnotherCPU(t *testing.T) {
	h := stock(t)
	p, _ := golden(t, mobilenet)
	for _, c := range []struct{ packed, read string }{{"avx512", "avx512vnni"}, {"avx512vnni", "avx512"}} {
		t.Run(c.packed+" on "+c.read, func(t *testing.T) {
			packFor(t, p, c.read)
			file, on := packFor(t, p, c.packed), h.onCPU(c.read)
			right := on.mustRun(t, p, "").outputs[0]
			wrong := requireUntouched(t, on, p, file).outputs[0]
			l2 := relativeL2(t, wrong, right)
			t.Logf("relative l2 %.1f, and nothing is logged", l2)
			require.Greater(t, l2, 0.5)

			// What ExecuTorch does not check, the tool does.
			verify := func(file string) ([]byte, error) {
				return exec.Command(built.tool, "verify", file, "--model", p.path, "--cpu", c.read).CombinedOutput()
			}
			out, err := verify(file)
			require.Error(t, err)
			require.Contains(t, string(out), "wrong or missing entries")
			out, err = verify(packFor(t, p, c.read))
			require.NoError(t, err, "%s", out)
		})
	}
}

func TestCPUsOfOtherSeedsGrowTheFileInTurn(t *testing.T) {
	h := stock(t)
	p, _ := golden(t, mobilenet)
	file := packFor(t, p, "avx2")
	require.NoError(t, os.Chmod(file, 0o600))
	size := stateOf(t, file).size
	for range 2 {
		for _, on := range []host{h.onCPU("sse4.1"), h.onCPU("avx2")} {
			r := on.mustRun(t, p, file)
			require.Positive(t, r.PackedBytes)
			require.Equal(t, on.mustRun(t, p, "").outputs, r.outputs)
			grown := stateOf(t, file).size
			require.Greater(t, grown, size)
			size = grown
		}
	}
}

func TestTheHostRefusesWhatExecuTorchMisunderstands(t *testing.T) {
	h := stock(t)
	p, _ := golden(t, "mlp_fp32")
	long := filepath.Join(t.TempDir(), strings.Repeat("x", 255))
	_, err := h.run(p, long, t.TempDir())
	require.ErrorContains(t, err, "255 bytes")
	copied := p
	copied.inputs = []string{p.path}
	_, err = h.run(copied, "", t.TempDir())
	require.ErrorContains(t, err, "no .npy file")
	copied.inputs = []string{filepath.Join(t.TempDir(), "short.npy")}
	whole, err := os.ReadFile(p.inputs[0])
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(copied.inputs[0], whole[:len(whole)-4], 0o600))
	_, err = h.run(copied, "", t.TempDir())
	require.ErrorContains(t, err, "does not have the size of its shape")
	copied.inputs = slices.Concat(p.inputs, p.inputs)
	_, err = h.run(copied, "", t.TempDir())
	require.ErrorContains(t, err, "for no input")
	halves, _ := golden(t, "mlp_fp16")
	copied.inputs = halves.inputs
	_, err = h.run(copied, "", t.TempDir())
	require.ErrorContains(t, err, "another datatype")
}

// The program has two methods. Of their three kernels, one has no name, and two have one name and different seeds.
func TestTheStockRuntimePacksOnlyWhatTheToolLeavesOut(t *testing.T) {
	h := stock(t)
	p := program{path: filepath.Join("..", "..", "..", "models", "executorch", "testdata", "one_name_two_seeds.pte")}
	file := packFor(t, p, "native")
	require.Len(t, entriesOf(t, file), 1)
	got := h.mustRun(t, p, file)
	require.Len(t, got.Methods, 2)
	require.Equal(t, 2, got.PackedEntries)
	require.Equal(t, h.mustRun(t, p, "").outputs, got.outputs)
}
