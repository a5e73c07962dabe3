// Package tensorfile gives tensors that lie in a mapped file the way a data map must: in place where C code can read
// them there, with an identity, and with pages that go back to the system once they were read.
package tensorfile

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/bits"
	"strconv"

	"xpwc"
	"xpwc/internal/mapped"
)

// Overread is how far after the end of a tensor kernels may read: XNN_EXTRA_BYTES of xnnpack.h, the greatest over all
// targets.
const Overread = 128

// ByteSize returns how many bytes a tensor has whose elements have so many bits each and lie without gaps. Even an
// empty tensor's dimensions must multiply within 63 bits.
func ByteSize(shape []int, element int) (int64, error) {
	size, empty := uint64(element), false
	for _, n := range shape {
		if n < 0 {
			return 0, fmt.Errorf("shape %v has a negative dimension", shape)
		}
		high, low := bits.Mul64(size, uint64(max(n, 1)))
		if high != 0 || low > math.MaxInt64 {
			return 0, fmt.Errorf("shape %v has more than 2^63 bits", shape)
		}
		size, empty = low, empty || n == 0
	}
	switch {
	case empty:
		return 0, nil
	case size%8 != 0:
		return 0, fmt.Errorf("shape %v of elements of %d bits does not end at a whole byte", shape, element)
	}
	return int64(size / 8), nil
}

// Place is where a tensor's bytes lie in a file.
type Place struct {
	Offset, Size int64
	// Alignment is the power of two, at least 1, that the address must be a multiple of for C code to read the
	// elements.
	Alignment int64
}

// inPlace reports whether C code can read the tensor in the file's mapping.
func (p Place) inPlace(f *mapped.File) bool {
	return (f.Offset()+p.Offset)%p.Alignment == 0 && p.Offset+p.Size+Overread <= f.Readable()
}

// In returns the bytes. The place must have been checked against the file; of a closed file's bytes, which are nil,
// it returns nil.
func (p Place) In(file []byte) []byte {
	if file == nil {
		return nil
	}
	end := p.Offset + p.Size
	return file[p.Offset:end:end]
}

// Tensor returns the tensor at p, which must have been checked against the file. Its content is computed, by copying,
// only if C code could not read it in place. Where the file is closed, the error matches xpwc.ErrClosed.
func Tensor(f *mapped.File, p Place) (xpwc.Tensor, error) {
	if !p.inPlace(f) {
		return Converted(f, p, Conversion{
			Size:   int(p.Size),
			Fill:   func(dst, stored []byte) error { copy(dst, stored); return nil },
			Digest: xpwc.DigestOf,
		})
	}
	s := source{f, p}
	t := s.tensor("", xpwc.DigestOf)
	if err := s.read(func(stored []byte) error { t.Data = stored; return nil }); err != nil {
		return xpwc.Tensor{}, err
	}
	return t, nil
}

// A Conversion computes a tensor from the bytes that are stored.
type Conversion struct {
	Name string // differs from that of any other conversion of the same bytes; "" is a copy
	Size int    // of the computed content
	// Fill computes all Size bytes of dst, whatever is in them. It may be called again.
	Fill func(dst, stored []byte) error
	// Digest is one of the stored bytes and the conversion.
	Digest func(stored []byte) xpwc.Digest
}

// Converted returns the tensor that is computed from the bytes at p, as [Tensor] does.
func Converted(f *mapped.File, p Place, c Conversion) (xpwc.Tensor, error) {
	s := source{f, p}
	t := s.tensor(c.Name, c.Digest)
	t.Size, t.Refill = c.Size, true
	t.Fill = func(dst []byte) error {
		if len(dst) != c.Size {
			return fmt.Errorf("%d bytes of memory for a tensor of %d", len(dst), c.Size)
		}
		return s.read(func(stored []byte) error { return c.Fill(dst, stored) })
	}
	if err := s.read(func([]byte) error { return nil }); err != nil {
		return xpwc.Tensor{}, err
	}
	return t, nil
}

// source is where a tensor's bytes are stored.
type source struct {
	file  *mapped.File
	place Place
}

// read calls do with the stored bytes, which it must not keep unless C code can read them in place.
func (s source) read(do func(stored []byte) error) error {
	err := s.file.View(func(data []byte) error { return do(s.place.In(data)) })
	if errors.Is(err, fs.ErrClosed) {
		return fmt.Errorf("%s: %w", s.file.Path(), xpwc.ErrClosed)
	}
	return err
}

// tensor returns a tensor, stored so or computed by a conversion, without its content. Its stamp differs from those of
// the file's other tensors.
func (s source) tensor(conversion string, digest func(stored []byte) xpwc.Digest) xpwc.Tensor {
	part := strconv.FormatInt(s.file.Offset()+s.place.Offset, 10) + "+" + strconv.FormatInt(s.place.Size, 10)
	if conversion != "" {
		part += ":" + conversion
	}
	stamp := s.file.Stamp()
	if stamp != "" {
		stamp = xpwc.FileStamp + stamp + ":" + part
	}
	return xpwc.Tensor{
		Identity: xpwc.Identity{
			Source:  s.file.Path(),
			Stamp:   stamp,
			Watch:   s.file,
			NoStamp: xpwc.Reason(s.file.Unstamped()),
			Digest: func() (d xpwc.Digest, err error) {
				err = s.read(func(stored []byte) error { d = digest(stored); return nil })
				return d, err
			},
		},
		Evict: func() {
			if data := s.file.Data(); data != nil {
				s.file.Drop(s.place.In(data))
			}
		},
	}
}
