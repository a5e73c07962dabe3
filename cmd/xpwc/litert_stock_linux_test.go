package main

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/cpu"
	"xpwc/internal/tests/registrytest"
	"xpwc/internal/tests/testkit"
	"xpwc/models/litert"
	"xpwc/models/npy"
)

// These tests run the stock LiteRT, from its wheel, where third_party/fetch-litert put it.

// A litertHost is the built program of internal/bench/litert, and how it is started.
type litertHost []string

var buildLiteRTHost = sync.OnceValues(func() (string, error) {
	lib, err := filepath.Abs(filepath.Join("..", "..", "third_party", "litert", "lib"))
	if err != nil {
		return "", err
	}
	path := filepath.Join(filepath.Dir(tool), "litert")
	out, err := exec.Command("gcc", "-O1", "-Wall", "-Wextra", "-Werror", "-o", path,
		filepath.Join("..", "..", "internal", "bench", "litert", "litert.c"), "-L"+lib, "-lLiteRt",
		"-Wl,-rpath,"+lib).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return path, err
})

// stockLiteRT returns the stock runtime, run by a user bound by file modes.
func stockLiteRT(t testing.TB) litertHost {
	t.Helper()
	needsLiteRT(t)
	if _, err := os.Stat(filepath.Join("..", "..", "third_party", "litert", "lib")); err != nil {
		t.Skip("the stock LiteRT was not fetched: third_party/fetch-litert")
	}
	path, err := buildLiteRTHost()
	require.NoError(t, err)
	return litertHost{path}.through(asOrdinaryUser(t)...)
}

func (h litertHost) through(command ...string) litertHost { return append(command, h...) }

// asOrdinaryUser begins a command of root's that may not do what root may.
func asOrdinaryUser(t testing.TB) []string {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil
	}
	command := []string{"setpriv", "--bounding-set=-dac_override", "--inh-caps=-dac_override"}
	if out, err := exec.Command(command[0], append(command[1:], "true")...).CombinedOutput(); err != nil {
		t.Skipf("root's rights cannot be given up here: %v: %s", err, out)
	}
	return command
}

// onCPU returns the host on a CPU of qemu's, by its name there.
func (h litertHost) onCPU(t testing.TB, name string) litertHost {
	t.Helper()
	return litertHost{testkit.Program(t, "qemu-x86_64-static"), "-cpu", name, h[len(h)-1]}.through(h[:len(h)-1]...)
}

// inputsOf writes the inputs that a model of the zoo has, as LiteRT takes them.
func inputsOf(t testing.TB, model string) (files []string) {
	t.Helper()
	inputs, err := filepath.Glob(strings.TrimSuffix(model, ".tflite") + ".in*.npy")
	require.NoError(t, err)
	dir := t.TempDir()
	for i, path := range inputs {
		a, err := npy.Read(contentOf(t, path))
		require.NoError(t, err)
		files = append(files, filepath.Join(dir, fmt.Sprint("input", i)))
		require.NoError(t, os.WriteFile(files[i], a.Data, 0o600))
	}
	return files
}

// try runs a model with LiteRT's cache in a file, or without one, and returns the bytes of all outputs, and what LiteRT
// logged.
func (h litertHost) try(t testing.TB, model, cache string, inputs ...string) ([]byte, string, error) {
	t.Helper()
	output := filepath.Join(t.TempDir(), "output")
	cmd := exec.Command(h[0], slices.Concat(h[1:], []string{model, cache, output}, inputs)...)
	var log bytes.Buffer
	cmd.Stderr = &log
	if err := cmd.Run(); err != nil {
		return nil, log.String(), fmt.Errorf("%w: %s", err, log.String())
	}
	return contentOf(t, output), log.String(), nil
}

func (h litertHost) run(t testing.TB, model, cache string, inputs ...string) []byte {
	t.Helper()
	out, _, err := h.try(t, model, cache, inputs...)
	require.NoError(t, err)
	return out
}

// zooModels are the .tflite of package zoo, or of the directory that XPWC_ZOO names.
func zooModels(t testing.TB) []string {
	t.Helper()
	dir, err := filepath.Abs(cmp.Or(os.Getenv("XPWC_ZOO"), filepath.Join("..", "..", "internal", "tests", "zoo",
		"testdata")))
	require.NoError(t, err)
	models, err := filepath.Glob(filepath.Join(dir, "tflite", "*.tflite"))
	require.NoError(t, err)
	require.NotEmpty(t, models)
	return models
}

