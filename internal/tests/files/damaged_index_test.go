package files

import (
	"bytes"
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/format"
	"xpwc/internal/tests/harness"
	"xpwc/internal/tests/testkit"
)

// manyTensors have an index that a cache does not keep in memory.
func manyTensors() map[string][]byte { return harness.Tensors(6_500, 10) }

// While a commit or a compaction is being written, somebody writes over the loaded index, and a look-up finds that. The
// file is given up, but not before what is being written has ended.
func TestTheIndexIsDamagedDuringAWrite(t *testing.T) {
	whileWriting := func(h *harness.Hooks, damaged func(), err error) {
		h.Flush = func(string) error {
			h.Flush = nil
			damaged()
			return err
		}
	}
	for _, writing := range testkit.Drawn(t, []struct {
		name  string
		write func(c *xpwc.Cache, h *harness.Hooks, damaged func()) error
	}{
		{"a commit", func(c *xpwc.Cache, h *harness.Hooks, damaged func()) error {
			whileWriting(h, damaged, nil)
			return c.Save()
		}},
		{"a commit that fails", func(c *xpwc.Cache, h *harness.Hooks, damaged func()) error {
			whileWriting(h, damaged, syscall.EIO)
			_ = c.Save()
			return nil
		}},
		{"a compaction", func(c *xpwc.Cache, h *harness.Hooks, damaged func()) error {
			if err := c.Save(); err != nil {
				return err
			}
			h.Create = func(string) error {
				h.Create = nil
				damaged()
				return nil
			}
			return c.Compact()
		}},
	}) {
		t.Run(writing.name, func(t *testing.T) {
			path := harness.Path(t)
			old := manyTensors()
			packedBefore := harness.Open(t, path, nil)
			harness.PackTensors(t, packedBefore, old).MustClose(t)
			require.NoError(t, packedBefore.Close())
			overwriteIndex := indexOverwriter(t, path)
			c, h := harness.OpenHooked(t, path, nil)
			m := map[string][]byte{"another": harness.Content("another", 5000)}
			o := harness.PackTensors(t, c, m)
			harness.HoldCommits(c)

			var s *xpwc.Session
			looked := make(chan error, 1)
			err := writing.write(c, h, func() {
				overwriteIndex()
				s = harness.NewSession(t, c, old)
				go func() {
					var err error
					for name, content := range old {
						err = errors.Join(err, harness.PackTensor(s, name, content))
					}
					looked <- errors.Join(err, s.Finalize())
				}()
				select {
				case err := <-looked: // at once
					looked <- err
				case <-time.After(200 * time.Millisecond): // it waits
				}
			})
			require.NoError(t, <-looked)
			require.NoError(t, err)
			harness.RequireRight(t, s, old)
			harness.RequireRight(t, o.Session, m)
			require.NoError(t, c.Save())
			harness.RequireRight(t, o.Session, m)
			require.NoError(t, errors.Join(o.Close(), s.Close()))
			if writing.name == "a commit that fails" {
				harness.WriteAgain(c)
				harness.PackTensors(t, c, old).MustClose(t)
			}
			require.NoError(t, c.Close())
			reopened := harness.Open(t, path, &xpwc.Options{Strict: true, Verify: xpwc.VerifyOnUse})
			harness.PackTensors(t, reopened, old).MustClose(t)
			require.Zero(t, reopened.Stats().DamagedPayloads)
			require.Zero(t, reopened.Stats().Misses)
		})
	}
}

