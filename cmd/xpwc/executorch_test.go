package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/cachefile"
	"xpwc/internal/format"
	"xpwc/internal/tests/registrytest"
	"xpwc/models/executorch"
	"xpwc/xnnpack"
	operator "xpwc/xnnpack/packing"
)

// packsAsExecuTorch reports whether the XNNPACK of these tests is one that ExecuTorch has.
func packsAsExecuTorch() bool {
	return len(executorch.ReleasesOf(runtime.GOARCH, xnnpack.BuildIdentifier())) > 0
}

func needsExecuTorchsXNNPACK(t testing.TB) {
	t.Helper()
	if !packsAsExecuTorch() {
		t.Skip("the XNNPACK of these tests is not ExecuTorch's")
	}
}

func TestOnlyExecuTorchsXNNPACKPacksForItsStockRuntime(t *testing.T) {
	if os.Getenv("XNNPACK") == "executorch" { // as the Makefile sets it
		require.True(t, packsAsExecuTorch(), xnnpack.BuildIdentifier())
	}
	if packsAsExecuTorch() {
		t.Skip("this is ExecuTorch's XNNPACK")
	}
	dir := t.TempDir()
	for _, args := range [][]string{
		{"pack", program(t, perceptron), "--for", "executorch", "-o", "c"},
		{"pull", "localhost:1/mlp", "--for", "executorch", "-o", "c"},
	} {
		said := printed(t, dir, exitFailed, args...)
		require.Contains(t, said, "another XNNPACK than the stock runtime")
		require.Contains(t, said, xnnpack.BuildIdentifier()[:8], "which it is")
		require.Contains(t, said, "ExecuTorch 1.5.1", "which it should be")
		require.Contains(t, said, "the wheel and the tarball have an xpwc that can")
		require.NoFileExists(t, filepath.Join(dir, "c"))
		requireNoStage(t, dir)
	}
}

func TestTheStockRuntimesFileHasWhatTheProgramIsPackedInto(t *testing.T) {
	needsExecuTorchsXNNPACK(t)
	dir := t.TempDir()
	for _, name := range []string{perceptron, "mlp_dyn_fp32.pte", floats16, mobilenet} {
		t.Run(name, func(t *testing.T) {
			model := program(t, name)
			native := packJSON(t, dir, model, "-o", name+".xpwc")
			report := packJSON(t, dir, model, "--for", "executorch", "-o", name+".packed_cache")
			if report.Nothing != "" { // of half precision, on a CPU without arithmetic for it
				for _, e := range reported[inspection](t, dir, 0, "inspect", name+".xpwc").Entries {
					require.Contains(t, e.Kernel, "#", "XNNPACK converts it, and looks for no packed weights")
				}
				return
			}
			require.Equal(t, native.Entries, report.Entries)
			require.Equal(t, []string{"1.5.1"}, report.For.ExecuTorch)
			require.Equal(t, native.Levels[0].Layout, report.For.Layout)
			require.Empty(t, report.For.LeftOut)
			info, err := os.Stat(filepath.Join(dir, name+".packed_cache"))
			require.NoError(t, err)
			require.Equal(t, report.FileBytes, info.Size())
			require.Zero(t, info.Mode().Perm()&0o222, "the stock runtime would lock it for one process, and add to it")

			v := reported[inspection](t, dir, 0, "inspect", name+".packed_cache")
			require.EqualValues(t, "xpwc2", v.Format)
			require.Len(t, v.Entries, report.Entries)
			packJSON(t, dir, model, "--for", "executorch", "-o", "again")
			require.Equal(t, contentOf(t, filepath.Join(dir, name+".packed_cache")),
				contentOf(t, filepath.Join(dir, "again")), "the same program, XNNPACK and CPU give the same file")
			require.Len(t, reported[comparison](t, dir, 0, "diff", name+".xpwc", name+".packed_cache").Differences, 0)
			require.Contains(t, printed(t, dir, 0, "verify", name+".packed_cache", "--model", model), "proven")
		})
	}
}

