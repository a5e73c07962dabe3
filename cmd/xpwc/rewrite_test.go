package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/tests/testkit"
)

// packedOnALesserCPU adds a model to a cache as a machine without AVX would.
func packedOnALesserCPU(t testing.TB, dir, model string) {
	t.Helper()
	packedOn(t, "sse2", dir, model)
}

func packedOn(t testing.TB, level, dir, model string) {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Skip("features of this architecture's CPUs cannot be hidden")
	}
	testkit.NeedsWholeCPU(t)
	cmd := exec.Command(os.Args[0], "run", testModel(t, model), "--cache", "model.xpwc")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), envCPU+"="+level)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// SSE2 and SSSE3 pack this model into the same bytes.
func TestEqualPayloadsOfTwoLayoutsAreStoredOnce(t *testing.T) {
	dir := t.TempDir()
	packedOn(t, "sse2", dir, face)
	original := reported[inspection](t, dir, 0, "inspect", "model.xpwc")
	packedOn(t, "ssse3", dir, face)
	packJSON(t, dir, faceModel(t), "-o", "packed.xpwc", "--cpu", "sse2,ssse3")
	printed(t, dir, 0, "convert", "model.xpwc", "--to", "native", "-o", "converted.xpwc")
	printed(t, dir, 0, "compact", "model.xpwc")
	for _, file := range []string{"packed.xpwc", "converted.xpwc", "model.xpwc"} {
		two := reported[inspection](t, dir, 0, "inspect", file)
		require.Len(t, two.Layouts, 2)
		require.Equal(t, 2*original.Total, two.Total, file)
		require.Equal(t, original.PayloadBytes, two.PayloadBytes, file)
		printed(t, dir, 0, "verify", file)
		for _, level := range []string{"sse2", "ssse3"} {
			require.Contains(t, printed(t, dir, 0, "verify", file, "--model", faceModel(t), "--cpu", level), "proven")
		}
	}
	first := original.Layouts[0].Fingerprint.String()
	printed(t, dir, 0, "prune", "model.xpwc", "--keep-layout", first)
	require.Equal(t, original.Total, reported[inspection](t, dir, 0, "inspect", "model.xpwc").Total)
	printed(t, dir, 0, "verify", "model.xpwc")
}

func TestPruneKeepsTheModelsThatAreNamed(t *testing.T) {
	dir := t.TempDir()
	face, selfie := faceModel(t), testModel(t, "selfie_segmentation.tflite")
	alone, _ := runJSON(t, dir, selfie, "--cache", "alone.xpwc")
	runJSON(t, dir, face, "--cache", "models.xpwc")
	runJSON(t, dir, selfie, "--cache", "models.xpwc")
	merged := reported[inspection](t, dir, 0, "inspect", "models.xpwc").Total
	printed(t, dir, 0, "prune", "models.xpwc", "--keep-model", face, "--keep-model", selfie)
	require.Equal(t, merged, reported[inspection](t, dir, 0, "inspect", "models.xpwc").Total)
	printed(t, dir, 0, "prune", "models.xpwc", "--keep-model", selfie)
	remaining := reported[inspection](t, dir, 0, "inspect", "models.xpwc").Total
	require.Less(t, remaining, merged)
	require.EqualValues(t, alone.Cache.Packed, remaining)
	warm, _ := runJSON(t, dir, selfie, "--cache", "models.xpwc")
	require.Zero(t, warm.Cache.Packed)
	said := printed(t, dir, exitUsage, "prune", "models.xpwc", "--keep-model", "absent.tflite")
	require.Contains(t, said, "absent.tflite")
	require.Contains(t, said, "it was packed from selfie_segmentation.tflite")
	require.Equal(t, remaining, reported[inspection](t, dir, 0, "inspect", "models.xpwc").Total, "nothing is dropped")
}

