package xpwc

import (
	"errors"
	"fmt"
	"sync"

	"xpwc/internal/digest"
	"xpwc/internal/format"
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
	here, err := currentLayout()
	if err == nil && here.Fingerprint == (format.Digest{}) {
		err = ErrNoCgo
	}
	if err != nil {
		return Layout{}, fmt.Errorf("this machine's layout: %w", err)
	}
	return Layout{here.Fingerprint, here.Description}, nil
}

// currentLayout asks XNNPACK how it packs on this machine. The answer cannot change while the process lives. Without
// cgo it is a layout without a fingerprint.
var currentLayout = sync.OnceValues(func() (format.Layout, error) {
	var packed digest.Hash
	switch err := probeLayout(&packed); {
	case errors.Is(err, ErrNoCgo):
		return format.Layout{Description: err.Error()}, nil
	case err != nil:
		return format.Layout{}, err
	}
	return format.Layout{Fingerprint: packed.Sum(), Description: describeLayout()}, nil
})

// layout returns the fingerprint of how XNNPACK packs here. Without one, nobody could distinguish what is packed
// from what others pack.
func (s *Session) layout() format.Digest {
	if !s.layoutKnown {
		layout, err := currentLayout()
		if err != nil {
			s.remark(err)
		}
		s.here, s.layoutErr, s.layoutKnown = layout.Fingerprint, err, true
	}
	return s.here
}

// layouts returns the layouts of the records, with what is known of each.
func (c *core) layouts(loaded *format.Index, records []format.Record) []format.Layout {
	var layouts []format.Layout
	known := map[format.Digest]format.Layout{}
	if here, err := currentLayout(); err == nil { // else nothing was packed for it
		known[here.Fingerprint] = here
	}
	if loaded != nil {
		for _, l := range loaded.Layouts() {
			known[l.Fingerprint] = l
		}
	}
	listed := map[format.Digest]bool{}
	for _, r := range records {
		if !listed[r.Layout] {
			listed[r.Layout] = true
			layouts = append(layouts, known[r.Layout])
		}
	}
	return layouts
}