// drawnZooModels are the zooModels, or one of so many in a short test, each of another kind: they are in the order of
// their names.
func drawnZooModels(t testing.TB, perModel int) []string {
	models := zooModels(t)
	if !testing.Short() {
		return models
	}
	drawn := models[:0:0]
	for i := int(testkit.Seed(t) % uint64(perModel)); i < len(models); i += perModel {
		drawn = append(drawn, models[i])
	}
	return drawn
}

// takenByLiteRT are models of which LiteRT takes packed weights for others.
var takenByLiteRT = []string{"lstm_int8", "gru_int8"}

func baseName(model string) string { return strings.TrimSuffix(filepath.Base(model), ".tflite") }

func TestWithAFileThatWasPackedForItLiteRTAnswersTheSameBitForBit(t *testing.T) {
	h := stockLiteRT(t)
	for _, model := range drawnZooModels(t, 8) {
		t.Run(baseName(model), func(t *testing.T) {
			t.Parallel()
			dir, inputs := t.TempDir(), inputsOf(t, model)
			if slices.Contains(takenByLiteRT, baseName(model)) {
				without, cached := h.run(t, model, "", inputs...), h.run(t, model, filepath.Join(dir, "own"), inputs...)
				require.False(t, bytes.Equal(without, cached), "with its own cache, too, it answers wrong")
				return
			}
			stock, file := filepath.Join(dir, "own"), filepath.Join(dir, "packed")
			want, log, err := h.try(t, model, "", inputs...)
			cached, _, _ := h.try(t, model, stock, inputs...)
			require.True(t, bytes.Equal(want, cached))
			r := litertPack(t, dir, model, "-o", "packed")
			if _, missing := os.Stat(stock); missing == nil && r.Nothing == "" {
				require.True(t, bytes.Equal(contentOf(t, stock), contentOf(t, file)), "the file that LiteRT writes")
			}
			if err != nil {
				t.Skip("the stock runtime does not run it: ", log)
			}
			if r.Nothing != "" {
				require.True(t, bytes.Equal(want, h.run(t, model, file, inputs...)), "a path of no file")
				return
			}
			original := stateOf(t, file)
			out, log, err := h.try(t, model, file, inputs...)
			require.NoError(t, err)
			require.True(t, bytes.Equal(want, out))
			require.NotContains(t, log, "ERROR")
			require.True(t, original == stateOf(t, file), "it is left as it is")
		})
	}
}

// fileState distinguishes a file from one that was changed or replaced.
type fileState struct {
	content [sha256.Size]byte
	inode   uint64
}

func stateOf(t testing.TB, path string) fileState {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	return fileState{sha256.Sum256(contentOf(t, path)), info.Sys().(*syscall.Stat_t).Ino}
}

func TestALevelsFileIsTheOneThatLiteRTWritesOnSuchACPU(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("levels are of x86")
	}
	h := stockLiteRT(t)
	dir := t.TempDir()
	needsLevels(t, dir, zooModel(t, "mlp_fp32"))
	for level, on := range map[string]string{"sse4.1": "Nehalem", "avx2": "Haswell"} {
		emulated := h.onCPU(t, on)
		models := []string{"MobileNetV3Small_int8", "conv1d_dyn", "transformer_fp16", "unet_fp32"}
		for _, name := range testkit.Drawn(t, models) {
			t.Run(level+"/"+name, func(t *testing.T) {
				dir, model := t.TempDir(), zooModel(t, name)
				inputs := inputsOf(t, model)
				litertPack(t, dir, model, "--cpu", level, "-o", "packed")
				stock, file := filepath.Join(dir, "own"), filepath.Join(dir, "packed")
				want := emulated.run(t, model, stock, inputs...)
				require.True(t, bytes.Equal(contentOf(t, stock), contentOf(t, file)))
				require.Equal(t, want, emulated.run(t, model, file, inputs...))
			})
		}
	}
}

func TestLiteRTBelievesTheFileOfAnotherModelUnlessItsNameIsAnother(t *testing.T) {
	h := stockLiteRT(t)
	dir := t.TempDir()
	first := zooModel(t, "mlp_fp32")
	second := retrained(t, first)
	inputs := inputsOf(t, first)
	want := h.run(t, second, "", inputs...)
	require.NotEqual(t, want, h.run(t, first, "", inputs...))

	// Its own file, under the same path.
	stock := filepath.Join(dir, "own")
	old := h.run(t, first, stock, inputs...)
	require.Equal(t, old, h.run(t, second, stock, inputs...), "the old model's answer, without a word")

	// A file for each.
	for _, model := range []string{first, second} {
		file := filepath.Join(dir, litertPack(t, dir, model, "--name-by-content", "-o", ".").LiteRT[0].Output)
		original := stateOf(t, file)
		require.Equal(t, h.run(t, model, "", inputs...), h.run(t, model, file, inputs...))
		require.Equal(t, original, stateOf(t, file))
	}
}

