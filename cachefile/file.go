// Package cachefile reads files of packed weights, and writes new ones from their entries. It reads the native files of
// package xpwc (docs/format.md) and the files of ExecuTorch's XNNWeightsCache (pull request 19988). It needs neither
// XNNPACK nor cgo.
//
// A [File] is opened for reading only and without a lock, also while others write to it: it shows the generation that
// was in force when it was opened, whose bytes nobody changes. Nothing that is read is trusted: damage is an error with
// the place. [Verify] checks everything and lists all that is wrong. A cache in a section of another file, such as the
// model's, or in memory is read with [NewFile]. Nothing is mapped: bytes are read when they are asked for.
//
//	f, err := cachefile.Open("model.xpwc")
//	for entry, err := range f.Entries() { … }
//	err = f.Write(file, func(e cachefile.Entry) bool { return e.Layout == here }, cachefile.WriteOptions{})
package cachefile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"

	"xpwc/internal/digest"
	"xpwc/internal/fd"
	"xpwc/internal/format"
)

// A Format is a kind of cache file.
type Format string

// The formats. ExecuTorch finds no packed weights in a native file; [File.Write] makes a file of its own format of one.
const (
	Native Format = "native"
	XPWC2  Format = "xpwc2" // ExecuTorch's, version 2
)

// A Digest is a 128-bit XXH3 hash, most significant byte first. As text, also in JSON, it is 32 hexadecimal digits.
type Digest = digest.Digest

// A File is an open cache file. Its methods except Close may be called from several goroutines.
type File struct {
	r      io.ReaderAt
	size   uint64
	opened *os.File // that r is, if it is ours: it is closed with this, and may have grown while its header was read
	path   string   // of the file, or ""
	format Format

	id    [16]byte
	slots [2]format.StoredSlot
	slot  format.Slot   // the generation in force
	index *format.Index // nil while nothing was committed

	foreign []Entry // in ExecuTorch's file, by offset
	indexAt uint64  // where the index in ExecuTorch's file begins, or the note before the index
	note    string
}

// Open opens the regular file at path for reading. The error matches ErrNotCache, ErrVersion or ErrDamaged if the
// file is not a cache, not of this version, or if its header or the root of its index is damaged; it is the system's
// if it cannot be read. Other damage is an error where it is read. The caller closes the file.
func Open(path string) (*File, error) {
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	return f.usable(f.read())
}

// NewFile reads a cache of size bytes from r, which may be a section of another file: packed weights in the file of
// their model are read with an [io.SectionReader]. Offsets of entries, of the segments of [File.Map] and of a
// [Problem] count from the start of r. It returns the errors of Open, with a path only if r reads an [os.File] or a
// section of one, and ErrDamaged also if r ends before size. r remains the caller's: it is read where and when the File
// is asked for something, by several goroutines if the File is, must go on giving the same bytes, and is not closed by
// Close. A file that others write to is read with Open, which knows that it grows.
func NewFile(r io.ReaderAt, size int64) (*File, error) {
	f, findings, err := newFile(r, size)
	if err != nil {
		return nil, err
	}
	return f.usable(findings, nil)
}

// Close closes the file that Open opened. After NewFile it does nothing.
func (f *File) Close() error {
	if f.opened == nil {
		return nil
	}
	return f.opened.Close()
}

// Path returns the path that the file was opened under, "" if NewFile was given something else than a file.
func (f *File) Path() string { return f.path }

// A finding is a problem that opening found. One that is fatal leaves nothing to be read.
type finding struct {
	*Problem
	fatal bool
}

// open opens a file of which nothing is read yet.
func open(path string) (*File, error) {
	file, _, err := fd.OpenRegular(path)
	if errors.Is(err, fd.ErrNotRegular) {
		err = fmt.Errorf("%s: not a regular file: %w", path, ErrNotCache)
	}
	if err != nil {
		return nil, err
	}
	return &File{r: file, opened: file, path: path}, nil
}

// newFile is read for the arguments of NewFile.
func newFile(r io.ReaderAt, size int64) (*File, []finding, error) {
	f := &File{r: io.NewSectionReader(r, 0, size), size: uint64(size), path: pathOf(r)}
	if size < 0 {
		return nil, nil, f.wrap(fmt.Errorf("%d bytes: %w", size, ErrNotCache))
	}
	if size > 0 {
		switch n, err := r.ReadAt(make([]byte, 1), size-1); {
		case n == 1:
		case errors.Is(err, io.EOF):
			f.format = Native
			p := f.problem(f.size-1, "the cache ends before this, the last of its %d bytes", size)
			return f, []finding{{p, true}}, nil
		default:
			return nil, nil, err
		}
	}
	findings, err := f.read()
	return f, findings, err
}

// pathOf returns the path of the file that r reads, whole or a section of it, or "".
func pathOf(r io.ReaderAt) string {
	if section, ok := r.(*io.SectionReader); ok {
		r, _, _ = section.Outer()
	}
	if file, ok := r.(interface{ Name() string }); ok {
		return file.Name()
	}
	return ""
}

