package xpwc

import (
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"

	"xpwc/internal/osdisk"
	"xpwc/internal/store"
)

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
	info, err := os.Lstat(path)
	if err == nil && info.Mode()&fs.ModeSymlink != 0 && o.AllowUnsafeFile {
		info, err = os.Stat(path)
	}
	if err == nil {
		err = osdisk.Acceptable(path, nil, info, o.AllowUnsafeFile)
	}
	if err != nil {
		return nil, fmt.Errorf("open cache: %w", err)
	}
	name := fmt.Sprintf("cache %s, %d bytes at %d", path, size, offset)
	switch granularity := int64(osdisk.Granularity()); {
	case offset < 0 || size <= 0 || size > math.MaxInt64-offset || offset+size > info.Size():
		return nil, fmt.Errorf("%s: the file has %d bytes: %w", name, info.Size(), ErrDamaged)
	case offset%granularity != 0:
		return nil, fmt.Errorf("%s: this system maps files at multiples of %d bytes: %w",
			name, granularity, ErrMisaligned)
	}
	files := osdisk.Files{Insecure: o.AllowUnsafeFile}
	return openPlace(place{path, offset, size}, o, sectionFiles{files, offset, size})
}

// sectionFiles opens a section of a file as a disk.
type sectionFiles struct {
	files        osdisk.Files
	offset, size int64
}

func (s sectionFiles) Open(path string, _ bool) (store.File, error) {
	d, err := s.files.Open(path, false)
	if err != nil {
		return nil, err
	}
	return sectionDisk{d, s.offset, s.size}, nil
}

func (sectionFiles) Create(string) (store.File, error) { return nil, ErrReadOnly }
func (sectionFiles) Rename(_, _ string) error          { return ErrReadOnly }
func (sectionFiles) Remove(string) error               { return ErrReadOnly }
func (sectionFiles) SyncDir(string) error              { return ErrReadOnly }

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

func (d sectionDisk) Reader() (store.Reader, error) {
	r, err := d.File.Reader()
	return sectionReader{r, d.offset}, err
}

// sectionReader reads a section.
type sectionReader struct {
	store.Reader
	offset int64
}

func (r sectionReader) ReadAt(b []byte, offset int64) (int, error) {
	return r.Reader.ReadAt(b, r.offset+offset)
}

func (sectionDisk) WriteAt([]byte, int64) (int, error) { return 0, ErrReadOnly }
func (sectionDisk) Allocate(_, _ int64) error          { return ErrReadOnly }
func (sectionDisk) Truncate(int64) error               { return ErrReadOnly }
func (sectionDisk) TryLock() (bool, error)             { return false, ErrReadOnly }
