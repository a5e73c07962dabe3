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
	Entries             int
	// AddedEntries are those that it lists and the Commit before it does not, which may be several generations older,
	// with the bytes of their payloads: those that several entries share are counted once. Of the first Commit they are
	// all that it lists. RemovedEntries are those that the Commit before it lists and this one does not.
	AddedEntries   int
	AddedBytes     int64
	RemovedEntries int
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
	before := listing{}
	for _, c := range commits {
		x := f.index
		if !c.InForce {
			if x, err = f.oldIndex(c); errors.Is(err, ErrDamaged) {
				continue
			}
			if err != nil {
				return nil, err
			}
		}
		now, packed := listingOf(x)
		c.Entries, c.LastPacked = x.Len(), packed
		c.AddedEntries, c.AddedBytes = now.without(before)
		c.RemovedEntries, _ = before.without(now)
		known, before = append(known, c), now
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

func (f *File) oldIndex(c Commit) (*format.Index, error) {
	at := format.Slot{IndexOffset: uint64(c.IndexAt), IndexSize: uint64(c.IndexBytes)}
	b, err := format.ReadIndex(f.readAt, at)
	if err != nil {
		return nil, err
	}
	x, err := format.DecodeOldIndex(b, at.IndexOffset)
	if err == nil && x.NameBytes() > x.NameLimit() {
		err = ErrDamaged
	}
	return x, err
}

// A listed payload is one of an index.
type listedPayload struct {
	offset, size uint64
	sum          Digest
}

// A listing is the payloads of an index, with how many entries each has.
type listing map[listedPayload]int

// listingOf also returns when the last of the entries was packed.
func listingOf(x *format.Index) (_ listing, packed time.Time) {
	l, last := make(listing, x.Len()), int64(0)
	for i := range x.Len() {
		if r, err := x.Record(i); err == nil {
			l[listedPayload{r.Offset, r.Size, r.Sum}]++
			last = max(last, r.PackedAt)
		}
	}
	return l, time.Unix(last, 0).UTC()
}

// without returns how many entries are in one listing and not in the other, and the bytes of payloads likewise.
func (l listing) without(other listing) (entries int, bytes int64) {
	for p, n := range l {
		entries += max(0, n-other[p])
		if other[p] == 0 {
			bytes += int64(p.size)
		}
	}
	return entries, bytes
}