func TestCompactFreesDeadBytes(t *testing.T) {
	dir, _ := packed(t, face, selfie)
	original := reported[inspection](t, dir, 0, "inspect", "model.xpwc")
	require.NoError(t, os.Link(filepath.Join(dir, "model.xpwc"), filepath.Join(dir, "before")))
	r := reported[rewriting](t, dir, 0, "compact", "model.xpwc")
	require.Equal(t, original.FileBytes, r.BytesBefore)
	require.Less(t, r.BytesAfter, r.BytesBefore)
	require.Equal(t, original.Total, r.EntriesAfter)
	final := reported[inspection](t, dir, 0, "inspect", "model.xpwc")
	require.Equal(t, r.BytesAfter, final.FileBytes)
	require.Zero(t, final.DeadBytes)
	printed(t, dir, 0, "verify", "model.xpwc")
	require.Contains(t, printed(t, dir, 0, "diff", "before", "model.xpwc"),
		fmt.Sprintf("%d entries in common.", original.Total))
	report, _ := runJSON(t, dir, testModel(t, face), "--cache", "model.xpwc")
	require.Zero(t, report.Cache.Packed)

	require.Contains(t, printed(t, dir, 1, "compact", "none.xpwc"), "none.xpwc")
	require.NoFileExists(t, filepath.Join(dir, "none.xpwc"))
	printed(t, dir, 0, "convert", "model.xpwc", "--to", "xpwc2", "-o", "et")
	require.Contains(t, printed(t, dir, 1, "compact", "et"), "xpwc convert")
}

func TestPruneDropsWhatIsNotToBeKept(t *testing.T) {
	dir, _ := packed(t, face)
	whole := reported[inspection](t, dir, 0, "inspect", "model.xpwc")
	require.Contains(t, printed(t, dir, 1, "prune", "model.xpwc", "--keep-layout", "0000"), "it has "+whole.Current)
	r := reported[rewriting](t, dir, 0, "prune", "model.xpwc", "--keep-layout", whole.Current[:6], "--max-size",
		"100KiB")
	require.Less(t, r.EntriesAfter, r.EntriesBefore)
	require.Positive(t, r.EntriesAfter)
	require.LessOrEqual(t, r.BytesAfter, int64(100<<10))
	printed(t, dir, 0, "verify", "model.xpwc")
	report, _ := runJSON(t, dir, testModel(t, face), "--cache", "model.xpwc")
	require.EqualValues(t, r.EntriesAfter, report.Cache.Hits)
	require.EqualValues(t, r.EntriesBefore-r.EntriesAfter, report.Cache.Packed, "what was dropped is packed again")
}

func TestACacheOfTwoKindsOfMachines(t *testing.T) {
	dir, _ := packed(t, face)
	packedOnALesserCPU(t, dir, face)
	v := reported[inspection](t, dir, 0, "inspect", "model.xpwc")
	require.Len(t, v.Layouts, 2)
	require.NotEqual(t, v.Current, v.Layouts[1].Fingerprint.String())
	second, perLayout := v.Layouts[1].Fingerprint.String(), v.Layouts[0].Entries
	require.Equal(t, perLayout, v.Layouts[1].Entries)

	// ExecuTorch's files have one layout.
	printed(t, dir, 1, "convert", "model.xpwc", "--to", "xpwc2", "-o", "here")
	r := reported[conversion](t, dir, 0, "convert", "model.xpwc", "--to", "xpwc2", "-o", "here", "--layout", "current")
	require.Equal(t, v.Current, r.Layout)
	require.Equal(t, perLayout, r.Entries)
	r = reported[conversion](t, dir, 0, "convert", "model.xpwc", "--to", "xpwc2", "-o", "there", "--layout", second)
	require.Equal(t, second, r.Layout)
	require.Contains(t, printed(t, dir, 1, "diff", "here", "there"), "other")
	require.Contains(t, printed(t, dir, 1, "diff", "model.xpwc", "here"),
		fmt.Sprintf("%d entries in common, %d only in A", perLayout, perLayout))

	printed(t, dir, 0, "convert", "model.xpwc", "--to", "native", "-o", "copy", "--layout", second)
	require.Contains(t, printed(t, dir, 0, "inspect", "copy"),
		"This machine's layout, "+v.Current+", is not among them")
	require.Contains(t, printed(t, dir, 1, "prune", "copy", "--keep-layout", "current"),
		"no entries of this machine's layout")
	require.Contains(t, printed(t, dir, 1, "diff", "copy", "here"), "other",
		"ExecuTorch's has no layouts; bytes and seeds differ")
	require.Len(t, reported[comparison](t, dir, 1, "diff", "model.xpwc", "copy").Differences, perLayout)

	printed(t, dir, 0, "prune", "model.xpwc", "--keep-layout", "current")
	require.Len(t, reported[inspection](t, dir, 0, "inspect", "model.xpwc").Layouts, 1)
	require.Contains(t, printed(t, dir, 1, "diff", "model.xpwc", "copy"), fmt.Sprintf("%d other layout", perLayout))
}

