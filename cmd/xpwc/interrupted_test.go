//go:build linux

package main

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"xpwc/internal/registrytest"
	"xpwc/internal/testkit"
	"xpwc/xnnpack"
)

const aDirectory = "a directory"

const heavy = "pose_landmark_heavy.tflite"

// contents are the files beneath a directory, hidden ones too.
func contents(t testing.TB, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() {
			var b []byte
			b, err = os.ReadFile(path)
			files[path] = string(b)
		} else if err == nil {
			files[path] = aDirectory
		}
		return err
	}))
	return files
}

// requireSame compares what two calls of contents returned, without printing megabytes.
func requireSame(t testing.TB, want, got map[string]string) {
	t.Helper()
	require.ElementsMatch(t, slices.Collect(maps.Keys(want)), slices.Collect(maps.Keys(got)))
	for path, content := range want {
		require.True(t, content == got[path], "%s changed", path)
	}
}

// hidden reports whether there is a file that matches a pattern in a hidden directory of a directory, with some bytes.
func hidden(t testing.TB, dir, pattern string, size int64) bool {
	t.Helper()
	for _, pattern := range []string{filepath.Join(dir, ".xpwc-*", pattern),
		filepath.Join(dir, ".xpwc-*", ".xpwc-*", pattern)} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, file := range files {
			if sizeOf(file) >= size {
				return true
			}
		}
	}
	return false
}

// removing is when a hidden directory has got the name under which it is removed.
func removing(sub string) func(testing.TB, string) bool {
	seen := map[string]bool{}
	return func(t testing.TB, dir string) bool {
		entries, err := os.ReadDir(filepath.Join(dir, sub))
		require.NoError(t, err)
		for _, e := range entries {
			if name, renamed := strings.CutSuffix(e.Name(), "0"); renamed && seen[name] {
				return true
			}
			seen[e.Name()] = true
		}
		return false
	}
}

// aboutToEnd is a moment at which an interrupt may come too late: the command has then done what it was to do.
const aboutToEnd = "verify is about to end"

// A moment is one at which a command is stopped.
type moment struct {
	name    string
	args    []string
	reached func(t testing.TB, dir string) bool
}

// moments are of every command that makes files, in a directory with there.xpwc, dead.xpwc, for.executorch and
// temporary.
func moments(t *testing.T, ref string) []moment {
	t.Helper()
	in := func(pattern string, size int64) func(testing.TB, string) bool {
		return func(t testing.TB, dir string) bool { return hidden(t, dir, pattern, size) }
	}
	model := testModel(t, heavy)
	pack := []string{"pack", model}
	testkit.NeedsWholeCPU(t)
	for _, level := range xnnpack.CPULevels() {
		pack = append(pack, "--cpu", level)
	}
	pack = append(pack, "-o")
	all := []moment{
		{"pack begins", append(pack[:len(pack):len(pack)], "new"), in("in-use", 0)},
		{"pack", append(pack[:len(pack):len(pack)], "new"), in(packing, 1<<20)},
		{"pack adds", append(pack[:len(pack):len(pack)], "there.xpwc"), in(packing, 1<<20)},
		{"convert", []string{"convert", "there.xpwc", "--to", "native", "-o", "new"}, in(converted, 1<<20)},
		{"convert for ExecuTorch", []string{"convert", "there.xpwc", "--to", "xpwc2", "-o", "new"},
			in(converted, 1<<20)},
		{"convert from ExecuTorch",
			[]string{"convert", "for.executorch", "--to", "native", "--model", model, "-o", "new"},
			in("packing*", 1<<20)},
		{"compact", []string{"compact", "dead.xpwc"}, in(linked+".*", 1<<20)},
		{"prune", []string{"prune", "there.xpwc", "--max-size", "40MiB"}, in(linked+".*", 1<<20)},
		{"verify with a model", []string{"verify", "there.xpwc", "--model", model},
			func(t testing.TB, dir string) bool {
				return hidden(t, filepath.Join(dir, "temporary"), proving, 1<<20)
			}},
		{aboutToEnd, []string{"verify", "there.xpwc", "--model", model}, removing("temporary")},
	}
	if ref != "" {
		all = append(all, moment{"pull", []string{"pull", ref, "-o", "dead.xpwc"}, in(pulled, 1<<20)},
			moment{"pull with a model", []string{"pull", ref, "-o", "new", "--model", model}, in(proving, 1<<20)})
	}
	return all
}

