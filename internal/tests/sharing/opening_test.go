package sharing

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/osdisk"
	"xpwc/internal/store"
	"xpwc/internal/tests/harness"
)

// slowToOpen are files whose opening blocks until the test releases it.
type slowToOpen struct {
	osdisk.Files
	asked, opened chan struct{}
}

func (f slowToOpen) Open(path string, writable bool) (store.File, error) {
	close(f.asked)
	<-f.opened
	return f.Files.Open(path, writable)
}

// inTime fails the test if something takes so long that it must be blocked.
func inTime(t *testing.T, operation string, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); do() }()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal(operation, "waits")
	}
}

func TestASlowOpenDoesNotBlockOtherFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "slow")
	slow := slowToOpen{asked: make(chan struct{}), opened: make(chan struct{})}
	opened := make(chan *xpwc.Cache)
	open := func() {
		c, err := harness.OpenShared(path, nil, slow)
		if err != nil {
			t.Error(err)
		}
		opened <- c
	}
	go open()
	<-slow.asked
	go open() // once more, for which it is not asked again
	inTime(t, "another file", func() {
		c, err := xpwc.Open(filepath.Join(dir, "other"), nil)
		if err != nil {
			t.Error(err)
			return
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	close(slow.opened)
	first, second := <-opened, <-opened
	require.Same(t, harness.Writer(first), harness.Writer(second))
	require.NoError(t, first.Close())
	require.NoError(t, second.Close())
}
