// Package mapped maps files read-only into memory.
package mapped

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"
	"unsafe"

	"xpwc/internal/fd"
)

// File is a file mapped read-only as a whole, or a section of it. The memory lies outside the Go heap, so C code may
// keep pointers into it until Close. It may also be memory that is a copy of other content: see [Read]. The file must
// not be changed in place until then; where it was cut off, reading ends the process. Replacing it by another is
// harmless. A File keeps the descriptor, by which it is found wherever its name went. Methods may be called from many
// goroutines.
type File struct {
	path   string
	offset int64 // of Data in the file
	state  State // when it was opened

	stamp     func() string // computes it once; nil without one
	unstamped string        // why it has no stamp, if it has none

	mu      sync.RWMutex // held for reading while the mapping is read
	mapping []byte       // of the whole file; nil once closed
	data    []byte       // the part of the mapping that is this File
	file    *os.File     // nil for memory: see Read

	dropped drops
}

// A Section is a part of a file, in bytes. The zero Section is the whole file.
type Section struct{ Offset, Size int64 }

// ErrNotRegular: what is to be mapped is a directory, a pipe or the like.
var ErrNotRegular = fd.ErrNotRegular

// ErrOutside: a section does not lie in its file.
var ErrOutside = errors.New("the section lies outside the file")

// Open maps the regular file at path; an empty one is a File without bytes. The error is a *fs.PathError that has the
// path as given and what the operating system returned. The caller closes the file.
func Open(path string) (*File, error) { return OpenSection(path, Section{}) }

// OpenSection maps a file as Open does, and returns a section of it. The error matches [ErrOutside] if the section does
// not lie in the file.
func OpenSection(path string, s Section) (*File, error) {
	f, err := open(path, s)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: cause(err)}
	}
	return f, nil
}

// cause returns what an error of a path is about.
func cause(err error) error {
	if pathErr := (*fs.PathError)(nil); errors.As(err, &pathErr) {
		return pathErr.Err
	}
	return err
}

// OpenFile maps an open file, which stays the caller's.
func OpenFile(f *os.File) (*File, error) { return OpenFileSection(f, Section{}) }

// OpenFileSection maps an open file, which stays the caller's, and returns a section of it. Errors: as of OpenSection.
func OpenFileSection(f *os.File, s Section) (*File, error) {
	dup, err := fd.Duplicate(f)
	if err != nil {
		return nil, err
	}
	m, err := newFile(dup, f.Name(), s)
	if err != nil {
		return nil, errors.Join(&fs.PathError{Op: "map", Path: f.Name(), Err: cause(err)}, dup.Close())
	}
	return m, nil
}

func open(path string, s Section) (*File, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	f, _, err := fd.OpenRegular(absolute)
	if err != nil {
		return nil, err
	}
	m, err := newFile(f, absolute, s)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return m, nil
}

// newFile takes over f.
func newFile(f *os.File, path string, s Section) (*File, error) {
	clock := time.Now() // before the file is looked at: what comes later is younger
	others := writersOf(f.Fd(), clock)
	state, err := look(f.Fd(), others, clock)
	if err != nil {
		return nil, err
	}
	size := int(state.Size)
	if int64(size) != state.Size {
		return nil, fmt.Errorf("%d bytes are too many to map", state.Size)
	}
	if s == (Section{}) {
		s.Size = state.Size
	}
	if s.Offset < 0 || s.Size < 0 || s.Offset > state.Size || s.Size > state.Size-s.Offset {
		return nil, fmt.Errorf("%w: %d bytes at byte %d of %d", ErrOutside, s.Size, s.Offset, state.Size)
	}
	m := &File{path: path, offset: s.Offset, state: state, mapping: []byte{}, file: f,
		unstamped: state.unstamped(others, clock)}
	if size > 0 { // there are no empty mappings
		if m.mapping, err = Map(f, 0, size, false); err != nil {
			return nil, err
		}
	}
	m.data = m.mapping[s.Offset:][:s.Size:s.Size]
	if state.rests(others, clock) {
		m.stamp = sync.OnceValue(func() string {
			defer runtime.KeepAlive(f)
			return state.stamp(f.Fd(), clock)
		})
		go m.stamp() // it may wait for the disk, and a model's graph is read meanwhile
	}
	return m, nil
}

// Path returns the file's absolute path.
func (f *File) Path() string { return f.path }

// Offset returns where in the file Data begins, in bytes. It is also the distance of Data from the beginning of a page
// in memory.
func (f *File) Offset() int64 { return f.offset }

