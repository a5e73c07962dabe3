package xpwc

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"

	"xpwc/internal/fd"
	"xpwc/internal/osdisk"
	"xpwc/internal/store"
)

// OpenFile opens the cache in an open file, for programs in a sandbox that are given a descriptor and can open no path.
// The file stays the caller's, who may close it as soon as OpenFile has returned. An empty file is a cache without
// entries.
//
// The cache writes to the file if that was opened for reading and writing and the system can open it once more, as
// Linux can where /proc is mounted: the writer's lock belongs to one opening of a file, and a descriptor that was
// handed over shares it. Otherwise it is as with Options.ReadOnly. Nothing is put in the file's place, whatever its
// name leads to: a damaged file, one of ExecuTorch, and one of an older format version stay as they are, and what they
// lack is packed into private memory; Compact and Prune return an error, so that dead bytes and Options.MaxBytes have
// no effect. When a flush of the file has failed, what was not committed is lost (ErrLost), but the file stays where it
// is. It is written to again after a minute, when the sessions that use what was packed into it are closed.
//
// Each call gives a cache of its own, also for a file that is open already: two of them are to each other as two
// processes. Cache.Path returns the name that f has for the file, or "a descriptor". Errors: those of Open.
func OpenFile(f *os.File, options *Options) (*Cache, error) {
	if f == nil {
		return nil, fmt.Errorf("open cache: no file: %w", os.ErrInvalid)
	}
	file, err := fd.Duplicate(f)
	if err != nil {
		return nil, fmt.Errorf("open cache: %w", err)
	}
	name := cmp.Or(f.Name(), "a descriptor") // no path is a cache in memory
	o := options.withDefaults()
	c, err := newHandle(place{path: name}, o, handedOver{file, name, o.AllowUnsafeFile}, file.Close)
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return c, nil
}

// handedOver is a file that is known by a descriptor alone.
type handedOver struct {
	file     *os.File
	name     string
	insecure bool
}

func (h handedOver) Open(path string, writable bool) (store.File, error) {
	if path != h.name { // a name beside it
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	open := fd.Duplicate
	if writable {
		open = fd.Reopen
	}
	f, err := open(h.file)
	if err != nil {
		return nil, err
	}
	d, err := osdisk.Of(f, path, writable, h.insecure)
	if err != nil {
		return nil, err
	}
	return handedOverDisk{d}, nil
}

func (h handedOver) Create(path string) (store.File, error) { return nil, h.refuse("create", path) }
func (h handedOver) Rename(from, _ string) error            { return h.refuse("rename", from) }
func (h handedOver) Remove(path string) error               { return h.refuse("remove", path) }
func (handedOver) SyncDir(string) error                     { return nil }

// refuse returns the error of what needs the file's directory.
func (h handedOver) refuse(op, path string) error {
	err := fmt.Errorf("only a descriptor of the file is known: %w", fs.ErrPermission)
	return &fs.PathError{Op: op, Path: path, Err: err}
}

// handedOverDisk is one opening of such a file.
type handedOverDisk struct{ *osdisk.Disk }

func (handedOverDisk) Replaced() (bool, error) { return false, nil }
func (d handedOverDisk) Close() error          { return d.File.Close() }
