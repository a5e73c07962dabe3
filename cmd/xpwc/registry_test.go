package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/tests/registrytest"
	"xpwc/registry"
)

func decoded[T any](t *testing.T, dir string, args ...string) (v T) {
	t.Helper()
	code, out, stderr := xpwcIn(t, dir, append(args, "--json")...)
	require.Zero(t, code, stderr)
	require.NoError(t, json.Unmarshal([]byte(out), &v))
	return v
}

func TestANodePullsWhatAnotherPushed(t *testing.T) {
	s := registrytest.Start(t)
	packer, node := t.TempDir(), t.TempDir()
	cold, _ := runJSON(t, packer, faceModel(t), "--cache", "packed.xpwc")
	code, out, stderr := xpwcIn(t, packer, "push", s.Ref("face:v1"), "packed.xpwc")
	require.Zero(t, code, stderr)
	require.Contains(t, out, "pushed, this machine's")
	require.Contains(t, out, "digest  sha256:")

	pushed := decoded[registry.Pushed](t, packer, "push", s.Ref("face:v1"), "packed.xpwc")
	require.Zero(t, pushed.UploadedBytes, "it was pushed before")
	require.True(t, pushed.UpToDate)
	_, messages, _ := xpwcIn(t, packer, "push", s.Ref("face:v1"), "packed.xpwc")
	require.Contains(t, messages, "the tag has all of this already")
	require.Equal(t, []string{"v1"}, decoded[listing](t, node, "ls", s.Ref("face")).Tags)
	_, tags, _ := xpwcIn(t, node, "ls", s.Ref("face"))
	require.Equal(t, "v1\n", tags)
	require.Contains(t, printed(t, node, exitFailed, "ls", s.Ref("fase")), "check the name")
	require.Contains(t, printed(t, packer, exitFailed, "push", s.Ref("face:v1"), faceModel(t)), "xpwc pack makes one")
	require.Len(t, pushed.Layouts, 1)
	require.EqualValues(t, cold.Cache.Packed, pushed.Layouts[0].Entries)
	require.Contains(t, out, pushed.Digest)
	require.Equal(t, pushed.Layouts, decoded[listing](t, node, "ls", s.Ref("face:v1")).Layouts)

	code, out, stderr = xpwcIn(t, node, "pull", s.Ref("face:v1"), "-o", "c.xpwc")
	require.Zero(t, code, stderr)
	require.Contains(t, out, "written to  c.xpwc")
	warm, _ := runJSON(t, node, faceModel(t), "--cache", "c.xpwc")
	require.Zero(t, warm.Cache.Packed)
	require.Equal(t, cold.Outputs, warm.Outputs)

	fingerprint := pushed.Layouts[0].Fingerprint.String()
	pulled := decoded[registry.Pulled](t, node, "pull", s.Ref("face@"+pushed.Digest), "-o", "other.xpwc", "--layout",
		fingerprint)
	require.Equal(t, pushed.Layouts, pulled.Layouts)
	require.Equal(t, pushed.Digest, pulled.Digest)
	require.FileExists(t, filepath.Join(node, "other.xpwc"))

	// Nothing for this layout is a failure with a message of its own, for scripts, and leaves no file.
	code, out, stderr = xpwcIn(t, node, "pull", s.Ref("face:v1"), "-o", "none.xpwc", "--layout",
		strings.Repeat("0", 32))
	require.Equal(t, exitFailed, code)
	require.Empty(t, out)
	require.Contains(t, stderr, registry.ErrNoLayout.Error())
	require.Contains(t, stderr, fingerprint)
	require.NoFileExists(t, filepath.Join(node, "none.xpwc"))
}

func TestPullNamesAFileInADirectory(t *testing.T) {
	s := registrytest.Start(t)
	dir, file := packed(t, face)
	printed(t, dir, 0, "push", s.Ref("models/face:v1"), file)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "v1"), 0o700))
	require.NoError(t, os.Symlink("v1", filepath.Join(dir, "current")))
	for _, output := range []string{"v1", "v1/", "current"} {
		name := filepath.Join(output, "face.xpwc")
		require.Contains(t, printed(t, dir, 0, "pull", s.Ref("models/face:v1"), "-o", output), name)
		require.FileExists(t, filepath.Join(dir, name))
	}
	require.Contains(t, printed(t, dir, 0, "pull", s.Ref("models/face:v1"), "-o", "v1"), "up to date")
	pulled := decoded[pulling](t, dir, "pull", s.Ref("models/face:v1"), "-o", ".")
	require.Equal(t, "face.xpwc", pulled.Output)
	require.Contains(t, printed(t, dir, 1, "pull", s.Ref("models/face:v1"), "-o", "none/"), "none")
	require.Contains(t, printed(t, dir, 1, "pull", "no reference", "-o", "v1"), "registry.example/name:tag")
}

func TestRegistryCommandsRefuseWhatTheyCannotDo(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "text"), []byte("text"), 0o600))
	for _, c := range []struct {
		args    []string
		code    int
		message string
	}{
		{[]string{"push", "localhost:1/face"}, exitUsage, "push --help"},
		{[]string{"push", "localhost:1/face", "text"}, exitFailed, "text: not a packed weights cache"},
		{[]string{"push", "localhost:1/face", "missing"}, exitFailed, "missing"},
		{[]string{"pull", "localhost:1/face"}, exitUsage, "-o FILE"},
		{[]string{"pull", "localhost:1/face", "-o", "c", "--layout", "xy"}, exitUsage, "32 hexadecimal digits"},
		{[]string{"pull", "localhost:1/face", "-o", "c"}, exitFailed, "connection refused"},
		{[]string{"pull", "face", "-o", "c"}, exitFailed, "registry.example/name:tag"},
		{[]string{"ls", "localhost:1/face"}, exitFailed, "connection refused"},
		{[]string{"ls"}, exitUsage, "ls --help"},
	} {
		code, out, stderr := xpwcIn(t, dir, c.args...)
		require.Equal(t, c.code, code, "%v: %s", c.args, stderr)
		require.Empty(t, out)
		require.Contains(t, stderr, c.message, "%v", c.args)
		require.NoFileExists(t, filepath.Join(dir, "c"))
	}
}