// Stamp is what the function Stamp returned when the file was opened; it may be empty. It waits for the disk as that
// does.
func (f *File) Stamp() string {
	if f.stamp == nil {
		return ""
	}
	return f.stamp()
}

// Changed reports whether the content may have changed since the file was opened, as [ChangedSince] defines it. It
// waits for a moment if it must. Another file at the path is no change. After Close the error matches [fs.ErrClosed]
// and names the file.
func (f *File) Changed() (bool, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.data == nil {
		return false, &fs.PathError{Op: "stat", Path: f.path, Err: fs.ErrClosed}
	}
	if f.file == nil {
		return false, nil
	}
	changed, err := ChangedSince(f.file.Fd(), f.state)
	if err != nil {
		return false, &fs.PathError{Op: "stat", Path: f.path, Err: err}
	}
	return changed, nil
}

// Readable returns how many bytes can be read from where Data begins: to the end of the file's last page. Bytes after
// the file's end are zero.
func (f *File) Readable() int64 {
	page := int64(os.Getpagesize())
	return (f.state.Size+page-1)/page*page - f.offset
}

// A Number is a type that [Numbers] returns.
type Number interface {
	int8 | uint8 | int16 | uint16 | int32 | uint32 | int64 | uint64 | float32 | float64
}

// Numbers returns the little-endian numbers that b consists of in place, and false where that is impossible: b does not
// lie as such numbers must in memory, or the machine has them the other way round.
func Numbers[T Number](b []byte) ([]T, bool) {
	var zero T
	data, size := unsafe.Pointer(unsafe.SliceData(b)), unsafe.Sizeof(zero)
	little := binary.NativeEndian.Uint16([]byte{1, 0}) == 1
	if !little || uintptr(data)%size != 0 {
		return nil, false
	}
	return unsafe.Slice((*T)(data), len(b)/int(size)), true
}

// Data returns the mapping, and nil after Close. Close makes the memory unreadable: use View to read while another
// goroutine may close the file.
func (f *File) Data() []byte {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.data
}

// ReadAt implements [io.ReaderAt]. It reads the file and not the mapping, so that a read failure of the disk is an
// error instead of a signal that ends the process. It returns the errors of View, and io.EOF after the end.
func (f *File) ReadAt(b []byte, offset int64) (n int, err error) {
	err = f.View(func(data []byte) error {
		if offset < 0 || offset >= int64(len(data)) {
			return io.EOF
		}
		if f.file == nil {
			n = copy(b, data[offset:])
		} else if n, err = f.file.ReadAt(b[:min(len(b), len(data[offset:]))], f.offset+offset); err != nil {
			return &fs.PathError{Op: "read", Path: f.path, Err: cause(err)}
		}
		if n < len(b) {
			return io.EOF
		}
		return nil
	})
	return n, err
}

// View calls do with the mapping, which do must neither keep nor close: Close waits for it. View returns what do
// returns, or, after Close, an error that matches [fs.ErrClosed] and names the file.
func (f *File) View(do func(data []byte) error) error {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.data == nil {
		return &fs.PathError{Op: "read", Path: f.path, Err: fs.ErrClosed}
	}
	return do(f.data)
}

// Drop gives back the memory of the pages that lie entirely in b, a part of Data, or between parts that were dropped.
// Small parts wait for others, 4 MiB in all. The pages are clean: whoever reads them again gets them from the file.
// Nothing is lost if it cannot be done, since the system takes clean pages back when it needs them; so there is no
// error, also not if b is no part of Data or the file is closed.
func (f *File) Drop(b []byte) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.file == nil { // memory has no other place to get its pages from
		return
	}
	offset := address(b) - address(f.mapping) // great if b begins before the mapping
	if offset > uintptr(len(f.mapping)) || uintptr(len(b)) > uintptr(len(f.mapping))-offset {
		return
	}
	page := os.Getpagesize()
	for _, p := range f.dropped.add(part{int(offset), int(offset) + len(b)}) {
		start, end := (p.start+page-1)&^(page-1), p.end&^(page-1)
		if start < end {
			dropPages(f.mapping[start:end])
		}
	}
}

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// Close unmaps the file. Closing twice is harmless.
func (f *File) Close() error {
	f.Stamp() // which uses the descriptor, and may wait
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.data == nil {
		return nil
	}
	mapping := f.mapping
	f.mapping, f.data = nil, nil
	var err error
	if f.file != nil {
		err = f.file.Close()
	}
	switch {
	case len(mapping) == 0:
	case f.file == nil:
		err = release(mapping)
	default:
		err = errors.Join(err, unmapFile(mapping))
	}
	if err != nil {
		return &fs.PathError{Op: "unmap", Path: f.path, Err: err}
	}
	return nil
}