func TestPackNamesTheProgramWhoseFileItReplaces(t *testing.T) {
	needsExecuTorchsXNNPACK(t)
	dir, first, second := t.TempDir(), program(t, perceptron), program(t, mobilenet)
	pack := func(model string) string { return printed(t, dir, 0, "pack", model, "--for", "executorch", "-o", "c") }
	const note = "replaces the file of another program"
	require.NotContains(t, pack(first), note)
	require.NotContains(t, pack(first), note)
	require.Contains(t, pack(second), note+", "+filepath.Base(first))
	report := packJSON(t, dir, first, "--for", "executorch", "-o", "c")
	require.Equal(t, filepath.Base(second), report.For.Replaced.Files[0].Name)
}

// A PReLU reads its slopes at inference, and the stock runtime frees them where it has a weights cache.
func TestAProgramThatTheStockRuntimeCrashesOnGetsNoFile(t *testing.T) {
	needsExecuTorchsXNNPACK(t)
	dir := t.TempDir()
	slopes, err := filepath.Abs(filepath.Join("..", "..", "internal", "tests", "zoo", "testdata", "pte",
		"prelu_fp32.pte"))
	require.NoError(t, err)
	require.Equal(t, kindUnsupported, failed(t, dir, exitFailed, "pack", slopes, "--for", "executorch", "-o", "c").Kind)
	require.NoFileExists(t, filepath.Join(dir, "c"))
	requireNoStage(t, dir)
	printed(t, dir, 0, "pack", program(t, perceptron), "--for", "executorch", "-o", "c")
	require.Contains(t, printed(t, dir, exitFailed, "verify", "c", "--model", slopes), "the stock runtime crashes")
	printed(t, dir, 0, "pack", slopes, "-o", "own.xpwc") // Go and the class for ExecuTorch keep the slopes
	packJSON(t, dir, program(t, perceptron), "-o", "pushed.xpwc")
	convert := []string{"convert", "pushed.xpwc", "--to", string(cachefile.XPWC2), "-o", "converted"}
	require.Contains(t, printed(t, dir, exitFailed, append(convert, "--model", slopes)...), "the stock runtime crashes")
	require.NoFileExists(t, filepath.Join(dir, "converted"))
	require.Contains(t, printed(t, dir, 0, convert...), "a program with a PReLU: give --model")
	require.NotContains(t, printed(t, dir, 0, append(convert, "--model", program(t, perceptron))...), "PReLU")
	require.Contains(t, printed(t, dir, exitUsage, "convert", "pushed.xpwc", "--to", string(cachefile.Native),
		"-o", "converted", "--model", slopes), "--model is for --to xpwc2")
	s := registrytest.Start(t)
	printed(t, dir, 0, "push", s.Ref("net:v1"), "pushed.xpwc")
	pull := []string{"pull", s.Ref("net:v1"), "--for", "executorch", "-o", "pulled"}
	require.Contains(t, printed(t, dir, exitFailed, append(pull, "--model", slopes)...), "the stock runtime crashes")
	require.NoFileExists(t, filepath.Join(dir, "pulled"))
	require.Contains(t, printed(t, dir, 0, pull...), "a program with a PReLU: give --model")
}

func TestExplainNamesTheRuntimeOfAStockRuntimesFile(t *testing.T) {
	needsExecuTorchsXNNPACK(t)
	dir, model := t.TempDir(), program(t, perceptron)
	printed(t, dir, 0, "pack", model, "--for", "executorch", "-o", "c")
	text := strings.Join(strings.Fields(printed(t, dir, 0, "explain", "--cache", "c", model)), " ")
	require.Contains(t, text, "note: c is for the stock ExecuTorch, packed for "+filepath.Base(model))
	e := reported[explanation](t, dir, 0, "explain", "--cache", "c", model)
	require.Equal(t, cachefile.XPWC2, e.Format)
	require.Len(t, e.PackedFor.Files, 1)

	printed(t, dir, 0, "pack", model, "-o", "own.xpwc")
	require.NotContains(t, printed(t, dir, 0, "explain", "--cache", "own.xpwc", model), "stock ExecuTorch")
}

