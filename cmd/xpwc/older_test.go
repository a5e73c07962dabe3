package main

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/zeebo/xxh3"

	"xpwc/internal/tests/registrytest"
)

// ofVersion makes a cache file one of another version of the format, as far as anybody reads it.
func ofVersion(t *testing.T, path string, version uint32) {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	binary.LittleEndian.PutUint32(b[8:], version)
	binary.LittleEndian.PutUint64(b[32:], xxh3.Hash(b[:32]))
	require.NoError(t, os.WriteFile(path, b, 0o600))
}

func TestAFileOfAnOlderVersionIsReplacedByWhatReplacesFiles(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	model := faceModel(t)
	packJSON(t, dir, model, "-o", "good.xpwc")
	registry := registrytest.Start(t)
	printed(t, dir, 0, "push", registry.Ref("face:v1"), "good.xpwc")
	for name, args := range map[string][]string{
		"pack": {"pack", model, "-o", "old.xpwc"}, "run": {"run", model, "--cache", "old.xpwc"},
		"pull": {"pull", registry.Ref("face:v1"), "-o", "old.xpwc"},
	} {
		t.Run(name, func(t *testing.T) {
			packJSON(t, dir, model, "-o", "new.xpwc")
			require.NoError(t, os.Rename(path("new.xpwc"), path("old.xpwc")))
			ofVersion(t, path("old.xpwc"), 3)
			code, _, stderr := xpwcIn(t, dir, args...)
			require.Zero(t, code, stderr)
			code, _, stderr = xpwcIn(t, dir, "verify", "old.xpwc")
			require.Zero(t, code, stderr)
		})
	}
}

func TestWhoCannotUseAFileOfAnotherVersionSaysWhichItIs(t *testing.T) {
	dir := t.TempDir()
	packJSON(t, dir, faceModel(t), "-o", "other.xpwc")
	path := filepath.Join(dir, "other.xpwc")
	for _, damaged := range []struct {
		version uint32
		want    string
	}{
		{3, "version 3, not 4: written in an older version of the format; a program that packs into it replaces it"},
		{9, "version 9, not 4: written in another version of the format; use the xpwc that wrote it"},
	} {
		ofVersion(t, path, damaged.version)
		for _, args := range [][]string{{"verify"}, {"inspect"}, {"compact"}, {"prune", "--max-size", "1GB"}} {
			code, _, stderr := xpwcIn(t, dir, append(args, "other.xpwc")...)
			require.Equal(t, 1, code)
			require.Contains(t, stderr, damaged.want, args)
		}
	}
	code, _, stderr := xpwcIn(t, dir, "pack", faceModel(t), "-o", "other.xpwc")
	require.Equal(t, 1, code, "a newer one is left to programs that know it")
	require.Contains(t, stderr, "remove it or choose another path")
}
