package xpwc

import (
	"slices"

	"xpwc/internal/ask"
	"xpwc/internal/format"
	"xpwc/packing"
)

// A layout's fingerprint is what XNNPACK packs of all families, which takes it more than a small model takes to load.
// So a file says of a layout also on what machines it was seen, and what XNNPACK packed there for each family that the
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
	sample   *ask.Family // of this machine
}

// mostShown is how many families are read of a file, which could claim any number.
const mostShown = 1 << 10

// shownBy returns what the layouts of an index have, nil for none.
func shownBy(index *format.Index) (all evidence) {
	if index == nil {
		return nil
	}
	layouts := index.Layouts()
	for i := range layouts {
		for _, m := range format.DecodeEvidence(layouts[i].Evidence) {
			if len(all)+len(m.Families) > mostShown {
				return all
			}
			for _, f := range m.Families {
				all = append(all, shownFamily{
					machine: m.Digest, complete: m.Complete, layout: layouts[i].Fingerprint,
					sum: f.Sum, sample: ask.About(f.Family),
				})
			}
		}
	}
	return all
}

// ofThisMachine returns what was seen on such a machine as this.
func (all evidence) ofThisMachine() evidence {
	here := ask.Machine()
	return slices.DeleteFunc(slices.Clone(all), func(s shownFamily) bool {
		return s.machine != here || here == format.Digest{}
	})
}

// Evidence returns what a cache file is to say of a layout so that the next process on such a machine as this need not
// ask XNNPACK about all families. families are those of the file's entries of this layout, and said is what the file
// says so far, of any machines: what disagrees with this one is left out. The layout is this machine's if it is that of
// CurrentLayout, and otherwise nothing is said of this machine. If XNNPACK does not say which it is, said is returned.
//
// It is for package registry, see Options.Evidence there. The bytes are part of the file's format.
func Evidence(layout Digest, families []packing.Family, said string) string {
	here, err := ask.Layout()
	if err != nil {
		return said
	}
	return evidenceFor(layout, here.Fingerprint, families, said)
}

// evidenceFor is Evidence where this machine's layout is known.
func evidenceFor(layout, here format.Digest, families []packing.Family, said string) string {
	by := ask.Machine()
	if by == (format.Digest{}) {
		return said
	}
	others := slices.DeleteFunc(format.DecodeEvidence(said), func(m format.Machine) bool { return m.Digest == by })
	if layout != here {
		return others.Encode()
	}
	seen := format.Machine{Digest: by, Complete: true}
	if len(families) > mostShown {
		families, seen.Complete = families[:mostShown], false
	}
	for _, f := range families {
		if sum, known := ask.About(f).Sum(); known {
			seen.Families = append(seen.Families, format.SeenFamily{Family: f, Sum: sum})
		} else {
			seen.Complete = false
		}
	}
	return format.Evidence{seen}.With(others).Encode()
}

// layoutFor returns the layout whose entries of a kernel XNNPACK is seen to pack here, false if none is known. The
// evidence is of this machine.
func (all evidence) layoutFor(kernel *source, fingerprintID uint32) (layout format.Digest, known bool) {
	if len(all) == 0 || len(kernel.packing.identities) == 0 || kernel.has().copyOf != nil {
		return format.Digest{}, false
	}
	f := kernel.packing.identities[0].geometry.Family
	at := slices.IndexFunc(all, func(s shownFamily) bool {
		if s.sample.Is != f {
			return false
		}
		sum, known := s.sample.Sum()
		return known && sum == s.sum
	})
	if at < 0 {
		return format.Digest{}, false
	}
	for i := range kernel.packing.identities {
		g := &kernel.packing.identities[i].geometry
		if g.Family != f || !all[at].sample.Shows(g, fingerprintID) {
			return format.Digest{}, false
		}
	}
	return all[at].layout, true
}
