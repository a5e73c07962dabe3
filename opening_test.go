package xpwc

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"xpwc/internal/osdisk"
	"xpwc/internal/store"
)

// slowToOpen are files that are not there before somebody says so.
type slowToOpen struct {
	osdisk.Files
	asked, there chan struct{}
}

func (f slowToOpen) Open(path string, writable bool) (store.File, error) {
	close(f.asked)
	<-f.there
	return f.Files.Open(path, writable)
}

// within fails the test if something takes so long that it must be waiting for what does not come.
func within(t *testing.T, what string, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); do() }()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal(what, "waits")
	}
}

func TestAFileThatIsSlowToOpenHoldsUpNoOther(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "slow")
	slow := slowToOpen{asked: make(chan struct{}), there: make(chan struct{})}
	opened := make(chan *Cache)
	open := func() {
		c, err := openShared(path, nil, slow)
		if err != nil {
			t.Error(err)
		}
		opened <- c
	}
	go open()
	<-slow.asked
	go open() // once more, for which it is not asked again
	within(t, "another file", func() {
		c, err := Open(filepath.Join(dir, "other"), nil)
		if err != nil {
			t.Error(err)
			return
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	close(slow.there)
	first, second := <-opened, <-opened
	require.Same(t, writerOf(first), writerOf(second))
	require.NoError(t, first.Close())
	require.NoError(t, second.Close())
}
