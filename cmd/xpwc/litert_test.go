package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/cpu"
	"xpwc/internal/tests/registrytest"
	"xpwc/models/litert"
	"xpwc/registry"
	"xpwc/xnnpack"
)

// needsLiteRT skips a test where the library that packs for LiteRT is not there, or none is known.
func needsLiteRT(t testing.TB) {
	t.Helper()
	if _, err := os.Stat(libraryForLiteRT); err != nil {
		t.Skip("LiteRT's library was not fetched: third_party/fetch-litert-lm")
	}
	sum, _, err := sha256Of(libraryForLiteRT)
	require.NoError(t, err)
	if _, ok := litert.ReleaseOf(runtime.GOARCH, sum); !ok {
		t.Skip("no LiteRT is known for which this library packs on ", runtime.GOARCH)
	}
	if !xnnpack.Available {
		t.Skip("this is built without cgo")
	}
}

// libraryForLiteRT is where third_party/fetch-litert-lm puts it.
var libraryForLiteRT = func() string {
	path, err := filepath.Abs(filepath.Join("..", "..", "third_party", "litert-lm", "lib", "liblitert-lm.so"))
	if err != nil {
		panic(err)
	}
	return path
}()

// litertPack packs a model for LiteRT.
func litertPack(t testing.TB, dir, model string, args ...string) packReport {
	t.Helper()
	needsLiteRT(t)
	return packJSON(t, dir, packsForLiteRT(model, args...)[1:]...)
}

// packsForLiteRT is the command line that packs a model for LiteRT.
func packsForLiteRT(model string, args ...string) []string {
	return append([]string{"pack", model, "--for", "litert", "--litert-lm", libraryForLiteRT}, args...)
}

// zooModel returns the path of a .tflite of package zoo.
func zooModel(t testing.TB, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", "internal", "tests", "zoo", "testdata", "tflite",
		name+".tflite"))
	require.NoError(t, err)
	require.FileExists(t, path)
	return path
}

func TestAFileForLiteRTIsReadOnlyAndSaysWhatItIsFor(t *testing.T) {
	dir := t.TempDir()
	model := zooModel(t, "mlp_fp32")
	r := litertPack(t, dir, model, "-o", "c")
	require.Len(t, r.LiteRT, 1)
	got := r.LiteRT[0]
	require.Equal(t, "2.3.0", got.LiteRT)
	require.Equal(t, "native", got.CPU)
	path := filepath.Join(dir, "c")
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.EqualValues(t, 0o444, info.Mode().Perm())
	f, err := litert.Open(path)
	require.NoError(t, err)
	require.Len(t, f.Entries, got.Entries)
	require.Equal(t, info.Size(), got.FileBytes)
	require.Equal(t, f.PayloadBytes(), got.PayloadBytes)

	v := reported[inspection](t, dir, 0, "inspect", "c")
	require.Equal(t, litertFormat, v.Format)
	require.Len(t, v.Entries, got.Entries)
	require.Equal(t, v.FileBytes, v.HeaderBytes+v.PayloadBytes+v.IndexBytes+v.PaddingBytes)
	printed(t, dir, 0, "inspect", "c")
	require.Contains(t, printed(t, dir, 0, "inspect", "c", "--map"), "payloads, alternating")
	require.Contains(t, printed(t, dir, 0, "who", "c"), "no process has the file mapped")

	// It is left as it is if it is what would be written, and else replaced.
	second := litertPack(t, dir, model, "-o", "c")
	require.True(t, second.LiteRT[0].Unchanged)
	final, err := os.Stat(path)
	require.NoError(t, err)
	require.True(t, os.SameFile(info, final))
	require.False(t, litertPack(t, dir, zooModel(t, "conv1d_fp32"), "-o", "c").LiteRT[0].Unchanged)
}

