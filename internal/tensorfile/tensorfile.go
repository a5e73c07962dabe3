// Package tensorfile gives tensors that lie in a mapped file the way a data map must: in place where C code can read them
// there, with an identity, and with pages that go back to the system once they were read.
package tensorfile

import (
	"errors"
	"fmt"
	"io/fs"

	"xpwc"
	"xpwc/internal/mapped"
)

// overread is how far behind the end of a tensor kernels may read: XNN_EXTRA_BYTES of xnnpack.h, the greatest over all targets.
const overread = 128

// Place is where a tensor's bytes lie in a file.
type Place struct {
	Offset, Size int64
	// Alignment is the power of two, at least 1, that the address must be a multiple of for C code to read the elements.
	Alignment int64
}

// inPlace reports whether C code can read the tensor in a mapping of the given length.
func (p Place) inPlace(mapped int64) bool {
	return p.Offset%p.Alignment == 0 && p.Offset+p.Size+overread <= mapped
}

// In returns the bytes. The place must have been checked against the file; of a closed file's bytes, which are nil, it returns nil.
func (p Place) In(file []byte) []byte {
	if file == nil {
		return nil
	}
	end := p.Offset + p.Size
	return file[p.Offset:end:end]
}

// Tensor returns the tensor at p, which must have been checked against the file. Its content is computed, by copying, only if C
// code could not read it in place. Where the file is closed, the error matches closed and names it.
func Tensor(f *mapped.File, p Place, closed error) (xpwc.Tensor, error) {
	read := func(do func(b []byte)) error {
		err := f.View(func(data []byte) error { do(p.In(data)); return nil })
		if errors.Is(err, fs.ErrClosed) {
			return fmt.Errorf("%s: %w", f.Path(), closed)
		}
		return err
	}
	t := xpwc.Tensor{
		Identity: xpwc.Identity{
			Source: f.Path(),
			Stamp:  f.StampOf(fmt.Sprintf("%d+%d", p.Offset, p.Size)),
			Watch:  f,
			Digest: func() (d xpwc.Digest, err error) {
				err = read(func(b []byte) { d = xpwc.DigestOf(b) })
				return d, err
			},
		},
		Evict: func() {
			if data := f.Data(); data != nil {
				f.Drop(p.In(data))
			}
		},
	}
	inPlace := p.inPlace(f.Readable())
	if err := read(func(b []byte) {
		if inPlace {
			t.Data = b
		}
	}); err != nil {
		return xpwc.Tensor{}, err
	}
	if !inPlace {
		t.Size = int(p.Size)
		t.Fill = func(dst []byte) error {
			if len(dst) != t.Size {
				return fmt.Errorf("%d bytes of memory for a tensor of %d", len(dst), t.Size)
			}
			return read(func(b []byte) { copy(dst, b) })
		}
	}
	return t, nil
}
