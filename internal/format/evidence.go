package format

import (
	"bytes"
	"maps"
	"slices"

	"xpwc/xnnpack/packing"
)

// Evidence identifies a layout without asking XNNPACK: the machines that pack in it, and for each family a hash of
// packed sample tensors. In one layout all machines pack alike.
type Evidence struct {
	Machines []Digest     // in their order
	Families []SeenFamily // in the order of encoded families
}

// A SeenFamily is a family with the hash of its packed fixed tensors.
type SeenFamily struct {
	Family packing.Family
	Sum    Digest
}

// SeenHere adds the evidence of this machine to a layout's encoded evidence. Package internal/ask sets it to its
// function Evidence; in a program without XNNPACK it is nil.
var SeenHere func(layout Digest, families []packing.Family, stored string) string

// What evidence has at most. Processors and builds of XNNPACK that pack alike may be many, and files go from one to the
// next.
const (
	MostMachines = 16
	MostFamilies = 64
)

const (
	machineHead = len(Digest{}) + 2
	seenSize    = packing.FamilySize + len(Digest{})
)

// DecodeEvidence reads what Encode returned; anything else is no evidence.
func DecodeEvidence(s string) (e Evidence) {
	for b := []byte(s); len(b) > 0; {
		if len(b) < machineHead || len(e.Machines) == MostMachines {
			return Evidence{}
		}
		m := Evidence{Machines: []Digest{Digest(b[:16])}}
		rows := int(b[17]) * seenSize
		if b[16] > 1 || rows == 0 || rows > MostFamilies*seenSize || rows > len(b)-machineHead {
			return Evidence{}
		}
		for row := range slices.Chunk(b[machineHead:machineHead+rows], seenSize) {
			f := packing.DecodeFamily([packing.FamilySize]byte(row))
			m.Families = append(m.Families, SeenFamily{f, Digest(row[packing.FamilySize:])})
		}
		e, b = e.Merge(m), b[machineHead+rows:]
	}
	return e
}

// Encode returns the bytes of the evidence: the families after each machine. It is empty without machines or families.
func (e Evidence) Encode() string {
	e = Evidence{}.Merge(e)
	if len(e.Families) == 0 {
		return ""
	}
	var families, b []byte
	for _, f := range e.Families {
		encoded := f.Family.Encode()
		families = append(append(families, encoded[:]...), f.Sum[:]...)
	}
	for _, m := range e.Machines {
		b = append(append(b, m[:]...), 1, byte(len(e.Families)))
		b = append(b, families...)
	}
	return string(b)
}

// Merge returns the union of two pieces of evidence for one layout. e takes precedence where they differ about a
// family, and where the union would exceed MostMachines or MostFamilies.
func (e Evidence) Merge(added Evidence) Evidence {
	return Evidence{
		union(e.Machines, added.Machines, MostMachines, func(a, b Digest) int { return bytes.Compare(a[:], b[:]) }),
		union(e.Families, added.Families, MostFamilies, func(a, b SeenFamily) int {
			return compareFamilies(a.Family, b.Family)
		}),
	}
}

// union returns the sorted values of a and b, of equal ones the first, at most so many.
func union[T any](a, b []T, limit int, compare func(T, T) int) (merged []T) {
	for _, v := range slices.Concat(a, b) {
		present := slices.ContainsFunc(merged, func(w T) bool { return compare(v, w) == 0 })
		if !present && len(merged) < limit {
			merged = append(merged, v)
		}
	}
	slices.SortFunc(merged, compare)
	return merged
}

// Families holds the families of entries, by layout.
type Families map[Digest]map[packing.Family]bool

// Add adds the family of an entry.
func (f Families) Add(layout Digest, family packing.Family) {
	if f[layout] == nil {
		f[layout] = map[packing.Family]bool{}
	}
	f[layout][family] = true
}

// InLayout returns the families of a layout, in the order of encoded families.
func (f Families) InLayout(layout Digest) []packing.Family {
	return slices.SortedFunc(maps.Keys(f[layout]), compareFamilies)
}

func compareFamilies(a, b packing.Family) int {
	x, y := a.Encode(), b.Encode()
	return bytes.Compare(x[:], y[:])
}
