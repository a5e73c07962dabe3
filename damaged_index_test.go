package xpwc

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"xpwc/internal/format"
	"xpwc/internal/tests/testkit"
)

// manyTensors have an index that a cache does not keep in memory.
func manyTensors() map[string][]byte { return someTensors(6_500, 10) }

// While a commit or a compaction is being written, somebody writes over the loaded index, and a look-up finds that. The
// file is given up, but not before what is being written has ended.
func TestTheIndexIsDamagedWhileTheFileIsWrittenTo(t *testing.T) {
	whileWriting := func(h *hooks, damaged func(), err error) {
		h.flush = func(string) error {
			h.flush = nil
			damaged()
			return err
		}
	}
	for _, writing := range testkit.Drawn(t, []struct {
		name  string
		write func(c *Cache, h *hooks, damaged func()) error
	}{
		{"a commit", func(c *Cache, h *hooks, damaged func()) error {
			whileWriting(h, damaged, nil)
			return c.Save()
		}},
		{"a commit that fails", func(c *Cache, h *hooks, damaged func()) error {
			whileWriting(h, damaged, syscall.EIO)
			_ = c.Save()
			return nil
		}},
		{"a compaction", func(c *Cache, h *hooks, damaged func()) error {
			if err := c.Save(); err != nil {
				return err
			}
			h.create = func(string) error {
				h.create = nil
				damaged()
				return nil
			}
			return c.Compact()
		}},
	}) {
		t.Run(writing.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "cache")
			old := manyTensors()
			packedBefore := mustOpen(t, path, nil)
			open(t, packedBefore, old).close(t)
			require.NoError(t, packedBefore.Close())
			overwriteIndex := indexOverwriter(t, path)
			c, h := openHooked(t, path, nil)
			m := map[string][]byte{"another": contentOf("another", 5000)}
			o := open(t, c, m)
			holdCommits(c)

			var s *Session
			looked := make(chan error, 1)
			err := writing.write(c, h, func() {
				overwriteIndex()
				s = newSession(t, c, old)
				go func() {
					var err error
					for name, content := range old {
						err = errors.Join(err, packTensor(s, name, content))
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
			requireRight(t, s, old)
			requireRight(t, o.Session, m)
			require.NoError(t, c.Save())
			requireRight(t, o.Session, m)
			require.NoError(t, errors.Join(o.Close(), s.Close()))
			if writing.name == "a commit that fails" {
				writeAgain(c)
				open(t, c, old).close(t)
			}
			require.NoError(t, c.Close())
			after := mustOpen(t, path, &Options{Strict: true, Verify: VerifyOnUse})
			open(t, after, old).close(t)
			require.Zero(t, after.Stats().DamagedPayloads)
			require.Zero(t, after.Stats().Misses)
		})
	}
}

// What is in a damaged file, and was not committed, is right for whoever uses it. Save reports that the file does not
// have it.
func TestTheIndexIsDamagedWhileSomethingIsPacked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	old := manyTensors()
	packedBefore := mustOpen(t, path, nil)
	open(t, packedBefore, old).close(t)
	require.NoError(t, packedBefore.Close())
	c := mustOpen(t, path, &Options{WriterWait: time.Hour}) // nobody waits: the lock is this process' own
	m := map[string][]byte{"done": contentOf("done", 40_000)}
	done := open(t, c, m)
	holdCommits(c)
	s := newSession(t, c, map[string][]byte{"other": contentOf("other", 5000)})
	space, err := beginPacking(s, "other", 5000+64)
	require.NoError(t, err)
	indexOverwriter(t, path)()
	open(t, c, old).close(t)
	require.ErrorIs(t, c.Stats().Damaged, ErrDamaged)
	copy(space, packedFrom(contentOf("other", 5000)))
	endPacking(s, "other", space)
	require.NoError(t, s.Finalize())
	require.ErrorIs(t, c.Save(), ErrDamaged)
	requireRight(t, done.Session, m)
	require.NoError(t, errors.Join(done.Close(), s.Close()))
	require.NoError(t, c.Save())
	open(t, c, m).close(t)
	require.NoError(t, c.Close())
	require.FileExists(t, path+".damaged")
	after := mustOpen(t, path, &Options{Strict: true})
	open(t, after, m).close(t)
	require.Zero(t, after.Stats().Misses)
}

// A generation is made of the one before. If its index is damaged since it was checked, what was packed serves who has
// it, and others pack it into the next file.
func TestTheIndexIsDamagedBeforeACommit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	c := mustOpen(t, path, nil)
	old, m := manyTensors(), map[string][]byte{"another": contentOf("another", 5000)}
	open(t, c, old).close(t)
	require.NoError(t, c.Close())
	c = mustOpen(t, path, nil)
	o := open(t, c, m)
	holdCommits(c)
	indexOverwriter(t, path)()
	require.ErrorIs(t, c.Save(), ErrDamaged)
	requireRight(t, o.Session, m)
	require.NoError(t, c.Save())
	requireRight(t, o.Session, m)
	require.NoError(t, o.Close())
	require.FileExists(t, path+".damaged")
	open(t, c, m).close(t)
	require.NoError(t, c.Close())
	after := mustOpen(t, path, &Options{Strict: true, Verify: VerifyOnUse})
	open(t, after, m).close(t)
	require.Zero(t, after.Stats().Misses)
}

func TestTheIndexIsDamagedBeforeACompaction(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	c := mustOpen(t, path, nil)
	open(t, c, manyTensors()).close(t)
	require.NoError(t, c.Close())
	c = mustOpen(t, path, nil)
	indexOverwriter(t, path)()
	require.NoError(t, c.Compact())
	require.ErrorIs(t, c.Stats().Damaged, ErrDamaged)
	require.NoError(t, c.Close())
	require.FileExists(t, path+".damaged")
}

// indexOverwriter returns what writes over all of the index now in force but for its root, in place.
func indexOverwriter(t *testing.T, path string) (overwrite func()) {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	h, err := format.DecodeHeader(content)
	require.NoError(t, err)
	at := h.Current
	index, err := format.LoadIndex(bytes.NewReader(content), at)
	require.NoError(t, err)
	body := index.RecordOffset(0)
	return func() {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		require.NoError(t, err)
		defer func() { require.NoError(t, f.Close()) }()
		_, err = f.WriteAt(bytes.Repeat([]byte{0xff}, int(at.IndexSize-body)), int64(at.IndexOffset+body))
		require.NoError(t, err)
	}
}
