package emulator

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// envKilled has this test's process make a root, print its path, and wait for its end.
const envKilled = "XPWC_TEST_KILLED"

func TestMain(m *testing.M) {
	if os.Getenv(envKilled) == "" {
		os.Exit(m.Run())
	}
	r, err := newRoot()
	if err == nil {
		err = write(r.path, "proc/cpuinfo", "processor")
	}
	if err != nil {
		panic(err)
	}
	_, _ = os.Stdout.WriteString(r.path)
	_ = os.Stdout.Close()
	_, _ = os.Stdin.Read(make([]byte, 1))
}

// process starts a process that has a root, and returns the root's path.
func process(t *testing.T) (cmd *exec.Cmd, path string) {
	t.Helper()
	cmd = exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envKilled+"=1")
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	t.Cleanup(func() { _ = stdin.Close() })
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	name := make([]byte, 4096)
	n, err := stdout.Read(name)
	require.NoError(t, err)
	return cmd, string(name[:n])
}

func TestTheDirectoryOfAKilledProcessIsRemovedByTheNextOne(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	killed, abandoned := process(t)
	running, used := process(t)
	require.NoError(t, killed.Process.Signal(syscall.SIGKILL))
	require.Error(t, killed.Wait())
	require.FileExists(t, filepath.Join(abandoned, "proc", "cpuinfo"))

	r, err := newRoot()
	require.NoError(t, err)
	require.NoDirExists(t, abandoned)
	require.FileExists(t, filepath.Join(used, "proc", "cpuinfo"), "its process runs")
	require.DirExists(t, r.path)
	r.remove()
	require.NoDirExists(t, r.path)
	require.NoError(t, running.Process.Kill())
	require.Error(t, running.Wait())
}

func TestOnlyOwnDirectoriesAreRemoved(t *testing.T) {
	tmp, elsewhere := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", tmp)
	link, file := filepath.Join(tmp, rootPrefix+"link"), filepath.Join(tmp, rootPrefix+"file")
	require.NoError(t, os.Symlink(elsewhere, link))
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	others := filepath.Join(tmp, rootPrefix+"others")
	require.NoError(t, os.Mkdir(others, 0o700))
	if os.Geteuid() == 0 {
		require.NoError(t, os.Chown(others, 12345, 12345))
	}
	r, err := newRoot()
	require.NoError(t, err)
	defer r.remove()
	require.FileExists(t, file)
	_, err = os.Lstat(link)
	require.NoError(t, err)
	require.DirExists(t, elsewhere)
	if os.Geteuid() == 0 {
		require.DirExists(t, others)
	}
}

func TestProcessesThatStartAtOnceKeepTheirDirectories(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	roots := make(chan *root)
	for range 16 {
		go func() {
			r, err := newRoot()
			if err != nil {
				r = nil
			}
			roots <- r
		}()
	}
	var made []*root
	for range 16 {
		made = append(made, <-roots)
	}
	for _, r := range made {
		require.NotNil(t, r)
		require.DirExists(t, r.path)
		r.remove()
	}
}
