package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/cachefile"
	"xpwc/internal/console"
	"xpwc/internal/digest"
	"xpwc/internal/format"
	"xpwc/internal/output"
	"xpwc/internal/tests/registrytest"
	"xpwc/internal/tests/testkit"
)

// A forgery changes the records of a file, and its bytes, which end where the index was; what it adds to them comes
// before the new one.
type forgery func(records []format.Record, file []byte) ([]format.Record, []byte)

// forge writes a file that is sound in all that can be checked without the model.
func forge(t testing.TB, path string, change forgery) {
	t.Helper()
	forgeLayouts(t, path, func(*format.Layout) {}, change)
}

// forgeLayouts does so with other layouts, too.
func forgeLayouts(t testing.TB, path string, layout func(l *format.Layout), change forgery) {
	t.Helper()
	file, err := os.ReadFile(path)
	require.NoError(t, err)
	h, err := format.DecodeHeader(file)
	require.NoError(t, err)
	slot := h.Current
	index, err := format.LoadIndex(bytes.NewReader(file), slot)
	require.NoError(t, err)
	var records []format.Record
	for i := range index.Len() {
		r, err := index.Record(i)
		require.NoError(t, err)
		records = append(records, r)
	}
	records, file = change(records, file[:slot.IndexOffset])
	for i := range records {
		r := &records[i]
		r.Sum = digest.Of(file[r.Offset:][:r.Size])
	}
	layouts := slices.Clone(index.Layouts())
	for i := range layouts {
		layout(&layouts[i])
	}
	next, block, err := format.EncodeGeneration(slot.Generation+1, uint64(len(file)), layouts, records)
	require.NoError(t, err)
	file = append(file, make([]byte, next.IndexOffset-uint64(len(file)))...)
	file = append(file, block...)
	b, offset := next.Encode(h.ID)
	copy(file[offset:], b)
	require.NoError(t, os.WriteFile(path, file, 0o600))
}

// addBefore adds a payload to a file under a record's key, where look-ups find it first.
func addBefore(records []format.Record, file []byte, r format.Record, payload []byte) ([]format.Record, []byte) {
	for i := range records {
		if records[i].Offset == r.Offset { // its own payload moves to the end
			file = append(file, make([]byte, format.Align(uint64(len(file)))-uint64(len(file)))...)
			moved := uint64(len(file))
			file = append(file, file[r.Offset:][:r.Size]...)
			records[i].Offset = moved
		}
	}
	copy(file[r.Offset:][:r.Size], payload)
	return append(records, r), file
}

const besides = "a wrong payload beside the right one"

var forgeries = map[string]struct {
	change  forgery
	message string
}{
	"a changed payload": {func(records []format.Record, file []byte) ([]format.Record, []byte) {
		file[records[3].Offset+5] ^= 1
		return records, file
	}, "bytes are not those that it is packed into here"},
	"a payload of another size": {func(records []format.Record, file []byte) ([]format.Record, []byte) {
		r := &records[3]
		longer := append(slices.Clone(file[r.Offset:][:r.Size]), make([]byte, 128)...)
		file = append(file, make([]byte, format.Align(uint64(len(file)))-uint64(len(file)))...)
		r.Offset, r.Size = uint64(len(file)), uint64(len(longer))
		return records, append(file, longer...)
	}, "bytes, and is packed into "},
	"a missing payload": {func(records []format.Record, file []byte) ([]format.Record, []byte) {
		return slices.Delete(records, 3, 4), file
	}, "it is missing"},
	"a payload of other content": {func(records []format.Record, file []byte) ([]format.Record, []byte) {
		records[3].Digests.Kernel[0] ^= 1
		records[3].Stamps.Kernel = format.Digest{}
		return records, file
	}, "packed from other content"},
	besides: {func(records []format.Record, file []byte) ([]format.Record, []byte) {
		wrong := slices.Clone(file[records[3].Offset:][:records[3].Size])
		wrong[7] ^= 1
		return addBefore(records, file, records[3], wrong)
	}, "bytes are not those that it is packed into here"},
}

func TestAFileThatTheModelIsNotPackedIntoIsNotProven(t *testing.T) {
	for name, f := range forgeries {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			packJSON(t, dir, faceModel(t), "-o", "c.xpwc")
			path := filepath.Join(dir, "c.xpwc")
			var entry string
			forge(t, path, func(records []format.Record, file []byte) ([]format.Record, []byte) {
				entry = records[3].Kernel + records[3].Bias
				return f.change(records, file)
			})
			printed(t, dir, 0, "verify", "c.xpwc") // nothing is wrong with it as a file
			said := printed(t, dir, exitFailed, "verify", "c.xpwc", "--model", faceModel(t))
			require.Contains(t, said, entry)
			require.Contains(t, said, f.message)
			require.NotContains(t, said, "proven")
			v := reported[verification](t, dir, exitFailed, "verify", "c.xpwc", "--model", faceModel(t))
			require.Contains(t, v.Proof.Wrong[0].Problem+v.Proof.Wrong[len(v.Proof.Wrong)-1].Problem, f.message)
		})
	}
}

