package workdir_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/reexec"
	"xpwc/internal/workdir"
)

const (
	envParent = "XPWC_TEST_PARENT"
	envPath   = "XPWC_TEST_PATH"
)

// With the first variable, a process makes a directory, says so, and waits until it is killed or its input ends; with
// the second it writes a file again and again.
func TestMain(m *testing.M) {
	if path := os.Getenv(envPath); path != "" {
		writeForever(path)
	}
	if parent := os.Getenv(envParent); parent != "" {
		d, err := workdir.New(parent)
		if err == nil {
			err = os.WriteFile(d.File("half"), make([]byte, 1000), 0o600)
		}
		fmt.Println(err)
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

type process struct {
	*exec.Cmd
	stdin io.Closer
}

func start(t *testing.T, parent string) process {
	t.Helper()
	cmd := reexec.Command()
	cmd.Env = append(os.Environ(), envParent+"="+parent)
	return process{cmd, reexec.Await(t, cmd, "<nil>")}
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	found := []string{}
	for _, e := range entries {
		found = append(found, e.Name())
	}
	return found
}

func TestWhatAKilledProcessLeftIsRemoved(t *testing.T) {
	parent := t.TempDir()
	living := start(t, parent)
	its := names(t, parent)
	for range 3 {
		killed := start(t, parent)
		require.NoError(t, killed.Process.Kill())
		require.Error(t, killed.Wait())
	}
	require.Len(t, names(t, parent), 2, "each removes what the one before has left")
	mine, err := workdir.New(parent)
	require.NoError(t, err)
	require.Len(t, names(t, parent), 2)
	require.Subset(t, names(t, parent), its, "what a living process has stays")
	workdir.Sweep(parent)
	require.Len(t, names(t, parent), 2)
	require.NoError(t, mine.Remove())
	require.NoError(t, mine.Remove())
	require.Equal(t, its, names(t, parent))
	require.NoError(t, living.stdin.Close())
	require.NoError(t, living.Wait())
	workdir.Sweep(parent)
	require.Empty(t, names(t, parent))
}

func TestWhatIsNotCertainlyLeftByAKilledProcessStays(t *testing.T) {
	for name, make := range map[string]func(path string) error{
		"a file":            func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"without a marker":  func(path string) error { return os.MkdirAll(filepath.Join(path, "photos"), 0o700) },
		"another marker":    func(path string) error { return mark(path, "mine") },
		"a longer marker":   func(path string) error { return mark(path, string(append(markerText(t), '.'))) },
		"a marker in a dir": func(path string) error { return os.MkdirAll(filepath.Join(path, "in-use"), 0o700) },
		"a link as marker": func(path string) error {
			real := filepath.Join(t.TempDir(), "real")
			return firstError(os.Mkdir(path, 0o700), os.WriteFile(real, markerText(t), 0o600),
				os.Symlink(real, filepath.Join(path, "in-use")))
		},
		"a link": func(path string) error {
			real := t.TempDir()
			return firstError(mark(real, string(markerText(t))), os.Symlink(real, path))
		},
	} {
		t.Run(name, func(t *testing.T) {
			parent := t.TempDir()
			path := filepath.Join(parent, ".xpwc-123")
			require.NoError(t, make(path))
			workdir.Sweep(parent)
			_, err := os.Lstat(path)
			require.NoError(t, err)
		})
	}
	for _, name := range []string{"xpwc-123", ".xpwc-", ".xpwc-12a", ".xpwc-123.new"} {
		t.Run(name, func(t *testing.T) {
			parent := t.TempDir()
			require.NoError(t, mark(filepath.Join(parent, name), string(markerText(t))))
			workdir.Sweep(parent)
			require.Equal(t, []string{name}, names(t, parent))
		})
	}
	// The same under the right name, and what was killed even earlier, goes.
	for name, make := range map[string]func(path string) error{
		"whole":         func(path string) error { return mark(path, string(markerText(t))) },
		"half a marker": func(path string) error { return mark(path, string(markerText(t)[:10])) },
		"no marker yet": func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			parent := t.TempDir()
			require.NoError(t, make(filepath.Join(parent, ".xpwc-123")))
			workdir.Sweep(parent)
			require.Empty(t, names(t, parent))
		})
	}
}

// mark makes a directory with a marker of some content, and something else.
func mark(path, content string) error {
	return firstError(os.MkdirAll(path, 0o700), os.WriteFile(filepath.Join(path, "in-use"), []byte(content), 0o600),
		os.WriteFile(filepath.Join(path, "half"), nil, 0o600))
}

func markerText(t *testing.T) []byte {
	t.Helper()
	d, err := workdir.New(t.TempDir())
	require.NoError(t, err)
	defer d.Remove()
	b, err := os.ReadFile(d.File("in-use"))
	require.NoError(t, err)
	return b
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Directories are made while others sweep: none is taken away from who has made it.
func TestManyMakeAndSweepAtTheSameTime(t *testing.T) {
	parent := t.TempDir()
	done := make(chan error)
	for range 8 {
		go func() {
			for range 50 {
				d, err := workdir.New(parent)
				if err == nil {
					err = firstError(os.WriteFile(d.File("half"), nil, 0o600), d.Remove())
				}
				if err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range 8 {
		require.NoError(t, <-done)
	}
	require.Empty(t, names(t, parent))
}