// startIn starts the command; what it prints to standard error is there when it has ended.
func startIn(t testing.TB, dir string, args ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	cmd := exec.Command(tool, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TMPDIR="+filepath.Join(dir, "temporary"))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	require.NoError(t, cmd.Start())
	return cmd, &stderr
}

// processState reports whether a process has ended or was stopped, waiting for either if it is about to.
func processState(t testing.TB, cmd *exec.Cmd, options int) (ended, stopped bool) {
	t.Helper()
	var info unix.Siginfo
	require.NoError(t, unix.Waitid(unix.P_PID, cmd.Process.Pid, &info, unix.WEXITED|unix.WSTOPPED|unix.WNOWAIT|options,
		nil))
	const exited, killed, dumped, wasStopped = 1, 2, 3, 5 // CLD_…
	ended = info.Signo != 0 && (info.Code == exited || info.Code == killed || info.Code == dumped)
	return ended, info.Signo != 0 && info.Code == wasStopped
}

// stopAt starts a command and stops it, as SIGSTOP does, at a moment. Where the command was faster it is started again.
func stopAt(t testing.TB, dir string, m moment) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	before := contents(t, dir)
	for range 50 {
		cmd, stderr := startIn(t, dir, m.args...)
		ended := false
		for !ended && !m.reached(t, dir) {
			ended, _ = processState(t, cmd, unix.WNOHANG)
		}
		require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP))
		if _, stopped := processState(t, cmd, 0); stopped {
			if m.reached(t, dir) {
				return cmd, stderr
			}
			require.NoError(t, cmd.Process.Signal(syscall.SIGCONT))
		}
		require.NoError(t, cmd.Wait(), "%s: %s", m.name, stderr)
		require.NoError(t, os.RemoveAll(dir))
		fill(t, before)
	}
	require.Fail(t, "it is too fast to be stopped", m.name)
	return nil, nil
}

// fill makes files again.
func fill(t testing.TB, files map[string]string) {
	t.Helper()
	for path, content := range files {
		if content == aDirectory {
			require.NoError(t, os.MkdirAll(path, 0o700))
			continue
		}
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	}
}

// workplace is a directory with what the moments need.
func workplace(t testing.TB) string {
	t.Helper()
	made.Do(func() {
		dir := t.TempDir()
		packJSON(t, dir, testModel(t, heavy), "-o", "there.xpwc")
		says(t, dir, 0, "convert", "there.xpwc", "--to", "xpwc2", "-o", "for.executorch")
		// Adding to a file leaves its old index dead.
		runJSON(t, dir, testModel(t, heavy), "--cache", "dead.xpwc")
		runJSON(t, dir, testModel(t, face), "--cache", "dead.xpwc")
		require.NoError(t, os.Mkdir(filepath.Join(dir, "temporary"), 0o700))
		made.files = map[string]string{}
		for path, content := range contents(t, dir) {
			name, err := filepath.Rel(dir, path)
			require.NoError(t, err)
			made.files[name] = content
		}
	})
	dir := t.TempDir()
	files := map[string]string{}
	for name, content := range made.files {
		files[filepath.Join(dir, name)] = content
	}
	fill(t, files)
	return dir
}

var made struct {
	sync.Once
	files map[string]string
}

// reference is of a tag in a registry that has the heavy model's packed weights, or "" without a registry.
func reference(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("docker-registry"); err != nil && os.Getenv("XPWC_TEST_ALL") == "" {
		return ""
	}
	ref := registrytest.Start(t).Ref("heavy:v1")
	says(t, workplace(t), 0, "push", ref, "there.xpwc")
	return ref
}

func TestAnInterruptLeavesWhatThereWas(t *testing.T) {
	obeyInterrupts(t)
	for _, m := range moments(t, reference(t)) {
		for name, signal := range map[string]syscall.Signal{"SIGINT": syscall.SIGINT, "SIGTERM": syscall.SIGTERM,
			"SIGHUP": syscall.SIGHUP} {
			t.Run(m.name+", "+name, func(t *testing.T) {
				dir := workplace(t)
				before := contents(t, dir)
				cmd, stderr := stopAt(t, dir, m)
				require.NoError(t, cmd.Process.Signal(signal))
				require.NoError(t, cmd.Process.Signal(syscall.SIGCONT))
				if err := cmd.Wait(); err == nil && m.name == aboutToEnd {
					requireSame(t, before, contents(t, dir))
					return
				}
				require.Equal(t, exitInterrupted, cmd.ProcessState.ExitCode(), stderr)
				require.True(t, strings.HasSuffix(stderr.String(), "xpwc: interrupted; nothing was written\n"), stderr)
				requireSame(t, before, contents(t, dir))
			})
		}
	}
}