func TestNativeFilesAreConvertedToExecuTorchs(t *testing.T) {
	dir, _ := packed(t, face)
	native := reported[inspection](t, dir, 0, "inspect", "model.xpwc")
	r := reported[conversion](t, dir, 0, "convert", "model.xpwc", "--to", "xpwc2", "-o", "xpwc2")
	require.Equal(t, native.Total, r.Entries)
	require.Empty(t, r.LeftOut)
	b, err := os.ReadFile(filepath.Join(dir, "xpwc2"))
	require.NoError(t, err)
	const format = "xpwc2"
	require.Contains(t, printed(t, dir, 0, "verify", format), "sound as far as ExecuTorch's files")
	v := reported[inspection](t, dir, 0, "inspect", format)
	require.EqualValues(t, format, v.Format)
	require.Len(t, v.Entries, native.Total)
	require.Equal(t, sumNone, v.Entries[0].Checksum)
	require.Contains(t, printed(t, dir, 0, "inspect", format), "ExecuTorch's packed weights cache")
	printed(t, dir, 0, "diff", "model.xpwc", format)

	for _, args := range [][]string{{"convert", format, "--to", "native", "-o", "back"}, {"compact", format},
		{"pack", testModel(t, face), "-o", format}} {
		said := printed(t, dir, 1, args...)
		require.Contains(t, said, "xpwc pack makes a native file")
		require.NotContains(t, said, "--model")
	}
	footer := b[len(b)-20:]
	require.EqualValues(t, native.Total, binary.LittleEndian.Uint32(footer[8:]))
	require.Equal(t, "CWPX", string(footer[12:16]), "0x58505743")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 2, "nothing is left beside the files")
}

func TestConvertNeverWritesOverItsSource(t *testing.T) {
	dir, file := packed(t, face)
	original, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, os.Symlink("model.xpwc", filepath.Join(dir, "link")))
	require.NoError(t, os.Link(file, filepath.Join(dir, "hardlink")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "notes"), []byte("my notes"), 0o600))
	printed(t, dir, 0, "convert", "model.xpwc", "--to", "xpwc2", "-o", "et")
	for _, out := range []string{"model.xpwc", "./model.xpwc", "link", "hardlink"} {
		for _, format := range formatNames {
			require.Contains(t, printed(t, dir, exitUsage, "convert", "model.xpwc", "--to", format, "-o", out),
				"is the same file as the input")
		}
	}
	require.Contains(t, printed(t, dir, exitUsage, "convert", "et", "--to", "xpwc2", "-o", "et"),
		"is the same file as the input")
	require.Contains(t, printed(t, dir, 1, "convert", "model.xpwc", "--to", "native", "-o", "notes"),
		"not a packed weights cache")
	final, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, original, final)
	notes, err := os.ReadFile(filepath.Join(dir, "notes"))
	require.NoError(t, err)
	require.Equal(t, "my notes", string(notes))
}

func TestPruningToNothingIsRefused(t *testing.T) {
	dir := t.TempDir()
	packJSON(t, dir, faceModel(t), "-o", "c.xpwc")
	original, err := os.ReadFile(filepath.Join(dir, "c.xpwc"))
	require.NoError(t, err)
	require.Contains(t, printed(t, dir, exitUsage, "prune", "c.xpwc", "--max-size", "200"), "200 B")
	require.Contains(t, printed(t, dir, exitUsage, "prune", "c.xpwc", "--max-size", "4KiB", "--keep-layout", "current"),
		"200MiB")
	final, err := os.ReadFile(filepath.Join(dir, "c.xpwc"))
	require.NoError(t, err)
	require.Equal(t, original, final)
}
