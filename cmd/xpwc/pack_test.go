package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/format"
	"xpwc/internal/modelfile"
	"xpwc/internal/tests/testkit"
	"xpwc/models"
)

// packJSON is a successful xpwc pack --json.
func packJSON(t testing.TB, dir string, args ...string) (report packReport) {
	t.Helper()
	code, out, stderr := xpwcIn(t, dir, append([]string{"pack", "--json"}, args...)...)
	skipKnownDefect(t, stderr)
	require.Zero(t, code, stderr)
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	requireNoStage(t, dir)
	return report
}

// requireNoStage checks that nothing half-made was left in a directory.
func requireNoStage(t testing.TB, dir string) {
	t.Helper()
	temporary, err := filepath.Glob(filepath.Join(dir, ".xpwc-*"))
	require.NoError(t, err)
	require.Empty(t, temporary)
}

func TestAModelThatWasPackedAheadOfTimePacksNothing(t *testing.T) {
	dir := t.TempDir()
	models, err := filepath.Glob(filepath.Join(filepath.Dir(faceModel(t)), "*.tflite"))
	require.NoError(t, err)
	require.NotEmpty(t, models)
	zoo := filepath.Join("..", "..", "internal", "tests", "zoo", "testdata")
	severalSubgraphs, err := filepath.Abs(filepath.Join(zoo, "pte", "encoder_fp32.pte"))
	require.NoError(t, err)
	for _, model := range append(models, severalSubgraphs) {
		name := filepath.Base(model)
		t.Run(name, func(t *testing.T) {
			report := packJSON(t, dir, model, "-o", name+".xpwc")
			require.Len(t, report.Levels, 1)
			require.Positive(t, report.Levels[0].Packed)
			require.EqualValues(t, report.Levels[0].Packed, report.Entries)
			info, err := os.Stat(filepath.Join(dir, name+".xpwc"))
			require.NoError(t, err)
			require.Equal(t, report.FileBytes, info.Size())

			plain, _ := runJSON(t, dir, model)
			warm, _ := runJSON(t, dir, model, "--cache", name+".xpwc")
			require.Equal(t, plain.Outputs, warm.Outputs)
			require.Zero(t, warm.Cache.Packed)
			require.Zero(t, warm.Cache.Private)
			require.Zero(t, warm.Cache.BytesWritten)
			if model != severalSubgraphs { // of which more than one has a weight
				require.Equal(t, report.Levels[0].Packed, warm.Cache.Hits+warm.Cache.Reused)
			}
		})
	}
}

func TestPackingForLesserCPUs(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		code, _, stderr := xpwcIn(t, t.TempDir(), "pack", faceModel(t), "-o", "c", "--cpu", "sse2")
		require.Equal(t, exitUsage, code)
		require.Contains(t, stderr, "native")
		return
	}
	dir := t.TempDir()
	// This CPU's entries come last: they are found only if the levels before were packed for lesser ones.
	report := packJSON(t, dir, faceModel(t), "-o", "all.xpwc", "--cpu", "sse2", "--cpu", "avx,native,sse2")
	require.Len(t, report.Levels, 3)
	total := int64(0)
	for i, level := range []string{"sse2", "avx", "native"} {
		require.Equal(t, level, report.Levels[i].CPU)
		total += report.Levels[i].Packed
	}
	require.EqualValues(t, total, report.Entries)
	require.Positive(t, report.Levels[0].Packed)
	warm, _ := runJSON(t, dir, faceModel(t), "--cache", "all.xpwc")
	require.Zero(t, warm.Cache.Packed)

	alone := packJSON(t, dir, faceModel(t), "-o", "sse2.xpwc", "--cpu", "sse2")
	require.Equal(t, report.Levels[0].Packed, alone.Levels[0].Packed)
	original, err := os.ReadFile(filepath.Join(dir, "all.xpwc"))
	require.NoError(t, err)
	second := packJSON(t, dir, faceModel(t), "-o", "all.xpwc", "--cpu", "avx")
	require.Zero(t, second.Levels[0].Packed)
	require.Positive(t, second.Levels[0].Hits)
	final, err := os.ReadFile(filepath.Join(dir, "all.xpwc"))
	require.NoError(t, err)
	require.Equal(t, original, final)
}

