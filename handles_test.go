package xpwc

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
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
	holdCommits(c)
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

// Options are those of who has a file open, and whoever is closing it has it no more.
func TestAFileWhoseLastHandleIsBeingClosedIsOpenedWithOtherOptions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	handled := make(chan struct{})
	l := listener{host: func(string) { <-handled }}
	c := mustOpen(t, path, l.options())
	open(t, c, someTensors(1, 5000)).close(t)
	left := make(chan error, 1)
	go func() { left <- c.Close() }()
	for c.Trim() == nil { // closed, it waits for its logger
		runtime.Gosched()
	}
	other, err := Open(path, &Options{ReadOnly: true})
	close(handled)
	require.NoError(t, err)
	require.NoError(t, <-left)
	require.EqualValues(t, 1, other.Stats().Entries)
	require.NoError(t, other.Close())
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
	c, err := openAlone(path, l.options(), files)
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

// That an entry of the file is one of several under its key is in all further generations, too.
func TestWhatACommitSaysOfAnEntryLaterOnesSayToo(t *testing.T) {
	path, tensors := filepath.Join(t.TempDir(), "cache"), someTensors(2, 5000)
	const name = "tensor 0"
	first := map[string][]byte{name: tensors[name]}
	c := mustOpen(t, path, nil)
	open(t, c, first).close(t)
	require.NoError(t, c.Close())

	c = mustOpen(t, path, nil)
	s := newSession(t, c, tensors)
	content, err := s.Load(name, Compare())
	require.NoError(t, err)
	kernel := addressTo(content)
	require.Equal(t, uintptr(missing), lookUp(s, 42, kernel, 0))
	space := reserve(s, 5000)
	insert(s, 42, kernel, 0, addressTo(space), 5000) // packed in another way
	require.NoError(t, s.Finalize())
	require.NoError(t, c.Save())
	require.NoError(t, s.Close())
	open(t, c, tensors).close(t) // tensor 1 is new
	require.NoError(t, c.Save())
	require.NoError(t, c.Close())

	c = mustOpen(t, path, nil)
	s = newSession(t, c, tensors)
	content, err = s.Load(name)
	require.NoError(t, err)
	require.Equal(t, uintptr(missing), lookUp(s, 42, addressTo(content), 0), "which of the two?")
	require.NoError(t, s.Close())
	require.NoError(t, c.Close())
}

// What a session is packing answers no other: that packs, too, and uses it only if it is equal.
func TestSessionsThatPackAtTheSameTimeShareOnlyWhatIsEqual(t *testing.T) {
	for _, path := range []string{"", filepath.Join(t.TempDir(), "cache")} {
		c := mustOpen(t, path, nil)
		first, second := contentOf("first", 100), contentOf("second", 100)
		for _, with := range [][]byte{first, first, second} {
			s := newSession(t, c, map[string][]byte{"w": with})
			w, err := s.Load("w", Eager(), Believe())
			require.NoError(t, err)
			got, hit := packWeight(t, s, 7, addressTo(w), 0, packedFrom(with))
			require.False(t, hit)
			require.Equal(t, packedFrom(with), got)
			defer finish(t, s)
		}
		require.EqualValues(t, 2, c.Stats().Packed.Entries)
		require.EqualValues(t, 1, c.Stats().Reused.Entries)
	}
}