// LiteRT compares the seeds of kernels, which some levels share: a file for one of those gives wrong answers on
// another. So a file is pulled only for the level that it was packed for.
func TestLiteRTBelievesConvolutionsInInt8OfALevelWithTheSameSeeds(t *testing.T) {
	h := stockLiteRT(t)
	dir := t.TempDir()
	model := zooModel(t, "conv1d_int8")
	needsLevels(t, dir, model)
	believed := map[string]bool{"avx2": false}
	switch level, _, _ := strings.Cut(cpu.Features(), " "); level {
	case "avx512vnni", "avx512vnnigfni", "avx512fp16":
		believed["avx512"] = true
	case "avx512amx":
		believed["avx512"], believed["avx512vnni"], believed["avx512fp16"] = false, false, false
	default:
		t.Skip("this CPU has no AVX-512 VNNI: XNNPACK packs for it as for the lesser levels")
	}
	inputs := inputsOf(t, model)
	want := h.run(t, model, "", inputs...)
	litertPack(t, dir, model, "-o", "packed")
	printed(t, dir, 0, stripForLiteRT(model, "packed", "-o", "skeleton")...)
	for level, believes := range believed {
		litertPack(t, dir, model, "--cpu", level, "-o", level)
		out, _, err := h.try(t, model, filepath.Join(dir, level), inputs...)
		require.NoError(t, err)
		require.Equal(t, believes, !bytes.Equal(want, out), level)
		if believes {
			requireSkeletonOf(t, h, model, filepath.Join(dir, "skeleton"), filepath.Join(dir, "packed"),
				filepath.Join(dir, level))
		}
	}
}

// What a registry keeps is the file that LiteRT uses, and nothing else.
func TestLiteRTUsesAPulledFileAndLeavesItAsItIs(t *testing.T) {
	h := stockLiteRT(t)
	s := registrytest.Start(t)
	packer, node := t.TempDir(), t.TempDir()
	for _, name := range testkit.Drawn(t, []string{"mlp_fp32", "MobileNetV3Small_int8", "transformer_fp16"}) {
		model, ref := zooModel(t, name), s.Ref(strings.ToLower(name)+":v1")
		inputs := inputsOf(t, model)
		litertPack(t, packer, model, "-o", name)
		pushLiteRT(t, packer, ref, model, name)
		printed(t, node, 0, "pull", ref, "--for", "litert", "-o", name)
		file, stock := filepath.Join(node, name), filepath.Join(node, name+".own")
		original := stateOf(t, file)
		want := h.run(t, model, "", inputs...)
		h.run(t, model, stock, inputs...)
		require.True(t, bytes.Equal(contentOf(t, stock), contentOf(t, file)), "the file that LiteRT writes itself")
		out, log, err := h.try(t, model, file, inputs...)
		require.NoError(t, err)
		require.NotContains(t, log, "ERROR")
		require.True(t, bytes.Equal(want, out))
		require.Equal(t, original, stateOf(t, file))
	}
}

// A LiteRT of another version, or on another kind of CPU, or a mark of LiteRT's own, has it write the file anew: at
// each start, also while others have it mapped.
func TestLiteRTLeavesAReadOnlyFileThatDoesNotSuitItAndAnswersAsWithoutACache(t *testing.T) {
	h := stockLiteRT(t)
	dir := t.TempDir()
	model := zooModel(t, "mlp_fp32")
	inputs := inputsOf(t, model)
	want := h.run(t, model, "", inputs...)
	litertPack(t, dir, model, "-o", "packed")
	for name, offset := range map[string]int{"of another version": 0, "stale": litert.StaleAt} {
		content := contentOf(t, filepath.Join(dir, "packed"))
		content[offset] ^= 1
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, content, 0o444))
		original := stateOf(t, file)
		require.Equal(t, want, h.run(t, model, file, inputs...))
		require.Equal(t, original, stateOf(t, file))

		require.NoError(t, os.Chmod(file, 0o644))
		require.Equal(t, want, h.run(t, model, file, inputs...))
		require.NotEqual(t, original, stateOf(t, file), "what it may write to it writes anew")
	}
	if os.Geteuid() != 0 {
		return
	}
	file := filepath.Join(dir, "root")
	content := contentOf(t, filepath.Join(dir, "packed"))
	content[litert.StaleAt] = 1
	require.NoError(t, os.WriteFile(file, content, 0o444))
	asRoot := h[len(h)-1:]
	require.Equal(t, want, asRoot.run(t, model, file, inputs...))
	require.NotEqual(t, content, contentOf(t, file), "root may write to it, whatever its mode is")
}

