package xpwc

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
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
	c, err := newHandle(place{path: name, descriptor: file}, o, descriptorFiles{file, name, o.AllowUnsafeFile}, nil)
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return c, nil
}

// descriptorFiles is a file that is known by a descriptor alone.
type descriptorFiles struct {
	file     *os.File
	name     string
	insecure bool
}

func (h descriptorFiles) Open(path string, writable bool) (store.File, error) {
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
	return descriptorFile{d}, nil
}

func (h descriptorFiles) Create(path string) (store.File, error) {
	return nil, h.refuse("create", path)
}
func (h descriptorFiles) Rename(path, _ string) error { return h.refuse("rename", path) }
func (h descriptorFiles) Remove(path string) error    { return h.refuse("remove", path) }
func (descriptorFiles) SyncDir(string) error          { return nil }

// refuse returns the error of what needs the file's directory.
func (h descriptorFiles) refuse(op, path string) error {
	err := fmt.Errorf("only a descriptor of the file is known: %w", fs.ErrPermission)
	return &fs.PathError{Op: op, Path: path, Err: err}
}

// descriptorFile is one opening of such a file.
type descriptorFile struct{ *osdisk.Disk }

func (descriptorFile) Replaced() (bool, error) { return false, nil }
func (d descriptorFile) Close() error          { return d.File.Close() }

// OpenSection opens a cache that is part of another file, the size bytes at offset: a complete cache file, embedded for
// instance beside the weights that it was packed from, as pull request 23069 of ONNX Runtime has it. It is mapped where
// it lies, so offset must be a multiple of what the system maps files in: ErrMisaligned if it is not; a multiple of
// 65,536 is one everywhere.
//
// A section is read-only, as with Options.ReadOnly: what is not in it is packed into private memory, and counted. All
// else is as for Open, the checks of the file's owner and mode too. Handles of one section share what is mapped.
//
// Errors: those of Open, ErrMisaligned, ErrDamaged if the file ends before the section does, fs.ErrNotExist.
func OpenSection(path string, offset, size int64, options *Options) (*Cache, error) {
	o := options.withDefaults()
	o.ReadOnly = true
	path, err := canonical(path, o.AllowUnsafeFile)
	if err != nil {
		return nil, fmt.Errorf("open cache: %w", err)
	}
	files := osdisk.Files{Insecure: o.AllowUnsafeFile}
	whole, err := sizeOf(files, path)
	if err != nil {
		return nil, fmt.Errorf("open cache: %w", err)
	}
	name := fmt.Sprintf("cache %s, %d bytes at %d", path, size, offset)
	switch granularity := int64(osdisk.Granularity()); {
	case offset < 0 || size <= 0 || size > math.MaxInt64-offset || offset+size > whole:
		return nil, fmt.Errorf("%s: the file has %d bytes: %w", name, whole, ErrDamaged)
	case offset%granularity != 0:
		return nil, fmt.Errorf("%s: this system maps files at multiples of %d bytes: %w",
			name, granularity, ErrMisaligned)
	}
	return openPlace(place{path: path, offset: offset, size: size}, o, sectionFiles{files, offset, size}, nil)
}

// sizeOf returns the size of a file that can be opened.
func sizeOf(files store.Files, path string) (int64, error) {
	d, err := files.Open(path, false)
	if err != nil {
		return 0, err
	}
	size, err := d.Size()
	return size, errors.Join(err, d.Close())
}

// sectionFiles opens a section of a file as a disk, for reading alone.
type sectionFiles struct {
	osdisk.Files
	offset, size int64
}

func (s sectionFiles) Open(path string, _ bool) (store.File, error) {
	d, err := s.Files.Open(path, false)
	if err != nil {
		return nil, err
	}
	return sectionDisk{d, s.offset, s.size}, nil
}

// sectionDisk is a section of a file that is open for reading.
type sectionDisk struct {
	store.File
	offset, size int64
}

func (d sectionDisk) ReadAt(b []byte, offset int64) (int, error) {
	return io.NewSectionReader(d.File, d.offset, d.size).ReadAt(b, offset)
}

func (d sectionDisk) Size() (int64, error) {
	whole, err := d.File.Size()
	return max(0, min(d.size, whole-d.offset)), err
}

func (d sectionDisk) Map(offset int64, size int, _ bool) (store.Mapping, error) {
	return d.File.Map(d.offset+offset, size, false)
}
