package main

import (
	"archive/zip"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// stripsBundle is the command line that strips a bundle of all kernels, and writes into another directory.
func stripsBundle(path, packed, output string) []string {
	return stripForLiteRT(path, packed, "-o", output)
}

// strippedBundle packs the bundle at a path for the engine, and strips it. It returns the path of the skeleton, which
// has the packed file in its directory.
func strippedBundle(t testing.TB, path string) (skeleton string) {
	t.Helper()
	needsLiteRT(t)
	packed := packedForEngine(t, path, "-o", t.TempDir()).LiteRT[0].Output
	skeleton = filepath.Join(t.TempDir(), filepath.Base(path))
	r := reported[stripped](t, t.TempDir(), 0, stripsBundle(path, packed, skeleton)...)
	require.Equal(t, 15, r.Kernels)
	require.Empty(t, r.Kept)
	require.Len(t, r.Sections, 1)
	require.Equal(t, "embedder", r.Sections[0].Section)
	changeTime(t, skeleton, time.Unix(1.2e9, 5e8))
	reported[placement](t, t.TempDir(), 0, "place", skeleton, packed)
	return skeleton
}

func TestTheEngineAnswersWithAStrippedBundleAndItsPackedFile(t *testing.T) {
	model := deployedBundle(t)
	want := engineAnswer(t, model, ":nocache")
	skeleton := strippedBundle(t, model)
	require.Len(t, caches(t, skeleton), 1)
	requireStartsWithoutPacking(t, skeleton, want)
}

func TestTheEngineFailsWithAStrippedBundleAndAnotherPackedFile(t *testing.T) {
	model := deployedBundle(t)
	skeleton := strippedBundle(t, model)
	cache := caches(t, skeleton)[0]
	require.NoError(t, os.Remove(cache))
	requireNoAnswer := func(cacheDir string) {
		t.Helper()
		out, err := engine(t, skeleton, cacheDir).Output()
		require.Error(t, err)
		require.Empty(t, out)
	}
	requireNoAnswer(":nocache")
	requireNoAnswer("") // writes a file of packed zeros
	require.FileExists(t, cache)
	requireNoAnswer("")
	update(t, model)
	stale := packedForEngine(t, model).LiteRT[0].Output
	require.NoError(t, os.Rename(stale, cache))
	requireNoAnswer("")
}

func TestAStrippedBundleRunsWithTheCacheOfTheBundle(t *testing.T) {
	dir, model := t.TempDir(), deployedBundle(t)
	skeleton := strippedBundle(t, model)
	packJSON(t, dir, model, "-o", "c.xpwc")
	for _, method := range []string{"prefill_16", "decode"} {
		want, _ := runJSON(t, dir, model+"#prefill_decode", "--method", method)
		got, _ := runJSON(t, dir, skeleton+"#prefill_decode", "--method", method, "--cache", "c.xpwc")
		require.Equal(t, want.Outputs, got.Outputs)
		require.Zero(t, got.Cache.Packed)
	}
	update(t, model)
	packJSON(t, dir, model, "-o", "other.xpwc")
	for _, args := range [][]string{
		{"run", skeleton + "#prefill_decode", "--method", "decode"},
		{"run", skeleton + "#prefill_decode", "--method", "decode", "--cache", "other.xpwc"},
		{"pack", skeleton, "-o", "again.xpwc"},
		{"pack", skeleton, "--for", "litert-lm", "--litert-lm", libraryForLiteRT},
		{"verify", caches(t, skeleton)[0], "--litert-lm", libraryForLiteRT},
		stripsBundle(skeleton, caches(t, skeleton)[0], "again.litertlm"),
	} {
		require.Contains(t, printed(t, dir, exitFailed, args...), "use the model that it was made of", args)
	}
}

func TestAStrippedTaskIsAZipThatRuns(t *testing.T) {
	needsLiteRT(t)
	dir := t.TempDir()
	task := filepath.Join(dir, "model.task")
	f, err := os.Create(task)
	require.NoError(t, err)
	w := zip.NewWriter(f)
	for name, content := range map[string][]byte{
		"TF_LITE_PREFILL_DECODE": contentOf(t, extracted(t, smallBundle(t), "prefill_decode")),
		"METADATA":               []byte("metadata"),
	} {
		part, err := w.CreateRaw(&zip.FileHeader{Name: name, CRC32: crc32.ChecksumIEEE(content),
			CompressedSize64: uint64(len(content)), UncompressedSize64: uint64(len(content))})
		require.NoError(t, err)
		_, err = part.Write(content)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	require.NoError(t, f.Close())
	packed := packedForEngine(t, task, "-o", dir).LiteRT[0].Output
	require.Equal(t, 15, reported[stripped](t, dir, 0, stripsBundle(task, packed, "skeleton.task")...).Kernels)
	z, err := zip.OpenReader(filepath.Join(dir, "skeleton.task"))
	require.NoError(t, err)
	for _, member := range z.File {
		r, err := member.Open()
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, r) // compares the checksum
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	packJSON(t, dir, task, "-o", "c.xpwc")
	const section = "#TF_LITE_PREFILL_DECODE"
	want, _ := runJSON(t, dir, task+section, "--method", "decode")
	got, _ := runJSON(t, dir, "skeleton.task"+section, "--method", "decode", "--cache", "c.xpwc")
	require.Equal(t, want.Outputs, got.Outputs)
}

func TestMistakesInStrippingABundleAreReported(t *testing.T) {
	needsLiteRT(t)
	dir, model := t.TempDir(), deployedBundle(t)
	packed := packedForEngine(t, model).LiteRT[0].Output
	vision := filepath.Join(dir, "model.litertlm_1_2.vision_encoder.xnnpack_cache")
	copyFile(t, packed, vision)
	require.Contains(t, printed(t, dir, exitFailed, stripsBundle(model, vision, "s")...), "which "+model)
	copied := filepath.Join(dir, "copy.xnnpack_cache")
	copyFile(t, packed, copied)
	require.Contains(t, printed(t, dir, exitUsage, append(stripsBundle(model, packed, "s"), "--packed", copied)...),
		"for one model")
	linked := filepath.Join(dir, "link.xnnpack_cache")
	require.NoError(t, os.Link(packed, linked))
	printed(t, dir, 0, append(stripsBundle(model, packed, "linked"), linked)...)
	require.Contains(t, printed(t, dir, exitFailed, stripsBundle(model+"#embedder", packed, "s")...),
		"no packed weights")
	large := []string{"strip", model, "--packed", packed, "--litert-lm", libraryForLiteRT, "-o", "s",
		"--least", "100000"}
	require.Contains(t, printed(t, dir, exitFailed, large...), "all of its weights would stay")
	require.NoFileExists(t, filepath.Join(dir, "s"))
	update(t, model)
	require.Contains(t, printed(t, dir, exitFailed, stripsBundle(model, packed, "s")...),
		"does not have what the model is packed into")
}