// stays starts the host on a model. Ask has it answer once more, and returns what it writes: nil when it has died.
func (h litertHost) stays(t *testing.T, model, cache string, inputs ...string) (ask func() []byte) {
	t.Helper()
	output := filepath.Join(t.TempDir(), "output")
	cmd := exec.Command(h[0], slices.Concat(h[1:], []string{model, cache, output}, inputs)...)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait() // also for a process that has died
	})
	lines := bufio.NewReader(out)
	_, err = lines.ReadString('\n')
	require.NoError(t, err)
	return func() []byte {
		if _, err := io.WriteString(in, "\n"); err != nil {
			return nil
		}
		if _, err := lines.ReadString('\n'); err != nil {
			return nil
		}
		return contentOf(t, output)
	}
}

// A process on another kind of CPU empties the file and writes its own packed weights there.
func TestAProcessOnAnotherCPUDoesNotTakeTheFileFromThoseWhoHaveItMapped(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the other CPU is one of x86")
	}
	h := stockLiteRT(t)
	nehalem := h.onCPU(t, "Nehalem")
	dir := t.TempDir()
	model := zooModel(t, "mlp_fp32")
	inputs := inputsOf(t, model)
	want := h.run(t, model, "", inputs...)
	litertPack(t, dir, model, "-o", "packed")

	// LiteRT's own file.
	stock := filepath.Join(dir, "own")
	h.run(t, model, stock, inputs...)
	ask := h.stays(t, model, stock, inputs...)
	require.Equal(t, want, ask())
	original := stateOf(t, stock)
	nehalem.run(t, model, stock, inputs...)
	if original == stateOf(t, stock) {
		t.Skip("this machine packs as that CPU does")
	}
	require.NotEqual(t, want, ask(), "it dies, or computes with what is packed for another CPU")

	// A file that was packed ahead.
	file := filepath.Join(dir, "packed")
	original = stateOf(t, file)
	ask = h.stays(t, model, file, inputs...)
	require.Equal(t, want, ask())
	require.Equal(t, nehalem.run(t, model, "", inputs...), nehalem.run(t, model, file, inputs...))
	require.Equal(t, original, stateOf(t, file))
	require.Equal(t, want, ask())
}

// Of processes that start together on its own file, one may empty what another has just mapped.
func TestProcessesThatStartTogetherShareAFileThatWasPackedAhead(t *testing.T) {
	h := stockLiteRT(t)
	dir := t.TempDir()
	model := zooModel(t, "MobileNetV3Small_int8")
	inputs := inputsOf(t, model)
	want := h.run(t, model, "", inputs...)
	litertPack(t, dir, model, "-o", "packed")
	file := filepath.Join(dir, "packed")
	original := stateOf(t, file)
	const together, rounds = 8, 2
	for range rounds {
		var group sync.WaitGroup
		for range together {
			group.Go(func() {
				out, _, err := h.try(t, model, file, inputs...)
				if err != nil || !bytes.Equal(want, out) {
					t.Errorf("%v", err)
				}
			})
		}
		group.Wait()
	}
	require.Equal(t, original, stateOf(t, file))

	// What such a process meets: the file of one that has begun to write it.
	stock := filepath.Join(dir, "own")
	h.run(t, model, stock, inputs...)
	ask := h.stays(t, model, stock, inputs...)
	require.Equal(t, want, ask())
	begun := make([]byte, 32)
	f, err := os.OpenFile(stock, os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteAt(begun, 0)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(int64(len(begun))))
	require.NoError(t, f.Close())
	require.Nil(t, ask(), "the pages that it had mapped are gone: it dies")
}

