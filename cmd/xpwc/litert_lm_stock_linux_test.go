package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"xpwc/cachefile"
	"xpwc/internal/modelfile"
	"xpwc/models/litert"
)

// These tests run the stock engine of LiteRT-LM, from its wheel, where third_party/fetch-litert-lm put it.

var buildEngineHost = sync.OnceValues(func() (string, error) {
	lib, err := filepath.Abs(filepath.Dir(libraryForLiteRT))
	if err != nil {
		return "", err
	}
	path := filepath.Join(filepath.Dir(tool), "litert_lm")
	out, err := exec.Command("gcc", "-O1", "-Wall", "-Wextra", "-Werror", "-o", path,
		filepath.Join("testdata", "litert_lm.c"), "-L"+lib, "-llitert-lm", "-Wl,-rpath,"+lib).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return path, err
})

// engine returns a command that prints the engine's answer with the bundle at a path, and the cache in a directory. It
// is run by a user bound by file modes.
func engine(t testing.TB, path, cacheDir string) *exec.Cmd {
	t.Helper()
	needsLiteRT(t)
	host, err := buildEngineHost()
	require.NoError(t, err)
	command := append(asOrdinaryUser(t), host, path, cacheDir)
	return exec.Command(command[0], command[1:]...)
}

func engineAnswer(t testing.TB, path, cacheDir string) string {
	t.Helper()
	cmd := engine(t, path, cacheDir)
	var logged bytes.Buffer
	cmd.Stderr = &logged
	out, err := cmd.Output()
	require.NoError(t, err, logged.String())
	require.NotEmpty(t, out)
	return string(out)
}

// deployedBundle copies the small bundle into a directory of its own, with a time long ago.
func deployedBundle(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.litertlm")
	copyFile(t, smallBundle(t), path)
	changeTime(t, path, time.Unix(1e9, 5e8))
	return path
}

func changeTime(t testing.TB, path string, changed time.Time) {
	t.Helper()
	require.NoError(t, os.Chtimes(path, changed, changed))
}

// caches returns the caches of the bundle at a path.
func caches(t testing.TB, path string) []string {
	t.Helper()
	files, err := filepath.Glob(path + "_*")
	require.NoError(t, err)
	return files
}

// packedForEngine packs the bundle at a path for the engine.
func packedForEngine(t testing.TB, path string, flags ...string) packReport {
	t.Helper()
	args := []string{"pack", path, "--for", "litert-lm", "--litert-lm", libraryForLiteRT}
	return reported[packReport](t, t.TempDir(), 0, append(args, flags...)...)
}

// An engineFile changes if the file is written, replaced or touched.
type engineFile struct {
	content string
	changed time.Time
	mode    os.FileMode
}

func stateOfCache(t testing.TB, path string) engineFile {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	info, err := os.Stat(path)
	require.NoError(t, err)
	return engineFile{string(content), info.ModTime(), info.Mode()}
}

func TestTheEnginesFirstStartWritesWhatPackWrites(t *testing.T) {
	own, packed := deployedBundle(t), deployedBundle(t)
	engineAnswer(t, own, "")
	require.Len(t, caches(t, own), 1)
	report := packedForEngine(t, packed)
	require.Len(t, caches(t, packed), 1)
	require.Equal(t, []string{report.LiteRT[0].Output}, caches(t, packed))
	require.Equal(t, filepath.Base(caches(t, own)[0]), filepath.Base(caches(t, packed)[0]))
	require.Equal(t, stateOfCache(t, caches(t, own)[0]).content, stateOfCache(t, caches(t, packed)[0]).content)
	require.Equal(t, []string{"embedder"}, report.WithoutCache)
	require.Zero(t, stateOfCache(t, caches(t, packed)[0]).mode&0o222)
}

func TestTheEngineUsesAPackedFileAndLeavesItAsItIs(t *testing.T) {
	for _, dir := range []string{"", "cache"} {
		model := deployedBundle(t)
		want := engineAnswer(t, model, ":nocache")
		require.Empty(t, caches(t, model))
		inDir := filepath.Dir(model)
		if dir != "" {
			inDir = t.TempDir()
			dir = inDir
		}
		file := packedForEngine(t, model, "-o", inDir).LiteRT[0].Output
		packed := stateOfCache(t, file)
		if dir == "" { // the engine refuses to start with a cache_dir that it cannot write to
			require.NoError(t, os.Chmod(inDir, 0o555))
			t.Cleanup(func() { require.NoError(t, os.Chmod(inDir, 0o755)) })
		}

		var starting sync.WaitGroup
		answers := make([]string, 4)
		for i := range answers {
			starting.Go(func() {
				out, err := engine(t, model, dir).Output()
				answers[i] = fmt.Sprint(string(out), err)
			})
		}
		starting.Wait()
		for _, answer := range answers {
			require.Equal(t, want+"<nil>", answer)
		}
		require.Equal(t, packed, stateOfCache(t, file))
		entries, err := os.ReadDir(inDir)
		require.NoError(t, err)
		require.LessOrEqual(t, len(entries), 2, "the engine has written no other file")
	}
}