func TestAnotherModelsFileForLiteRTHasAnotherName(t *testing.T) {
	dir := t.TempDir()
	first := zooModel(t, "mlp_fp32")
	second := retrained(t, first)
	a := litertPack(t, dir, first, "--name-by-content", "-o", ".").LiteRT[0].Output
	b := litertPack(t, dir, second, "--name-by-content", "-o", ".").LiteRT[0].Output
	require.NotEqual(t, a, b)
	for model, file := range map[string]string{first: a, second: b} {
		sum := sha256.Sum256(contentOf(t, model))
		require.Contains(t, file, hex.EncodeToString(sum[:])[:12])
		require.Contains(t, file, "litert2.3.0")
		require.Contains(t, file, strings.ReplaceAll(cpu.Features(), " ", "+"))
		verify := []string{"verify", file, "--litert-lm", libraryForLiteRT, "--model"}
		require.Contains(t, printed(t, dir, 0, append(verify, model)...), "proven")
		wrongModel := map[string]string{first: second, second: first}[model]
		require.Equal(t, kindUnproven, failed(t, dir, exitFailed, append(verify, wrongModel)...).Kind)
	}
}

func TestAFileForLiteRTIsProvenByteForByte(t *testing.T) {
	dir := t.TempDir()
	model := zooModel(t, "mlp_fp32")
	litertPack(t, dir, model, "-o", "c")
	good := contentOf(t, filepath.Join(dir, "c"))
	f, err := litert.Open(filepath.Join(dir, "c"))
	require.NoError(t, err)
	const padding = 100
	path := filepath.Join(dir, "copy")
	for _, offset := range []int64{f.Entries[1].Offset + 5, padding, f.FileBytes - 1, litert.StaleAt} {
		bad := slices.Clone(good)
		bad[offset] ^= 1
		require.NoError(t, os.WriteFile(path, bad, 0o600))
		said := printed(t, dir, exitFailed, "verify", "copy", "--model", model, "--litert-lm", libraryForLiteRT)
		if offset != litert.StaleAt {
			require.Contains(t, said, fmt.Sprintf("from byte %d ", offset))
		}
	}
	require.Contains(t, printed(t, dir, exitFailed, "verify", "copy"), "stale")
	require.NoError(t, os.WriteFile(path, good, 0o600))
	require.Contains(t, printed(t, dir, 0, "verify", "copy"), "not read-only")
}

func TestOneCommandPacksForSeveralCPUsOfLiteRT(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("levels are of x86")
	}
	dir := t.TempDir()
	model := zooModel(t, "MobileNetV3Small_int8")
	needsLevels(t, dir, model)
	r := litertPack(t, dir, model, "--cpu", "sse4.1,avx2", "--name-by-content", "-o", ".")
	require.Len(t, r.LiteRT, 2)
	for _, f := range r.LiteRT {
		require.Contains(t, f.Output, "amd64-"+f.CPU+"-")
		verify := []string{"verify", f.Output, "--model", model, "--litert-lm", libraryForLiteRT, "--cpu"}
		require.Contains(t, printed(t, dir, 0, append(verify, f.CPU)...), "proven")
		wrongCPU := map[string]string{"sse4.1": "avx2", "avx2": "sse4.1"}[f.CPU]
		require.Equal(t, kindUnproven, failed(t, dir, exitFailed, append(verify, wrongCPU)...).Kind)
	}
}

// needsLevels skips a test where the tool's cpuinfo cannot be compared with LiteRT's, as that of Debian.
func needsLevels(t testing.TB, dir, model string) {
	t.Helper()
	needsLiteRT(t)
	code, out, stderr := xpwcIn(t, dir, packsForLiteRT(model, "--cpu", "sse4.1", "-o", "level")...)
	if strings.Contains(stderr, "its cpuinfo is another") {
		t.Skip(stderr)
	}
	require.Zero(t, code, out+stderr)
}

// LiteRT finds packed weights by the model's buffers. With any cache it answers wrong for a model that packs one in two
// ways, as its own file does; so there is no file for it.
func TestAModelOfWhichLiteRTTakesWeightsForOthersGetsNoFile(t *testing.T) {
	needsLiteRT(t)
	dir := t.TempDir()
	said := printed(t, dir, exitFailed, packsForLiteRT(zooModel(t, "lstm_int8"), "-o", "c")...)
	require.Contains(t, said, "load it without a cache")
	require.NoFileExists(t, filepath.Join(dir, "c"))
	requireNoStage(t, dir)
}