func TestPackingAddsToWhatIsThere(t *testing.T) {
	dir := t.TempDir()
	selfie := testModel(t, "selfie_segmentation.tflite")
	first := packJSON(t, dir, faceModel(t), "-o", "c.xpwc")
	require.NoError(t, os.Chmod(filepath.Join(dir, "c.xpwc"), 0o640))
	original, err := os.Stat(filepath.Join(dir, "c.xpwc"))
	require.NoError(t, err)
	id := identity(t, filepath.Join(dir, "c.xpwc"))
	// A program that has the cache open finds what is added, and keeps what it uses.
	cache, err := xpwc.Open(filepath.Join(dir, "c.xpwc"), nil)
	require.NoError(t, err)
	load := func(model string) xpwc.Stats {
		m, err := modelfile.File{Path: model}.Open()
		require.NoError(t, err)
		require.NoError(t, models.Pack(cache, m.DataMap(), m.Subgraph))
		require.NoError(t, m.Close())
		return cache.Stats()
	}
	require.Zero(t, load(faceModel(t)).Packed)
	second := packJSON(t, dir, selfie, "-o", "c.xpwc")
	require.EqualValues(t, int64(first.Entries)+second.Levels[0].Packed, second.Entries)
	for _, model := range []string{selfie, faceModel(t)} {
		s := load(model)
		require.Zero(t, s.Packed)
		require.Empty(t, s.Private)
	}
	require.NoError(t, cache.Close())
	for _, model := range []string{faceModel(t), selfie} {
		warm, _ := runJSON(t, dir, model, "--cache", "c.xpwc")
		require.Zero(t, warm.Cache.Packed)
		require.Zero(t, warm.Cache.BytesWritten)
	}
	final, err := os.Stat(filepath.Join(dir, "c.xpwc"))
	require.NoError(t, err)
	require.False(t, os.SameFile(original, final), "who has the old file open keeps it")
	require.NotEqual(t, id, identity(t, filepath.Join(dir, "c.xpwc")))
	require.Equal(t, original.Mode(), final.Mode())
}

// A start with a cache that was brought finds no stamp of the model in it, and records it. Where it may not, pack does.
func TestPackingWhatIsPackedRecordsWhereTheModelLies(t *testing.T) {
	dir := t.TempDir()
	origin, copied := filepath.Join(dir, "here"), filepath.Join(dir, "there")
	packJSON(t, dir, faceModel(t), "-o", "c.xpwc")
	for _, node := range []string{origin, copied} {
		require.NoError(t, os.Mkdir(node, 0o755))
		for name, source := range map[string]string{"m.tflite": faceModel(t), "c.xpwc": filepath.Join(dir, "c.xpwc")} {
			content, err := os.ReadFile(source)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(node, name), content, 0o600))
		}
		testkit.Settled(t, filepath.Join(node, "m.tflite"))
	}
	first, _ := runJSON(t, origin, "m.tflite", "--cache", "c.xpwc")
	if first.Cache.BytesWritten == 0 {
		t.Skip("files have no stamps here")
	}
	inode := func() os.FileInfo {
		info, err := os.Stat(filepath.Join(copied, "c.xpwc"))
		require.NoError(t, err)
		return info
	}
	original := inode()
	repacked := packJSON(t, copied, "m.tflite", "-o", "c.xpwc")
	require.Zero(t, repacked.Levels[0].Packed)
	recorded := inode()
	require.False(t, os.SameFile(original, recorded))
	warm, _ := runJSON(t, copied, "m.tflite", "--cache", "c.xpwc")
	require.Zero(t, warm.Cache.Packed)
	require.Zero(t, warm.Cache.BytesWritten, "there is nothing more to record")
	packJSON(t, copied, "m.tflite", "-o", "c.xpwc")
	require.True(t, os.SameFile(recorded, inode()), "it stays as it is")
}

