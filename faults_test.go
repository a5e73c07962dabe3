package xpwc

import (
	"errors"
	"io/fs"
	"sync/atomic"

	"xpwc/internal/store"
)

// Tests put faults between a cache's store and the system.

func filesOf(c *Cache) (now store.Files) {
	storeOf(c).Intercept(func(f store.Files) store.Files { now = f; return f }, nil)
	return now
}

func setFiles(c *Cache, f store.Files) {
	storeOf(c).Intercept(func(store.Files) store.Files { return f }, nil)
}

// diskOf returns the disk of the file that is open, or nil.
func diskOf(c *Cache) (now store.File) {
	storeOf(c).Intercept(nil, func(d store.File) store.File { now = d; return d })
	return now
}

func setDisk(c *Cache, d store.File) {
	storeOf(c).Intercept(nil, func(store.File) store.File { return d })
}

// storeOf returns the store of a cache that nobody else uses now.
func storeOf(c *Cache) (st *store.Store) {
	c.writer.Probe().File(func(of *store.Store) { st = of })
	return st
}

// A faultyDisk fails one call, counted over all its kinds but those of reading, with an error.
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

func (f faultyFiles) Rename(from, to string) error {
	if err := f.count(); err != nil {
		return err
	}
	return f.Files.Rename(from, to)
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

type flushingDisk struct {
	store.File
	flush func() error
}

func (d flushingDisk) Flush() error {
	if d.flush != nil {
		if err := d.flush(); err != nil {
			return err
		}
	}
	return d.File.Flush()
}

type wrappedFiles struct {
	store.Files
	wrap func(store.File, error) (store.File, error)
}

func (f wrappedFiles) Create(path string) (store.File, error) { return f.wrap(f.Files.Create(path)) }

// wrappedForWriting are files that are wrapped also when an existing one is opened for writing.
type wrappedForWriting struct{ wrappedFiles }

func (f wrappedForWriting) Open(path string, writable bool) (store.File, error) {
	if !writable {
		return f.Files.Open(path, writable)
	}
	return f.wrap(f.Files.Open(path, writable))
}
