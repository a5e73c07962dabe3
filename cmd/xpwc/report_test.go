package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAReportIsAPageAboutAnyCacheFile(t *testing.T) {
	dir, file := packed(t, face, selfie)
	require.Contains(t, printed(t, dir, 0, "report", "model.xpwc", "-o", "report.html"),
		" about model.xpwc\n")
	page := func(name string) string {
		b, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(string(b), "<!DOCTYPE html>"))
		return string(b)
	}
	v := reported[inspection](t, dir, 0, "inspect", "model.xpwc")
	for _, want := range []string{"format version 4, generation 2", v.Current, "this machine’s",
		v.Entries[0].Source.String()} {
		require.Contains(t, page("report.html"), want)
	}
	_, commits, ok := strings.Cut(page("report.html"), `<section id="commits"`)
	require.True(t, ok)
	commits, _, _ = strings.Cut(commits, "</section>")
	require.Equal(t, 2, strings.Count(commits, `<th scope="row"`))

	printed(t, dir, 0, "convert", "model.xpwc", "--to", "xpwc2", "-o", "packed_cache")
	printed(t, dir, 0, "report", "packed_cache", "-o", "report.html")
	require.Contains(t, page("report.html"), "packed weights cache, version 2")

	b, err := os.ReadFile(file)
	require.NoError(t, err)
	b[bytes.LastIndex(b, []byte(v.Entries[0].Kernel))] ^= 1 // in the index: payloads have no names
	require.NoError(t, os.WriteFile(filepath.Join(dir, "bad"), b, 0o600))
	require.Contains(t, printed(t, dir, 1, "report", "bad", "-o", "bad.html"), "of the index is wrong")
	require.NoFileExists(t, filepath.Join(dir, "bad.html"))
}

func TestAReportReplacesOnlyReports(t *testing.T) {
	dir, _ := packed(t, face)
	notes := filepath.Join(dir, "notes.html")
	require.NoError(t, os.WriteFile(notes, []byte("<!DOCTYPE html><p>mine"), 0o600))
	for _, c := range []struct {
		code    int
		message string
		args    []string
	}{
		{exitUsage, "-o PAGE", []string{"model.xpwc"}},
		{exitUsage, "same file", []string{"model.xpwc", "-o", "model.xpwc"}},
		{exitUsage, "not a regular file", []string{"model.xpwc", "-o", "."}},
		{exitUsage, "xpwc inspect", []string{"model.pte", "-o", "report.html"}},
		{exitFailed, "not a packed weights cache", []string{"notes.html", "-o", "report.html"}},
		{exitFailed, "is no page of xpwc report", []string{"model.xpwc", "-o", "notes.html"}},
		{exitFailed, "absent", []string{"model.xpwc", "-o", "absent/report.html"}},
	} {
		require.Contains(t, printed(t, dir, c.code, append([]string{"report"}, c.args...)...), c.message, c.args)
	}
	require.NoFileExists(t, filepath.Join(dir, "report.html"))
	b, err := os.ReadFile(notes)
	require.NoError(t, err)
	require.Equal(t, "<!DOCTYPE html><p>mine", string(b))

	require.NoError(t, os.WriteFile(notes, nil, 0o600))
	printed(t, dir, 0, "report", "model.xpwc", "-o", "notes.html", "--mode", "0640")
	printed(t, dir, 0, "report", "model.xpwc", "-o", "notes.html")
	info, err := os.Stat(notes)
	require.NoError(t, err)
	require.EqualValues(t, 0o640, info.Mode().Perm(), "of what it replaces")
	temporary, err := filepath.Glob(filepath.Join(dir, ".xpwc-*"))
	require.NoError(t, err)
	require.Empty(t, temporary)
}

// pageAbout returns the page about a file.
func pageAbout(t *testing.T, dir string, code int, file string) string {
	t.Helper()
	page := filepath.Join(t.TempDir(), "page.html")
	printed(t, dir, code, "report", file, "-o", page)
	b, err := os.ReadFile(page)
	require.NoError(t, err)
	return string(b)
}
