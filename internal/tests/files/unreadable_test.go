package files

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/format"
	"xpwc/internal/osdisk"
	"xpwc/internal/store"
	"xpwc/internal/tests/harness"
)

// unreadableFiles are the system's files. One byte of the file with the identity id cannot be read.
type unreadableFiles struct {
	osdisk.Files
	id     []byte
	offset int64
}

type unreadableDisk struct {
	store.File
	unreadableFiles
}

func (f unreadableFiles) Open(path string, writable bool) (store.File, error) {
	d, err := f.Files.Open(path, writable)
	if err != nil {
		return nil, err
	}
	id := make([]byte, len(f.id))
	if _, err := d.ReadAt(id, 0); err != nil || !bytes.Equal(id, f.id) {
		return d, nil // another file
	}
	return unreadableDisk{d, f}, nil
}

func (d unreadableDisk) ReadAt(b []byte, offset int64) (int, error) {
	if offset <= d.offset && d.offset < offset+int64(len(b)) {
		return 0, syscall.EIO
	}
	return d.File.ReadAt(b, offset)
}

// What a disk cannot give of the header or of the index, however large, is damage: the file is set aside, and a new one
// takes its place.
func TestAFileWithAnUnreadableIndexIsRepacked(t *testing.T) {
	large, content, slot := largeFile(t)
	small := newTinyModel(300)
	smallContent, err := os.ReadFile(small.file(t))
	require.NoError(t, err)
	h, err := format.DecodeHeader(smallContent)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		m       *tinyModel
		content []byte
		offset  uint64
	}{
		"header":                {small, smallContent, 0},
		"root of a small one":   {small, smallContent, h.Current.IndexOffset},
		"end of a small one":    {small, smallContent, h.Current.IndexOffset + h.Current.IndexSize - 1},
		"root of a large one":   {large, content, slot.IndexOffset + 300},
		"a page of a large one": {large, content, slot.IndexOffset + slot.IndexSize/2},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "bad")
			require.NoError(t, os.WriteFile(path, c.content, 0o600))
			bad := unreadableFiles{id: c.content[:32], offset: int64(c.offset)}
			handle, err := harness.OpenShared(path, nil, bad)
			require.NoError(t, err)
			for range 3 { // what was found before the damage is packed by the next
				_, err = c.m.use(t, handle, everyTensor(c.m))
				require.NoError(t, err)
			}
			require.ErrorIs(t, handle.Stats().Damaged, xpwc.ErrDamaged)
			require.ErrorIs(t, handle.Stats().Damaged, syscall.EIO)
			require.NoError(t, handle.Close())
			require.FileExists(t, path+".damaged")
			good := harness.Open(t, path, &xpwc.Options{Strict: true})
			hits, err := c.m.use(t, good, everyTensor(c.m))
			require.NoError(t, err)
			require.Equal(t, len(c.m.names), hits)
			require.NoError(t, good.Close())

			require.NoError(t, os.WriteFile(path, c.content, 0o600))
			strict, err := harness.OpenShared(path, (&xpwc.Options{Strict: true}), bad)
			if err == nil {
				_, err = c.m.use(t, strict, everyTensor(c.m))
				require.NoError(t, strict.Close())
			}
			require.ErrorIs(t, err, xpwc.ErrDamaged)
			require.ErrorIs(t, err, syscall.EIO)
		})
	}
}

// unmappableFiles are of a file system that has no mappings, or cannot describe its files, until it is mended.
type unmappableFiles struct {
	osdisk.Files
	mended *atomic.Bool
	stat   bool
}

type unmappableDisk struct {
	store.File
	unmappableFiles
}

func (f unmappableFiles) Open(path string, writable bool) (store.File, error) {
	d, err := f.Files.Open(path, writable)
	return unmappableDisk{d, f}, err
}

func (d unmappableDisk) Size() (int64, error) {
	if d.stat && !d.mended.Load() {
		return 0, syscall.EIO
	}
	return d.File.Size()
}

func (d unmappableDisk) Map(offset int64, size int, writable bool) (store.Mapping, error) {
	if !d.stat && !d.mended.Load() {
		return nil, syscall.ENODEV
	}
	return d.File.Map(offset, size, writable)
}

func TestAnUnmappableFileLeadsToPrivateMemory(t *testing.T) {
	m := newTinyModel(3)
	for name, stat := range map[string]bool{"no mappings": false, "no description": true} {
		t.Run(name, func(t *testing.T) {
			path := harness.Path(t)
			c := harness.Open(t, path, nil)
			_, err := m.use(t, c, everyTensor(m))
			require.NoError(t, err)
			require.NoError(t, c.Close())

			files := unmappableFiles{mended: new(atomic.Bool), stat: stat}
			_, err = harness.OpenShared(path, (&xpwc.Options{Strict: true}), files)
			require.ErrorIs(t, err, store.ErrUnmappable)

			c, err = harness.OpenShared(path, nil, files)
			require.NoError(t, err)
			_, err = m.use(t, c, everyTensor(m))
			require.NoError(t, err)
			require.EqualValues(t, len(m.names), c.Stats().Private[xpwc.ReasonDisk].Entries)
			require.ErrorIs(t, c.Stats().LastError, store.ErrUnmappable)

			files.mended.Store(true)
			hits, err := m.use(t, c, everyTensor(m))
			require.NoError(t, err)
			require.Equal(t, len(m.names), hits, "it is looked at again for each session")
			require.NoError(t, c.Close())
		})
	}
}

func TestEntriesThatFailedToMapAreInTheNextCommit(t *testing.T) {
	for _, strict := range []bool{false, true} {
		t.Run(fmt.Sprintf("strict=%t", strict), func(t *testing.T) {
			path := harness.Path(t)
			c, on := harness.OpenHooked(t, path, &xpwc.Options{Strict: strict})
			harness.HoldCommits(c)
			first, err := harness.PackModel(c, harness.OneModel{"a": []byte("content of a")})
			require.NoError(t, err)
			require.NoError(t, c.Save())
			second, err := harness.PackModel(c, harness.OneModel{"b": []byte("content of b")})
			require.NoError(t, err)

			on.Mapping = func(writable bool) error {
				if writable {
					return nil
				}
				return syscall.ENOMEM
			}
			err = c.Save()
			require.ErrorIs(t, err, store.ErrUnmappable)
			require.ErrorIs(t, err, syscall.ENOMEM)
			on.Mapping = nil
			require.NoError(t, c.Save())
			require.NoError(t, errors.Join(first.Close(), second.Close(), c.Close()))

			c = harness.Open(t, path, nil)
			require.EqualValues(t, 2, c.Stats().Entries)
			require.NoError(t, c.Close())
		})
	}
}
