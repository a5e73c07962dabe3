package writer

import (
	"cmp"
	"errors"
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
			owned = append(owned, Sourced{e, e.Kernel, e.Bias})
		}
	}
	return owned
}

// A Sourced is an entry with the tensors that it was packed from. Its record may lack their stamps.
type Sourced struct {
	Entry        *entries.Entry
	Kernel, Bias *entries.Content
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
	kernel, bias, r := e.Kernel, e.Bias, &e.Record
	digest, _, err := kernel.Computed()
	r.Source, r.SourceName = kernel.Origin.Source, kernel.Origin.Name
	r.KernelStamp, r.KernelDigest = kernel.Stamp, digest
	if bias != nil {
		digest, _, biasErr := bias.Computed()
		r.BiasStamp, r.BiasDigest = bias.Stamp, digest
		err = errors.Join(err, biasErr)
	}
	e.Kernel, e.Bias, e.Packer = nil, nil, nil
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
	stamps, stamped := r.stamps()
	switch origin := r.Kernel.Origin.Source; {
	case rec.Source == format.Digest{} && origin != format.Digest{}:
		return true
	case stamped && rec.HasStamps(stamps):
		return false
	case rec.Source == origin:
		return r.Kernel.MayDiffer(rec.KernelStamp, rec.KernelDigest) || r.Bias.MayDiffer(rec.BiasStamp, rec.BiasDigest)
	}
	return stamped
}

// stamps returns the stamps of the tensors, and whether all of them have one.
func (r *Sourced) stamps() (s format.Stamps, complete bool) {
	s.Kernel = r.Kernel.Stamp
	complete = s.Kernel != format.Digest{}
	if r.Bias != nil {
		s.Bias = r.Bias.Stamp
		complete = complete && s.Bias != format.Digest{}
	}
	return s, complete
}

// restampLocked updates an entry's stamps and digests from tensors whose digests are computed. It adds the stamps of
// another source, and keeps the old ones of this source: a start with any copy of the model finds its stamps.
func (w *Writer) restampLocked(r *Sourced) {
	e := r.Entry
	rec := &e.Record
	if e.Kernel != nil || e.Reason != "" || !r.differs(rec) {
		return
	}
	origin, old := r.Kernel.Origin, format.Stamps{Kernel: rec.KernelStamp, Bias: rec.BiasStamp}
	switch {
	case rec.Source == origin.Source:
	case rec.Source == format.Digest{}: // what was packed elsewhere (package registry) is this source's from now on
		rec.Source, rec.SourceName = origin.Source, origin.Name
		e.Changed, w.dirty = true, true
	default:
		if stamps, _ := r.stamps(); bothRead(r) && rec.AddCopy(stamps) {
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
	update(r.Kernel, &rec.KernelStamp, &rec.KernelDigest)
	update(r.Bias, &rec.BiasStamp, &rec.BiasDigest)
	rec.AddCopy(old)
}

// bothRead reports whether the tensors could be read.
func bothRead(r *Sourced) bool {
	read := func(c *entries.Content) bool {
		if c == nil {
			return true
		}
		_, ok, err := c.Computed()
		return ok && err == nil
	}
	return read(r.Kernel) && read(r.Bias)
}
