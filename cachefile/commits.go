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
	// Added is what it lists and the Commit before it does not, which may be several generations older. Of the first
	// Commit it is all that it lists.
	Added Added
	// Removed is what the Commit before it lists and this one does not.
	RemovedEntries int
	RemovedBytes   int64
}

// Added is what a commit added. Payloads that several entries share are counted once. The times say when the first and
// the last of them were packed; they are zero if there are none. When the commit was made is not in the file.
type Added struct {
	Entries     int
	Bytes       int64
	First, Last time.Time
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
		now := listingOf(x)
		removed := before.without(now)
		c.Entries, c.Added = x.Len(), now.without(before)
		c.RemovedEntries, c.RemovedBytes = removed.Entries, removed.Bytes
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

// A listing is the payloads of an index, with when the entries of each were packed.
type listing map[listedPayload][]int64

func listingOf(x *format.Index) listing {
	l := make(listing, x.Len())
	for i := range x.Len() {
		if r, err := x.Record(i); err == nil {
			p := listedPayload{r.Offset, r.Size, r.Sum}
			l[p] = append(l[p], r.PackedAt)
		}
	}
	return l
}

// without returns what is in one listing and not in the other.
func (l listing) without(other listing) (a Added) {
	for p, packed := range l {
		known := len(other[p])
		if known == 0 {
			a.Bytes += int64(p.size)
		}
		if len(packed) <= known {
			continue
		}
		slices.Sort(packed)
		for _, seconds := range packed[known:] {
			a.Entries++
			at := time.Unix(seconds, 0).UTC()
			if a.First.IsZero() || at.Before(a.First) {
				a.First = at
			}
			if at.After(a.Last) {
				a.Last = at
			}
		}
	}
	return a
}