func TestPlaceNamesAPackedFileAfterTheModelWasTouched(t *testing.T) {
	model := deployedBundle(t)
	want := engineAnswer(t, model, ":nocache")
	file := packedForEngine(t, model).LiteRT[0].Output
	packed := stateOfCache(t, file)
	changeTime(t, model, time.Unix(1.5e9, 5e8))
	placed := reported[placement](t, t.TempDir(), 0, "place", model, file)
	require.NoFileExists(t, file)
	require.Equal(t, want, engineAnswer(t, model, ""))
	require.Equal(t, []string{placed.Files[0].Output}, caches(t, model))
	require.Equal(t, packed, stateOfCache(t, placed.Files[0].Output), "the engine uses it")
}

// tar and OCI layers set times of whole seconds, of which the engine may take the second before.
func TestTheEngineFindsAPackedFileWhateverTheModelsTime(t *testing.T) {
	packed, placed := deployedBundle(t), deployedBundle(t)
	want := engineAnswer(t, packed, ":nocache")
	file := packedForEngine(t, placed).LiteRT[0].Output
	for i, changed := range []time.Time{time.Unix(1.5e9, 0), time.Unix(1.6e9, 1), time.Unix(1.7e9, 999999999)} {
		changeTime(t, packed, changed)
		changeTime(t, placed, changed)
		for _, old := range caches(t, packed) {
			require.NoError(t, os.Remove(old))
		}
		report := packedForEngine(t, packed)
		require.Len(t, report.LiteRT[0].Aliases, 1)
		// After the first turn FILE has two names, which place takes both, as the shell's model.litertlm_* gives them.
		files := []string{file}
		if i > 0 {
			files = caches(t, placed)
			require.Len(t, files, 2)
		}
		reported[placement](t, t.TempDir(), 0, append([]string{"place", placed}, files...)...)
		for _, model := range []string{packed, placed} {
			require.Len(t, caches(t, model), 2)
			requireStartsWithoutPacking(t, model, want)
		}
	}
}

// requireStartsWithoutPacking checks that the engine starts several times, and leaves all caches of a bundle as they
// are.
func requireStartsWithoutPacking(t *testing.T, model, want string) {
	t.Helper()
	states := map[string]engineFile{}
	for _, file := range caches(t, model) {
		states[file] = stateOfCache(t, file)
	}
	for range 3 {
		require.Equal(t, want, engineAnswer(t, model, ""))
	}
	require.Len(t, caches(t, model), len(states))
	for file, state := range states {
		require.Equal(t, state, stateOfCache(t, file))
	}
}

// Without place the engine packs again, and deletes the old file whatever its mode.
func TestTheEngineDeletesAFileOfAnEarlierTime(t *testing.T) {
	model := deployedBundle(t)
	file := packedForEngine(t, model).LiteRT[0].Output
	changeTime(t, model, time.Unix(1.5e9, 5e8))
	engineAnswer(t, model, "")
	require.NoFileExists(t, file)
	c, ok := litert.ParseEngineCache(caches(t, model)[0])
	require.True(t, ok)
	require.EqualValues(t, 1.5e9, c.Time.Unix())
}

// update gives a model other weights, with the same size and time.
func update(t testing.TB, path string) {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	file, err := modelfile.File{Path: path, Section: "prefill_decode"}.Model()
	require.NoError(t, err)
	file.Method = "decode"
	model, err := file.Open()
	require.NoError(t, err)
	dir := t.TempDir()
	packJSON(t, dir, path+"#prefill_decode", "-o", "c.xpwc")
	packed, err := cachefile.Open(filepath.Join(dir, "c.xpwc"))
	require.NoError(t, err)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	for e, err := range packed.Entries() {
		require.NoError(t, err)
		kernel, err := model.DataMap().Tensor(e.Kernel)
		require.NoError(t, err)
		start := bytes.Index(content, kernel.Data)
		require.Positive(t, start)
		for i := range kernel.Data {
			content[start+i] ^= byte(i) & 3
		}
	}
	require.NoError(t, errors.Join(packed.Close(), model.Close()))
	require.NoError(t, os.WriteFile(path+".new", content, 0o644))
	require.NoError(t, os.Rename(path+".new", path))
	changeTime(t, path, info.ModTime())
}

// The engine believes a file of that name. Verify does not, and pack writes the right one.
func TestAnUpdatedModelOfEqualSizeAndTimeNeedsAnotherFile(t *testing.T) {
	model := deployedBundle(t)
	before := engineAnswer(t, model, "")
	stale := caches(t, model)[0]
	update(t, model)
	want := engineAnswer(t, model, ":nocache")
	require.NotEqual(t, before, want)
	require.NotEqual(t, want, engineAnswer(t, model, ""), "the engine computes with the old weights")
	_, _, stderr := xpwcIn(t, t.TempDir(), "verify", stale, "--litert-lm", libraryForLiteRT)
	require.Contains(t, stderr, "does not have what the model is packed into")
	packedForEngine(t, model)
	require.Equal(t, want, engineAnswer(t, model, ""))
	require.Contains(t, printed(t, t.TempDir(), 0, "verify", caches(t, model)[0], "--litert-lm", libraryForLiteRT),
		"proven")
}

// A bundle has several models. The name of a cache tells which one it is for.
func TestACacheInAnotherDirectoryIsVerifiedWithItsBundle(t *testing.T) {
	model, dir := deployedBundle(t), t.TempDir()
	file := packedForEngine(t, model, "-o", dir).LiteRT[0].Output
	verify := []string{"verify", file, "--litert-lm", libraryForLiteRT, "--model", model}
	require.Contains(t, printed(t, dir, 0, verify...), "proven")
	update(t, model)
	require.Equal(t, kindUnproven, failed(t, dir, exitFailed, verify...).Kind)
}
