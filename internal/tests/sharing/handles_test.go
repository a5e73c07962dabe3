package sharing

import (
	"errors"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/osdisk"
	"xpwc/internal/store"
	"xpwc/internal/tests/harness"
)

// Whichever handle packed, each handle's next Save reports that the packed weights are not in the file.
func TestEachHandleReportsALossOfTheFile(t *testing.T) {
	path := harness.Path(t)
	c := harness.Open(t, path, nil)
	harness.PackTensors(t, c, harness.Tensors(1, 5000)).MustClose(t)
	require.NoError(t, c.Save())
	second := harness.Open(t, path, nil)

	packed := harness.PackTensors(t, c, harness.Tensors(2, 5000))
	harness.HoldCommits(c)
	content, _ := harness.SmallFile(t, harness.Tensors(1, 700))
	require.NoError(t, os.WriteFile(path+".new", content, 0o600))
	require.NoError(t, osdisk.Files{}.Rename(path+".new", path))
	require.ErrorIs(t, c.Save(), xpwc.ErrReplaced)
	require.ErrorIs(t, second.Save(), xpwc.ErrReplaced)
	require.NoError(t, c.Save(), "once")
	require.NoError(t, second.Save(), "once")
	packed.MustClose(t)
	require.NoError(t, second.Close())
	require.NoError(t, c.Close())
}

// The options of a file are the options of its open handles; a handle that is being closed no longer counts.
func TestOpeningDuringTheLastCloseTakesNewOptions(t *testing.T) {
	path := harness.Path(t)
	handled := make(chan struct{})
	l := harness.Listener{OnMessage: func(string) { <-handled }}
	c := harness.Open(t, path, l.Options())
	harness.PackTensors(t, c, harness.Tensors(1, 5000)).MustClose(t)
	closed := make(chan error, 1)
	go func() { closed <- c.Close() }()
	for c.Trim() == nil { // closed, it waits for its logger
		runtime.Gosched()
	}
	second, err := xpwc.Open(path, &xpwc.Options{ReadOnly: true})
	close(handled)
	require.NoError(t, err)
	require.NoError(t, <-closed)
	require.EqualValues(t, 1, second.Stats().Entries)
	require.NoError(t, second.Close())
}

// unlockless disks return an error, the first time, when they release their lock.
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
func TestAToleratedErrorIsAnEvent(t *testing.T) {
	path := harness.Path(t)
	var l harness.Listener
	first := harness.Open(t, path, nil)
	harness.PackTensors(t, first, harness.Tensors(1, 5000)).MustClose(t)
	require.NoError(t, first.Close())
	files := unlocklessFiles{osdisk.Files{}, &atomic.Bool{}}
	c, err := harness.OpenAlone(path, l.Options(), files)
	require.NoError(t, err)
	harness.PackTensors(t, c, harness.Tensors(2, 5000)).MustClose(t)
	require.NoError(t, c.Save())
	require.ErrorIs(t, c.Stats().LastError, syscall.EIO)
	heard := false
	for _, r := range l.Events(c) {
		err, _ := r.Attributes["error"].Any().(error)
		heard = heard || r.Message == "the cache goes on after an error" && errors.Is(err, syscall.EIO)
	}
	require.True(t, heard)
	require.NoError(t, c.Close())
}

// That an entry of the file is one of several under its key is in all further generations, too.
func TestFlagsOfAnEntryStayInLaterCommits(t *testing.T) {
	path, tensors := harness.Path(t), harness.Tensors(2, 5000)
	const name = "tensor 0"
	first := map[string][]byte{name: tensors[name]}
	c := harness.Open(t, path, nil)
	harness.PackTensors(t, c, first).MustClose(t)
	require.NoError(t, c.Close())

	c = harness.Open(t, path, nil)
	s := harness.NewSession(t, c, tensors)
	content, err := s.Load(name, xpwc.Compare())
	require.NoError(t, err)
	kernel := harness.Address(content)
	require.Equal(t, uintptr(harness.NotFound), harness.LookUp(s, 42, kernel, 0))
	space := harness.Reserve(s, 5000)
	harness.Insert(s, 42, kernel, 0, harness.Address(space), 5000) // packed in another way
	require.NoError(t, s.Finalize())
	require.NoError(t, c.Save())
	require.NoError(t, s.Close())
	harness.PackTensors(t, c, tensors).MustClose(t) // tensor 1 is new
	require.NoError(t, c.Save())
	require.NoError(t, c.Close())

	c = harness.Open(t, path, nil)
	s = harness.NewSession(t, c, tensors)
	content, err = s.Load(name)
	require.NoError(t, err)
	require.Equal(t, uintptr(harness.NotFound), harness.LookUp(s, 42, harness.Address(content), 0), "which of the two?")
	require.NoError(t, s.Close())
	require.NoError(t, c.Close())
}

// What a session is packing answers no other: that packs, too, and uses it only if it is equal.
func TestConcurrentSessionsShareOnlyEqualEntries(t *testing.T) {
	for _, path := range []string{"", harness.Path(t)} {
		c := harness.Open(t, path, nil)
		first, second := harness.Content("first", 100), harness.Content("second", 100)
		for _, content := range [][]byte{first, first, second} {
			s := harness.NewSession(t, c, map[string][]byte{"w": content})
			w, err := s.Load("w", xpwc.Eager(), xpwc.Believe())
			require.NoError(t, err)
			got, hit := harness.PackWeight(t, s, 7, harness.Address(w), 0, harness.PackedFrom(content))
			require.False(t, hit)
			require.Equal(t, harness.PackedFrom(content), got)
			defer harness.Finish(t, s)
		}
		require.EqualValues(t, 2, c.Stats().Packed.Entries)
		require.EqualValues(t, 1, c.Stats().Reused.Entries)
	}
}
