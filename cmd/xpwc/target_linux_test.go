package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/cmd/xpwc/internal/emulator"
	"xpwc/internal/cpu"
	"xpwc/internal/tests/registrytest"
	"xpwc/internal/tests/testkit"
)

// These tests pack for arm64, and run the stock runtimes of arm64 on what was packed: both emulated. make test-targets
// fetches the runtimes and runs the tests.

// envTargets has these tests run.
const envTargets = "XPWC_TEST_TARGETS"

// A phone has the stock runtimes, built for arm64.
type phone struct {
	*emulator.Emulator
	executorch, litert string
}

// buildForArm64 builds the tool of arm64, where the tool finds it, and the hosts of the stock runtimes.
var buildForArm64 = sync.OnceValues(func() (*phone, error) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		return nil, err
	}
	into := filepath.Join(filepath.Dir(tool), "arm64")
	runtimes := filepath.Join(root, "third_party")
	lib := filepath.Join(runtimes, "litert-arm64", "lib")
	for _, line := range [][]string{
		{"scripts/with-xnnpack", "go", "build", "-o", filepath.Join(into, "xpwc"), "./cmd/xpwc"},
		{"make", "-s", "-C", "examples/executorch", "BUILD=" + into, "CXX=aarch64-linux-gnu-g++",
			"EXECUTORCH=" + filepath.Join(runtimes, "executorch-arm64")},
		{"aarch64-linux-gnu-gcc", "-O1", "-Wall", "-Wextra", "-Werror", "-o", filepath.Join(into, "litert"),
			"internal/bench/litert/litert.c", "-L" + lib, "-lLiteRt", "-Wl,-rpath," + lib},
	} {
		cmd := exec.Command(line[0], line[1:]...)
		cmd.Dir, cmd.Env = root, append(os.Environ(), "ARCH=arm64", "XNNPACK=executorch")
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%v: %w: %s", line, err, out)
		}
	}
	if err := os.Setenv(emulator.Variable, filepath.Join(into, "xpwc")); err != nil {
		return nil, err
	}
	e, err := emulator.Find()
	return &phone{e, filepath.Join(into, "host"), filepath.Join(into, "litert")}, err
})

func newPhone(t testing.TB) *phone {
	t.Helper()
	if os.Getenv(envTargets) == "" || runtime.GOARCH != "amd64" {
		t.Skip("make test-targets runs this")
	}
	p, err := buildForArm64()
	require.NoError(t, err)
	return p
}

