//go:build unix

package cachefile_test

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"xpwc/cachefile"
)

// A program that can write to the directory may put a pipe there between the check of the file and its opening.
func TestAPipeInPlaceOfTheFileDoesNotMakeOpenWait(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, unix.Mkfifo(in("pipe"), 0o600))
	require.NoError(t, os.WriteFile(in("file"), []byte("notes"), 0o600))
	require.NoError(t, os.Link(in("file"), in("path")))
	var enough atomic.Bool
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for !enough.Load() {
			if f, err := cachefile.Open(in("path")); err == nil {
				_ = f.Close()
			}
		}
	}()
	for range 10000 {
		for _, name := range []string{"pipe", "file"} {
			require.NoError(t, os.Link(in(name), in("next")))
			require.NoError(t, os.Rename(in("next"), in("path")))
		}
	}
	enough.Store(true)
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("Open waits for a writer")
	}
}