// The first stage finds out that the file of the stock runtime cannot be replaced.
func TestExplainAndRunGiveAFileOfAStockRuntimeTheSameReasonForEachStage(t *testing.T) {
	needsExecuTorchsXNNPACK(t)
	dir, model := t.TempDir(), program(t, filepath.Join("..", "reported", "half_xnn.pte"))
	printed(t, dir, 0, "pack", model, "--for", "executorch", "-o", "c")
	explained := reported[explanation](t, dir, 0, "explain", "--cache", "c", model)
	ran, _ := runJSON(t, dir, model, "--cache", "c")
	require.Equal(t, explained.Reasons, ran.Cache.Slow)
	require.Equal(t, xpwc.ReasonForeign, ran.Cache.Slow[0].Reason)
	require.EqualValues(t, 2, ran.Cache.Slow[0].Entries)
}

func TestTheStockRuntimesFileIsForOneCPU(t *testing.T) {
	needsExecuTorchsXNNPACK(t)
	dir, model := t.TempDir(), program(t, mobilenet)
	said := printed(t, dir, 0, "pack", model, "--for", "executorch", "-o", "here")
	require.Contains(t, said, "for ExecuTorch 1.5.1 on "+runtime.GOARCH+", CPUs like this machine's")
	require.Contains(t, said, "does not check the CPU")
	if runtime.GOARCH != "amd64" {
		return
	}
	require.Contains(t, printed(t, dir, exitUsage, "pack", model, "--for", "executorch", "-o", "two", "--cpu",
		"sse2,native"), "one CPU")
	require.NoFileExists(t, filepath.Join(dir, "two"))
	require.Contains(t, printed(t, dir, 0, "pack", model, "--for", "executorch", "-o", "lesser", "--cpu", "sse2"),
		"CPUs of level sse2")
	printed(t, dir, 1, "diff", "here", "lesser")
	require.Contains(t, printed(t, dir, exitFailed, "verify", "lesser", "--model", model), errUnproven.Error())
	require.Contains(t, printed(t, dir, 0, "verify", "lesser", "--model", model, "--cpu", "sse2"),
		"packed into here for CPUs of level sse2")
	require.Contains(t, printed(t, dir, exitFailed, "verify", "here", "--model", model, "--cpu", "sse2"),
		errUnproven.Error())
}

// namedProgram returns the path of a program of one kernel, written by the tests of package executorch.
func namedProgram(t testing.TB, name string) string { return program(t, filepath.Join("..", name)) }

func TestWhatTheStockRuntimeWouldTakeForAnotherIsNotWrittenForIt(t *testing.T) {
	needsExecuTorchsXNNPACK(t)
	dir := t.TempDir()
	said := printed(t, dir, exitFailed, "pack", namedProgram(t, "one_name_one_seed.pte"), "--for", "executorch",
		"-o", "c")
	require.Regexp(t, `"kernel": fully-connected into \d+ bytes and fully-connected into \d+ bytes, with seed`, said)
	require.Contains(t, said, "nothing was written to c")
	require.NoFileExists(t, filepath.Join(dir, "c"))
	requireNoStage(t, dir)
	packJSON(t, dir, namedProgram(t, "one_name_one_seed.pte"), "-o", "c.xpwc") // ours distinguishes them

	report := packJSON(t, dir, namedProgram(t, "one_name_two_seeds.pte"), "--for", "executorch", "-o", "two")
	require.Equal(t, 1, report.Entries, "it has one entry a name")
	second := packJSON(t, dir, namedProgram(t, "one_name_two_seeds.pte"), "--for", "executorch", "-o", "again")
	require.Equal(t, report.For, second.For)
	require.Equal(t, contentOf(t, filepath.Join(dir, "two")), contentOf(t, filepath.Join(dir, "again")))
	var reasons []string
	for _, l := range report.For.LeftOut {
		reasons = append(reasons, l.Reason)
	}
	require.ElementsMatch(t, []string{"packed from a constant without a name",
		"not the only one of its name, of which the file can have one"}, reasons)
	said = printed(t, dir, 0, "pack", namedProgram(t, "one_name_two_seeds.pte"), "--for", "executorch", "-o", "two")
	require.Contains(t, said, "the stock runtime packs with each load: 1 entry, packed from a constant without a name")
	require.Contains(t, printed(t, dir, 0, "verify", "two", "--model", namedProgram(t, "one_name_two_seeds.pte")),
		"proven: 1 entry")
	v := reported[verification](t, dir, 0, "verify", "two", "--model", namedProgram(t, "one_name_two_seeds.pte"))
	require.Equal(t, report.For.LeftOut, v.Proof.LeftOut)
}