// requireSkeletonOf checks that LiteRT answers the same with a skeleton and its file, which stays as it is, and fails
// with the skeleton alone, or with other files.
func requireSkeletonOf(t *testing.T, h litertHost, model, skeleton, file string, others ...string) {
	t.Helper()
	inputs := inputsOf(t, model)
	original := stateOf(t, file)
	want, log, err := h.try(t, model, "", inputs...)
	if err != nil {
		t.Skip("the stock runtime does not run it: ", log)
	}
	require.True(t, bytes.Equal(want, h.run(t, skeleton, file, inputs...)))
	require.True(t, original == stateOf(t, file))
	for _, cache := range append(others, "", filepath.Join(t.TempDir(), "own")) {
		_, log, err := h.try(t, skeleton, cache, inputs...)
		require.Error(t, err, cache)
		require.Contains(t, log, "(CALL_ONCE) failed to invoke")
	}
}

// packAndStrip writes a model's file for LiteRT into a directory, packed, and its skeleton. The test is skipped where
// there is none.
func packAndStrip(t *testing.T, dir, model string) {
	t.Helper()
	if litertPack(t, dir, model, "-o", "packed").Nothing != "" {
		t.Skip("there is nothing to pack")
	}
	strip := exec.Command(tool, stripForLiteRT(model, "packed", "-o", "skeleton")...)
	strip.Dir = dir
	if out, err := strip.CombinedOutput(); err != nil {
		require.Contains(t, string(out), "all of its weights would stay")
		t.Skip("all of its weights would stay")
	}
}

func TestWithASkeletonLiteRTAnswersTheSameWithItsFileAndFailsWithoutIt(t *testing.T) {
	h := stockLiteRT(t)
	for _, model := range drawnZooModels(t, 24) {
		if slices.Contains(takenByLiteRT, baseName(model)) {
			continue
		}
		t.Run(baseName(model), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			packAndStrip(t, dir, model)
			requireSkeletonOf(t, h, model, filepath.Join(dir, "skeleton"), filepath.Join(dir, "packed"))
		})
	}
}

func TestASkeletonForALevelOfCPUsAnswersOnSuchACPUWithItsFileAlone(t *testing.T) {
	testkit.SkipIfShort(t)
	if runtime.GOARCH != "amd64" {
		t.Skip("levels are of x86")
	}
	h := stockLiteRT(t)
	needsLevels(t, t.TempDir(), zooModel(t, "mlp_fp32"))
	for level, on := range map[string]string{"sse4.1": "Nehalem", "avx2": "Haswell"} {
		emulated := h.onCPU(t, on)
		models := []string{"mlp_int8", "MobileNetV3Small_int8", "unet_fp32", "unet_int8", "sepconv_fp16",
			"transformer_dyn"}
		for _, name := range testkit.Drawn(t, models) {
			t.Run(level+"/"+name, func(t *testing.T) {
				dir, model := t.TempDir(), zooModel(t, name)
				litertPack(t, dir, model, "--cpu", level, "-o", "packed")
				printed(t, dir, 0, stripForLiteRT(model, "packed", "--cpu", level, "-o", "skeleton")...)
				requireSkeletonOf(t, emulated, model, filepath.Join(dir, "skeleton"), filepath.Join(dir, "packed"))
			})
		}
	}
}

// A file that LiteRT believes, or of which it uses a part, is not enough.
func TestASkeletonFailsWithTheFileOfAnotherModelOrAPartOfIts(t *testing.T) {
	h := stockLiteRT(t)
	dir := t.TempDir()
	model := zooModel(t, "mlp_fp32")
	litertPack(t, dir, model, "-o", "packed")
	litertPack(t, dir, retrained(t, model), "-o", "old")
	printed(t, dir, 0, stripForLiteRT(model, "packed", "-o", "skeleton")...)
	others := []string{filepath.Join(dir, "old")}
	file := filepath.Join(dir, "packed")
	f, err := litert.Open(file)
	require.NoError(t, err)
	for i, e := range f.Entries {
		content := contentOf(t, file)
		list := content[f.FileBytes-f.ListBytes:]
		key := binary.LittleEndian.AppendUint64(nil, e.Kernel)
		require.Equal(t, 1, bytes.Count(list, key), "the entry's kernel is found in the list")
		list[bytes.Index(list, key)+2] ^= 1 // of a buffer that no model has
		others = append(others, filepath.Join(dir, fmt.Sprint("without", i)))
		require.NoError(t, os.WriteFile(others[i+1], content, 0o444))
	}
	requireSkeletonOf(t, h, model, filepath.Join(dir, "skeleton"), file, others...)
}
