package format

import (
	"bytes"
	"slices"

	"xpwc/packing"
)

// Evidence is what a file says of a layout: what machines that pack in this layout were seen to pack, in the order of
// their digests.
type Evidence []Machine

// A Machine is one that was seen to pack in a layout.
type Machine struct {
	Digest   Digest
	Complete bool // all entries of the layout are of these families
	Families []SeenFamily
}

// A SeenFamily is a family with the hash of what XNNPACK packs of its fixed tensors, in the order of encoded families.
type SeenFamily struct {
	Family packing.Family
	Sum    Digest
}

// What evidence has at most. Processors and builds of XNNPACK that pack alike may be many, and files go from one to the
// next.
const (
	MostMachines   = 16
	MostOfAMachine = 64 // families
)

const (
	machineHead = len(Digest{}) + 2
	seenSize    = packing.FamilySize + len(Digest{})
)

// DecodeEvidence reads what Encode returned; anything else is no evidence.
func DecodeEvidence(s string) (e Evidence) {
	for b := []byte(s); len(b) > 0; {
		if len(b) < machineHead || len(e) == MostMachines {
			return nil
		}
		m := Machine{Digest: Digest(b[:16]), Complete: b[16] == 1}
		rows := int(b[17]) * seenSize
		if b[16] > 1 || rows == 0 || rows > MostOfAMachine*seenSize || rows > len(b)-machineHead {
			return nil
		}
		for row := range slices.Chunk(b[machineHead:machineHead+rows], seenSize) {
			f := packing.DecodeFamily([packing.FamilySize]byte(row))
			m.Families = append(m.Families, SeenFamily{f, Digest(row[packing.FamilySize:])})
		}
		e, b = append(e, m), b[machineHead+rows:]
	}
	if e.Encode() != s { // it has something twice, or in another order
		return nil
	}
	return e
}

// Encode returns the bytes of the first machines, each once, as many as there may be, and likewise of families. A
// machine of which no family was seen is left out.
func (e Evidence) Encode() string {
	e = slices.DeleteFunc(slices.Clone(e), func(m Machine) bool { return len(m.Families) == 0 })
	e = e[:min(len(e), MostMachines)]
	slices.SortStableFunc(e, byDigest)
	var b []byte
	for i, m := range e {
		if i > 0 && m.Digest == e[i-1].Digest {
			continue
		}
		families := slices.SortedStableFunc(slices.Values(m.Families), byFamily)
		families = slices.CompactFunc(families, func(a, b SeenFamily) bool { return a.Family == b.Family })
		complete := byte(0)
		if m.Complete && len(families) <= MostOfAMachine {
			complete = 1
		}
		families = families[:min(len(families), MostOfAMachine)]
		b = append(append(b, m.Digest[:]...), complete, byte(len(families)))
		for _, f := range families {
			encoded := f.Family.Encode()
			b = append(append(b, encoded[:]...), f.Sum[:]...)
		}
	}
	return string(b)
}

func byDigest(a, b Machine) int { return bytes.Compare(a.Digest[:], b.Digest[:]) }

func byFamily(a, b SeenFamily) int {
	x, y := a.Family.Encode(), b.Family.Encode()
	return bytes.Compare(x[:], y[:])
}

// Of returns what a machine was seen to pack.
func (e Evidence) Of(machine Digest) (m Machine, known bool) {
	at := slices.IndexFunc(e, func(m Machine) bool { return m.Digest == machine })
	if at < 0 {
		return Machine{}, false
	}
	return e[at], true
}

// With returns e and after it the other machines of which something agrees with it: families that e has, with the same
// sum. So what others say of a layout, which nobody has seen, adds no family to what is known of it. In one layout all
// machines pack the same, and what says otherwise is false.
func (e Evidence) With(others Evidence) Evidence {
	sums, complete := map[packing.Family]Digest{}, false
	for _, m := range e {
		complete = complete || m.Complete
		for _, f := range m.Families {
			sums[f.Family] = f.Sum
		}
	}
	all := slices.Clone(e)
	for _, m := range others {
		if _, known := e.Of(m.Digest); known {
			continue
		}
		m.Families = slices.DeleteFunc(slices.Clone(m.Families), func(f SeenFamily) bool {
			sum, known := sums[f.Family]
			return !known || sum != f.Sum
		})
		m.Complete = m.Complete && complete && len(m.Families) == len(sums)
		if len(m.Families) > 0 {
			all = append(all, m)
		}
	}
	return all
}

// Families are those of entries, by layout, each once.
type Families struct {
	by    map[Digest][]packing.Family
	known map[familyOf]bool
	last  familyOf
}

type familyOf struct {
	layout Digest
	family packing.Family
}

// Add adds that of an entry.
func (f *Families) Add(layout Digest, family packing.Family) {
	of := familyOf{layout, family}
	if f.known == nil {
		f.by, f.known = map[Digest][]packing.Family{}, map[familyOf]bool{}
	} else if of == f.last {
		return // as mostly
	}
	if f.last = of; !f.known[of] {
		f.known[of] = true
		f.by[layout] = append(f.by[layout], family)
	}
}

// Of returns those of a layout.
func (f *Families) Of(layout Digest) []packing.Family { return f.by[layout] }

// A Statement is what one of several files says of a layout, of which it has entries of these families.
type Statement struct {
	Evidence Evidence
	Families []packing.Family
}

// Merge returns what evidence there is of the entries of several files together. A family is in it if each file that
// has entries of it says what is packed of it, and all say the same. So whatever one file says, entries of another one
// are used only where XNNPACK packs what that file says itself.
func Merge(files []Statement) (merged Evidence) {
	sums := map[packing.Family]Digest{}
	doubtful, has := map[packing.Family]bool{}, map[packing.Family]bool{}
	for _, f := range files {
		said := map[packing.Family]bool{}
		for _, m := range f.Evidence {
			for _, s := range m.Families {
				if sum, known := sums[s.Family]; known && sum != s.Sum {
					doubtful[s.Family] = true
				}
				sums[s.Family], said[s.Family] = s.Sum, true
			}
		}
		for _, family := range f.Families {
			has[family] = true
			doubtful[family] = doubtful[family] || !said[family]
		}
	}
	at := map[Digest]int{}
	for _, f := range files {
		for _, m := range f.Evidence {
			i, known := at[m.Digest]
			if !known {
				i = len(merged)
				at[m.Digest], merged = i, append(merged, Machine{Digest: m.Digest})
			}
			for _, s := range m.Families {
				if has[s.Family] && !doubtful[s.Family] && !slices.Contains(merged[i].Families, s) {
					merged[i].Families = append(merged[i].Families, s)
				}
			}
		}
	}
	for i := range merged {
		merged[i].Complete = len(merged[i].Families) == len(has)
	}
	slices.SortFunc(merged, byDigest) // the same in whatever order the files are
	return merged
}
