//go:build linux

package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"xpwc/internal/tests/registrytest"
	"xpwc/internal/tests/testkit"
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

// writing is when a process has written some bytes of a file without a name in a directory, or beneath it.
func writing(size int64) func(testing.TB, *exec.Cmd, string) bool {
	return func(t testing.TB, cmd *exec.Cmd, dir string) bool {
		dir, err := filepath.EvalSymlinks(dir)
		require.NoError(t, err)
		open, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", cmd.Process.Pid))
		require.NoError(t, err)
		for _, name := range open {
			path, err := os.Readlink(name) // it may be closed by now
			if err == nil && strings.HasPrefix(path, dir) && strings.HasSuffix(path, " (deleted)") &&
				sizeOf(name) >= size {
				return true
			}
		}
		return false
	}
}

// hasFile is when a file that matches a pattern has some bytes.
func hasFile(pattern string, size int64) func(testing.TB, *exec.Cmd, string) bool {
	return func(t testing.TB, _ *exec.Cmd, dir string) bool {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		require.NoError(t, err)
		return slices.ContainsFunc(files, func(file string) bool { return sizeOf(file) >= size })
	}
}

// A moment is one at which a command is stopped.
type moment struct {
	name    string
	args    []string
	reached func(t testing.TB, cmd *exec.Cmd, dir string) bool
}

// moments are the moments of all commands that make files in a directory with everything they need. Commands that
// rewrite a cache file are not among them. The files are there.xpwc, dead.xpwc, for.executorch and temporary.
func moments(t *testing.T, ref string) []moment {
	t.Helper()
	model := testModel(t, heavy)
	pack := []string{"pack", model}
	testkit.NeedsWholeCPU(t)
	for _, level := range xnnpack.CPULevels() {
		pack = append(pack, "--cpu", level)
	}
	pack = append(pack, "-o")
	moments := []moment{
		{"pack begins", append(pack[:len(pack):len(pack)], "new"), writing(0)},
		{"pack", append(pack[:len(pack):len(pack)], "new"), writing(1 << 20)},
		{"pack adds", append(pack[:len(pack):len(pack)], "there.xpwc"), writing(1 << 20)},
		{"convert", []string{"convert", "there.xpwc", "--to", "native", "-o", "new"}, writing(1 << 20)},
		{"convert for ExecuTorch", []string{"convert", "there.xpwc", "--to", "xpwc2", "-o", "new"}, writing(1 << 20)},
		{"verify with a model", []string{"verify", "there.xpwc", "--model", model}, writing(1 << 20)},
	}
	if ref != "" {
		moments = append(moments, moment{"pull", []string{"pull", ref, "-o", "dead.xpwc"}, writing(1 << 20)},
			moment{"pull with a model", []string{"pull", ref, "-o", "new", "--model", model},
				func(t testing.TB, cmd *exec.Cmd, dir string) bool {
					return writing(1<<20)(t, cmd, filepath.Join(dir, "temporary"))
				}})
	}
	return moments
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
	original := contents(t, dir)
	for range 50 {
		cmd, stderr := startIn(t, dir, m.args...)
		ended := false
		for !ended && !m.reached(t, cmd, dir) {
			ended, _ = processState(t, cmd, unix.WNOHANG)
		}
		require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP))
		if _, stopped := processState(t, cmd, 0); stopped {
			if m.reached(t, cmd, dir) {
				return cmd, stderr
			}
			require.NoError(t, cmd.Process.Signal(syscall.SIGCONT))
		}
		require.NoError(t, cmd.Wait(), "%s: %s", m.name, stderr)
		require.NoError(t, os.RemoveAll(dir))
		fill(t, original)
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

