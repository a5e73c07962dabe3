package format

import (
	"iter"
	"sort"
)

// Hashes are of a kernel and of its bias: of their stamps, in one place where a model lies, or of their contents.
type Hashes struct {
	Kernel Digest
	Bias   Digest // zero without a bias
}

// Copies are the stamps of further places where a model lies, the newest last, or of programs that a record is sealed
// for: 32 bytes each. It is a string so that records can be compared.
type Copies string

const stampsSize = 2 * 16

// MostCopies is the number of copies up to which AddCopy adds one without a loss. If more copies of a model take turns
// at one cache file, each start reads its copy. The programs that Seal adds have no limit.
const MostCopies = 8

// All yields the stamps.
func (c Copies) All() iter.Seq[Hashes] {
	return func(yield func(Hashes) bool) {
		for ; len(c) >= stampsSize; c = c[stampsSize:] {
			if !yield(Hashes{Digest([]byte(c[:16])), Digest([]byte(c[16:stampsSize]))}) {
				return
			}
		}
	}
}

// Len returns how many there are.
func (c Copies) Len() int { return len(c) / stampsSize }

// AddCopy adds the stamps of a further copy of the kernel and bias, and drops the oldest above MostCopies. It reports
// whether the record lacked them.
func (r *Record) AddCopy(s Hashes) bool {
	if s.Kernel == (Digest{}) || r.HasBias && s.Bias == (Digest{}) || r.HasStamps(s) {
		return false
	}
	for r.Copies.Len() >= MostCopies {
		r.Copies = r.Copies[stampsSize:]
	}
	r.Copies += s.encode()
	return true
}

func (s Hashes) encode() Copies { return Copies(s.Kernel[:]) + Copies(s.Bias[:]) }

// HasStamps reports whether the payload was packed from content that has these stamps.
func (r *Record) HasStamps(s Hashes) bool {
	if s == r.Stamps {
		return true
	}
	for copied := range r.Copies.All() {
		if s == copied {
			return true
		}
	}
	return false
}

// atCopies is the offset in the header of an index of the place of the copies in the strings.
const atCopies = 68

// copySize is the size of a row: the number of a record, and the stamps of a copy.
const copySize = 4 + stampsSize

// encodeCopies returns the copies of records, in the order of the records.
func encodeCopies(records []Record) string {
	var b []byte
	for i := range records {
		for c := records[i].Copies; c.Len() > 0; c = c[stampsSize:] {
			b = append(le.AppendUint32(b, uint32(i)), c[:stampsSize]...)
		}
	}
	return string(b)
}

// findCopies reads the place of the copies from the header. An index with an invalid place has no copies.
func (x *Index) findCopies(header []byte) {
	offset, size := uint64(le.Uint32(header[atCopies:])), uint64(le.Uint32(header[atCopies+4:]))
	if size%copySize == 0 && span(offset, size, x.stringsSize()) {
		x.copies, x.copyRows = x.offsets.strings-x.offsets.body+offset, int(size/copySize)
	}
}

// CopyBytes returns how many bytes of the strings are stamps of copies.
func (x *Index) CopyBytes() uint64 { return uint64(x.copyRows) * copySize }

// copiesOf returns the copies of record i.
func (x *Index) copiesOf(i int) (copies Copies, err error) {
	var row [copySize]byte
	number := func(n int) int {
		if err == nil {
			err = x.read(row[:], x.copies+uint64(n)*copySize)
		}
		return int(le.Uint32(row[:]))
	}
	var b []byte
	first := sort.Search(x.copyRows, func(n int) bool { return number(n) >= i })
	for n := first; n < x.copyRows && number(n) == i && err == nil; n++ {
		b = append(b, row[4:]...)
	}
	return Copies(b), err
}
