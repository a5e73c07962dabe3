package output

import (
	"bytes"
	"cmp"
	"io"
	"os"
	"slices"
)

// pieceSize is that of the largest pages that the page cache keeps of a file on most processors.
const pieceSize = 2 << 20

// Pieces writes a file in large pieces that begin and end at multiples of their size, so that the page cache has large
// pages of it: a process that maps the file takes one page fault for each of those. What is written through a mapping
// or in small pieces has small ones.
type Pieces struct {
	f      io.WriterAt
	offset int64 // where what is not written yet begins
	buffer []byte
}

// NewPieces returns what writes a file from its beginning on. The file stays the caller's.
func NewPieces(f io.WriterAt) *Pieces { return &Pieces{f: f} }

// Write adds b. What an error is of may have come with an earlier call.
func (p *Pieces) Write(b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		rest := b[n:]
		end := p.offset + int64(len(p.buffer))
		switch room := int(pieceSize - end%pieceSize); {
		case len(rest) < room:
			p.buffer = append(p.buffer, rest...)
			return len(b), nil
		case len(p.buffer) == 0:
			whole := room + (len(rest)-room)/pieceSize*pieceSize
			_, err = p.f.WriteAt(rest[:whole], p.offset)
			p.offset += int64(whole)
			n += whole
		default:
			p.buffer = append(p.buffer, rest[:room]...)
			n += room
			err = p.Flush()
		}
	}
	return n, err
}

// MoveTo sets the offset of the next bytes. It may go back over bytes already written.
func (p *Pieces) MoveTo(offset int64) error {
	end := p.offset + int64(len(p.buffer))
	switch {
	case offset >= p.offset && offset <= end:
		p.buffer = p.buffer[:offset-p.offset]
	case offset > end && offset/pieceSize == end/pieceSize && len(p.buffer) > 0:
		p.buffer = append(p.buffer, make([]byte, offset-end)...)
	default:
		err := p.Flush()
		p.offset = offset
		return err
	}
	return nil
}

// Flush writes what is not written yet. The system may keep it in memory for some time.
func (p *Pieces) Flush() error {
	_, err := p.f.WriteAt(p.buffer, p.offset)
	p.offset += int64(len(p.buffer))
	p.buffer = p.buffer[:0]
	return err
}

// A Hole is a range of bytes that take no space on the disk, and are read as zeros.
type Hole struct{ Offset, Size int64 }

// WriteWithHoles writes bytes at an offset that is the file's end, with holes among them where the file system has
// them.
func WriteWithHoles(dst *os.File, offset int64, b []byte, holes []Hole) error {
	if err := dst.Truncate(offset + int64(len(b))); err != nil {
		return err
	}
	holes = slices.SortedFunc(slices.Values(holes), func(a, b Hole) int { return cmp.Compare(a.Offset, b.Offset) })
	done := int64(0)
	for _, h := range append(holes, Hole{Offset: int64(len(b))}) {
		if h.Offset > done {
			if _, err := dst.WriteAt(b[done:h.Offset], offset+done); err != nil {
				return err
			}
		}
		done = max(done, h.Offset+h.Size)
	}
	return nil
}

// CopySparse writes the bytes of a reader at an offset that is the file's end or follows it. It leaves pages of zeros
// out: they become holes where the file system has them.
func CopySparse(dst *os.File, offset int64, src io.Reader) error {
	const page = 4096
	zeros, buffer := make([]byte, page), make([]byte, 256*page)
	begin := offset
	for {
		n, err := io.ReadFull(src, buffer[:int64(len(buffer))-begin%page])
		for b := buffer[:n]; len(b) > 0; {
			whole := b[:min(int64(len(b)), page-begin%page)]
			if !bytes.Equal(whole, zeros[:len(whole)]) {
				if _, err := dst.WriteAt(whole, begin); err != nil {
					return err
				}
			}
			begin, b = begin+int64(len(whole)), b[len(whole):]
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return dst.Truncate(begin)
		}
		if err != nil {
			return err
		}
	}
}

// SkeletonMark ends a model without its weights, a skeleton, where no runtime looks.
const SkeletonMark = "\nxpwc skeleton: its weights are in a file of packed weights\n"

// MarkSkeleton writes the mark to a file's end.
func MarkSkeleton(f *os.File) error {
	end, err := f.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = f.WriteAt([]byte(SkeletonMark), end)
	}
	return err
}

// IsSkeleton reports whether a file that ends with these bytes, of which at least the last 128 are given, is a
// skeleton.
func IsSkeleton(end []byte) bool { return bytes.HasSuffix(end, []byte(SkeletonMark)) }
