//go:build unix

package output_test

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Files can be written where a process may not list them, as in a drop box.
func TestADirectoryThatCannotBeReadIsWrittenTo(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be another user for a while")
	}
	const nobody = 65534
	dir, err := os.MkdirTemp("", "xpwc-output") // not t.TempDir, into which other users cannot look
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o711))
	program, box := filepath.Join(dir, "program"), filepath.Join(dir, "box")
	copyProgram(t, program)
	require.NoError(t, os.Mkdir(box, 0o300))
	require.NoError(t, os.Chown(box, nobody, nobody))

	path := filepath.Join(box, "file")
	writer := exec.Command(program)
	writer.Env = append(os.Environ(), envPath+"="+path)
	writer.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := writer.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, writer.Start())
	said := bufio.NewScanner(out)
	for range 2 {
		require.True(t, said.Scan())
		require.Equal(t, "written", said.Text())
		requireWhole(t, path)
	}
	require.NoError(t, writer.Process.Kill())
	require.Error(t, writer.Wait())
}

// copyProgram copies this program to where another user may run it.
func copyProgram(t *testing.T, dst string) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	src, err := os.Open(self)
	require.NoError(t, err)
	defer src.Close()
	f, err := os.OpenFile(dst, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o700)
	require.NoError(t, err)
	_, err = io.Copy(f, src)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.NoError(t, os.Chmod(dst, 0o755))
}