// Uncommitted packed weights in a damaged file stay right for the sessions that use them. Save reports that they are
// not in the file.
func TestTheIndexIsDamagedDuringPacking(t *testing.T) {
	path := harness.Path(t)
	old := manyTensors()
	packedBefore := harness.Open(t, path, nil)
	harness.PackTensors(t, packedBefore, old).MustClose(t)
	require.NoError(t, packedBefore.Close())
	c := harness.Open(t, path, &xpwc.Options{WriterWait: time.Hour}) // nobody waits: the lock is this process' own
	m := map[string][]byte{"done": harness.Content("done", 40_000)}
	done := harness.PackTensors(t, c, m)
	harness.HoldCommits(c)
	s := harness.NewSession(t, c, map[string][]byte{"other": harness.Content("other", 5000)})
	space, err := harness.BeginPacking(s, "other", 5000+64)
	require.NoError(t, err)
	indexOverwriter(t, path)()
	harness.PackTensors(t, c, old).MustClose(t)
	require.ErrorIs(t, c.Stats().Damaged, xpwc.ErrDamaged)
	copy(space, harness.PackedFrom(harness.Content("other", 5000)))
	harness.EndPacking(s, "other", space)
	require.NoError(t, s.Finalize())
	require.ErrorIs(t, c.Save(), xpwc.ErrDamaged)
	harness.RequireRight(t, done.Session, m)
	require.NoError(t, errors.Join(done.Close(), s.Close()))
	require.NoError(t, c.Save())
	harness.PackTensors(t, c, m).MustClose(t)
	require.NoError(t, c.Close())
	require.FileExists(t, path+".damaged")
	reopened := harness.Open(t, path, &xpwc.Options{Strict: true})
	harness.PackTensors(t, reopened, m).MustClose(t)
	require.Zero(t, reopened.Stats().Misses)
}

// A generation is made of the one before. If its index is damaged since it was checked, what was packed serves who has
// it, and others pack it into the next file.
func TestTheIndexIsDamagedBeforeACommit(t *testing.T) {
	path := harness.Path(t)
	c := harness.Open(t, path, nil)
	old, m := manyTensors(), map[string][]byte{"another": harness.Content("another", 5000)}
	harness.PackTensors(t, c, old).MustClose(t)
	require.NoError(t, c.Close())
	c = harness.Open(t, path, nil)
	o := harness.PackTensors(t, c, m)
	harness.HoldCommits(c)
	indexOverwriter(t, path)()
	require.ErrorIs(t, c.Save(), xpwc.ErrDamaged)
	harness.RequireRight(t, o.Session, m)
	require.NoError(t, c.Save())
	harness.RequireRight(t, o.Session, m)
	require.NoError(t, o.Close())
	require.FileExists(t, path+".damaged")
	harness.PackTensors(t, c, m).MustClose(t)
	require.NoError(t, c.Close())
	reopened := harness.Open(t, path, &xpwc.Options{Strict: true, Verify: xpwc.VerifyOnUse})
	harness.PackTensors(t, reopened, m).MustClose(t)
	require.Zero(t, reopened.Stats().Misses)
}

func TestTheIndexIsDamagedBeforeACompaction(t *testing.T) {
	path := harness.Path(t)
	c := harness.Open(t, path, nil)
	harness.PackTensors(t, c, manyTensors()).MustClose(t)
	require.NoError(t, c.Close())
	c = harness.Open(t, path, nil)
	indexOverwriter(t, path)()
	require.NoError(t, c.Compact())
	require.ErrorIs(t, c.Stats().Damaged, xpwc.ErrDamaged)
	require.NoError(t, c.Close())
	require.FileExists(t, path+".damaged")
}

// indexOverwriter returns a function that overwrites the index in force in place, except its root.
func indexOverwriter(t *testing.T, path string) (overwrite func()) {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	h, err := format.DecodeHeader(content)
	require.NoError(t, err)
	slot := h.Current
	index, err := format.LoadIndex(bytes.NewReader(content), slot)
	require.NoError(t, err)
	body := index.RecordOffset(0)
	return func() {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		require.NoError(t, err)
		defer func() { require.NoError(t, f.Close()) }()
		_, err = f.WriteAt(bytes.Repeat([]byte{0xff}, int(slot.IndexSize-body)), int64(slot.IndexOffset+body))
		require.NoError(t, err)
	}
}