// workplace is a directory with the files that the moments need.
func workplace(t testing.TB) string {
	t.Helper()
	skeletons.Do(func() {
		dir := t.TempDir()
		packJSON(t, dir, testModel(t, heavy), "-o", "there.xpwc")
		printed(t, dir, 0, "convert", "there.xpwc", "--to", "xpwc2", "-o", "for.executorch")
		// Adding to a file leaves its old index dead.
		runJSON(t, dir, testModel(t, heavy), "--cache", "dead.xpwc")
		runJSON(t, dir, testModel(t, face), "--cache", "dead.xpwc")
		require.NoError(t, os.Mkdir(filepath.Join(dir, "temporary"), 0o700))
		skeletons.files = map[string]string{}
		for path, content := range contents(t, dir) {
			name, err := filepath.Rel(dir, path)
			require.NoError(t, err)
			skeletons.files[name] = content
		}
	})
	dir := t.TempDir()
	files := map[string]string{}
	for name, content := range skeletons.files {
		files[filepath.Join(dir, name)] = content
	}
	fill(t, files)
	return dir
}

var skeletons struct {
	sync.Once
	files map[string]string
}

// reference is of a tag in a registry that has the heavy model's packed weights, or "" without a registry.
func reference(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("docker-registry"); err != nil && !testkit.Complete() {
		return ""
	}
	ref := registrytest.Start(t).Ref("heavy:v1")
	printed(t, workplace(t), 0, "push", ref, "there.xpwc")
	return ref
}

// interrupt signals a command at a moment, and returns its output. All files must be as they were. A command that ended
// before a goroutine saw the signal is tried again.
func interrupt(t *testing.T, m moment, signal func(cmd *exec.Cmd)) string {
	t.Helper()
	for range 20 {
		dir := workplace(t)
		original := contents(t, dir)
		cmd, stderr := stopAt(t, dir, m)
		signal(cmd)
		if cmd.Wait() == nil {
			continue
		}
		require.Equal(t, exitInterrupted, cmd.ProcessState.ExitCode(), stderr)
		requireSame(t, original, contents(t, dir))
		return stderr.String()
	}
	require.Fail(t, "no signal came in time", m.name)
	return ""
}

func TestAnInterruptLeavesWhatThereWas(t *testing.T) {
	obeyInterrupts(t)
	for _, m := range moments(t, reference(t)) {
		for _, signal := range testkit.Drawn(t, []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP}) {
			t.Run(m.name+", "+signal.String(), func(t *testing.T) {
				stderr := interrupt(t, m, func(cmd *exec.Cmd) {
					require.NoError(t, cmd.Process.Signal(signal))
					require.NoError(t, cmd.Process.Signal(syscall.SIGCONT))
				})
				require.True(t, strings.HasSuffix(stderr, "xpwc: interrupted; nothing was written\n"), stderr)
			})
		}
	}
}

// A pager that nobody scrolls in, for instance, reads no further.
func TestAnInterruptEndsACommandWhoseOutputNobodyReads(t *testing.T) {
	obeyInterrupts(t)
	dir := workplace(t)
	for _, args := range [][]string{{"inspect", "there.xpwc"}, {"inspect", "there.xpwc", "--json"}} {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		defer r.Close()
		_, err = unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, os.Getpagesize())
		require.NoError(t, err)
		cmd := exec.Command(tool, args...)
		cmd.Dir, cmd.Stdout = dir, w
		require.NoError(t, cmd.Start())
		require.NoError(t, w.Close())
		_, err = r.Read(make([]byte, 1))
		require.NoError(t, err, "it has begun, and there is no room for all")
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		require.Error(t, cmd.Wait())
		require.Equal(t, exitInterrupted, cmd.ProcessState.ExitCode(), "%v", args)
	}
}

// timeout(1) signals a program and then its group.
func TestSignalsThatComeAtOnceAreOneInterrupt(t *testing.T) {
	for _, m := range moments(t, "") {
		t.Run(m.name, func(t *testing.T) {
			interrupt(t, m, func(cmd *exec.Cmd) {
				require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
				require.NoError(t, cmd.Process.Signal(syscall.SIGCONT))
				for start := time.Now(); time.Since(start) < oneInterrupt/2; {
					if ended, _ := processState(t, cmd, unix.WNOHANG); ended {
						break
					}
					require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
				}
			})
		})
	}
}

