package cachefile

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
)

// OpenSection opens a cache that is part of another file, the size bytes at offset, as xpwc.OpenSection does: one that was embedded beside
// the weights that it was packed from. It is a whole cache file, of which all that [Open] says holds. Offsets, those of entries, of what
// [File.Map] draws and of a [Problem], are counted from where it begins, as in a file of its own. The error matches ErrDamaged if the
// file ends before the section does.
func OpenSection(path string, offset, size int64) (*File, error) {
	s, err := section(path, offset, size)
	if err != nil {
		return nil, err
	}
	return opened(open(path, s))
}

// VerifySection is [Verify] for a cache that is part of another file, as [OpenSection] opens it.
func VerifySection(path string, offset, size int64, progress func(done, total int64)) ([]Problem, error) {
	s, err := section(path, offset, size)
	if err != nil {
		return nil, err
	}
	return verify(path, s, progress)
}

// A span is where in a file the cache is.
type span struct{ offset, size int64 }

// everything is the span of a file that is nothing but a cache, and may grow.
var everything = span{0, math.MaxInt64}

// section checks where a section is said to be.
func section(path string, offset, size int64) (span, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return span{}, err
	case offset < 0 || size <= 0 || size > math.MaxInt64-offset:
		return span{}, fmt.Errorf("%s: %w: no section of a file has %d bytes at %d", path, ErrNotCache, size, offset)
	case info.Mode().IsRegular() && offset+size > info.Size():
		return span{}, &Problem{Path: path, Offset: max(0, info.Size()-offset),
			What: fmt.Sprintf("the file ends here, the packed weights at %d", size)}
	}
	return span{offset, size}, nil
}

// of is what reads the span of a file.
func (s span) of(f *os.File) io.ReaderAt { return io.NewSectionReader(f, s.offset, s.size) }

// length is how many bytes of the span a file of that size has.
func (s span) length(file int64) uint64 { return uint64(max(0, min(s.size, file-s.offset))) }

// opened returns a file with which nothing is so wrong that there is nothing to be read.
func opened(f *File, problems []finding, err error) (*File, error) {
	if err != nil {
		return nil, err
	}
	for _, p := range problems {
		if p.fatal {
			return nil, errors.Join(p.Problem, f.Close())
		}
	}
	return f, nil
}