// A wrong model gives a short message, not hundreds of equal lines.
func TestOfAnotherModelAFewWrongEntriesAreShownAndAllCounted(t *testing.T) {
	dir := t.TempDir()
	packJSON(t, dir, testModel(t, selfie), "-o", "c.xpwc")
	verify := []string{"verify", "c.xpwc", "--model", faceModel(t)}
	wrong := len(reported[verification](t, dir, exitFailed, verify...).Proof.Wrong)
	require.Greater(t, wrong, fewWrong)
	said := printed(t, dir, exitFailed, verify...)
	require.Contains(t, said, fmt.Sprintf("and %d more", wrong-fewWrong))
	require.Contains(t, said, console.Plural(wrong, "wrong or missing entry"))
	require.Equal(t, fewWrong, strings.Count(said, ": entry "))
}

// Entries of another layout are neither compared nor used here, unless the file records that this machine packs in
// that layout.
func TestAFileThatSaysOtherwiseOfThisMachineIsNotProven(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("there is no other CPU to pack for")
	}
	dir := t.TempDir()
	model := describedModel(t, dir)
	packJSON(t, dir, model, "-o", "here.xpwc")
	packJSON(t, dir, model, "-o", "both.xpwc", "--cpu", "sse2,native")
	printed(t, dir, 0, "verify", "both.xpwc", "--model", model)
	evidence := ""
	change := func(path string, edit func(l *cachefile.Layout)) {
		file := contentOf(t, filepath.Join(dir, path))
		require.NoError(t, output.Write(filepath.Join(dir, path), func(dst *os.File) error {
			return cachefile.Install(dst, func(w io.Writer) error { _, err := w.Write(file); return err },
				func(info *cachefile.Info) error {
					for i := range info.Layouts {
						edit(&info.Layouts[i])
					}
					return nil
				})
		}))
	}
	var current format.Digest
	change("here.xpwc", func(l *cachefile.Layout) { evidence, current = l.Evidence, l.Fingerprint })
	if evidence == "" {
		t.Skip("this XNNPACK does not say which it is")
	}
	change("both.xpwc", func(l *cachefile.Layout) { l.Evidence = evidence })
	said := printed(t, dir, exitFailed, "verify", "both.xpwc", "--model", model)
	require.Contains(t, said, "says that this machine packs in layout")
	require.NotContains(t, said, "proven")
	change("both.xpwc", func(l *cachefile.Layout) {
		if l.Fingerprint != current {
			l.Evidence = ""
		}
	})
	require.Contains(t, printed(t, dir, 0, "verify", "both.xpwc", "--model", model), "proven")
}

func TestAFileThatTheModelIsPackedIntoIsProven(t *testing.T) {
	dir := t.TempDir()
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	model := describedModel(t, dir)
	levels := "native"
	if runtime.GOARCH == "amd64" {
		levels = "sse2,native"
	}
	packJSON(t, dir, faceModel(t), "-o", "c.xpwc", "--cpu", levels)
	wholeFile := reported[verification](t, dir, 0, "verify", "c.xpwc", "--model", faceModel(t))
	require.Positive(t, wholeFile.Proof.Matches)
	require.Positive(t, wholeFile.Proof.EqualBytes)
	require.Empty(t, wholeFile.Proof.Wrong)
	require.Equal(t, wholeFile.Entries-wholeFile.Proof.Matches, wholeFile.Proof.Uncompared)

	packJSON(t, dir, model, "-o", "c.xpwc")
	twoModels := reported[verification](t, dir, 0, "verify", "c.xpwc", "--model", model)
	require.Equal(t, 3, twoModels.Proof.Matches)
	require.Equal(t, twoModels.Entries-twoModels.Proof.Matches, twoModels.Proof.Uncompared)
	require.Contains(t, printed(t, dir, 0, "verify", "c.xpwc", "--model", model), "proven: 3 entries")

	printed(t, dir, 0, "pack", model, "--embed-beside", "-o", "packed.safetensors")
	require.Contains(t, printed(t, dir, 0, "verify", "packed.safetensors", "--model", model), "proven: 3 entries")
	require.NoError(t, os.Rename(model+".json", filepath.Join(dir, "operators.json")))
	require.Contains(t, printed(t, dir, 0, "verify", "c.xpwc", "--model", model, "--description", "operators.json"),
		"proven: 3 entries")

	printed(t, dir, exitUsage, "verify", "c.xpwc", "--description", "operators.json")
	require.Contains(t, printed(t, dir, exitFailed, "verify", "c.xpwc", "--model", "missing.tflite"), "missing.tflite")
	printed(t, dir, 0, "convert", "c.xpwc", "--to", "xpwc2", "--layout", "current", "-o", "executorch")
	require.Contains(t, printed(t, dir, 0, "verify", "executorch", "--model", faceModel(t)), "proven: ")
	entries, err := os.ReadDir(temporary)
	require.NoError(t, err)
	require.Empty(t, entries)
}

