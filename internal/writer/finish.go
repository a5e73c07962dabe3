package writer

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"xpwc/internal/entries"
	"xpwc/internal/format"
)

// An Own is an entry that the session packed, and what from.
type PackedEntry struct {
	Entry        *entries.Entry
	Kernel, Bias *entries.Content
}

// PackedEntries returns the entries that the session packed and that do not say yet what from, each as often as it uses
// it.
func (u *User) PackedEntries() (owned []PackedEntry) {
	u.w.mu.Lock()
	defer u.w.unlock()
	for _, e := range u.used {
		if e.Kernel != nil && e.Packer == u {
			owned = append(owned, PackedEntry{e, e.Kernel, e.Bias})
		}
	}
	return owned
}

// A Restamp is an entry that was found by the content of tensors whose stamps it does not have, or by the bytes packed
// from them.
type Restamp struct {
	Entry        *entries.Entry
	Kernel, Bias *entries.Content
}

// An Ending is what a session has found out, having read what it was to read.
type Ending struct {
	Changed  error            // what it packed from was changed meanwhile, or nil
	Restamps []Restamp        // what it found
	Variants []*entries.Entry // of what it packed, those that are not all that their key may stand for
}

// Finish says in the session's entries what they were packed from, and has them committed in a moment. The runtime must
// not be used if what it packed from has changed, or if what it uses is lost by now, which is returned.
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
	for _, e := range u.used {
		w.noteLocked(u.identifyLocked(e))
	}
	w.verifySoonLocked(u)
	if u.packs {
		w.leaveLocked(u)
		w.commitSoonLocked() // and the lock is given up after it
	}
	return u.lost
}

// mixLocked keeps nothing of what the session packed. Other sessions that use some of it fail, too.
func (u *User) mixLocked(changed error) {
	mixed := map[*entries.Entry]bool{}
	for _, e := range u.used {
		if e.Kernel != nil && e.Packer == u {
			e.Withhold(entries.ErrSourceChanged)
			mixed[e] = true
		}
	}
	for user := range u.w.users {
		if user != u && slices.ContainsFunc(user.used, func(e *entries.Entry) bool { return mixed[e] }) {
			user.lost = cmp.Or(user.lost, fmt.Errorf("packed by another session: %w", changed))
		}
	}
}

// identifyLocked writes into an entry's record what it was packed from, all of which was read. From then on it can be
// committed.
func (u *User) identifyLocked(e *entries.Entry) error {
	if e.Kernel == nil || e.Packer != u {
		return nil // found, or packed by another session, which will do it
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
		e.Withhold(err) // nobody knows what it was packed from
	}
	return err
}

// Needed reports whether an entry's stamps or digests may have to be written anew.
func (r *Restamp) Needed(v *View) bool {
	return v.Kernel == nil && !v.Pending && v.Entry.Reason == "" && r.differs(&v.Record)
}

func (r *Restamp) differs(rec *format.Record) bool {
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
func (r *Restamp) stamps() (s format.Stamps, complete bool) {
	s.Kernel = r.Kernel.Stamp
	complete = s.Kernel != format.Digest{}
	if r.Bias != nil {
		s.Bias = r.Bias.Stamp
		complete = complete && s.Bias != format.Digest{}
	}
	return s, complete
}

// restampLocked brings an entry's stamps and digests up to date with tensors, all of which were read. The stamps of
// another source are added to those that are there, and so are the old ones of this source: a start with any of the
// copies in turn finds its stamps.
func (w *Writer) restampLocked(r *Restamp) {
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
func bothRead(r *Restamp) bool {
	read := func(c *entries.Content) bool {
		if c == nil {
			return true
		}
		_, ok, err := c.Computed()
		return ok && err == nil
	}
	return read(r.Kernel) && read(r.Bias)
}
