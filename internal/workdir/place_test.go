package workdir_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/workdir"
)

// contentSize is more than a system writes at once.
const contentSize = 3<<20 + 7

// write puts a file of one repeated byte at a path.
func write(path string, b byte) (err error) {
	dir, err := workdir.New(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Remove()) }()
	f, err := dir.Create("new")
	if err != nil {
		return err
	}
	if _, err := f.Write(bytes.Repeat([]byte{b}, contentSize)); err != nil {
		return errors.Join(err, f.Close())
	}
	return workdir.Place(f, path)
}

// writeForever is the process that is killed: it says each time that it has written the file.
func writeForever(path string) {
	for b := byte(1); ; b++ {
		if err := write(path, b); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("written")
	}
}

// requireWhole reads a file and requires that it is one that was written.
func requireWhole(t *testing.T, path string) {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Len(t, content, contentSize)
	require.Equal(t, contentSize, bytes.Count(content, content[:1]), "half of one and half of another")
}

// A reader has one whole file or another, at every moment, and whatever moment the writer is killed at. The next
// writer removes what it left.
func TestAReaderHasAWholeFileWheneverTheWriterIsKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weights")
	require.NoError(t, write(path, 0))
	leftBehind := 0
	for round := range 30 {
		self, err := os.Executable()
		require.NoError(t, err)
		writer := exec.Command(self)
		writer.Env = append(os.Environ(), envPath+"="+path)
		out, err := writer.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, writer.Start())
		said := bufio.NewScanner(out)
		for range 1 + round%3 {
			require.True(t, said.Scan())
			require.Equal(t, "written", said.Text())
			if runtime.GOOS != "windows" { // where a file that is open cannot be replaced
				requireWhole(t, path)
			}
		}
		require.NoError(t, writer.Process.Kill())
		require.Error(t, writer.Wait())
		requireWhole(t, path)
		leftBehind += len(names(t, filepath.Dir(path))) - 1
	}
	if leftBehind == 0 {
		t.Log("no writer was killed while it had a directory")
	}
	require.NoError(t, write(path, 0))
	require.Equal(t, []string{"weights"}, names(t, filepath.Dir(path)))
}

func TestWhatIsThereStaysWhereAFileCannotBePlaced(t *testing.T) {
	parent := t.TempDir()
	kept := filepath.Join(parent, "kept")
	require.NoError(t, os.MkdirAll(filepath.Join(kept, "of", "others"), 0o700))
	require.Error(t, write(kept, 1), "a directory is no file")
	require.DirExists(t, filepath.Join(kept, "of", "others"))
	require.Equal(t, []string{"kept"}, names(t, parent))

	require.ErrorIs(t, write(filepath.Join(parent, "none", "file"), 1), fs.ErrNotExist)
	path := filepath.Join(parent, "file")
	require.NoError(t, write(path, 1))
	dir, err := workdir.New(parent)
	require.NoError(t, err)
	defer func() { require.NoError(t, dir.Remove()) }()
	f, err := dir.Create("new")
	require.NoError(t, err)
	_, err = dir.Create("new")
	require.ErrorIs(t, err, fs.ErrExist)
	require.NoError(t, f.Close())
	require.ErrorIs(t, workdir.Place(f, path), fs.ErrClosed, "nobody knows whether it is on the disk")
	requireWhole(t, path)
}

func TestAFileThatIsOpenIsReplacedAndKeptByWhoHasIt(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("an open file cannot be replaced there")
	}
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, write(path, 1))
	old, err := os.Open(path)
	require.NoError(t, err)
	defer old.Close()
	require.NoError(t, write(path, 2))
	b := make([]byte, 1)
	_, err = old.ReadAt(b, contentSize-1)
	require.NoError(t, err)
	require.Equal(t, []byte{1}, b)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.EqualValues(t, 0o600, info.Mode().Perm())
}
