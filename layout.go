package xpwc

import (
	"fmt"
	"slices"

	"xpwc/internal/ask"
	"xpwc/internal/format"
	"xpwc/xnnpack/packing"
)

// A Layout is a way of packing. Packed weights can be used where XNNPACK packs in the same way, whatever CPU that is.
type Layout struct {
	// Fingerprint is the hash of what XNNPACK packs of fixed tensors. It differs whenever packing does.
	Fingerprint Digest
	// Description is for people: the architecture, the CPU features that XNNPACK packs by here, and the beginning of
	// its build identifier.
	Description string
}

// CurrentLayout asks XNNPACK, which it initializes, how it packs on this machine. The answer is the same as long as the
// process lives. Errors: XNNPACK's, and ErrNoCgo.
func CurrentLayout() (Layout, error) {
	here, err := ask.Layout()
	if err == nil && here.Fingerprint == (format.Digest{}) {
		err = ErrNoCgo
	}
	if err != nil {
		return Layout{}, fmt.Errorf("this machine's layout: %w", err)
	}
	return Layout{here.Fingerprint, here.Description}, nil
}

// askForLayout has XNNPACK asked for what the look-ups in the loaded file will need, beside what the host does until
// then. For all families it takes a millisecond or two.
func (c *core) askForLayout() {
	if c.inMemory() {
		return
	}
	go func() {
		shown := shownBy(c.writer.Index())
		if len(shown) == 0 {
			_, _ = ask.Layout()
			return
		}
		for i := range shown {
			if f := shown[i].family; f.Operator != packing.Deconvolution2D { // see presumePacked
				ask.Sum(f)
			}
		}
	}()
}

// presume has a weight looked up under the layout whose entries of it are what XNNPACK packs here. It may be presumed,
// from evidence: then what the file does not have must not be packed under it.
func (s *Session) presume(w *weight) {
	if w.kernel != nil && !ask.Answered() {
		if layout, known := s.evidence.layoutFor(w.kernel, w.Key.FingerprintID); known {
			w.presumeUnder(layout)
			return
		}
	}
	s.makeSure(w)
}

func (w *weight) presumeUnder(layout format.Digest) {
	w.Under(layout)
	w.presumed = true
}

// presumePacked has a weight that was packed looked up under the layout that the file lists this machine with: equal
// bytes are right, whatever their layout is. So XNNPACK is not asked for all of it where it packs without a look-up, as
// deconvolutions in every process, and the file has that.
func (s *Session) presumePacked(w *weight) {
	if ask.Answered() || len(s.evidence) == 0 {
		s.makeSure(w)
		return
	}
	w.presumeUnder(s.evidence[0].layout)
}

// makeSure has the weight named under this machine's layout, and reports whether it was under another. XNNPACK takes a
// millisecond or two to say which that is. If it does not, nobody could distinguish what is packed from what others
// pack. A cache in memory needs no layout.
func (s *Session) makeSure(w *weight) (changed bool) {
	var here format.Layout
	var err error
	if !s.cache.inMemory() {
		here, err = ask.Layout()
	}
	if err != nil && !s.unsaid {
		s.unsaid = true
		s.note(err)
	}
	presumed := w.Key.Layout
	w.Under(here.Fingerprint)
	w.presumed = false
	w.named = w.named && err == nil
	if w.Key.Layout == presumed && w.named {
		return false
	}
	w.misfit = false
	return true
}

// A layout's fingerprint is what XNNPACK packs of all families, which takes it more than a small model takes to load.
// So a file says of a layout also which machines pack in it, and what XNNPACK packs there for each family that the file
// has entries of. Where the machine is such a one, and XNNPACK packs the same for the family of a look-up, the layout's
// entries of that family are what it would pack. What must be packed is packed under the layout that XNNPACK shows in
// whole.
//
// The machine alone is not enough, because XNNPACK may be patched or built in another way; nor is the sample, which
// does not show each choice that XNNPACK makes within a family, as for the shapes of kernels.

// evidence is what a file says of layouts that such a machine as this packs in.
type evidence []shownFamily

// A shownFamily is a family of a layout.
type shownFamily struct {
	layout, sum format.Digest // the sum is to be compared with what XNNPACK packs in this process
	family      packing.Family
}

// mostShown is how many families are read of a file, which could claim any number.
const mostShown = 1 << 10

// shownBy returns what an index says, nothing for none.
func shownBy(index *format.Index) (all evidence) {
	here := ask.Machine()
	if index == nil || here == (format.Digest{}) {
		return nil
	}
	for _, l := range index.Layouts() {
		said := format.DecodeEvidence(l.Evidence)
		if !slices.Contains(said.Machines, here) {
			continue
		}
		for _, f := range said.Families[:min(len(said.Families), mostShown-len(all))] {
			all = append(all, shownFamily{l.Fingerprint, f.Sum, f.Family})
		}
	}
	return all
}

// layoutFor returns the layout whose entries of a kernel XNNPACK is seen to pack here, false if none is known.
func (all evidence) layoutFor(kernel *source, fingerprintID uint32) (layout format.Digest, known bool) {
	if len(all) == 0 || len(kernel.packing.identities) == 0 || kernel.copyOf != nil {
		return format.Digest{}, false
	}
	f := kernel.packing.identities[0].geometry.Family
	at := slices.IndexFunc(all, func(s shownFamily) bool {
		if s.family != f {
			return false
		}
		sum, known := ask.Sum(f)
		return known && sum == s.sum
	})
	if at < 0 {
		return format.Digest{}, false
	}
	for i := range kernel.packing.identities {
		g := &kernel.packing.identities[i].geometry
		if g.Family != f || !ask.Shows(g, fingerprintID) {
			return format.Digest{}, false
		}
	}
	return all[at].layout, true
}
