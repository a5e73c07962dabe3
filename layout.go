package xpwc

import (
	"fmt"
	"slices"

	"xpwc/internal/ask"
	"xpwc/internal/format"
	"xpwc/packing"
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
	go func(shown evidence) {
		if !slices.ContainsFunc(shown, func(s shownFamily) bool { return s.complete }) {
			_, _ = ask.Layout()
			return
		}
		for i := range shown {
			if shown[i].sample.Is.Operator != packing.Deconvolution2D { // see packedBefore
				shown[i].sample.Sum()
			}
		}
	}(c.shown())
}

// shown returns what the loaded file says of layouts, as far as it was seen on such a machine as this.
func (c *core) shown() evidence {
	index := c.writer.Index()
	c.mu.Lock()
	defer c.mu.Unlock()
	if index != c.index {
		c.index, c.evidence = index, shownBy(index).ofThisMachine()
	}
	return c.evidence
}

// A hereLayout is how XNNPACK packs here, or why it does not say so.
type hereLayout struct {
	fingerprint format.Digest
	err         error
}

// layout returns how XNNPACK packs here. Without a fingerprint, nobody could distinguish what is packed from what
// others pack. A cache in memory needs none.
func (s *Session) layout() *hereLayout {
	if s.here == nil {
		s.here = &hereLayout{}
		if !s.cache.inMemory() {
			layout, err := ask.Layout()
			if err != nil {
				s.remark(err)
			}
			*s.here = hereLayout{layout.Fingerprint, err}
		}
	}
	return s.here
}

// layoutFor returns the fingerprint of the layout whose entries of a weight are what XNNPACK packs here. It may be
// presumed, from evidence: then what the file does not have must not be packed under it.
func (s *Session) layoutFor(kernel *source, fingerprintID uint32) (layout format.Digest, presumed bool) {
	if s.here == nil && kernel != nil && !ask.Answered() {
		if layout, presumed = s.evidence.layoutFor(kernel, fingerprintID); presumed {
			return layout, true
		}
	}
	return s.layout().fingerprint, false
}

// presume has a weight looked up under the layout that layoutFor returns.
func (s *Session) presume(w *weight) {
	var layout format.Digest
	layout, w.presumed = s.layoutFor(w.kernel, w.Key.FingerprintID)
	w.Under(layout)
	w.named = w.named && (s.here == nil || s.here.err == nil)
}

// makeSure has the weight named under this machine's layout, and reports whether it was under another. XNNPACK takes a
// millisecond or two to say which that is.
func (s *Session) makeSure(w *weight) (changed bool) {
	presumed := w.Key.Layout
	w.Under(s.layout().fingerprint)
	w.presumed = false
	w.named = w.named && (s.here == nil || s.here.err == nil)
	return w.Key.Layout != presumed || !w.named
}

// layoutsOf returns the layouts of records, with what is known of each. known are those that the file says so far.
func layoutsOf(said []format.Layout, records []format.Record) []format.Layout {
	var layouts []format.Layout
	known := map[format.Digest]format.Layout{}
	for _, l := range said {
		known[l.Fingerprint] = l
	}
	if here, err := ask.Layout(); err == nil { // else nothing was packed for it
		if _, listed := known[here.Fingerprint]; !listed {
			known[here.Fingerprint] = here
		}
		var families format.Families
		for i := range records {
			families.Add(records[i].Layout, records[i].Family)
		}
		for fingerprint, l := range known {
			l.Evidence = evidenceFor(fingerprint, here.Fingerprint, families.Of(fingerprint), l.Evidence)
			known[fingerprint] = l
		}
	}
	listed := map[format.Digest]bool{}
	for i := range records {
		is := records[i].Layout
		if (i == 0 || is != records[i-1].Layout) && !listed[is] {
			listed[is] = true
			layouts = append(layouts, known[is])
		}
	}
	return layouts
}
