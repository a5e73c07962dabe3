package writer

import (
	"cmp"
	"fmt"
	"slices"

	"xpwc/internal/entries"
	"xpwc/internal/format"
)

// PackedEntries returns the entries that the session packed and has not identified, each as often as it uses it.
func (u *User) PackedEntries() (owned []Sourced) {
	u.w.mu.Lock()
	defer u.w.unlock()
	owned = make([]Sourced, 0, len(u.owner.Used))
	for _, e := range u.owner.Used {
		if e.Packer == &u.owner {
			owned = append(owned, Sourced{e, e.Contents})
		}
	}
	return owned
}

// A Sourced is an entry with the tensors that it was packed from. Its record may lack their stamps.
type Sourced struct {
	Entry *entries.Entry
	entries.Contents
}

// An Ending is the result of a session's packing. All digests are computed.
type Ending struct {
	Changed  error            // a source changed while it was packed, or nil
	Restamps []Sourced        // of entries that it found
	Variants []*entries.Entry // packed here; their key may stand for other packings, too
}

// Finish identifies the session's entries by their sources, and schedules their commit. It returns why the runtime's
// packed weights are lost, if they are.
func (u *User) Finish(end Ending) (lost error) {
	lost = u.conclude(end)
	onlyChanged := func() bool { return u.w.dirty && u.w.activity != scheduled && u.w.packing == 0 }
	if !u.w.inMemory() && underLock(u.w, onlyChanged) {
		u.w.commitAtOnce()
	}
	return lost
}

func (u *User) conclude(end Ending) (lost error) {
	w := u.w
	w.mu.Lock()
	defer w.unlock()
	if end.Changed != nil {
		end.Restamps = nil
		u.mixLocked(end.Changed)
	}
	for _, r := range end.Restamps {
		w.restampLocked(&r)
	}
	for _, e := range end.Variants {
		w.setFlagLocked(e, format.Variant)
	}
	for _, e := range u.owner.Used {
		w.noteLocked(u.identifyLocked(e))
	}
	w.verifySoonLocked(u)
	if u.packs {
		w.leaveLocked(u)
		w.commitSoonLocked() // and the lock is given up after it
	}
	return u.owner.Lost
}

// mixLocked withholds all entries that the session packed. Other sessions that use one of them fail, too.
func (u *User) mixLocked(changed error) {
	mixed := map[*entries.Entry]bool{}
	for _, e := range u.owner.Used {
		if e.Packer == &u.owner {
			e.Withhold(entries.ErrSourceChanged)
			mixed[e] = true
		}
	}
	for user := range u.w.users {
		if user != u && slices.ContainsFunc(user.owner.Used, func(e *entries.Entry) bool { return mixed[e] }) {
			user.owner.Lost = cmp.Or(user.owner.Lost, fmt.Errorf("packed by another session: %w", changed))
		}
	}
}

// identifyLocked writes the sources of an entry, whose digests are computed, into its record. From then on it can be
// committed.
func (u *User) identifyLocked(e *entries.Entry) error {
	if e.Packer != &u.owner {
		return nil // found in the cache, or packed by another session
	}
	digests, _, err := e.Digests()
	r, origin := &e.Record, e.Kernel.Origin
	r.Source, r.SourceName, r.Digests = origin.Source, origin.Name, digests
	r.Stamps, _ = e.Stamps()
	e.Contents, e.Packer = entries.Contents{}, nil
	if err != nil {
		e.Withhold(err) // its source is unknown
	}
	return err
}

// Needed reports whether an entry's stamps or digests may be out of date.
func (r *Sourced) Needed(v *View) bool {
	return v.Kernel == nil && !v.Pending && v.Entry.Reason == "" && r.differs(&v.Record)
}

func (r *Sourced) differs(rec *format.Record) bool {
	stamps, stamped := r.Stamps()
	switch origin := r.Kernel.Origin.Source; {
	case rec.Source == format.Digest{} && origin != format.Digest{}:
		return true
	case stamped && rec.HasStamps(stamps):
		return false
	case rec.Source == origin:
		return r.MayDiffer(rec)
	}
	return stamped
}

// restampLocked updates an entry's stamps and digests from tensors whose digests are computed. It adds the stamps of
// another source, and keeps the old ones of this source: a start with any copy of the model finds its stamps.
func (w *Writer) restampLocked(r *Sourced) {
	e := r.Entry
	rec := &e.Record
	if e.Kernel != nil || e.Reason != "" || !r.differs(rec) {
		return
	}
	origin, old := r.Kernel.Origin, rec.Stamps
	switch {
	case rec.Source == origin.Source:
	case rec.Source == format.Digest{}: // what was packed elsewhere (package registry) is this source's from now on
		rec.Source, rec.SourceName = origin.Source, origin.Name
		e.Changed, w.dirty = true, true
	default:
		_, read, err := r.Digests()
		if stamps, _ := r.Stamps(); read && err == nil && rec.AddCopy(stamps) {
			e.Changed, w.dirty = true, true
		}
		return
	}
	update := func(c *entries.Content, stamp, digest *format.Digest) {
		if !c.MayDiffer(*stamp, *digest) {
			return
		}
		d, ok, err := c.Computed()
		if !ok || err != nil {
			return
		}
		*stamp, *digest = c.Stamp, d
		e.Changed, w.dirty = true, true
	}
	update(r.Kernel, &rec.Stamps.Kernel, &rec.Digests.Kernel)
	update(r.Bias, &rec.Stamps.Bias, &rec.Digests.Bias)
	rec.AddCopy(old)
}