func TestAModelWithNothingToPackNeedsNoFileForLiteRT(t *testing.T) {
	dir := t.TempDir()
	require.NotEmpty(t, litertPack(t, dir, zooModel(t, "clip_fp32"), "-o", "c").Nothing)
	require.NoFileExists(t, filepath.Join(dir, "c"))
}

func TestMistakesWithLiteRTAreReported(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{"other.so": "another library", "notes": "my notes", "cut.tflite": "TFL3"}
	for name, content := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	model := zooModel(t, "mlp_fp32")
	for _, c := range []struct {
		message string
		code    int
		args    []string
	}{
		{"is one .tflite file", exitUsage, []string{program(t, perceptron), "-o", "c"}},
		{"give --name-by-content", exitUsage, []string{model, "-o", "c", "--cpu", "native,sse2"}},
		{"exclude each other", exitUsage, []string{model, "-o", "c", "--embed-beside"}},
		{"nobody knows for which LiteRT", exitFailed, []string{model, "-o", "c", "--litert-lm", "other.so"}},
		{"absent.so", exitFailed, []string{model, "-o", "c", "--litert-lm", "absent.so"}},
		{"not a regular file", exitFailed, []string{model, "-o", "c", "--litert-lm", os.DevNull}},
	} {
		if runtime.GOARCH != "amd64" && strings.Contains(strings.Join(c.args, " "), "--cpu") {
			continue
		}
		require.Contains(t, printed(t, dir, c.code, append([]string{"pack", "--for", "litert"}, c.args...)...),
			c.message)
		require.NoFileExists(t, filepath.Join(dir, "c"))
	}
	require.Contains(t, printed(t, dir, exitUsage, "pack", model, "-o", "c", "--name-by-content"),
		"are for --for litert")
	needsLiteRT(t)
	require.Contains(t, printed(t, dir, exitFailed, packsForLiteRT(model, "-o", "notes")...), "is left as it is")
	require.Equal(t, "my notes", string(contentOf(t, filepath.Join(dir, "notes"))))
	said := printed(t, dir, exitFailed, packsForLiteRT("cut.tflite", "-o", "c")...)
	require.Contains(t, said, "LiteRT cannot read the model")
	requireNoStage(t, dir)
}

func TestAReportOfAFileForLiteRTHasItsBuffers(t *testing.T) {
	dir := t.TempDir()
	content := contentOf(t, filepath.Join("..", "..", "models", "litert", "testdata", "embedding_int8.litert_cache"))
	path := filepath.Join(dir, "c")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	f, err := litert.Open(path)
	require.NoError(t, err)
	said := pageAbout(t, dir, 0, "c")
	require.Contains(t, said, "LiteRT&#39;s packed weights cache, version 4")
	require.NotContains(t, said, "ExecuTorch")
	require.Contains(t, said, f.Entries[0].Name())
	printed(t, dir, 0, "report", "c", "-o", "page.html")

	content[litert.StaleAt] = 1
	require.NoError(t, os.WriteFile(path, content, 0o600))
	require.Contains(t, printed(t, dir, exitFailed, "report", "c", "-o", "page.html"), "stale")
	require.Contains(t, string(contentOf(t, filepath.Join(dir, "page.html"))), "marked it as stale")
	require.NoError(t, os.WriteFile(path, content[:len(content)-1], 0o600))
	require.Contains(t, printed(t, dir, exitFailed, "report", "c", "-o", "cut.html"), "pack it again")
	require.NoFileExists(t, filepath.Join(dir, "cut.html"))
}

// pushLiteRT pushes files for LiteRT.
func pushLiteRT(t testing.TB, dir, ref, model string, args ...string) registry.Pushed {
	t.Helper()
	return reported[registry.Pushed](t, dir, 0, pushesLiteRT(ref, model, args...)...)
}