// run runs an emulated program and returns what it prints, and its log.
func (p *phone) run(t testing.TB, m emulator.Machine, line ...string) (out, log string, err error) {
	t.Helper()
	cmd, remove, err := p.Program(context.Background(), m, line...)
	require.NoError(t, err)
	defer remove()
	if user := asOrdinaryUser(t); user != nil { // root may write to files without write permission
		cmd.Args, cmd.Path = append(user, cmd.Args...), testkit.Program(t, user[0])
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	return stdout.String(), stderr.String(), err
}

func named(t testing.TB, name string) emulator.Machine {
	t.Helper()
	c, err := cpu.Arm64Named(name)
	require.NoError(t, err)
	return emulator.MachineOf(c)
}

// stockAnswer is what the stock ExecuTorch answers, and packs into a cache.
type stockAnswer struct {
	PackedEntries int `json:"packed_entries"`
	log           string
	outputs       map[string][]byte
}

// executorchOn runs a program with the stock ExecuTorch and a file, or "" for no cache.
func (p *phone) executorchOn(t testing.TB, m emulator.Machine, program, file string) (a stockAnswer) {
	t.Helper()
	dir := t.TempDir()
	line := []string{p.executorch, program}
	inputs, err := filepath.Glob(strings.TrimSuffix(program, ".pte") + ".in*.npy")
	require.NoError(t, err)
	for _, input := range inputs {
		line = append(line, "--input", input)
	}
	if file != "" {
		line = append(line, "--cache", file)
	}
	out, log, err := p.run(t, m, append(line, "--output-dir", dir)...)
	require.NoError(t, err, log)
	require.NoError(t, json.Unmarshal([]byte(out), &a))
	a.log, a.outputs = log, map[string][]byte{}
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, f := range files {
		a.outputs[f.Name()] = contentOf(t, filepath.Join(dir, f.Name()))
	}
	require.NotEmpty(t, a.outputs)
	return a
}

// programs are two, or with NIGHTLY all of package zoo.
func programs(t testing.TB) []string {
	t.Helper()
	patterns := []string{"../../models/executorch/testdata/programs/m*[38]2.pte",
		"../../models/executorch/testdata/programs/mobilenet*.pte"}
	if os.Getenv("NIGHTLY") != "" {
		patterns = []string{"../../internal/tests/zoo/testdata/*/*.pte"}
	}
	var files []string
	for _, pattern := range patterns {
		matches, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, path := range matches {
			path, err = filepath.Abs(path)
			require.NoError(t, err)
			files = append(files, path)
		}
	}
	require.NotEmpty(t, files)
	return files
}

// refusedForStock are the programs of package zoo that the stock runtime would compute wrongly with a file on some CPU.
var refusedForStock = map[string]string{
	"prelu_fp32.pte":   errStockCrashes.Error(),
	"prelu_1_fp32.pte": errStockCrashes.Error(),
	"two_int8.pte":     "would take one for another",
	"encoder_int8.pte": "would take one for another",
}

func TestTheStockExecuTorchOfAPhoneUsesTheFileThatWasPackedForItsCPU(t *testing.T) {
	p := newPhone(t)
	for _, name := range testkit.Drawn(t, cpu.Phones) {
		for _, program := range programs(t) {
			t.Run(name+"/"+filepath.Base(program), func(t *testing.T) {
				t.Parallel()
				dir, target := t.TempDir(), "arm64:"+name
				pack := []string{"pack", program, "--for", "executorch", "--target", target, "-o", "f"}
				if reason := refusedForStock[filepath.Base(program)]; reason != "" {
					if code, _, stderr := xpwcIn(t, dir, pack...); code != 0 {
						require.Contains(t, stderr, reason)
						require.NoFileExists(t, filepath.Join(dir, "f"))
						return
					}
				}
				r := packJSON(t, dir, pack[1:]...)
				without := p.executorchOn(t, named(t, name), program, "")
				file := filepath.Join(dir, "f")
				if r.Nothing != "" {
					require.Equal(t, without.outputs, p.executorchOn(t, named(t, name), program, file).outputs)
					return
				}
				require.Equal(t, "arm64", r.For.Architecture)
				require.Equal(t, name, r.For.CPU)
				original := stateOf(t, file)
				cached := p.executorchOn(t, named(t, name), program, file)
				require.Contains(t, cached.log, "Loaded packed weight cache")
				if len(r.For.LeftOut) == 0 {
					require.Zero(t, cached.PackedEntries, cached.log)
				}
				require.Equal(t, without.outputs, cached.outputs, "bit for bit")
				require.True(t, original == stateOf(t, file), "it is left as it is")
				require.Contains(t, printed(t, dir, 0, "verify", "f", "--model", program, "--target", target), "proven")
			})
		}
	}
}

func TestAFileForAnotherPhoneIsRefused(t *testing.T) {
	p := newPhone(t)
	dir := t.TempDir()
	program, err := filepath.Abs("../../models/executorch/testdata/programs/mobilenet_v3_small_int8.pte")
	require.NoError(t, err)
	packJSON(t, dir, program, "--for", "executorch", "--target", "arm64:a76", "-o", "f")
	file := filepath.Join(dir, "f")
	verify := []string{"verify", "f", "--model", program, "--target"}
	require.Contains(t, printed(t, dir, 0, append(verify, "arm64:x1")...), "proven", "CPUs of one layout share it")
	require.Contains(t, printed(t, dir, exitFailed, append(verify, "arm64:a53")...), "looked for with")
	require.Contains(t, printed(t, dir, exitFailed, append(verify, "arm64:a710")...), "looked for with")
	require.Contains(t, printed(t, dir, exitUsage, append(verify, "arm64")...), "f is for one CPU")

	// The stock runtime sees another seed, and packs for itself.
	a53 := named(t, "cortex-a53")
	without, cached := p.executorchOn(t, a53, program, ""), p.executorchOn(t, a53, program, file)
	require.Positive(t, cached.PackedEntries)
	require.Equal(t, without.outputs, cached.outputs)
}

// litertOn runs a model with the stock LiteRT and returns the bytes of its answer.
func (p *phone) litertOn(t testing.TB, m emulator.Machine, model, file string) (answer []byte, log string) {
	t.Helper()
	answer, log, err := p.tryLiteRT(t, m, model, file)
	require.NoError(t, err, log)
	return answer, log
}

// tryLiteRT is litertOn for a model that LiteRT may be unable to run. err is then that of its host.
func (p *phone) tryLiteRT(t testing.TB, m emulator.Machine, model, file string) (answer []byte, log string, err error) {
	t.Helper()
	output := filepath.Join(t.TempDir(), "output")
	_, log, err = p.run(t, m, append([]string{p.litert, model, file, output}, inputsOf(t, model)...)...)
	if err != nil {
		return nil, log, err
	}
	return contentOf(t, output), log, nil
}

func TestTheStockLiteRTOfAPhoneUsesTheFileThatWasPackedForItsCPU(t *testing.T) {
	p := newPhone(t)
	models := []string{zooModel(t, "MobileNetV3Small_int8"), zooModel(t, "unet_fp32"), zooModel(t, "transformer_fp16")}
	nightly := os.Getenv("NIGHTLY") != ""
	if nightly {
		models = zooModels(t)
	}
	for _, name := range testkit.Drawn(t, []string{"cortex-a76", "cortex-a710", "cortex-x4"}) {
		for _, model := range models {
			t.Run(name+"/"+baseName(model), func(t *testing.T) {
				t.Parallel()
				if slices.Contains(takenByLiteRT, baseName(model)) {
					t.Skip("LiteRT takes its weights for others, with any cache")
				}
				dir := t.TempDir()
				r := packJSON(t, dir, model, "--for", "litert", "--litert-lm", libraryOfArm64(t),
					"--target", "arm64:"+name, "-o", "f")
				without, log, err := p.tryLiteRT(t, named(t, name), model, "")
				if err != nil && nightly {
					t.Skip("LiteRT does not run it, also without a file: ", log)
				}
				require.NoError(t, err, log)
				if r.Nothing != "" {
					return
				}
				require.Equal(t, "arm64", r.LiteRT[0].Architecture)
				written, file := filepath.Join(dir, "own"), filepath.Join(dir, "f")
				answer, _ := p.litertOn(t, named(t, name), model, written)
				require.True(t, bytes.Equal(without, answer))
				require.True(t, bytes.Equal(contentOf(t, written), contentOf(t, file)),
					"the file that LiteRT writes there")
				original := stateOf(t, file)
				answer, log = p.litertOn(t, named(t, name), model, file)
				require.True(t, bytes.Equal(without, answer), "bit for bit")
				require.NotContains(t, log, "ERROR")
				require.True(t, original == stateOf(t, file), "it is left as it is")
			})
		}
	}
}

// libraryOfArm64 is the library that packs for LiteRT on arm64.
func libraryOfArm64(t testing.TB) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", "third_party", "litert-lm-arm64", "lib", "liblitert-lm.so"))
	require.NoError(t, err)
	return path
}