func TestWhatTheStockRuntimeDoesNotLookForIsNotWrittenForIt(t *testing.T) {
	needsExecuTorchsXNNPACK(t)
	dir := t.TempDir()
	for name, reason := range map[string]string{"no_names.pte": "1 entry, packed from a constant without a name",
		"deconvolution.pte": "1 entry, of a deconvolution"} {
		said := printed(t, dir, 0, "pack", namedProgram(t, name), "--for", "executorch", "-o", "c")
		require.Contains(t, said, "nothing that the stock runtime would look for: "+reason)
		require.NoFileExists(t, filepath.Join(dir, "c"))
	}
	matrices := cachefile.Entry{Kernel: "kernel", Family: operator.Family{Operator: operator.BatchMatrixMultiply}}
	require.Contains(t, stockPacks(&matrices, true), "another one in each process")
}

func TestAProgramWithNothingToPackIsNoFailure(t *testing.T) {
	dir, model := t.TempDir(), namedProgram(t, "no_weights.pte")
	runtimes := [][]string{nil}
	if packsAsExecuTorch() {
		runtimes = append(runtimes, []string{"--for", "executorch"})
	}
	for _, runtime := range runtimes {
		said := printed(t, dir, 0, append([]string{"pack", model, "-o", "c"}, runtime...)...)
		require.Contains(t, said, "note: "+model+": it has no weights that XNNPACK packs")
		require.Contains(t, said, "nothing was written to c")
		require.NoFileExists(t, filepath.Join(dir, "c"))
		report := packJSON(t, dir, append([]string{model, "-o", "c"}, runtime...)...)
		require.Contains(t, report.Nothing, "no weights")
		require.Zero(t, report.Entries)

		packJSON(t, dir, append([]string{program(t, perceptron), "-o", "other"}, runtime...)...)
		original := contentOf(t, filepath.Join(dir, "other"))
		printed(t, dir, 0, append([]string{"pack", model, "-o", "other"}, runtime...)...)
		require.Equal(t, original, contentOf(t, filepath.Join(dir, "other")), "another program's is left as it is")
	}
	requireNoStage(t, dir)
}

func TestAStockRuntimesFileReplacesOnlyACache(t *testing.T) {
	needsExecuTorchsXNNPACK(t)
	dir, model := t.TempDir(), program(t, perceptron)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "text"), []byte("text"), 0o600))
	require.Contains(t, printed(t, dir, exitFailed, "pack", model, "--for", "executorch", "-o", "text"),
		"not written over")
	require.Equal(t, "text", string(contentOf(t, filepath.Join(dir, "text"))))

	packJSON(t, dir, program(t, mobilenet), "-o", "c")
	first := packJSON(t, dir, model, "--for", "executorch", "-o", "c")
	require.Equal(t, 2, first.Entries, "nothing is added to what was there")
	second := packJSON(t, dir, model, "--for", "executorch", "-o", "c")
	require.Equal(t, first.For, second.For)
}

// The stock runtime finds packed weights by name and seed, which both programs have.
func TestAFileThatIsLeftBesideAnExportedAgainProgramIsNotProven(t *testing.T) {
	needsExecuTorchsXNNPACK(t)
	dir := t.TempDir()
	first, second := namedProgram(t, "calibrated.pte"), namedProgram(t, "calibrated_again.pte")
	packJSON(t, dir, first, "--for", "executorch", "-o", "packed")
	sum := sha256.Sum256(contentOf(t, first))
	said := printed(t, dir, 0, "verify", "packed", "--model", first)
	require.Contains(t, said, fmt.Sprintf("packed for calibrated.pte (SHA-256 %x…), CPUs of level native", sum[:6]))
	require.NotContains(t, said, "note:")
	require.Contains(t, printed(t, dir, 0, "verify", "packed"), "packed for calibrated.pte")

	said = printed(t, dir, exitFailed, "verify", "packed", "--model", second)
	require.Contains(t, said, errUnproven.Error())
	require.Contains(t, said, second+" is another program: pack it")
	v := reported[verification](t, dir, exitFailed, "verify", "packed", "--model", second)
	require.True(t, v.Another)
	require.Equal(t, fmt.Sprintf("%x", sum), v.PackedFor.Files[0].SHA256)
	require.Equal(t, []programFile{{"calibrated.pte", int64(len(contentOf(t, first))), fmt.Sprintf("%x", sum)}},
		v.PackedFor.Files)

	// Equal content under another name is the same program. Another program may have equal packed weights.
	require.NoError(t, os.WriteFile(filepath.Join(dir, "renamed.pte"), contentOf(t, first), 0o600))
	require.NotContains(t, printed(t, dir, 0, "verify", "packed", "--model", "renamed.pte"), "note:")
	longer := append(contentOf(t, first), make([]byte, 128)...)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "longer.pte"), longer, 0o600))
	require.Contains(t, printed(t, dir, 0, "verify", "packed", "--model", "longer.pte"),
		"note: longer.pte is another program, with the same packed weights")
}