func contentOf(t testing.TB, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	return content
}

func TestOnlyWhatProvesRightIsPulled(t *testing.T) {
	s := registrytest.Start(t)
	dir := t.TempDir()
	packJSON(t, dir, faceModel(t), "-o", "right.xpwc")
	printed(t, dir, 0, "push", s.Ref("face:right"), "right.xpwc")
	for name, f := range forgeries {
		if name == besides {
			continue // pushing finds them, and makes variants of them, which answer nothing before they are compared
		}
		t.Run(name, func(t *testing.T) {
			node := t.TempDir()
			packJSON(t, node, faceModel(t), "-o", "forged.xpwc")
			forge(t, filepath.Join(node, "forged.xpwc"), f.change)
			ref := s.Ref("face:" + strings.ReplaceAll(name, " ", "-"))
			printed(t, node, 0, "push", ref, "forged.xpwc")
			said := printed(t, node, exitFailed, "pull", ref, "-o", "c.xpwc", "--model", faceModel(t))
			require.Contains(t, said, "nothing was written to c.xpwc")
			require.NoFileExists(t, filepath.Join(node, "c.xpwc"))
			printed(t, node, 0, "pull", s.Ref("face:right"), "-o", "c.xpwc", "--model", faceModel(t))
			original, err := os.ReadFile(filepath.Join(node, "c.xpwc"))
			require.NoError(t, err)
			printed(t, node, exitFailed, "pull", ref, "-o", "c.xpwc", "--model", faceModel(t))
			final, err := os.ReadFile(filepath.Join(node, "c.xpwc"))
			require.NoError(t, err)
			require.Equal(t, original, final)
			requireNoStage(t, node)
		})
	}
	require.Contains(t, printed(t, dir, 0, "pull", s.Ref("face:right"), "-o", "pulled.xpwc", "--model", faceModel(t)),
		"proven: ")
}

func TestWhatIsNotComparedIsCounted(t *testing.T) {
	dir, _ := packed(t, face)
	packedOnALesserCPU(t, dir, face)
	packedOnALesserCPU(t, dir, selfie)
	for _, cpu := range []string{"sse2", "native"} {
		verify := []string{"verify", "model.xpwc", "--model", testModel(t, face), "--cpu", cpu}
		v := reported[verification](t, dir, 0, verify...)
		require.Equal(t, v.Entries-v.Proof.Matches, v.Proof.Uncompared)
		require.Contains(t, printed(t, dir, 0, verify...), fmt.Sprintf(
			"not compared: %d entries that no look-up of %s finds here\n", v.Proof.Uncompared, testModel(t, face)))
	}
}

func TestAFileForSeveralCPUsIsProvenForAllOfThem(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("there is no other CPU to pack for")
	}
	testkit.NeedsWholeCPU(t)
	dir, model := t.TempDir(), faceModel(t)
	packJSON(t, dir, model, "-o", "both.xpwc", "--cpu", "sse2,ssse3")
	packJSON(t, dir, model, "-o", "lesser.xpwc", "--cpu", "sse2")
	verify := []string{"verify", "--model", model, "--cpu", "sse2,ssse3"}
	proven := printed(t, dir, 0, append(verify, "both.xpwc")...)
	require.Contains(t, proven, "into here for CPUs of level sse2, CPUs of level ssse3\n")
	require.NotContains(t, proven, "not compared")

	require.Contains(t, printed(t, dir, exitFailed, append(verify, "lesser.xpwc")...), " for ssse3: it is missing\n")
	v := reported[verification](t, dir, exitFailed, append(verify, "lesser.xpwc")...)
	require.Equal(t, "sse2,ssse3", v.Proof.CPU)
	require.Len(t, v.Proof.Wrong, v.Proof.Matches, "each entry of the one is missing for the other")
	for _, w := range v.Proof.Wrong {
		require.Equal(t, "ssse3", w.CPU)
	}
}

func TestAFileOfAStockRuntimeIsProvenForOneCPU(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("there is no other CPU to pack for")
	}
	needsExecuTorchsXNNPACK(t)
	testkit.NeedsWholeCPU(t)
	dir := t.TempDir()
	mobile := program(t, mobilenet)
	packJSON(t, dir, mobile, "--for", "executorch", "-o", "stock", "--cpu", "sse2")
	require.Contains(t, printed(t, dir, exitUsage, "verify", "stock", "--model", mobile, "--cpu", "sse2,ssse3"),
		"stock is for one CPU")
}