func TestAFileForLiteRTIsPackedForEachPhoneThatItsLibraryRunsOn(t *testing.T) {
	newPhone(t)
	dir := t.TempDir()
	r := packJSON(t, dir, zooModel(t, "mlp_fp32"), "--for", "litert", "--litert-lm", libraryOfArm64(t),
		"--target", "arm64", "--name-by-content", "-o", ".")
	var names []string
	for _, f := range r.LiteRT {
		names = append(names, f.CPU)
		require.FileExists(t, filepath.Join(dir, f.Output))
	}
	require.Equal(t, []string{"cortex-a76", "cortex-a710", "cortex-x4"}, names)
}

func TestLiteRTsLibraryIsNamedIfItCannotRunOnTheTarget(t *testing.T) {
	newPhone(t)
	require.Contains(t, printed(t, t.TempDir(), exitFailed, "pack", zooModel(t, "mlp_fp32"), "--for", "litert",
		"--litert-lm", libraryOfArm64(t), "--target", "arm64:a53", "-o", "f"), "SIGILL")
}

// A machine of several kinds of cores: what /proc/cpuinfo and /sys of real devices have.
var devices = []struct {
	name     string
	features cpu.ArmFeatures
	cores    []emulator.Core
	target   string
}{
	{"Snapdragon 888", cpu.DotProd, cores(4, 0x412fd050, 1804800, 3, 0x411fd410, 2419200, 1, 0x411fd440, 2841600),
		"x1"},
	{"Snapdragon 865", cpu.DotProd, cores(4, 0x51df805e, 1804800, 4, 0x51ff804d, 2841600), "a76"},
	{"Snapdragon 845", cpu.FP16, cores(4, 0x517f803c, 1766400, 4, 0x516f802d, 2803200), "fp16"},
	{"Snapdragon 625", cpu.ARMv8, cores(8, 0x410fd034, 2016000), "a53"},
	{"Snapdragon 8 Gen 1", cpu.I8MM, cores(4, 0x411fd461, 1785600, 3, 0x412fd470, 2496000, 1, 0x412fd480, 2995200),
		"x2"},
	{"Snapdragon 8 Gen 3", cpu.SVE, cores(2, 0x412fd801, 2265600, 5, 0x411fd811, 3148800, 1, 0x411fd821, 3302400),
		"x4"},
	{"Snapdragon X Elite", cpu.I8MM, cores(12, 0x512f0011, 3417600), "oryon"},
	{"Tensor G2", cpu.DotProd, cores(4, 0x412fd050, 1803000, 2, 0x411fd410, 2348000, 2, 0x411fd440, 2850000), "x1"},
	{"Exynos 9810", cpu.ARMv8, cores(4, 0x411fd050, 1794000, 4, 0x531f0020, 2704000), "exynos-m3"},
	{"Helio P22", cpu.ARMv8, cores(8, 0x410fd034, 2001000), "a53"},
	{"Unisoc SC9863A", cpu.DotProd, cores(8, 0x411fd050, 1600000), "a55"},
	{"BCM2711", cpu.ARMv8, cores(4, 0x410fd083, 1500000), "a72"},
	{"BCM2712", cpu.DotProd, cores(4, 0x414fd0b1, 2400000), "a76"},
}