func TestANoteOfSomebodyElseIsNoRecord(t *testing.T) {
	for _, note := range []string{"", "text", "[]", "{}", `{"files": []}`, `{"files": [1]}`} {
		require.Nil(t, readPackedFor(note), note)
	}
	odd := readPackedFor(`{"files": [{"name": "\u001b[31m", "sha256": "\n"}], "cpu": ""}`)
	require.NotContains(t, odd.String(), "\x1b")
	require.NotContains(t, odd.String(), "\n")
}

// Nor is it changed by root, who could write to it.
func TestAStockRuntimesFileIsNotChangedByRunningAnotherProgramWithIt(t *testing.T) {
	needsExecuTorchsXNNPACK(t)
	dir := t.TempDir()
	packJSON(t, dir, program(t, mobilenet), "--for", "executorch", "-o", "both.packed_cache")
	original := contentOf(t, filepath.Join(dir, "both.packed_cache"))
	for _, name := range []string{perceptron, mobilenet} {
		plain, _ := runJSON(t, dir, program(t, name))
		cached, _ := runJSON(t, dir, program(t, name), "--cache", "both.packed_cache")
		require.Equal(t, plain.Outputs, cached.Outputs)
		require.Equal(t, original, contentOf(t, filepath.Join(dir, "both.packed_cache")))
	}
	info, err := os.Stat(filepath.Join(dir, "both.packed_cache"))
	require.NoError(t, err)
	require.Zero(t, info.Mode().Perm()&0o222)
}

func TestMistakesWithTheStockRuntimeAreReported(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		message string
		args    []string
	}{
		{"the runtimes known are executorch, litert and litert-lm", []string{"pack", program(t, perceptron), "--for",
			"tflite"}},
		{"--for executorch is for programs, whose names end in .pte", []string{"pack", faceModel(t), "--for",
			"executorch"}},
		{"exclude each other", []string{"pack", program(t, perceptron), "--for", "executorch", "--embed-beside"}},
		{"--layout names others", []string{"pull", "localhost:1/mlp", "--for", "executorch", "--layout", "0"}},
	} {
		require.Contains(t, printed(t, dir, exitUsage, append(c.args, "-o", "c")...), c.message, c.args)
		require.NoFileExists(t, filepath.Join(dir, "c"))
	}
	require.Contains(t, printed(t, dir, exitUsage, "verify", "c", "--cpu", "sse9", "--model", "m"), "--cpu sse9")
	if runtime.GOARCH == "amd64" {
		require.Contains(t, printed(t, dir, exitUsage, "verify", "c", "--cpu", "sse2"),
			"--cpu and --target are for --model")
	}
}

