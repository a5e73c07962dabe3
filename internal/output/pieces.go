package output

import "io"

// pieceSize is that of the largest pages that the page cache keeps of a file on most processors.
const pieceSize = 2 << 20

// Pieces writes a file in large pieces that begin and end at multiples of their size, so that the page cache has large
// pages of it: a process that maps the file takes one page fault for each of those. What is written through a mapping
// or in small pieces has small ones.
type Pieces struct {
	f      io.WriterAt
	at     int64 // where what is not written yet begins
	buffer []byte
}

// NewPieces returns what writes a file from its beginning on. The file stays the caller's.
func NewPieces(f io.WriterAt) *Pieces { return &Pieces{f: f} }

// Write adds b. What an error is of may have come with an earlier call.
func (p *Pieces) Write(b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		rest := b[n:]
		end := p.at + int64(len(p.buffer))
		switch room := int(pieceSize - end%pieceSize); {
		case len(rest) < room:
			p.buffer = append(p.buffer, rest...)
			return len(b), nil
		case len(p.buffer) == 0:
			whole := room + (len(rest)-room)/pieceSize*pieceSize
			_, err = p.f.WriteAt(rest[:whole], p.at)
			p.at += int64(whole)
			n += whole
		default:
			p.buffer = append(p.buffer, rest[:room]...)
			n += room
			err = p.Flush()
		}
	}
	return n, err
}

// MoveTo has the next bytes written at an offset, whatever was written from there on.
func (p *Pieces) MoveTo(offset int64) error {
	end := p.at + int64(len(p.buffer))
	switch {
	case offset >= p.at && offset <= end:
		p.buffer = p.buffer[:offset-p.at]
	case offset > end && offset/pieceSize == end/pieceSize && len(p.buffer) > 0:
		p.buffer = append(p.buffer, make([]byte, offset-end)...)
	default:
		err := p.Flush()
		p.at = offset
		return err
	}
	return nil
}

// Flush writes what is not written yet. The system may keep it in memory for some time.
func (p *Pieces) Flush() error {
	_, err := p.f.WriteAt(p.buffer, p.at)
	p.at += int64(len(p.buffer))
	p.buffer = p.buffer[:0]
	return err
}