// cores lists processors: a number of them, their main ID register, and their highest frequency, in kHz.
func cores(runs ...int) (list []emulator.Core) {
	for run := range slices.Chunk(runs, 3) {
		for range run[0] {
			list = append(list, emulator.Core{MIDR: uint32(run[1]), KHz: run[2]})
		}
	}
	return list
}

func TestARealDevicesCPUInfoChoosesTheLayoutOfItsTarget(t *testing.T) {
	p := newPhone(t)
	version, err := exec.Command("qemu-aarch64-static", "--version").Output()
	require.NoError(t, err)
	if !strings.Contains(string(version), "version 7.") && !strings.Contains(string(version), "version 8.0") {
		t.Skip("this emulator shows processors of one kind: ", string(version))
	}
	for _, d := range devices {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			cmd, remove, err := p.Command(context.Background(), emulator.Machine{Features: d.features, Cores: d.cores},
				"layout")
			require.NoError(t, err)
			defer remove()
			out, err := cmd.Output()
			require.NoError(t, err)
			require.Equal(t, printed(t, t.TempDir(), 0, "layout", "--target", "arm64:"+d.target), string(out))
		})
	}
}

func TestOneFileServesSeveralPhones(t *testing.T) {
	newPhone(t)
	dir, model := t.TempDir(), faceModel(t)
	r := packJSON(t, dir, model, "--target", "arm64", "--cpu", "native", "-o", "f.xpwc")
	require.Len(t, r.Levels, len(cpu.Phones)+1)
	for _, name := range []string{"a53", "x1", "a715", "oryon"} {
		require.Contains(t, printed(t, dir, 0, "verify", "f.xpwc", "--model", model, "--target", "arm64:"+name),
			"proven")
	}
	require.Contains(t, printed(t, dir, 0, "verify", "f.xpwc", "--model", model), "proven")
	together := printed(t, dir, 0, "verify", "f.xpwc", "--model", model, "--target", "arm64", "--cpu", "native")
	require.Contains(t, together, "proven")
	require.NotContains(t, together, "not compared", "every entry is one of these CPUs'")
	m1 := printed(t, dir, exitFailed, "verify", "f.xpwc", "--model", model, "--target", "arm64:exynos-m1")
	require.Contains(t, m1, "missing")
}

