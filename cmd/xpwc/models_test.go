package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/cachefile"
	"xpwc/internal/tests/registrytest"
)

// A user of a file with several models sees their names, and chooses by name which to keep.
func TestAFileSaysWhichModelsItHas(t *testing.T) {
	s := registrytest.Start(t)
	dir, _ := packed(t, face, selfie)
	var entriesOf [2]int
	requireNames := func(file string, names ...string) {
		t.Helper()
		v := reported[inspection](t, dir, 0, "inspect", file)
		require.Equal(t, names, modelNames(v.Models), file)
		counts := map[string]int{}
		for _, e := range v.Entries {
			counts[e.SourceName]++
		}
		require.Len(t, counts, len(names))
		for i, m := range v.Models {
			require.Equal(t, counts[m.Name], m.Entries, file)
			require.Positive(t, m.PayloadBytes)
			if len(names) == 2 {
				entriesOf[i] = m.Entries
			}
		}
		require.Equal(t, names, reported[usersReport](t, dir, 0, "who", file).Models)
		said := printed(t, dir, 0, "inspect", file)
		about := pageAbout(t, dir, 0, file)
		mapped := printed(t, dir, 0, "who", file)
		for _, name := range names {
			require.Contains(t, said, name)
			require.Contains(t, about, "<bdi>"+name+"</bdi>")
			require.Contains(t, mapped, name)
		}
	}
	requireNames("model.xpwc", face, selfie)
	printed(t, dir, 0, "compact", "model.xpwc")
	requireNames("model.xpwc", face, selfie)
	printed(t, dir, 0, "convert", "model.xpwc", "--to", "native", "-o", "converted.xpwc")
	requireNames("converted.xpwc", face, selfie)
	printed(t, dir, 0, "push", s.Ref("models:v1"), "converted.xpwc")
	printed(t, dir, 0, "pull", s.Ref("models:v1"), "-o", "pulled.xpwc")
	requireNames("pulled.xpwc", face, selfie)
	printed(t, dir, 0, "pack", testModel(t, face), "--sealed", "-o", "sealed.xpwc")
	requireNames("sealed.xpwc", face)

	for _, file := range []string{"model.xpwc", "pulled.xpwc"} {
		said := printed(t, dir, exitUsage, "prune", file, "--keep-model", "absent.tflite")
		require.Contains(t, said, face)
		require.Contains(t, said, selfie)
		r := reported[rewriting](t, dir, 0, "prune", file, "--keep-model", selfie)
		require.Equal(t, []string{face}, r.Dropped)
		require.Equal(t, entriesOf[1], r.EntriesAfter)
		requireNames(file, selfie)
	}
	pruned := printed(t, dir, 0, "prune", "converted.xpwc", "--keep-model", testModel(t, face))
	require.Contains(t, pruned, "no more entries of "+selfie)
	requireNames("converted.xpwc", face)
}

// What a file calls a model is the last part of its path: where models lie is nobody's business.
func TestAFileDoesNotSayWhereItsModelsAre(t *testing.T) {
	dir, file := packed(t, face)
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NotContains(t, string(b), filepath.Base(filepath.Dir(testModel(t, face)))+string(filepath.Separator))
	require.Contains(t, string(b), face)
	require.NotContains(t, string(b), dir)
}

// The working directory does not select models; a path does.
func TestPruneKeepsAllModelsOfANameWhereverItIsRun(t *testing.T) {
	dir, file := packed(t)
	for _, model := range []string{face, selfie} {
		content, err := os.ReadFile(testModel(t, model))
		require.NoError(t, err)
		out := filepath.Join(dir, model+".d")
		require.NoError(t, os.Mkdir(out, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(out, "model.tflite"), content, 0o600))
		printed(t, out, 0, "run", "model.tflite", "--cache", file)
	}
	out := filepath.Join(dir, face+".d")
	merged := reported[inspection](t, out, 0, "inspect", file)
	require.Len(t, merged.Models, 2)
	r := reported[rewriting](t, out, 0, "prune", file, "--keep-model", "model.tflite")
	require.Equal(t, merged.Total, r.EntriesAfter)
	r = reported[rewriting](t, out, 0, "prune", file, "--keep-model", "./model.tflite")
	require.Less(t, r.EntriesAfter, merged.Total)
}

func TestModelsThatAreNotKnownAreOneLine(t *testing.T) {
	var said strings.Builder
	printModels(&said, []cachefile.Model{{Name: "one.tflite", Entries: 1},
		{Source: cachefile.Digest{1}, Entries: 2}, {Source: cachefile.Digest{2}, Entries: 3}})
	require.Equal(t, 1, strings.Count(said.String(), "not known"))
	require.Regexp(t, `not known +5 `, said.String())
}