func TestANodePullsTheFileOfItsLayoutForTheStockRuntime(t *testing.T) {
	needsExecuTorchsXNNPACK(t)
	s := registrytest.Start(t)
	dir, model := t.TempDir(), program(t, mobilenet)
	packed := packJSON(t, dir, model, "-o", "c.xpwc")
	printed(t, dir, 0, "push", s.Ref("net:v1"), "c.xpwc")
	packJSON(t, dir, model, "--for", "executorch", "-o", "packed_here")
	pulled := decoded[pulling](t, dir, "pull", s.Ref("net:v1"), "--for", "executorch", "-o", "pulled", "--model", model)
	require.Equal(t, packed.Entries, pulled.For.Entries)
	require.Equal(t, packed.Levels[0].Layout, pulled.For.Layout)
	require.Equal(t, packed.Entries, pulled.Proof.Matches)
	printed(t, dir, 0, "diff", "packed_here", "pulled")
	said := printed(t, dir, 0, "verify", "pulled", "--model", model)
	require.Contains(t, said, "proven")
	require.Contains(t, said, "packed for "+mobilenet)
	text := printed(t, dir, 0, "pull", s.Ref("net:v1"), "--for", "executorch", "-o", "pulled")
	require.Contains(t, printed(t, dir, 0, "pull", s.Ref("net:v1"), "--for", "executorch", "-o", "."),
		"net.packed_cache")
	require.Contains(t, text, "for ExecuTorch 1.5.1 on")
	require.NotContains(t, text, "--cpu", "which is a flag of pack")
	info, err := os.Stat(filepath.Join(dir, "pulled"))
	require.NoError(t, err)
	require.Zero(t, info.Mode().Perm()&0o222)

	// Two programs whose packed weights the stock runtime could not distinguish.
	forge(t, filepath.Join(dir, "c.xpwc"), func(records []format.Record, file []byte) ([]format.Record, []byte) {
		r := records[0]
		r.Packing[0] ^= 1
		changed := append([]byte{}, file[r.Offset:][:r.Size]...)
		changed[0] ^= 1
		return addBefore(records, file, r, changed)
	})
	printed(t, dir, 0, "push", s.Ref("net:two"), "c.xpwc")
	said = printed(t, dir, exitFailed, "pull", s.Ref("net:two"), "--for", "executorch", "-o", "two")
	require.Contains(t, said, "would take one for another")
	require.NoFileExists(t, filepath.Join(dir, "two"))

	if runtime.GOARCH == "amd64" {
		packJSON(t, dir, model, "-o", "sse2.xpwc", "--cpu", "sse2")
		printed(t, dir, 0, "push", s.Ref("net:old"), "sse2.xpwc")
		require.Contains(t, printed(t, dir, exitFailed, "pull", s.Ref("net:old"), "--for", "executorch", "-o", "none"),
			"pack here and push")
		require.NoFileExists(t, filepath.Join(dir, "none"))
	}
}

func TestAnExecuTorchsFileIsProvenByWhatItsRuntimeWouldFind(t *testing.T) {
	dir, model := t.TempDir(), program(t, mobilenet)
	packed := packJSON(t, dir, model, "-o", "c.xpwc")
	printed(t, dir, 0, "convert", "c.xpwc", "--to", "xpwc2", "-o", "right")
	right := reported[verification](t, dir, 0, "verify", "right", "--model", model)
	require.Equal(t, packed.Entries, right.Proof.Matches)
	content := contentOf(t, filepath.Join(dir, "right"))
	listed, _, err := format.DecodeTrailer(bytes.NewReader(content), uint64(len(content)))
	require.NoError(t, err)
	payloads := content[:uint64(len(content))-format.TrailerSize(listed)]
	for name, c := range map[string]struct {
		change  func(entries []format.TrailerEntry, file []byte) []format.TrailerEntry
		message string
	}{
		"another byte": {func(entries []format.TrailerEntry, file []byte) []format.TrailerEntry {
			file[entries[3].Offset+5] ^= 1
			return entries
		}, "bytes are not those that it is packed into here"},
		"another seed": {func(entries []format.TrailerEntry, _ []byte) []format.TrailerEntry {
			entries[3].Seed ^= 1
			return entries
		}, "and is looked for with"},
		"another size": {func(entries []format.TrailerEntry, _ []byte) []format.TrailerEntry {
			entries[3].Size--
			return entries
		}, "bytes, and is packed into "},
		"missing": {func(entries []format.TrailerEntry, _ []byte) []format.TrailerEntry {
			return append(entries[:3:3], entries[4:]...)
		}, "it is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			entries, file := append([]format.TrailerEntry{}, listed...), append([]byte{}, payloads...)
			entry := entries[3].Name
			entries = c.change(entries, file)
			file = append(file, format.EncodeTrailer(entries, uint64(len(file)))...)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "wrong"), file, 0o600))
			said := printed(t, dir, exitFailed, "verify", "wrong", "--model", model)
			require.Contains(t, said, entry)
			require.Contains(t, said, c.message)
			require.NotContains(t, said, "proven: ")
		})
	}
}
