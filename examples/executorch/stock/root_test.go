//go:build linux && cgo

package stock

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// through returns the host, started by a command that is given it and its arguments.
func (h host) through(t *testing.T, command string) host {
	t.Helper()
	script := filepath.Join(t.TempDir(), "host")
	text := fmt.Sprintf("#!/bin/sh\nexec %s env %s '%s' \"$@\"\n", command, strings.Join(h.environment, " "), h.path)
	require.NoError(t, os.WriteFile(script, []byte(text), 0o700))
	h.path, h.environment = script, nil // which is the host's alone
	return h
}

// The stock runtime opens its file for writing, whatever its mode is. Root may do so: a file that was packed ahead of
// time needs more than a mode then.
func TestAFileThatWasPackedAheadOfTimeMustNotBeWritableForTheStockRuntime(t *testing.T) {
	h := stock(t)
	if os.Getuid() != 0 {
		t.Skip("only root can show what root may do")
	}
	if out, err := exec.Command("unshare", "--mount", "true").CombinedOutput(); err != nil {
		t.Skipf("nothing can be mounted here: %v: %s", err, out)
	}
	p, _ := golden(t, "mlp_fp32")
	grown, _ := golden(t, mobilenet)
	want := h.mustRun(t, p, "").outputs
	for name, c := range map[string]struct {
		dirOf   func(dir string) string // in which the host is started
		changes bool
	}{
		"root": {func(string) string { return "" }, true},
		"root with a read-only mount": {func(dir string) string {
			return fmt.Sprintf(`unshare --mount sh -c 'mount --bind "%[1]s" "%[1]s" && `+
				`mount -o remount,bind,ro "%[1]s" && exec "$0" "$@"'`, dir)
		}, false},
		"a user that may not do what root may": {func(string) string { return "setpriv --bounding-set=-all" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "file")
			on := h.through(t, c.dirOf(dir))

			// It empties what it cannot read, and then packs into that.
			require.NoError(t, os.WriteFile(file, []byte("a file of a newer version, of more than 20 bytes"), 0o444))
			prev := stateOf(t, file)
			require.Equal(t, want, on.mustRun(t, p, file).outputs)
			require.Equal(t, c.changes, prev != stateOf(t, file))

			// It locks what it can read, so that another process packs for itself.
			require.NoError(t, os.Remove(file))
			require.NoError(t, pack(built.tool, p, "native", file))
			require.NoError(t, os.Chmod(file, 0o444))
			prev = stateOf(t, file)
			defer on.stays(t, p, file)()
			second := on.mustRun(t, p, file)
			require.Equal(t, want, second.outputs)
			require.Equal(t, c.changes, second.PackedEntries > 0)
			require.Equal(t, prev, stateOf(t, file))

			// It adds to the entries of a CPU whose kernels have other seeds.
			another, lesser := packFor(t, grown, "avx2"), h.onCPU("sse4.1").through(t, c.dirOf(dir))
			require.NoError(t, os.Rename(another, file))
			require.NoError(t, os.Chmod(file, 0o444))
			prev = stateOf(t, file)
			require.Equal(t, lesser.mustRun(t, grown, "").outputs, lesser.mustRun(t, grown, file).outputs)
			require.Equal(t, c.changes, prev != stateOf(t, file))
			require.Equal(t, c.changes, prev.size < stateOf(t, file).size)
		})
	}
}

// stays starts the host, and returns when the program has run. What it returns ends it.
func (h host) stays(t *testing.T, p program, cache string) (end func()) {
	t.Helper()
	cmd := exec.Command(h.path, p.path, "--input", p.inputs[0], "--cache", cache, "--output-dir", t.TempDir(), "--stay")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = bufio.NewReader(out).ReadString('}')
	require.NoError(t, err)
	return func() {
		require.NoError(t, in.Close())
		require.NoError(t, cmd.Wait())
	}
}