func identity(t testing.TB, path string) [16]byte {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	h, err := format.DecodeHeader(content[:format.HeaderSize])
	require.NoError(t, err)
	return h.ID
}

func TestPackNeverWritesToItsInput(t *testing.T) {
	dir := t.TempDir()
	content, err := os.ReadFile(faceModel(t))
	require.NoError(t, err)
	model := filepath.Join(dir, "m.tflite")
	require.NoError(t, os.WriteFile(model, content, 0o600))
	require.NoError(t, os.Link(model, filepath.Join(dir, "hard")))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "d"), 0o700))
	outputs := []string{"m.tflite", "d/../m.tflite", model, "hard"}
	if os.Symlink("m.tflite", filepath.Join(dir, "soft")) == nil {
		require.NoError(t, os.Symlink(dir, filepath.Join(dir, "d", "up")))
		outputs = append(outputs, "soft", "d/up/m.tflite")
	}
	for _, output := range outputs {
		for _, input := range []string{"m.tflite", "hard"} {
			code, out, stderr := xpwcIn(t, dir, "pack", input, "-o", output)
			require.Equal(t, exitUsage, code, output)
			require.Empty(t, out)
			require.Contains(t, stderr, "the same file")
			final, err := os.ReadFile(model)
			require.NoError(t, err)
			require.True(t, bytes.Equal(content, final))
		}
	}
	requireNoStage(t, dir)
}

func TestPackLeavesWhatIsNoSoundCacheAlone(t *testing.T) {
	dir := t.TempDir()
	packed := packJSON(t, dir, faceModel(t), "-o", "cut.xpwc")
	require.NoError(t, os.Truncate(filepath.Join(dir, "cut.xpwc"), packed.FileBytes/2))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "notes.txt"), bytes.Repeat([]byte("not a cache\n"), 1000),
		0o600))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "d"), 0o700))
	for name, message := range map[string]string{"cut.xpwc": "damaged", "notes.txt": "not a packed weights cache",
		"d": "not a regular file", "none/c": "create it first"} {
		original, _ := os.ReadFile(filepath.Join(dir, name))
		code, out, stderr := xpwcIn(t, dir, "pack", faceModel(t), "-o", name)
		require.NotEqual(t, exitOK, code, name)
		require.Empty(t, out)
		require.Contains(t, stderr, message)
		final, _ := os.ReadFile(filepath.Join(dir, name))
		require.Equal(t, original, final)
	}
	requireNoStage(t, dir)
}

func TestPackNamesTheFileAfterTheModel(t *testing.T) {
	dir := t.TempDir()
	require.Contains(t, printed(t, dir, 0, "pack", faceModel(t)), "\nface_detection_short_range.xpwc: ")
	printed(t, dir, 0, "verify", "face_detection_short_range.xpwc", "--model", faceModel(t))
}

func TestPackReportsAWrongCommandLine(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		args    []string
		message string
	}{
		{[]string{faceModel(t), "--embed-beside"}, "-o packed.safetensors"},
		{[]string{faceModel(t), "--for", "litert", "--name-by-content"}, "-o ."},
		{[]string{"-o", "c"}, "arg"},
		{[]string{faceModel(t), "-o", "c", "--cpu", "pentium"}, "sse2"},
		{[]string{faceModel(t), "-o", "c", "--cpu", ""}, "--cpu"},
	} {
		if runtime.GOARCH != "amd64" && c.message == "sse2" {
			c.message = "native"
		}
		code, _, stderr := xpwcIn(t, dir, append([]string{"pack"}, c.args...)...)
		require.Equal(t, exitUsage, code, stderr)
		require.Contains(t, stderr, c.message)
	}
	code, _, stderr := xpwcIn(t, dir, "pack", "missing.tflite", "-o", "c")
	require.Equal(t, exitFailed, code)
	require.Contains(t, stderr, "missing.tflite")
	require.NoFileExists(t, filepath.Join(dir, "c"))
}

func sizeOf(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}