func pushesLiteRT(ref, model string, args ...string) []string {
	return append([]string{"push", ref, "--model", model, "--litert-lm", libraryForLiteRT}, args...)
}

func TestANodePullsTheFileForLiteRTThatAnotherPushed(t *testing.T) {
	needsLiteRT(t)
	s := registrytest.Start(t)
	packer, node := t.TempDir(), t.TempDir()
	ref, model := s.Ref("mlp:v1"), zooModel(t, "mlp_fp32")
	litertPack(t, packer, model, "-o", "c")
	pushed := pushLiteRT(t, packer, ref, model, "c")
	require.Len(t, pushed.Layouts, 1)
	sum, _, err := sha256Of(model)
	require.NoError(t, err)
	require.Equal(t, sum, pushed.Layouts[0].Model)
	require.Equal(t, "2.3.0", pushed.Layouts[0].LiteRT)
	require.Contains(t, printed(t, packer, 0, pushesLiteRT(ref, model, "c")...), "the tag has all of this already")
	require.Contains(t, printed(t, node, 0, "ls", ref), "this machine's")

	pull := []string{"pull", ref, "--for", "litert", "-o"}
	said := printed(t, node, 0, append(pull, ".")...)
	require.Contains(t, said, "mlp.litert_cache")
	require.Contains(t, said, sum)
	file := filepath.Join(node, "mlp.litert_cache")
	require.Equal(t, contentOf(t, filepath.Join(packer, "c")), contentOf(t, file))
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.EqualValues(t, 0o444, info.Mode().Perm())

	// What is there already is left, so that processes go on sharing its pages, but nobody may write to it.
	require.NoError(t, os.Chmod(file, 0o644))
	proving := []string{"--model", model, "--litert-lm", libraryForLiteRT}
	second := reported[pulling](t, node, 0, append(append(pull, "."), proving...)...)
	require.True(t, second.UpToDate)
	require.True(t, second.Proof.holds())
	final, err := os.Stat(file)
	require.NoError(t, err)
	require.True(t, os.SameFile(info, final))
	require.EqualValues(t, 0o444, final.Mode().Perm())
	require.Contains(t, printed(t, node, 0, append(append(pull, "new"), proving...)...), "proven")

	// A file of another model is neither pulled for this one nor pushed with it.
	retrainedModel := retrained(t, model)
	got := failed(t, node, exitFailed,
		append(append(pull, "other"), "--model", retrainedModel, "--litert-lm", libraryForLiteRT)...)
	require.Equal(t, kindUnproven, got.Kind)
	require.Contains(t, got.Message, "another model")
	litertPack(t, packer, retrainedModel, "-o", "other")
	require.Contains(t, printed(t, packer, exitFailed, pushesLiteRT(ref, retrainedModel, "other")...),
		"push to another tag")

	// Nor is a file for LiteRT pulled for xpwc, or one for xpwc for LiteRT.
	require.Equal(t, kindNoLayout, failed(t, node, exitFailed, "pull", ref, "-o", "other").Kind)
	runJSON(t, packer, faceModel(t), "--cache", "face.xpwc")
	printed(t, packer, 0, "push", s.Ref("face:v1"), "face.xpwc")
	got = failed(t, node, exitFailed, "pull", s.Ref("face:v1"), "--for", "litert", "-o", "other")
	require.Equal(t, kindNoLayout, got.Kind)
	require.Contains(t, got.Message, "pack here with --for litert and push")
	require.NoFileExists(t, filepath.Join(node, "other"))
	require.NoError(t, os.WriteFile(filepath.Join(node, "notes"), []byte("mine"), 0o600))
	require.Contains(t, printed(t, node, exitFailed, append(pull, "notes")...), "is left as it is")
	require.Equal(t, "mine", string(contentOf(t, filepath.Join(node, "notes"))))
	requireNoStage(t, node)
}

