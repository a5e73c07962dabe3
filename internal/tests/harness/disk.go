package harness

import (
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/osdisk"
	"xpwc/internal/store"
)

// Tests put faults between a cache's store and the system.

func Files(c *xpwc.Cache) (current store.Files) {
	Store(c).Intercept(func(f store.Files) store.Files { current = f; return f }, nil)
	return current
}

func SetFiles(c *xpwc.Cache, f store.Files) {
	Store(c).Intercept(func(store.Files) store.Files { return f }, nil)
}

// Disk returns the disk of the file that is open, or nil.
func Disk(c *xpwc.Cache) (current store.File) {
	Store(c).Intercept(nil, func(d store.File) store.File { current = d; return d })
	return current
}

func SetDisk(c *xpwc.Cache, d store.File) {
	Store(c).Intercept(nil, func(store.File) store.File { return d })
}

// Store returns the store of a cache that nobody else uses now.
func Store(c *xpwc.Cache) (st *store.Store) {
	Probe(c).File(func(subject *store.Store) { st = subject })
	return st
}

type WrappedFiles struct {
	store.Files
	Wrap func(store.File, error) (store.File, error)
}

func (f WrappedFiles) Create(path string) (store.File, error) { return f.Wrap(f.Files.Create(path)) }

// WrappedForWriting are files that are wrapped also when an existing one is opened for writing.
type WrappedForWriting struct{ WrappedFiles }

func (f WrappedForWriting) Open(path string, writable bool) (store.File, error) {
	if !writable {
		return f.Files.Open(path, writable)
	}
	return f.Wrap(f.Files.Open(path, writable))
}

// Hooks inject failures into calls of real files and disks; a nil hook injects none. The arguments describe the call.
type Hooks struct {
	Flush    func(path string) error
	Write    func(offset int64) error
	Allocate func(offset, size int64) error
	Create   func(path string) error
	Mapping  func(writable bool) error
	Failed   func() error
	Replaced func() error
}

type HookedFiles struct {
	store.Files
	Hooks *Hooks
}

type hookedDisk struct {
	store.File
	hooks *Hooks
	path  string
}

func (f HookedFiles) Open(path string, writable bool) (store.File, error) {
	d, err := f.Files.Open(path, writable)
	if err != nil {
		return nil, err
	}
	return hookedDisk{d, f.Hooks, path}, nil
}

func (f HookedFiles) Create(path string) (store.File, error) {
	if f.Hooks.Create != nil {
		if err := f.Hooks.Create(path); err != nil {
			return nil, err
		}
	}
	d, err := f.Files.Create(path)
	if err != nil {
		return nil, err
	}
	return hookedDisk{d, f.Hooks, path}, nil
}

func (d hookedDisk) Flush() error {
	if d.hooks.Flush != nil {
		if err := d.hooks.Flush(d.path); err != nil {
			return err
		}
	}
	return d.File.Flush()
}

func (d hookedDisk) Failed() error {
	if d.hooks.Failed != nil {
		return d.hooks.Failed()
	}
	return nil
}

func (d hookedDisk) Replaced() (bool, error) {
	if d.hooks.Replaced != nil {
		if err := d.hooks.Replaced(); err != nil {
			return false, err
		}
	}
	return d.File.Replaced()
}

func (d hookedDisk) WriteAt(b []byte, offset int64) (int, error) {
	if d.hooks.Write != nil {
		if err := d.hooks.Write(offset); err != nil {
			return 0, err
		}
	}
	return d.File.WriteAt(b, offset)
}

func (d hookedDisk) Allocate(offset, size int64) error {
	if d.hooks.Allocate != nil {
		if err := d.hooks.Allocate(offset, size); err != nil {
			return err
		}
	}
	return d.File.Allocate(offset, size)
}

func (d hookedDisk) Map(offset int64, size int, writable bool) (store.Mapping, error) {
	if d.hooks.Mapping != nil {
		if err := d.hooks.Mapping(writable); err != nil {
			return nil, err
		}
	}
	return d.File.Map(offset, size, writable)
}

// OpenHooked opens a cache on a real file. The hooks inject failures into its calls.
func OpenHooked(t *testing.T, path string, o *xpwc.Options) (*xpwc.Cache, *Hooks) {
	t.Helper()
	c, err := OpenAlone(path, o, osdisk.Files{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	h := &Hooks{}
	if Disk(c) != nil {
		SetDisk(c, hookedDisk{Disk(c), h, path})
	}
	SetFiles(c, HookedFiles{Files(c), h})
	return c, h
}
