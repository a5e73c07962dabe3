package xpwc

import (
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/osdisk"
	"xpwc/internal/store"
)

// Whoever packed, each handle's next Save says that what was packed is not in the file.
func TestEachHandleIsGivenTheErrorOfWhatIsLostWithTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	c := mustOpen(t, path, nil)
	open(t, c, someTensors(1, 5000)).close(t)
	require.NoError(t, c.Save())
	other := mustOpen(t, path, nil)

	packed := open(t, c, someTensors(2, 5000))
	c.commitWithSave()
	content, _ := smallFile(t, someTensors(1, 700))
	require.NoError(t, os.WriteFile(path+".new", content, 0o600))
	require.NoError(t, osdisk.Files{}.Rename(path+".new", path))
	require.ErrorIs(t, c.Save(), ErrReplaced)
	require.ErrorIs(t, other.Save(), ErrReplaced)
	require.NoError(t, c.Save(), "once")
	require.NoError(t, other.Save(), "once")
	packed.close(t)
	require.NoError(t, other.Close())
	require.NoError(t, c.Close())
}

// unlockless disks do not say that they have given their lock up, the first time.
type unlockless struct {
	store.File
	refused *atomic.Bool
}

func (d unlockless) Unlock() error {
	if err := d.File.Unlock(); err != nil || d.refused.Swap(true) {
		return err
	}
	return syscall.EIO
}

// unlocklessFiles open such disks.
type unlocklessFiles struct {
	store.Files
	refused *atomic.Bool
}

func (f unlocklessFiles) Open(path string, writable bool) (store.File, error) {
	d, err := f.Files.Open(path, writable)
	if err != nil {
		return nil, err
	}
	return unlockless{d, f.refused}, nil
}

// An error that is bridged is an event, whatever it is of, and none takes another's place unseen.
func TestAnErrorThatIsBridgedIsAnEvent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	var l listener
	first := mustOpen(t, path, nil)
	open(t, first, someTensors(1, 5000)).close(t)
	require.NoError(t, first.Close())
	files := unlocklessFiles{osdisk.Files{}, &atomic.Bool{}}
	c, err := newHandle(place{path: path}, l.options().withDefaults(), files, nil)
	require.NoError(t, err)
	open(t, c, someTensors(2, 5000)).close(t)
	require.NoError(t, c.Save())
	require.ErrorIs(t, c.Stats().LastError, syscall.EIO)
	heard := false
	for _, r := range l.heard(c) {
		err, _ := r.attributes["error"].Any().(error)
		heard = heard || r.message == "the cache goes on after an error" && errors.Is(err, syscall.EIO)
	}
	require.True(t, heard)
	require.NoError(t, c.Close())
}
