package writer

import (
	"xpwc/internal/ask"
	"xpwc/internal/entries"
	"xpwc/internal/format"
)

// SetLayout records the layout of this machine, and completes the keys that have none: of entries that were packed
// here, and of claims. The keys of later queries follow. A cache in memory has no layout.
func (w *Writer) SetLayout(layout format.Digest) {
	w.mu.Lock()
	defer w.unlock()
	w.setLayoutLocked(layout)
}

func (w *Writer) setLayoutLocked(layout format.Digest) {
	if w.inMemory() || w.layout == layout {
		return
	}
	w.layout = layout
	for e := range w.entries.Entries() {
		if withoutLayout(e) {
			e.Record.Layout = layout
		}
	}
	for u := range w.users {
		if c := u.claim; c != nil && c.key.Layout == (format.Digest{}) {
			c.key.Layout = layout
		}
	}
}

// withoutLayout reports whether an entry was packed here before this machine's layout was known.
func withoutLayout(e *entries.Entry) bool {
	return e.State != entries.Durable && e.Record.Layout == format.Digest{}
}

// resolveLocked completes the key of a query.
func (w *Writer) resolveLocked(q *Query) {
	if q.Key.Layout == (format.Digest{}) && w.layout != (format.Digest{}) {
		q.SetLayout(w.layout)
	}
}

// learnLayout asks XNNPACK for the layout of this machine, which takes a millisecond or two the first time. If XNNPACK
// does not report it, entries without a layout cannot be committed.
func (w *Writer) learnLayout() {
	layout, err := ask.Layout()
	w.mu.Lock()
	defer w.unlock()
	if err == nil {
		w.setLayoutLocked(layout.Fingerprint)
		return
	}
	w.noteLocked(err)
	for _, e := range w.entries.Packed {
		if withoutLayout(e) {
			e.Withhold(err)
		}
	}
}
