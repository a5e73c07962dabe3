package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/fd"
	"xpwc/internal/tests/registrytest"
)

func TestErrorsAreInTheWordsOfTheUser(t *testing.T) {
	s := registrytest.Start(t)
	dir := t.TempDir()
	model := faceModel(t)
	packJSON(t, dir, model, "-o", "model.xpwc")
	safetensors := describedModel(t, dir)
	for name, content := range map[string]string{
		"misspelt.json": "[\n  {\"op\": \"fully_connected\", \"datatype\": \"f32\",\n   \"wights\": \"w\"}\n]\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	for _, c := range []struct {
		code    int
		message string
		args    []string
	}{
		{1, "absent.xpwc: no such file or directory", []string{"inspect", "absent.xpwc"}},
		{1, "open ExecuTorch file: absent.pte: no such file or directory", []string{"inspect", "absent.pte"}},
		{1, "cannot write to the directory absent: it is not there; create it first",
			[]string{"pack", model, "-o", "absent/x.xpwc"}},
		{1, "cannot make the directory model.xpwc: not a directory",
			[]string{"run", model, "--output-dir", "model.xpwc"}},
		{1, ".: is a directory", []string{"run", model, "--input", "."}},
		{2, "--wait 5: not a duration; write it like 30s or 5m", []string{"compact", "model.xpwc", "--wait", "5"}},
		{2, "--align many: not a number", []string{"pack", model, "-o", "x", "--align", "many"}},
		{2, "--align 99999999999999999999: out of range",
			[]string{"pack", model, "-o", "x", "--align", "99999999999999999999"}},
		{2, "--json perhaps: not true or false", []string{"layout", "--json=perhaps"}},
		{2, "unknown flag: --outptu; did you mean --output?", []string{"pack", model, "--outptu", "x"}},
		{2, "unknown flag: --nothing-like-it", []string{"pack", model, "--nothing-like-it"}},
		{2, "unknown command \"pakc\"; did you mean pack?", []string{"pakc", "--outptu", "x"}},
		{1, "misspelt.json: operator 0: invalid description: line 3, column 4: there is no member \"wights\"",
			[]string{"pack", safetensors, "--description", "misspelt.json", "-o", "x"}},
		{1, "list localhost:1/face: the registry localhost:1 cannot be reached: connection refused",
			[]string{"ls", "localhost:1/face"}},
		{1, "does not use TLS: give --plain-http, if you trust the network",
			[]string{"ls", s.Ref("face"), "--plain-http=false"}},
	} {
		code, out, stderr := xpwcIn(t, dir, c.args...)
		require.Equal(t, c.code, code, stderr)
		require.Empty(t, out)
		if c.message[0] == 'd' {
			require.Contains(t, stderr, c.message)
		} else {
			require.Contains(t, stderr, "xpwc: "+c.message+"\n", "%v", c.args)
		}
	}
}

func TestWhatTheSystemDoesNotAllowIsSaidWithWhatToDo(t *testing.T) {
	dir := t.TempDir()
	for want, err := range map[string]*fs.PathError{
		"cannot write to the directory " + dir + ": permission denied; choose another one, or run xpwc as a user who " +
			"may write there": {Op: "make a file in", Path: dir, Err: syscall.EACCES},
		"cannot write to the current directory: read-only file system; choose another one": {
			Op: "make a file in", Path: ".", Err: syscall.EROFS},
		"cannot make the directory a/b: no such file or directory": {Op: "mkdir", Path: "a/b", Err: syscall.ENOENT},
		"a: permission denied": {Op: "open", Path: "a", Err: syscall.EACCES},
		"/proc/self/exe: no such file or directory; mount /proc, by which xpwc finds its program": {
			Op: "readlink", Path: "/proc/self/exe", Err: syscall.ENOENT},
		"-: no such file or directory; standard input is not read: give the path of a file": {
			Op: "open", Path: "-", Err: syscall.ENOENT},
		os.DevNull + ": not a regular file; write what comes from a pipe or a device into a file first: xpwc maps it": {
			Op: "open", Path: os.DevNull, Err: fd.ErrNotRegular},
		dir + ": not a regular file; it is a directory: give the path of a file in it": {
			Op: "open", Path: dir, Err: fd.ErrNotRegular},
	} {
		require.Equal(t, "pack: "+want, explain(fmt.Errorf("pack: %w", err)))
	}
}