// usable returns the file, unless something is so wrong with it that there is nothing to be read.
func (f *File) usable(findings []finding, err error) (*File, error) {
	for _, p := range findings {
		if err == nil && p.fatal {
			err = p.Problem
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// wrap puts the path, if there is one, before an error.
func (f *File) wrap(err error) error {
	if f.path == "" {
		return err
	}
	return fmt.Errorf("%s: %w", f.path, err)
}

// read reads what there is to read before the entries.
func (f *File) read() ([]finding, error) {
	header, err := f.readHeader()
	if err != nil {
		return nil, err
	}
	if f.size <= format.HeaderSize && format.Blank(header) {
		f.format = Native // created and not begun
		return nil, nil
	}
	h, err := format.DecodeHeader(header)
	switch {
	case errors.Is(err, format.ErrNotCache):
		return f.readForeign(header)
	case errors.Is(err, format.ErrVersion):
		return nil, f.wrap(err)
	case err != nil:
		f.format = Native
		return []finding{{f.problem(0, "%v", err), true}}, nil
	}
	f.format, f.id, f.slot, f.slots = Native, h.ID, h.Current, h.Slots
	return f.readIndex()
}

// readHeader reads the header block, or as much of it as the file has, and the size of a file that may grow. While
// another process commits, a read may return half of one slot and half of another, or a size less than the slot's: then
// it reads again.
func (f *File) readHeader() (header []byte, err error) {
	const attempts = 5
	for range attempts {
		prev := header
		header = make([]byte, format.HeaderSize)
		n, err := f.r.ReadAt(header, 0)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		if header = header[:n]; prev != nil && bytes.Equal(header, prev) {
			break
		}
		if f.opened != nil {
			info, err := f.opened.Stat()
			if err != nil {
				return nil, err
			}
			f.size = uint64(info.Size())
		}
	}
	return header, nil
}

// readIndex reads the index of the generation in force.
func (f *File) readIndex() (findings []finding, err error) {
	inForce := fmt.Sprintf("generation %d is in force", f.slot.Generation)
	if f.slot.Generation == 0 {
		inForce = "no generation is in force"
	}
	for parity, s := range f.slots {
		if s.Torn {
			p := f.problem(s.Offset, "the slot of %s generations has a wrong checksum: damaged, or cut off by a crash "+
				"while it was written; %s", [2]string{"even", "odd"}[parity], inForce)
			findings = append(findings, finding{p, false})
		}
	}
	slot := f.slot
	if slot.Generation == 0 {
		return findings, nil
	}
	if slot.End > f.size {
		p := f.problem(f.size, "the file ends here, generation %d at %d", slot.Generation, slot.End)
		findings = append(findings, finding{p, true})
	}
	if slot.IndexOffset+slot.IndexSize > f.size || slot.IndexSize > math.MaxInt {
		return findings, nil
	}
	index, err := loaded(format.LoadIndex(f.r, slot))
	switch {
	case errors.Is(err, ErrDamaged):
		return append(findings, finding{f.problem(slot.IndexOffset, "%v", err), true}), nil
	case err != nil:
		return nil, f.wrap(err)
	}
	f.index = index
	return findings, nil
}

// loaded returns an index that was loaded, unless its names are more than there may be memory for.
func loaded(index *format.Index, err error) (*format.Index, error) {
	if err == nil {
		_, err = index.NameBytes()
	}
	return index, err
}

// readForeign reads ExecuTorch's index, of a file that begins with a header's bytes.
func (f *File) readForeign(header []byte) ([]finding, error) {
	trailer, version, err := format.DecodeForeign(header, f.r, f.size)
	switch {
	case errors.Is(err, format.ErrNotCache):
		return nil, f.wrap(ErrNotCache)
	case errors.Is(err, format.ErrVersion):
		return nil, f.wrap(fmt.Errorf("ExecuTorch's format, version %d: %w", version, err))
	case errors.Is(err, format.ErrHeader), errors.Is(err, format.ErrEmptyHeader):
		f.format = Native
		return []finding{{f.problem(0, "%v", err), true}}, nil
	}
	f.format = XPWC2
	if errors.Is(err, format.ErrDamaged) {
		return []finding{{f.problem(f.size-format.FooterSize, "%v", err), true}}, nil
	}
	if err != nil {
		return nil, err
	}
	f.indexAt = f.size - format.TrailerSize(trailer)
	for _, e := range trailer {
		f.foreign = append(f.foreign, Entry{Name: e.Name, Seed: e.Seed, Offset: int64(e.Offset), Size: int64(e.Size)})
	}
	slices.SortStableFunc(f.foreign, byOffset)
	payloads := uint64(0)
	for _, e := range trailer {
		payloads = max(payloads, e.Offset+e.Size)
	}
	var note []byte
	note, f.indexAt, err = format.DecodeNote(f.r, payloads, f.indexAt)
	f.note = string(note)
	return nil, err
}
