package output_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/output"
	"xpwc/internal/tests/testkit"
)

const (
	envPath  = "XPWC_TEST_PATH"
	envNamed = "XPWC_TEST_NAMED"
	envStop  = "XPWC_TEST_STOP" // end between the two system calls that replace a file
)

// With the variables, the process is killed while it writes: it prints a line for each file written.
func TestMain(m *testing.M) {
	path := os.Getenv(envPath)
	if path == "" {
		os.Exit(m.Run())
	}
	if os.Getenv(envStop) != "" {
		f, err := output.New(path)
		if err == nil {
			err = f.StopBeforeRename()
		}
		fmt.Println(err)
		os.Exit(0)
	}
	make := output.New
	if os.Getenv(envNamed) != "" {
		make = output.NewNamed
	}
	for b := byte(1); ; b++ {
		if err := write(make, path, b); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("written")
	}
}

type maker func(path string) (*output.File, error)

// makers are of files as the system has them, of files with a name, and of files that get none.
var makers = map[string]maker{"as the system has them": output.New, "with a name": output.NewNamed,
	"without a name": output.NewUnlinkable}

// contentSize is more than a system writes at once.
const contentSize = 3<<20 + 7

// write puts a file of one repeated byte at a path.
func write(make maker, path string, b byte) error {
	f, err := make(path)
	if err != nil {
		return err
	}
	defer f.Discard()
	if _, err := f.Write(bytes.Repeat([]byte{b}, contentSize)); err != nil {
		return err
	}
	return f.Publish(0o600)
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	names := []string{}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// requireWhole reads a file and requires that it is one that was written.
func requireWhole(t *testing.T, path string) {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Len(t, content, contentSize)
	require.Equal(t, contentSize, bytes.Count(content, content[:1]), "half of one and half of another")
}

// A reader has one whole file or another, at every moment, and whatever moment the writer is killed at. A killed writer
// leaves at most one file, with a name that is no other's.
func TestAReaderHasAWholeFileWheneverTheWriterIsKilled(t *testing.T) {
	for name, make := range makers {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "weights")
			require.NoError(t, write(make, path, 0))
			for round := range 20 {
				writer := testkit.Command()
				writer.Env = append(os.Environ(), envPath+"="+path)
				if name == "with a name" {
					writer.Env = append(writer.Env, envNamed+"=1")
				}
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
				remaining := names(t, filepath.Dir(path))
				require.LessOrEqual(t, len(remaining), 2)
				for _, name := range remaining {
					if name != "weights" {
						require.True(t, strings.HasPrefix(name, ".xpwc-"), name)
						require.NoError(t, os.Remove(filepath.Join(filepath.Dir(path), name)))
					}
				}
			}
		})
	}
}

func TestTheNextReplacementRemovesTheFileOfAKilledWriter(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("files have names from the beginning there")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "weights")
	require.NoError(t, write(output.New, path, 1))
	stopped := testkit.Command()
	stopped.Env = append(os.Environ(), envPath+"="+path, envStop+"=1")
	out, err := stopped.CombinedOutput()
	require.NoError(t, err)
	if string(out) != "<nil>\n" || len(names(t, dir)) == 1 {
		t.Skip("this file system has no files without a name: ", string(out))
	}
	alive, err := output.New(filepath.Join(dir, "other"))
	require.NoError(t, err)
	defer alive.Discard()
	require.NoError(t, alive.StopBeforeRename())
	require.NoError(t, os.Link(path, filepath.Join(dir, ".xpwc-mine")))
	link := ".xpwc-complete-" + strings.Repeat("a", 26)
	require.NoError(t, os.Symlink(path, filepath.Join(dir, link)))
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".xpwc-complete-notes"), nil, 0o600))
	require.Len(t, names(t, dir), 6)

	require.NoError(t, write(output.New, path, 2))
	require.ElementsMatch(t, names(t, dir),
		[]string{"weights", ".xpwc-mine", link, ".xpwc-complete-notes", filepath.Base(alive.Path())},
		"the file of a writer that lives stays, and whatever is no such file")
	requireWhole(t, path)
}

func TestWhatIsNotPublishedLeavesNothing(t *testing.T) {
	for name, make := range makers {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			f, err := make(filepath.Join(dir, "file"))
			require.NoError(t, err)
			_, err = f.WriteString("half")
			require.NoError(t, err)
			f.Discard()
			f.Discard()
			require.Empty(t, names(t, dir))
		})
	}
}

func TestWhatIsThereStaysWhereAFileCannotBePublished(t *testing.T) {
	for name, make := range makers {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			moved := filepath.Join(dir, "kept")
			require.NoError(t, os.MkdirAll(filepath.Join(moved, "of", "others"), 0o700))
			require.Error(t, write(make, moved, 1), "a directory is no file")
			require.DirExists(t, filepath.Join(moved, "of", "others"))
			require.Equal(t, []string{"kept"}, names(t, dir))

			require.ErrorIs(t, write(make, filepath.Join(dir, "none", "file"), 1), fs.ErrNotExist)
			path := filepath.Join(dir, "file")
			require.NoError(t, write(make, path, 1))
			f, err := make(path)
			require.NoError(t, err)
			defer f.Discard()
			require.NoError(t, f.Close())
			require.ErrorIs(t, f.Publish(0o600), fs.ErrClosed, "nobody knows whether it is on the disk")
			requireWhole(t, path)
		})
	}
}

func TestAFileThatIsOpenIsReplacedAndKeptByWhoHasIt(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("an open file cannot be replaced there")
	}
	for name, make := range makers {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "file")
			require.NoError(t, write(make, path, 1))
			old, err := os.Open(path)
			require.NoError(t, err)
			defer old.Close()
			require.NoError(t, write(make, path, 2))
			b := []byte{0}
			_, err = old.ReadAt(b, contentSize-1)
			require.NoError(t, err)
			require.Equal(t, []byte{1}, b)
			info, err := os.Stat(path)
			require.NoError(t, err)
			require.EqualValues(t, 0o600, info.Mode().Perm())
		})
	}
}

// A cache that is given the name may put a compacted file there.
func TestAFileThatOthersPutInItsPlaceIsOpenedAgain(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("an open file cannot be replaced there")
	}
	path := filepath.Join(t.TempDir(), "file")
	f, err := output.NewNamed(path)
	require.NoError(t, err)
	defer f.Discard()
	replacement := filepath.Join(filepath.Dir(path), "replacement")
	require.NoError(t, os.WriteFile(replacement, []byte("compacted"), 0o600))
	require.NoError(t, os.Rename(replacement, f.Path()))
	require.NoError(t, f.Reopen())
	require.NoError(t, f.Publish(0o600))
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "compacted", string(content))
	require.Equal(t, []string{"file"}, names(t, filepath.Dir(path)))
}