func TestATagHasTheFilesForLiteRTOfSeveralCPUs(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("levels are of x86")
	}
	needsLiteRT(t)
	s := registrytest.Start(t)
	dir := t.TempDir()
	ref, model := s.Ref("small:v1"), zooModel(t, "MobileNetV3Small_int8")
	needsLevels(t, dir, model)
	var files []string
	for _, f := range litertPack(t, dir, model, "--cpu", "sse4.1,avx2", "--name-by-content", "-o", ".").LiteRT {
		files = append(files, f.Output)
	}
	pushLiteRT(t, dir, ref, model, files[0], "--cpu", "sse4.1")
	pushed := pushLiteRT(t, dir, ref, model, files[1], "--cpu", "avx2")
	require.Len(t, pushed.Kept, 1)
	for _, l := range append(pushed.Layouts, pushed.Kept...) {
		require.Regexp(t, "^amd64 (sse4.1|avx2), LiteRT 2.3.0$", l.Description)
	}
	if features := cpu.Features(); features != "sse4.1" && features != "avx2" {
		printed(t, dir, exitFailed, "pull", ref, "--for", "litert", "-o", "none")
	}
	printed(t, dir, 0, append(packsForLiteRT(model), "-o", "here")...)
	pushLiteRT(t, dir, ref, model, "here")
	pulled := reported[pulling](t, dir, 0, "pull", ref, "--for", "litert", "-o", "mine")
	require.Contains(t, pulled.Layouts[0].Description, cpu.Features())
	require.Equal(t, contentOf(t, filepath.Join(dir, "here")), contentOf(t, filepath.Join(dir, "mine")))

	// A file is pushed only for the CPU that it is for.
	swapped := failed(t, dir, exitFailed, pushesLiteRT(ref, model, files[0], "--cpu", "avx2")...)
	require.Equal(t, kindUnproven, swapped.Kind)
	require.Contains(t, printed(t, dir, exitUsage, pushesLiteRT(ref, model, files...)...), "one by one")
}

func TestMistakesWithFilesForLiteRTAndRegistriesAreReported(t *testing.T) {
	if !xnnpack.Available {
		t.Skip("this is built without cgo")
	}
	dir := t.TempDir()
	for name, source := range map[string]string{"c": filepath.Join("..", "..", "models", "litert", "testdata",
		"embedding_int8.litert_cache"), "text": "litert_test.go"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), contentOf(t, source), 0o600))
	}
	for want, args := range map[string][]string{
		"give --model":                {"push", "localhost:1/m", "c"},
		"is one .tflite file":         {"push", "localhost:1/m", "c", "--model", "m.pte"},
		"known are":                   {"push", "localhost:1/m", "c", "--model", "m.tflite", "--cpu", "z80"},
		"--litert-lm is for":          {"pull", "localhost:1/m", "-o", "new", "--litert-lm", "text"},
		"--for is for this machine's": {"pull", "localhost:1/m", "-o", "new", "--for", "litert", "--layout", "0"},
		"--sealed excludes":           {"pull", "localhost:1/m", "-o", "new", "--for", "litert", "--sealed"},
		"for LiteRT a model is one":   {"pull", "localhost:1/m", "-o", "new", "--for", "litert", "--model", "m.pte"},
		"the runtimes known are":      {"pull", "localhost:1/m", "-o", "new", "--for", "other"},
	} {
		if want == "for LiteRT a model is one" {
			if _, ok := litert.Newest(runtime.GOARCH); !ok {
				continue
			}
		}
		require.Contains(t, printed(t, dir, exitUsage, args...), want)
	}
	args := []string{"push", "localhost:1/m", "--model", "m.tflite", "text"}
	require.Equal(t, kindNotCache, failed(t, dir, exitFailed, args...).Kind)
}

// retrained returns a copy of a model of float32 with other weights under the same indices.
func retrained(t testing.TB, model string) string {
	t.Helper()
	b := contentOf(t, model)
	const sign, size = 3, 4 // the byte of a float32 with its sign; buffers are aligned to more than one float32
	for i := len(b)/3/size*size + sign; i < 2*len(b)/3; i += size {
		b[i] ^= 0x80
	}
	path := filepath.Join(t.TempDir(), filepath.Base(model))
	require.NoError(t, os.WriteFile(path, b, 0o600))
	return path
}
