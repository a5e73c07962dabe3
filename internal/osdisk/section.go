package osdisk

import (
	"io"

	"xpwc/internal/store"
)

// A Section is a part of a file, which is opened for reading alone, see [store.Files]. Offset is a multiple of
// Granularity.
type Section struct {
	Files
	Offset, Size int64
}

func (s Section) Open(path string, _ bool) (store.File, error) {
	d, err := s.Files.Open(path, false)
	if err != nil {
		return nil, err
	}
	return sectionDisk{d, s.Offset, s.Size}, nil
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
