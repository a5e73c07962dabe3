package cachefile

import (
	"cmp"
	"slices"
)

// A Change is the difference between an entry of one file and the entry of that name in another file.
type Change string

// The changes. A payload is compared by its checksum, with its size.
const (
	OnlyInA     Change = "only in A"
	OnlyInB     Change = "only in B"
	OtherBytes  Change = "other bytes"  // under the same key
	OtherSeed   Change = "other seed"   // of the same layout and quantisation
	OtherKey    Change = "other key"    // of the same layout, with another packing identity or another fingerprint_id
	OtherLayout Change = "other layout" // there is none of the same
)

// A Difference is an entry that two files do not have in common. A is nil if it is only in B, and B if it is only in A.
type Difference struct {
	Change Change `json:"change"`
	Name   string `json:"entry"`
	A      *Entry `json:"a,omitempty"`
	B      *Entry `json:"b,omitempty"`
}

// Diff returns what differs between the entries of two files, in the order of their names, and how many they have in
// common. Where payloads lie, when they were used, and what they were packed from is not compared. ExecuTorch's files
// have no layouts and no checksums: what one of the two lacks is not compared, and payloads are read to compare
// them. The error is one of reading, or matches ErrDamaged if a record is.
func Diff(a, b *File) (differences []Difference, unchanged int, err error) {
	bytesAlone := a.format != Native || b.format != Native // one file has nothing but names, seeds and bytes
	var byName [2]map[string][]Entry
	var names []string
	for i, f := range []*File{a, b} {
		if byName[i], err = f.byName(); err != nil {
			return nil, 0, err
		}
		for name := range byName[i] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		count := len(byName[0][name])
		onlyA, onlyB, changes := match(byName[0][name], byName[1][name], bytesAlone)
		unchanged += count - len(onlyA) - len(changes)
		for _, e := range onlyA {
			changes = append(changes, Difference{Change: OnlyInA, A: &e})
		}
		for _, e := range onlyB {
			changes = append(changes, Difference{Change: OnlyInB, B: &e})
		}
		for _, c := range changes {
			c.Name = name
			differences = append(differences, c)
		}
	}
	return differences, unchanged, nil
}

// byName returns a file's entries by name, with the sums of payloads that have none.
func (f *File) byName() (map[string][]Entry, error) {
	byName := map[string][]Entry{}
	for e, err := range f.Entries() {
		if err != nil {
			return nil, err
		}
		if f.format != Native {
			if e.Sum, err = f.sumOf(e); err != nil {
				return nil, err
			}
		}
		byName[e.Name] = append(byName[e.Name], e)
	}
	return byName, nil
}

// match pairs each entry with the one most like it: equal entries first, entries that share only the name last. It
// returns the unpaired entries of both.
func match(entriesA, entriesB []Entry, bytesAlone bool) (onlyA, onlyB []Entry, changes []Difference) {
	names := func(a, b Entry) bool { return bytesAlone || a.Kernel == b.Kernel && a.HasBias == b.HasBias }
	layout := func(a, b Entry) bool { return names(a, b) && (bytesAlone || a.Layout == b.Layout) }
	key := func(a, b Entry) bool {
		return layout(a, b) && (bytesAlone || a.Packing == b.Packing && a.FingerprintID == b.FingerprintID)
	}
	seed := func(a, b Entry) bool { return key(a, b) && a.Seed == b.Seed }
	content := func(a, b Entry) bool { return seed(a, b) && a.Sum == b.Sum && a.Size == b.Size }
	for _, step := range []struct {
		change Change
		alike  func(a, b Entry) bool
	}{{"", content}, {OtherBytes, seed}, {OtherSeed, key}, {OtherKey, layout}, {OtherLayout, names}} {
		rest := entriesA[:0:0]
		for _, a := range entriesA {
			i := slices.IndexFunc(entriesB, func(b Entry) bool { return step.alike(a, b) })
			if i < 0 {
				rest = append(rest, a)
				continue
			}
			if b := entriesB[i]; step.change != "" {
				changes = append(changes, Difference{Change: step.change, A: &a, B: &b})
			}
			entriesB = slices.Delete(slices.Clone(entriesB), i, i+1)
		}
		entriesA = rest
	}
	slices.SortStableFunc(changes, func(x, y Difference) int { return cmp.Compare(x.A.Offset, y.A.Offset) })
	return entriesA, entriesB, changes
}
