package writer

import (
	"errors"
	"maps"

	"xpwc/internal/format"
)

// Reasons why nothing of the cache can answer a look-up: see package xpwc.
const (
	ReasonInMemory = "in-memory"
	ReasonNoFile   = "no-file"
	ReasonForeign  = "foreign"
	ReasonDamaged  = "damaged"
)

// Empty returns why the cache could answer no look-up when the session began, or "".
func (u *User) Empty() string { return u.empty }

func (w *Writer) emptyLocked() string {
	// An unusable file that must not be replaced is as unusable for the next session.
	isUnusable := w.access == unusable || w.access == forbidden && w.loaded.index == nil && w.cause != nil
	switch {
	case w.inMemory():
		return ReasonInMemory
	case isUnusable && errors.Is(w.cause, format.ErrDamaged):
		return ReasonDamaged
	case isUnusable:
		return ReasonForeign
	case w.access == newer:
		return ReasonVersion
	case w.access == unmappable:
		return ReasonDisk
	case w.loaded.torn:
		return ReasonDamaged
	case w.loaded.index == nil:
		return ReasonNoFile
	}
	return ""
}

// MaxSearched is how many records of an index are searched for why a look-up missed, which takes some 6 ms. More
// would take longer than packing some weights. Tests change it.
var MaxSearched = 1 << 14

// Search calls do for the record of each entry that others have made and no generation has, and for each record of the
// loaded index, with the description of its layout, "" if that is not known. withheld: the payload is damaged, and no
// session is given it. It reports whether do was called for all.
func (u *User) Search(do func(r *format.Record, description string, withheld bool)) (complete bool) {
	index, unlisted, damage := u.searched()
	for i := range unlisted {
		do(&unlisted[i].Record, "", unlisted[i].withheld)
	}
	if index == nil {
		return true
	}
	if index.Len() > MaxSearched {
		return false
	}
	descriptions := map[format.Digest]string{}
	for _, l := range index.Layouts() {
		descriptions[l.Fingerprint] = l.Description
	}
	for i := range index.Len() {
		r, err := index.Record(i)
		if err != nil {
			return false
		}
		do(&r, descriptions[r.Layout], damage[r.Offset])
	}
	return true
}

// A searchedEntry is one that others have made and no generation has.
type searchedEntry struct {
	format.Record
	withheld bool
}

func (u *User) searched() (index *format.Index, unlisted []searchedEntry, damage map[uint64]bool) {
	w := u.w
	w.mu.Lock()
	defer w.unlock()
	for e := range w.entries.Entries() {
		if e.Packer != &u.owner && !e.Listed(w.loaded.id) {
			unlisted = append(unlisted, searchedEntry{e.Record, e.Withheld != nil})
		}
	}
	return w.loaded.index, unlisted, maps.Clone(w.damage)
}