func TestTheTableOfLayoutsIsTheOneInTheDocuments(t *testing.T) {
	newPhone(t)
	listed := reported[sharedLayouts](t, t.TempDir(), 0, "layout", "--target", "arm64")
	var rows []string
	for i, l := range listed.Layouts {
		rows = append(rows, fmt.Sprintf("| %c | `%s` |", 'a'+i, strings.Join(l.CPUs, "`, `")))
	}
	page := string(contentOf(t, filepath.Join("..", "..", "docs", "platforms.md")))
	for _, row := range rows {
		require.Contains(t, page, row, "docs/platforms.md should have:\n%s", strings.Join(rows, "\n"))
	}
}

func TestAPhonePullsTheFileThatABuildMachinePushedForIt(t *testing.T) {
	p := newPhone(t)
	s := registrytest.Start(t)
	dir, model := t.TempDir(), zooModel(t, "mlp_fp32")
	forLiteRT := []string{"--litert-lm", libraryOfArm64(t), "--target", "arm64:a76"}
	packJSON(t, dir, append([]string{model, "--for", "litert", "-o", "f"}, forLiteRT...)...)
	printed(t, dir, 0, append([]string{"push", s.Ref("mlp:v1"), "f", "--model", model}, forLiteRT...)...)
	packJSON(t, dir, model, "--target", "arm64", "-o", "f.xpwc")
	printed(t, dir, 0, "push", s.Ref("mlp:v1"), "f.xpwc")

	pull := func(name string, flags ...string) (string, error) {
		file := filepath.Join(dir, name+strings.Join(flags, ""))
		cmd, remove, err := p.Command(context.Background(), named(t, name),
			append([]string{"pull", s.Ref("mlp:v1"), "-o", file}, flags...)...)
		require.NoError(t, err)
		defer remove()
		out, err := cmd.CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("%w: %s", err, out)
		}
		return file, nil
	}
	file, err := pull("cortex-a76", "--for", "litert")
	require.NoError(t, err)
	require.Equal(t, contentOf(t, filepath.Join(dir, "f")), contentOf(t, file))
	_, err = pull("cortex-x4", "--for", "litert")
	require.ErrorContains(t, err, "pack here")
	printed(t, dir, 0, "pull", s.Ref("mlp:v1"), "--for", "litert", "--target", "arm64:a76", "-o", "built")
	require.Equal(t, contentOf(t, file), contentOf(t, filepath.Join(dir, "built")), "the build machine of an app")
	printed(t, dir, 0, "pull", s.Ref("mlp:v1"), "--target", "arm64:x1", "-o", "built.xpwc")
	require.Contains(t, printed(t, dir, 0, "verify", "built.xpwc", "--model", model, "--target", "arm64:a78"), "proven")

	for name, target := range map[string]string{"cortex-a53": "a53", "cortex-x1": "x1", "cortex-x4": "oryon"} {
		file, err := pull(name)
		require.NoError(t, err)
		require.Contains(t, printed(t, dir, 0, "verify", file, "--model", model, "--target", "arm64:"+target), "proven")
	}
	_, err = pull("exynos-m1")
	require.ErrorContains(t, err, "pack here")
}
