package crash

import (
	"errors"
	"io/fs"
	"os"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/store"
	"xpwc/internal/tests/harness"
)

// Whatever call fails, the bytes are right or nobody is to use them; what was committed stays, if only where it is set
// aside, and the next process persists the rest.
func TestADiskErrorIsSurvived(t *testing.T) {
	first, complete := harness.Tensors(2, 3000), harness.Tensors(4, 3000)
	for _, fault := range []error{syscall.ENOSPC, syscall.EIO} {
		for offset := int64(1); ; offset++ {
			require.Less(t, offset, int64(100))
			path := harness.Path(t)
			c := harness.Open(t, path, nil)
			harness.PackTensors(t, c, first).MustClose(t)
			require.NoError(t, c.Close())

			var calls atomic.Int64
			c = harness.Open(t, path, nil)
			harness.SetDisk(c, faultyDisk{harness.Disk(c), &calls, offset, fault})
			harness.SetFiles(c, faultyFiles{harness.Files(c), &calls, offset, fault})
			o := harness.PackTensors(t, c, complete)
			saveErr := c.Save()
			lost := o.Err()
			o.MustClose(t)
			closeErr := c.Close()
			if calls.Load() < offset {
				break // there was no such call: all have been tried
			}
			s := c.Stats()
			require.True(t, errors.Join(saveErr, closeErr, s.LastError) != nil || s.Entries == 4,
				"call %d failed silently", offset)

			committed := 2
			if _, err := os.Stat(path + ".damaged"); err == nil {
				require.True(t, lost == nil || errors.Is(lost, xpwc.ErrLost))
				require.Error(t, s.LastError)
				committed = 0
			} else {
				require.NoError(t, lost, "after %v at call %d", fault, offset)
			}
			c = harness.Open(t, path, &xpwc.Options{Strict: true})
			harness.PackTensors(t, c, first).MustClose(t)
			require.EqualValues(t, committed, c.Stats().Hits.Entries, "after %v at call %d", fault, offset)
			harness.PackTensors(t, c, complete).MustClose(t)
			require.NoError(t, c.Close())
			require.Equal(t, 4, c.Stats().Entries)
		}
	}
}

func TestAnEmptyFileThatCannotBeGrownIsNoError(t *testing.T) {
	path := harness.Path(t)
	c := harness.Open(t, path, nil)
	var calls atomic.Int64
	harness.SetFiles(c, faultyFiles{harness.Files(c), &calls, 3, syscall.ENOSPC})
	o := harness.PackTensors(t, c, harness.Tensors(2, 100))
	require.EqualValues(t, 2, c.Stats().Private[xpwc.ReasonDisk].Entries)
	require.ErrorIs(t, c.Stats().LastError, syscall.ENOSPC)
	o.MustClose(t)
	require.NoError(t, c.Close())
}

// A faultyDisk fails one call with an error, counted over all kinds except reads.
type faultyDisk struct {
	store.File
	calls  *atomic.Int64
	failAt int64
	err    error
}

func (d faultyDisk) fail() error {
	if d.calls.Add(1) == d.failAt {
		return d.err
	}
	return nil
}

// faultyFiles make faulty disks, and count along.
type faultyFiles struct {
	store.Files
	calls  *atomic.Int64
	failAt int64
	err    error
}

func (f faultyFiles) count() error { return faultyDisk{nil, f.calls, f.failAt, f.err}.fail() }

func (f faultyFiles) Open(path string, writable bool) (store.File, error) {
	d, err := f.Files.Open(path, writable)
	if err != nil {
		return nil, err
	}
	return faultyDisk{d, f.calls, f.failAt, f.err}, nil
}

func (f faultyFiles) Create(path string) (store.File, error) {
	if err := f.count(); err != nil {
		return nil, err
	}
	d, err := f.Files.Create(path)
	if err != nil {
		return nil, err
	}
	return faultyDisk{d, f.calls, f.failAt, f.err}, nil
}

func (f faultyFiles) Rename(src, dst string) error {
	if err := f.count(); err != nil {
		return err
	}
	return f.Files.Rename(src, dst)
}

func (f faultyFiles) Remove(path string) error {
	if err := f.count(); err != nil {
		return err
	}
	return f.Files.Remove(path)
}

func (f faultyFiles) SyncDir(path string) error {
	return errors.Join(f.count(), f.Files.SyncDir(path))
}

func (d faultyDisk) SetMode(mode fs.FileMode) error {
	return errors.Join(d.fail(), d.File.SetMode(mode))
}

func (d faultyDisk) WriteAt(b []byte, offset int64) (int, error) {
	if err := d.fail(); err != nil {
		n, _ := d.File.WriteAt(b[:len(b)/2], offset) // as a full disk does
		return n, err
	}
	return d.File.WriteAt(b, offset)
}

func (d faultyDisk) Allocate(offset, size int64) error {
	return errors.Join(d.fail(), d.File.Allocate(offset, size))
}

func (d faultyDisk) Truncate(size int64) error {
	if err := d.fail(); err != nil {
		return err
	}
	return d.File.Truncate(size)
}

func (d faultyDisk) Map(offset int64, size int, writable bool) (store.Mapping, error) {
	if err := d.fail(); err != nil {
		return nil, err
	}
	m, err := d.File.Map(offset, size, writable)
	return faultyMapping{m, d}, err
}

type faultyMapping struct {
	store.Mapping
	disk faultyDisk
}

func (m faultyMapping) Seal(start int) error {
	return errors.Join(m.disk.fail(), m.Mapping.Seal(start))
}

func (m faultyMapping) Sync(start, end int) error {
	return errors.Join(m.disk.fail(), m.Mapping.Sync(start, end))
}

func (d faultyDisk) Flush() error { return errors.Join(d.fail(), d.File.Flush()) }

func (d faultyDisk) TryLock() (bool, error) {
	if err := d.fail(); err != nil {
		return false, err
	}
	return d.File.TryLock()
}

func (d faultyDisk) Replaced() (bool, error) {
	if err := d.fail(); err != nil {
		return false, err
	}
	return d.File.Replaced()
}
