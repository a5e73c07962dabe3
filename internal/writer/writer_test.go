package writer

import (
	"io"
	"log/slog"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/format"
	"xpwc/internal/osdisk"
)

func newWriter(t *testing.T) (*Writer, *Handle) {
	t.Helper()
	w, err := New(osdisk.Files{}, Options{
		Path:     filepath.Join(t.TempDir(), "cache"),
		Describe: func(known []format.Layout, _ []format.Record) []format.Layout { return known },
		Prepare:  func() {},
		Report:   func(slog.Level, string, ...slog.Attr) {},
	})
	require.NoError(t, err)
	h, ok := w.Open()
	require.True(t, ok)
	return w, h
}

// What is lost while a handle is being closed is reported to it as well.
func TestAHandleThatIsBeingClosedLearnsOfALoss(t *testing.T) {
	w, staying := newWriter(t)
	leaving, _ := w.Open()
	r := &round{}
	w.activity = committing // of what others packed
	left := make(chan error, 1)
	go func() {
		_, err := leaving.Close()
		left <- err
	}()
	isOpen := func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return leaving.open
	}
	for isOpen() {
		runtime.Gosched()
	}
	w.loseSaved(io.ErrUnexpectedEOF)
	w.endRound(r, nil)
	require.ErrorIs(t, <-left, io.ErrUnexpectedEOF)
	last, err := staying.Close()
	require.True(t, last)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

// Who comes too late opens, maps and locks nothing of the file again.
func TestAClosedWriterStaysClosed(t *testing.T) {
	w, h := newWriter(t)
	require.Empty(t, w.begin(nil))
	w.leave(nil)
	w.giveUpWriting()
	u, err := h.NewUser(0)
	require.NoError(t, err)
	u.Close()
	_, err = h.Close()
	require.NoError(t, err)
	_, err = h.NewUser(0)
	require.ErrorIs(t, err, ErrClosed)
	require.False(t, w.file.st.HasFile())
	require.False(t, w.beginAtOnce(), "as the verifier does that found damage")
	require.False(t, w.file.st.HasFile())
}

// A session that has just left does not take the writer's lock from a compaction that begins.
func TestACompactionKeepsTheLock(t *testing.T) {
	w, h := newWriter(t)
	u, err := h.NewUser(0)
	require.NoError(t, err)
	_, reason := u.BecomeWriter()
	require.Empty(t, reason)
	w.leave(u)
	require.NoError(t, w.beginCompaction())
	require.Empty(t, w.begin(nil))
	w.giveUpWriting() // the session's
	require.True(t, w.file.st.Writing())
	w.leave(nil)
	w.giveUpWriting()
	require.False(t, w.file.st.Writing())
	w.endCompaction()
	u.Close()
	_, err = h.Close()
	require.NoError(t, err)
}
