package files

import (
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/store"
	"xpwc/internal/tests/harness"
)

// A committed segment is read-only: a stray write faults instead of reaching the file.
func TestCommittedMemoryIsReadOnly(t *testing.T) {
	c := harness.Open(t, harness.Path(t), nil)
	o := harness.PackTensors(t, c, harness.Tensors(1, 100))
	require.NoError(t, c.Save())
	for _, e := range harness.User(o.Session).Used() {
		require.True(t, e.Region.Sealed())
	}
	o.MustClose(t)
	require.NoError(t, c.Close())
}

// What a mapped file cannot give back it keeps until it is closed, and what is packed meanwhile uses it.
func TestAMappedFileIsTrimmedWhenItIsClosed(t *testing.T) {
	path := harness.Path(t)
	size := func() int64 {
		info, err := os.Stat(path)
		require.NoError(t, err)
		return info.Size()
	}
	c := harness.Open(t, path, nil)
	harness.SetFiles(c, mappedFiles{harness.Files(c), new(atomic.Int64)})
	o := harness.PackTensors(t, c, harness.Tensors(2, 3000))
	require.NoError(t, c.Save())
	require.GreaterOrEqual(t, size(), int64(store.FirstSegment))
	harness.PackTensors(t, c, harness.Tensors(3, 3000)).MustClose(t)
	require.NoError(t, c.Save())
	require.Less(t, size(), int64(store.FirstSegment+1<<20), "the space that is there is used")
	o.MustClose(t)
	require.NoError(t, c.Close())
	require.Equal(t, c.Stats().FileBytes, size())
	c = harness.Open(t, path, &xpwc.Options{Strict: true, Verify: xpwc.VerifyOnUse})
	harness.PackTensors(t, c, harness.Tensors(3, 3000)).MustClose(t)
	require.Zero(t, c.Stats().Misses)
	require.NoError(t, c.Close())
}

// What no index can list stays in memory, and keeps nothing else from the file.
func TestUnlistableNamesDoNotBlockOtherEntries(t *testing.T) {
	path := harness.Path(t)
	c := harness.Open(t, path, nil)
	harness.PackTensors(t, c, map[string][]byte{strings.Repeat("n", 65<<20): harness.Content("n", 500)}).MustClose(t)
	require.NoError(t, c.Save())
	require.EqualValues(t, 1, c.Stats().Private[xpwc.ReasonDisk].Entries)
	require.ErrorIs(t, c.Stats().LastError, store.ErrLongNames)
	harness.PackTensors(t, c, harness.Tensors(3, 500)).MustClose(t)
	require.NoError(t, c.Close())
	require.Equal(t, 3, c.Stats().Entries)
}

// mappedFiles refuse to cut off a file as long as anything of it is mapped, as Windows does.
type mappedFiles struct {
	store.Files
	mapped *atomic.Int64
}

type mappedDisk struct {
	store.File
	mapped *atomic.Int64
}

func (f mappedFiles) Open(path string, writable bool) (store.File, error) {
	d, err := f.Files.Open(path, writable)
	return mappedDisk{d, f.mapped}, err
}

func (f mappedFiles) Create(path string) (store.File, error) {
	d, err := f.Files.Create(path)
	return mappedDisk{d, f.mapped}, err
}

func (d mappedDisk) Map(offset int64, size int, writable bool) (store.Mapping, error) {
	d.mapped.Add(1)
	m, err := d.File.Map(offset, size, writable)
	return countedMapping{m, d.mapped}, err
}

type countedMapping struct {
	store.Mapping
	mapped *atomic.Int64
}

func (m countedMapping) Unmap() error {
	m.mapped.Add(-1)
	return m.Mapping.Unmap()
}

func (d mappedDisk) Truncate(size int64) error {
	if d.mapped.Load() > 0 {
		return store.ErrMapped
	}
	return d.File.Truncate(size)
}
