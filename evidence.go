package xpwc

import (
	"runtime"
	"slices"
	"sync"

	"xpwc/internal/cpu"
	"xpwc/internal/format"
	"xpwc/packing"
)

// A layout's fingerprint is what XNNPACK packs of all families, which takes it more than a small model takes to load.
// So a file says of a layout also on what machine it was seen, and what XNNPACK packed there for each family that the
// file has entries of. Where the machine is such a one, and XNNPACK packs the same for the family of a look-up, the
// layout's entries of that family are what it would pack. What must be packed is packed under the layout that XNNPACK
// shows in whole.
//
// The machine alone is not enough, because XNNPACK may be patched or built in another way; nor is the sample, which
// does not show each choice that XNNPACK makes within a family, as for the shapes of kernels.

// evidence is what a file says of its layouts.
type evidence []shownFamily

// A shownFamily is a family of a layout, with the sum of its sample on a machine.
type shownFamily struct {
	machine  format.Digest
	complete bool // all entries of the layout are of families that are shown
	layout   format.Digest
	sum      format.Digest
	sample   *familySample // of this machine
}

// The bytes: the machine, 1 if the families are those of all entries, and each family with its sum.
const (
	evidenceHead = len(format.Digest{}) + 1
	shownSize    = packing.FamilySize + len(format.Digest{})
)

// mostShown is how many families are read of a file, which could claim any number.
const mostShown = 1 << 10

// machine is a digest of what XNNPACK chooses its kernels by, and of XNNPACK. It is zero if XNNPACK does not say which
// it is.
var machine = sync.OnceValue(func() format.Digest {
	id := buildIdentifier()
	if len(id) == 0 {
		return format.Digest{}
	}
	return digestOfStrings(runtime.GOARCH, cpu.Identity(), string(id))
})

// gather returns what the layouts of a file have.
func gather(layouts []format.Layout) (all evidence) {
	for i := range layouts {
		b := []byte(layouts[i].Evidence)
		if len(b) < evidenceHead || (len(b)-evidenceHead)%shownSize != 0 || len(all)+len(b)/shownSize > mostShown {
			continue
		}
		for row := range slices.Chunk(b[evidenceHead:], shownSize) {
			all = append(all, shownFamily{
				machine:  format.Digest(b[:evidenceHead-1]),
				complete: b[evidenceHead-1] == 1,
				layout:   layouts[i].Fingerprint,
				sum:      format.Digest(row[packing.FamilySize:]),
				sample:   sampleOf(packing.DecodeFamily([packing.FamilySize]byte(row))),
			})
		}
	}
	return all
}

// ofThisMachine returns what was seen on such a machine as this.
func (all evidence) ofThisMachine() evidence {
	here := machine()
	return slices.DeleteFunc(slices.Clone(all), func(s shownFamily) bool {
		return s.machine != here || here == format.Digest{}
	})
}

// evidenceOf returns what this process can say of its layout to others, which are to find these records.
func evidenceOf(here format.Digest, records []format.Record) string {
	by := machine()
	if by == (format.Digest{}) {
		return ""
	}
	var families []packing.Family
	for i := range records {
		r := &records[i]
		if r.Layout == here && (len(families) == 0 || r.Family != families[len(families)-1]) {
			if !slices.Contains(families, r.Family) {
				families = append(families, r.Family)
			}
		}
	}
	slices.SortFunc(families, func(a, b packing.Family) int {
		x, y := a.Encode(), b.Encode()
		return slices.Compare(x[:], y[:])
	})
	complete := byte(1)
	var rows []byte
	for _, f := range families {
		if of := sampleOf(f).ask(); of.known {
			encoded := f.Encode()
			rows = append(append(rows, encoded[:]...), of.sum[:]...)
		} else {
			complete = 0
		}
	}
	if len(rows) == 0 {
		return ""
	}
	return string(append(append(by[:], complete), rows...))
}

// layoutFor returns the layout whose entries of a kernel XNNPACK is seen to pack here, false if none is known. The
// evidence is of this machine.
func (all evidence) layoutFor(kernel *source, fingerprintID uint32) (layout format.Digest, known bool) {
	if len(all) == 0 || len(kernel.packing.identities) == 0 || kernel.has().copyOf != nil {
		return format.Digest{}, false
	}
	f := kernel.packing.identities[0].geometry.Family
	at := slices.IndexFunc(all, func(s shownFamily) bool { return s.sample.family == f && s.sample.ask().sum == s.sum })
	if at < 0 {
		return format.Digest{}, false
	}
	for i := range kernel.packing.identities {
		g := &kernel.packing.identities[i].geometry
		if g.Family != f || !all[at].sample.shows(g, fingerprintID) {
			return format.Digest{}, false
		}
	}
	return all[at].layout, true
}
