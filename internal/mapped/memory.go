package mapped

import (
	"fmt"
	"io"
	"os"
)

// Read returns a File of content that is in no file of its own: a copy, in private memory outside the Go heap, which
// nobody can change. It has no stamp: only its content identifies it. The name is its Path. The error names it, and is
// the reader's, or io.ErrUnexpectedEOF if the reader has fewer bytes. The caller closes the File.
func Read(name string, r io.ReaderAt, size int64) (*File, error) {
	f, err := read(r, size)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	f.path = name
	return f, nil
}

func read(r io.ReaderAt, size int64) (*File, error) {
	page := int64(os.Getpagesize())
	if size < 0 || int64(int(size)) != size || size+page < size {
		return nil, fmt.Errorf("%d bytes cannot be in memory", size)
	}
	f := &File{state: State{Size: size}, mapping: []byte{}}
	if size > 0 { // there are no empty mappings
		memory, err := anonymous(int((size + page - 1) / page * page))
		if err != nil {
			return nil, err
		}
		f.mapping = memory
	}
	f.data = f.mapping[:size:size]
	if err := f.fill(r); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// fill copies the content and makes the memory read-only.
func (f *File) fill(r io.ReaderAt) error {
	if len(f.data) == 0 {
		return nil
	}
	n, err := r.ReadAt(f.data, 0)
	switch {
	case n < len(f.data) && (err == nil || err == io.EOF):
		return io.ErrUnexpectedEOF
	case n < len(f.data):
		return err
	}
	return protect(f.mapping)
}
