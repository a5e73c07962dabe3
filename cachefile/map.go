package cachefile

import (
	"cmp"
	"slices"

	"xpwc/internal/format"
)

// A Kind is the use of a stretch of a file.
type Kind string

// The kinds of bytes.
const (
	Header   Kind = "header"
	Payload  Kind = "payload"
	Padding  Kind = "padding"   // aligns what follows it
	OldIndex Kind = "old index" // of a generation before the one in force: dead
	Dead     Kind = "dead"      // nothing refers to it: superseded payloads, old trailers
	Index    Kind = "index"
	Trailer  Kind = "trailer" // ExecuTorch's index; a native file's has no payloads
	// Uncommitted is what lies after the end of the generation in force: a writer is at work or was killed.
	Uncommitted Kind = "uncommitted"
)

// A Segment is a stretch of a file.
type Segment struct {
	Kind   Kind  `json:"kind"`
	Offset int64 `json:"offset"`
	Size   int64 `json:"bytes"`
	// Name of the entry that a payload is of, of the first if there are several.
	Name string `json:"entry,omitempty"`
}

// Map returns what the bytes of the file are, from its first to its last, without gaps or overlaps. Bytes that only
// damaged records refer to count as dead; the error is of the first such record, and comes with the whole map.
func (f *File) Map() ([]Segment, error) {
	segments, damage := f.segments()
	var merged []Segment
	for _, s := range segments {
		if s.Kind == Dead && f.format == Native {
			merged = f.oldIndexes(merged, s.Offset, s.Offset+s.Size)
		} else {
			merged = append(merged, s)
		}
	}
	return merged, damage
}

// segments is Map according to the index alone: it does not search the dead bytes for old indexes.
func (f *File) segments() ([]Segment, error) {
	if f.size == 0 {
		return nil, nil
	}
	var segments []Segment
	var damage error
	for e, err := range f.Entries() {
		if err != nil {
			if damage == nil {
				damage = err
			}
			continue
		}
		if e.Size > 0 && uint64(e.Offset) < f.size {
			segments = append(segments, Segment{Payload, e.Offset, min(e.Size, int64(f.size)-e.Offset), e.Name})
		}
	}
	end := f.size
	if f.format == Native {
		slot := f.slot
		segments = append(segments, Segment{Kind: Header, Size: int64(min(format.HeaderSize, f.size))})
		end = min(max(slot.End, format.HeaderSize), f.size)
		if trailerAt := slot.IndexOffset + slot.IndexSize; slot.Generation > 0 && trailerAt <= end {
			segments = append(segments,
				Segment{Kind: Index, Offset: int64(slot.IndexOffset), Size: int64(slot.IndexSize)},
				Segment{Kind: Trailer, Offset: int64(trailerAt), Size: int64(end - trailerAt)})
		}
	} else {
		segments = append(segments, Segment{Kind: Trailer, Offset: int64(f.indexAt), Size: int64(end - f.indexAt)})
	}
	if end < f.size {
		segments = append(segments, Segment{Kind: Uncommitted, Offset: int64(end), Size: int64(f.size - end)})
	}
	return f.fillGaps(segments), damage
}

// fillGaps orders the segments, cuts off where they overlap, and puts padding and dead bytes between them.
func (f *File) fillGaps(segments []Segment) []Segment {
	slices.SortStableFunc(segments, func(a, b Segment) int { return cmp.Compare(a.Offset, b.Offset) })
	var merged []Segment
	offset := int64(0)
	for _, s := range segments {
		if s.Offset > offset {
			merged = f.gap(merged, offset, s.Offset)
			offset = s.Offset
		}
		if end := s.Offset + s.Size; end > offset {
			s.Offset, s.Size = offset, end-offset
			merged = append(merged, s)
			offset = end
		}
	}
	if size := int64(f.size); offset < size {
		merged = f.gap(merged, offset, size)
	}
	return merged
}

// page is what ExecuTorch aligns payloads to.
const page = 4096

func (f *File) gap(segments []Segment, start, end int64) []Segment {
	begin := int64(format.Align(uint64(start)))
	if f.format != Native && end%page == 0 && end-start < page {
		begin = end
	}
	if begin = min(begin, end); begin > start {
		segments = append(segments, Segment{Kind: Padding, Offset: start, Size: begin - start})
	}
	if end > begin {
		segments = append(segments, Segment{Kind: Dead, Offset: begin, Size: end - begin})
	}
	return segments
}

// oldIndexes adds dead bytes, and finds the indexes among them.
func (f *File) oldIndexes(segments []Segment, begin, end int64) []Segment {
	dead := func(kind Kind, start, end int64) {
		if end > start {
			segments = append(segments, Segment{Kind: kind, Offset: start, Size: end - start})
		}
	}
	row := make([]byte, format.IndexHeaderSize)
	for offset := begin; offset+format.IndexHeaderSize <= end; offset += format.Alignment {
		if n, _ := f.r.ReadAt(row, offset); n < len(row) {
			break
		}
		if size, ok := format.LooksLikeIndex(row); ok && size <= uint64(end-offset) {
			dead(Dead, begin, offset)
			dead(OldIndex, offset, offset+int64(size))
			begin = offset + int64(size)
			offset = int64(format.Align(uint64(begin))) - format.Alignment
		}
	}
	dead(Dead, begin, end)
	return segments
}
