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
	// IndexAt and IndexBytes say where its index is.
	IndexAt, IndexBytes int64
	// Entries that it lists, and the bytes of their payloads: those that several entries share are counted once.
	Entries      int
	PayloadBytes int64
	// LastPacked says when the last of its entries was packed. When the commit was made is not in the file.
	LastPacked time.Time
}

// Commits returns the generations whose indexes are still in the file, in their order: the one in force last, before it
// those that nothing has compacted away. An index before the one in force is found by what it looks like, and is left
// out if it is damaged. Files of ExecuTorch have none. The error is of reading.
func (f *File) Commits() ([]Commit, error) {
	if f.index == nil {
		return nil, nil
	}
	commits, err := f.indexes()
	if err != nil {
		return nil, err
	}
	known := commits[:0]
	for _, c := range commits {
		x := f.index
		if !c.InForce {
			x, err = loaded(format.LoadOldIndex(f.r, uint64(c.IndexAt), uint64(c.IndexBytes)))
			if errors.Is(err, ErrDamaged) {
				continue
			}
			if err != nil {
				return nil, err
			}
		}
		c.Entries = x.Len()
		last, before := int64(0), uint64(0)
		for i := range x.Len() {
			r, err := x.Record(i)
			if err != nil {
				continue
			}
			last = max(last, r.PackedAt)
			if r.Offset != before {
				c.PayloadBytes += int64(r.Size)
			}
			before = r.Offset
		}
		c.LastPacked = time.Unix(last, 0).UTC()
		known = append(known, c)
	}
	return known, nil
}

// indexes returns where indexes are, or seem to be.
func (f *File) indexes() (found []Commit, err error) {
	segments, _ := f.Map() // the damaged records of the index in force do not matter here
	header := make([]byte, format.IndexHeaderSize)
	for _, s := range segments {
		c := Commit{Generation: f.slot.Generation, InForce: s.Kind == Index, IndexAt: s.Offset, IndexBytes: s.Size}
		if s.Kind == OldIndex {
			if err := f.readAt(header, uint64(s.Offset)); err != nil {
				return nil, err
			}
			c.Generation, _, _ = format.LooksLikeIndex(header)
		}
		if c.InForce || s.Kind == OldIndex && c.Generation < f.slot.Generation {
			found = append(found, c)
		}
	}
	slices.SortStableFunc(found, func(a, b Commit) int { return cmp.Compare(a.Generation, b.Generation) })
	return found, nil
}
