package cachefile

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"xpwc/internal/format"
)

// A Commit is a generation whose index is still in the file.
type Commit struct {
	Generation uint64
	InForce    bool
	// IndexAt and IndexBytes are the offset and the size of its index.
	IndexAt, IndexBytes int64
	// Entries that it lists, and the bytes of their payloads: a payload that several entries share is counted once.
	Entries      int
	PayloadBytes int64
	// LastPacked is the time when the last of its entries was packed. The file does not record the time of the commit.
	LastPacked time.Time
}

// Commits returns the generations whose indexes are still in the file, in their order: the one in force last, older
// ones before it unless they were compacted away. An older index is found by its header, and is skipped if it is
// damaged. ExecuTorch files have none. The error is a read error.
func (f *File) Commits() ([]Commit, error) {
	if f.index == nil {
		return nil, nil
	}
	segments, _ := f.Map() // the damaged records of the index in force do not matter here
	var commits []Commit
	for _, s := range segments {
		if s.Kind != Index && s.Kind != OldIndex {
			continue
		}
		x, err := f.index, error(nil)
		if s.Kind == OldIndex {
			x, err = loaded(format.LoadOldIndex(f.r, uint64(s.Offset), uint64(s.Size)))
		}
		switch {
		case errors.Is(err, ErrDamaged):
			continue
		case err != nil:
			return nil, err
		case s.Kind == OldIndex && x.Generation() >= f.slot.Generation:
			continue
		}
		commits = append(commits, commitOf(x, s))
	}
	slices.SortStableFunc(commits, func(a, b Commit) int { return cmp.Compare(a.Generation, b.Generation) })
	return commits, nil
}

// commitOf returns what an index lists, which lies in a segment.
func commitOf(x *format.Index, s Segment) Commit {
	c := Commit{
		Generation: x.Generation(), InForce: s.Kind == Index, IndexAt: s.Offset, IndexBytes: s.Size, Entries: x.Len(),
	}
	last, prevOffset := int64(0), uint64(0)
	for i := range x.Len() {
		r, err := x.Record(i)
		if err != nil {
			continue
		}
		last = max(last, r.PackedAt)
		if r.Offset != prevOffset {
			c.PayloadBytes += int64(r.Size)
		}
		prevOffset = r.Offset
	}
	c.LastPacked = time.Unix(last, 0).UTC()
	return c
}
