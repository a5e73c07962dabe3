package osdisk

import (
	"fmt"
	"io/fs"
	"os"

	"xpwc/internal/fd"
	"xpwc/internal/store"
)

// A Descriptor is a file that is known by a descriptor alone, see [store.Files]. It has no directory.
type Descriptor struct {
	File     *os.File
	Name     string // the one path that opens the file
	Insecure bool   // as of [Files]
}

func (o Descriptor) Open(path string, writable bool) (store.File, error) {
	if path != o.Name { // a temporary file
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	open := fd.Duplicate
	if writable {
		open = fd.Reopen
	}
	f, err := open(o.File)
	if err != nil {
		return nil, err
	}
	d, err := adopt(f, path, writable, o.Insecure)
	if err != nil {
		return nil, err
	}
	return descriptorDisk{d}, nil
}

func (o Descriptor) Create(path string) (store.File, error) { return nil, o.refuse("create", path) }
func (o Descriptor) Rename(path, _ string) error            { return o.refuse("rename", path) }
func (o Descriptor) Remove(path string) error               { return o.refuse("remove", path) }
func (Descriptor) SyncDir(string) error                     { return nil }

// refuse returns the error of an operation that needs the file's directory.
func (Descriptor) refuse(op, path string) error {
	err := fmt.Errorf("only a descriptor of the file is known: %w", fs.ErrPermission)
	return &fs.PathError{Op: op, Path: path, Err: err}
}

// descriptorDisk is one opening of such a file.
type descriptorDisk struct{ *Disk }

func (descriptorDisk) Replaced() (bool, error) { return false, nil }
func (d descriptorDisk) Close() error          { return d.File.Close() }