// timeout(1) signals a program and then its group.
func TestSignalsThatComeAtOnceAreOneInterrupt(t *testing.T) {
	for _, m := range moments(t, "") {
		t.Run(m.name, func(t *testing.T) {
			dir := workplace(t)
			before := contents(t, dir)
			cmd, stderr := stopAt(t, dir, m)
			require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
			require.NoError(t, cmd.Process.Signal(syscall.SIGCONT))
			for start := time.Now(); time.Since(start) < oneInterrupt/2; {
				if ended, _ := processState(t, cmd, unix.WNOHANG); ended {
					break
				}
				require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
			}
			err := cmd.Wait()
			if m.name != aboutToEnd {
				require.Error(t, err)
				require.Equal(t, exitInterrupted, cmd.ProcessState.ExitCode(), stderr)
			}
			requireSame(t, before, contents(t, dir))
		})
	}
}

func TestWhatAKilledCommandLeftTheNextRemoves(t *testing.T) {
	ref := reference(t)
	for _, m := range moments(t, ref) {
		t.Run(m.name, func(t *testing.T) {
			dir := workplace(t)
			before := contents(t, dir)
			cmd, _ := stopAt(t, dir, m)
			require.NoError(t, cmd.Process.Kill())
			require.Error(t, cmd.Wait())
			require.False(t, reflect.DeepEqual(before, contents(t, dir)), "something is left")
			place := dir
			if m.args[0] == "verify" {
				place = filepath.Join(dir, "temporary")
			}
			// A process that pack has started may live on for a moment, and use the directory.
			require.Eventually(t, func() bool {
				says(t, place, 0, "convert", filepath.Join(dir, "there.xpwc"), "--to", "native", "-o", "next")
				require.NoError(t, os.Remove(filepath.Join(place, "next")))
				return reflect.DeepEqual(before, contents(t, dir))
			}, time.Minute, time.Millisecond)
		})
	}
}

// Every command that writes beside others removes what they left.
func TestEveryCommandThatWritesRemovesWhatIsLeft(t *testing.T) {
	model := testModel(t, face)
	for _, args := range [][]string{
		{"pack", model, "-o", "new"},
		{"convert", "there.xpwc", "--to", "native", "-o", "new"},
		{"compact", "there.xpwc"},
		{"prune", "there.xpwc", "--max-size", "1GiB"},
		{"run", model, "--cache", "there.xpwc"},
	} {
		t.Run(args[0], func(t *testing.T) {
			dir := workplace(t)
			cmd, _ := stopAt(t, dir, moment{"", []string{"convert", "there.xpwc", "--to", "native", "-o", "other"},
				func(t testing.TB, dir string) bool { return hidden(t, dir, converted, 1<<20) }})
			require.NoError(t, cmd.Process.Kill())
			require.Error(t, cmd.Wait())
			says(t, dir, 0, args...)
			requireNoStage(t, dir)
		})
	}
}

// A file that another process is making disturbs no command.
func TestALivingCommandKeepsWhatItMakes(t *testing.T) {
	dir := workplace(t)
	cmd, stderr := stopAt(t, dir, moment{"", []string{"convert", "there.xpwc", "--to", "native", "-o", "other"},
		func(t testing.TB, dir string) bool { return hidden(t, dir, converted, 1<<20) }})
	says(t, dir, 0, "pack", testModel(t, face), "-o", "new")
	says(t, dir, 0, "compact", "dead.xpwc")
	require.NoError(t, cmd.Process.Signal(syscall.SIGCONT))
	require.NoError(t, cmd.Wait(), stderr)
	says(t, dir, 0, "verify", "other")
	requireNoStage(t, dir)
}

func TestAnInterruptedRunSaysWhatItKeeps(t *testing.T) {
	dir := workplace(t)
	args := []string{"run", testModel(t, heavy), "--cache", "new", "--output-dir", "out"}
	cmd, stderr := stopAt(t, dir, moment{"", args,
		func(_ testing.TB, dir string) bool { return sizeOf(filepath.Join(dir, "new")) > 1<<20 }})
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	require.NoError(t, cmd.Process.Signal(syscall.SIGCONT))
	require.Error(t, cmd.Wait())
	require.Equal(t, exitInterrupted, cmd.ProcessState.ExitCode(), stderr)
	require.Contains(t, stderr.String(), "interrupted; no output was written; new keeps what was packed")
	require.NoDirExists(t, filepath.Join(dir, "out"))
	says(t, dir, 0, "verify", "new")
	report, _ := runJSON(t, dir, testModel(t, heavy), "--cache", "new")
	require.Zero(t, report.Cache.Packed)
}
