package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/tests/registrytest"
	"xpwc/registry"
)

func TestTheToolSaysWhatItIsAndWhatItPacksFor(t *testing.T) {
	dir := t.TempDir()
	layout := printed(t, dir, 0, "layout")
	require.Regexp(t, `^[0-9a-f]{32}\n$`, layout)
	var about machineLayout
	require.NoError(t, json.Unmarshal([]byte(printed(t, dir, 0, "layout", "--json")), &about))
	require.Equal(t, layout, about.Layout+"\n")
	require.Contains(t, about.Description, runtime.GOARCH)
	if about.XNNPACK != "" {
		require.Contains(t, about.Description, "XNNPACK "+about.XNNPACK[:8])
	}
	version := printed(t, dir, 0, "--version")
	require.Contains(t, version, "xpwc version "+xpwc.Version)
	require.Contains(t, version, about.Layout)
	require.Contains(t, version, about.Description)
	require.Contains(t, version, about.XNNPACK)
}

func TestATableOfLayoutsFitsTheTerminal(t *testing.T) {
	layout := registry.Layout{Description: "amd64 avx512vnnigfni avx512bf16, XNNPACK e595e247", Entries: 12345,
		PayloadBytes: 1 << 30, FileBytes: 1 << 30, Fingerprint: registry.Fingerprint{1}}
	second := layout
	second.Fingerprint = registry.Fingerprint{2}
	print := func(width int, note string, layouts ...registry.Layout) string {
		var out bytes.Buffer
		table := newLayoutTable(&out, layout.Fingerprint.String(), "file")
		table.width = width
		table.addListed(layouts, note)
		table.print()
		return out.String()
	}
	require.Contains(t, print(0, "pushed", layout), layout.Fingerprint.String())
	require.Contains(t, print(0, "pushed", layout), "amd64 avx512vnnigfni avx512bf16   e595e247")
	require.Contains(t, print(0, "pushed", layout), "pushed, this machine's")
	for line := range strings.Lines(print(80, "pushed", layout)) {
		require.LessOrEqual(t, utf8.RuneCountInString(line), 80)
	}
	require.Contains(t, print(80, "pushed", layout), layout.Fingerprint.String()[:shortLayout])

	processor, _, _ := strings.Cut(layout.Description, ", ")
	second.Description = processor + ", XNNPACK 78e8776e"
	narrow := print(80, "", layout, second)
	require.Equal(t, 2, strings.Count(narrow, processor), narrow)
	require.Contains(t, narrow, "78e8776e")
}

func TestLayoutsHaveNames(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("there are no lesser CPUs to pack for on " + runtime.GOARCH)
	}
	s := registrytest.Start(t)
	dir := t.TempDir()
	packJSON(t, dir, faceModel(t), "-o", "model.xpwc", "--cpu", "sse2,avx")
	printed(t, dir, 0, "push", s.Ref("face:v1"), "model.xpwc")
	named := map[string]string{}
	for _, l := range reported[inspection](t, dir, 0, "inspect", "model.xpwc").Layouts {
		named[l.Fingerprint.String()] = l.Description
	}
	require.Len(t, named, 2)
	for _, l := range decoded[listing](t, dir, "ls", s.Ref("face:v1")).Layouts {
		require.Regexp(t, `^amd64 (sse2|avx)(, XNNPACK [0-9a-f]{8})?$`, l.Description)
		require.Equal(t, named[l.Fingerprint.String()], l.Description)
	}
	listed := decoded[listing](t, dir, "ls", s.Ref("face:v1")).Layouts
	first := listed[0].Fingerprint.String()
	pulled := decoded[registry.Pulled](t, dir, "pull", s.Ref("face:v1"), "-o", "one.xpwc", "--layout", first[:6])
	require.Equal(t, listed[:1], pulled.Layouts)
	require.False(t, pulled.UpToDate)
	original, err := os.Stat(filepath.Join(dir, "one.xpwc"))
	require.NoError(t, err)
	output := printed(t, dir, 0, "pull", s.Ref("face:v1"), "-o", "one.xpwc", "--layout", first[:6])
	require.Contains(t, output, "up to date")
	final, err := os.Stat(filepath.Join(dir, "one.xpwc"))
	require.NoError(t, err)
	require.True(t, os.SameFile(original, final), "new processes share its pages with old ones")
	require.False(t, decoded[registry.Pulled](t, dir, "pull", s.Ref("face:v1"), "-o", "model.xpwc", "--layout",
		first).UpToDate, "it has more")
	code, _, stderr := xpwcIn(t, dir, "pull", s.Ref("face:v1"), "-o", "one.xpwc", "--layout", "0123")
	require.Equal(t, exitFailed, code)
	require.Contains(t, stderr, "(amd64 sse2")
	require.Contains(t, stderr, "(amd64 avx")
}