func TestAKilledCommandLeavesNothing(t *testing.T) {
	for _, m := range moments(t, reference(t)) {
		t.Run(m.name, func(t *testing.T) {
			dir := workplace(t)
			original := contents(t, dir)
			cmd, _ := stopAt(t, dir, m)
			require.NoError(t, cmd.Process.Kill())
			require.Error(t, cmd.Wait())
			requireSame(t, original, contents(t, dir))
		})
	}
}

// A cache rewrites its own file: that ends before the command does.
func TestAnInterruptWaitsUntilAFileIsRewritten(t *testing.T) {
	obeyInterrupts(t)
	for _, args := range [][]string{{"compact", "dead.xpwc"}, {"prune", "dead.xpwc", "--max-size", "40MiB"}} {
		t.Run(args[0], func(t *testing.T) {
			dir := workplace(t)
			original := contents(t, dir)
			cmd, stderr := stopAt(t, dir, moment{args[0], args, hasFile("dead.xpwc.compact*", 1<<20)})
			require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
			require.NoError(t, cmd.Process.Signal(syscall.SIGCONT))
			require.NoError(t, cmd.Wait(), stderr)
			final := contents(t, dir)
			require.ElementsMatch(t, slices.Collect(maps.Keys(original)), slices.Collect(maps.Keys(final)))
			require.Less(t, len(final[filepath.Join(dir, "dead.xpwc")]), len(original[filepath.Join(dir, "dead.xpwc")]))
			printed(t, dir, 0, "verify", "dead.xpwc")
		})
	}
}

// A compaction that was killed leaves one file, which the next one removes.
func TestWhatAKilledCompactionLeftTheNextRemoves(t *testing.T) {
	dir := workplace(t)
	original := contents(t, dir)
	cmd, _ := stopAt(t, dir, moment{"compact", []string{"compact", "dead.xpwc"}, hasFile("dead.xpwc.compact*", 1<<20)})
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	require.Len(t, contents(t, dir), len(original)+1)
	printed(t, dir, 0, "compact", "dead.xpwc")
	require.Len(t, contents(t, dir), len(original))
}

// A file that another process is making disturbs no command.
func TestALivingCommandKeepsWhatItMakes(t *testing.T) {
	dir := workplace(t)
	cmd, stderr := stopAt(t, dir, moment{"", []string{"convert", "there.xpwc", "--to", "native", "-o", "other"},
		writing(1 << 20)})
	printed(t, dir, 0, "pack", testModel(t, face), "-o", "new")
	printed(t, dir, 0, "compact", "dead.xpwc")
	require.NoError(t, cmd.Process.Signal(syscall.SIGCONT))
	require.NoError(t, cmd.Wait(), stderr)
	printed(t, dir, 0, "verify", "other")
	requireNoStage(t, dir)
}

func TestAnInterruptedRunSaysWhatItKeeps(t *testing.T) {
	dir := workplace(t)
	args := []string{"run", testModel(t, heavy), "--cache", "new", "--output-dir", "out"}
	cmd, stderr := stopAt(t, dir, moment{"", args, hasFile("new", 1<<20+1)})
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	require.NoError(t, cmd.Process.Signal(syscall.SIGCONT))
	require.Error(t, cmd.Wait())
	require.Equal(t, exitInterrupted, cmd.ProcessState.ExitCode(), stderr)
	require.Contains(t, stderr.String(), "interrupted; no output was written; new keeps what was packed")
	require.NoDirExists(t, filepath.Join(dir, "out"))
	printed(t, dir, 0, "verify", "new")
	report, _ := runJSON(t, dir, testModel(t, heavy), "--cache", "new")
	require.Zero(t, report.Cache.Packed)
}
