package xpwc

import (
	"errors"
	"fmt"
	"log/slog"

	"xpwc/internal/digest"
	"xpwc/internal/format"
)

// A watch is a session's view of a Watch: what tensors come from, and whether that was changed in place.
type watch struct {
	Watch
	source string
	before error // what it said when the session first loaded from it
	read   bool  // tensors of it have no stamp: they are known by their content
}

// changed returns an error that matches ErrSourceChanged if the content may have changed since it was given.
func (w *watch) changed() error {
	if w.before != nil {
		return w.before
	}
	var changed bool
	err := guarded("Watch.Changed", func() (err error) {
		changed, err = w.Changed()
		return err
	})
	switch {
	case err != nil:
		return fmt.Errorf("source %q: it may have been %w (%w)", w.source, ErrSourceChanged, err)
	case changed:
		return fmt.Errorf("source %q: %w", w.source, ErrSourceChanged)
	}
	return nil
}

// origin returns where a tensor comes from.
func (s *Session) origin(id *Identity) *origin {
	w := s.watch(id)
	if s.lastOrigin == nil || s.lastSource != id.Source || s.lastOrigin.watch != w {
		s.lastOrigin, s.lastSource = &origin{digest.OfStrings(id.Source), w}, id.Source
	}
	return s.lastOrigin
}

// watch returns the session's watch for a tensor, or nil if it has none. The first time it is asked, so that a change
// after that will show.
func (s *Session) watch(id *Identity) *watch {
	if id.Watch == nil {
		return nil
	}
	w := s.lastWatch // most tensors of a session have one
	if w == nil || w.Watch != id.Watch {
		w = s.watches[id.Watch]
	}
	if w == nil {
		w = &watch{Watch: id.Watch, source: id.Source}
		w.before = w.changed()
		if s.watches == nil {
			s.watches = map[Watch]*watch{}
		}
		s.watches[id.Watch] = w
	}
	w.read = w.read || id.Stamp == ""
	s.lastWatch = w
	return w
}

// A restamping is an entry that was found by the content of a source whose stamp it does not have, or by the bytes
// packed from it.
type restamping struct {
	kernel, bias *source
	entry        *entry
}

// neededLocked reports whether the entry's stamps or digests may have to be written anew.
func (r *restamping) neededLocked() bool {
	e := r.entry
	if e.kernel != nil || e.reason != "" {
		return false
	}
	origin, unknown := r.kernel.from.digest, e.record.Source == (format.Digest{})
	if unknown && origin != (format.Digest{}) {
		return true
	}
	return e.record.Source == origin &&
		(r.kernel.mayDiffer(e.record.KernelStamp, e.record.KernelDigest) ||
			r.bias.mayDiffer(e.record.BiasStamp, e.record.BiasDigest))
}

// mayDiffer reports whether a source is not what a record says of it, as far as is known: by the stamp or, if it has
// none, by the digest.
func (s *source) mayDiffer(stamp, digest format.Digest) bool {
	if s == nil {
		return false
	}
	if s.stamp != (Digest{}) {
		return stamp != s.stamp
	}
	d := s.digested.Load()
	return d == nil || d.err == nil && digest != d.digest
}

// restampLater takes note that content of this session was just seen to be packed into an entry's bytes, or to have
// its digest. Finalize says so in the entry, so that the next look-up need not compare, unless the content changed
// since. The cache's lock is held.
func (s *Session) restampLater(w *weight, e *entry) {
	if r := (restamping{w.kernel, w.bias, e}); r.neededLocked() {
		s.restamps = append(s.restamps, r)
	}
}

// restampLocked brings an entry's stamps and digests up to date with sources, all of which were read. Where one content
// comes from several sources, the first keeps its stamps: they would be rewritten with every change of source.
func (s *Session) restampLocked(r restamping) {
	if !r.neededLocked() {
		return
	}
	e := r.entry
	// What was packed elsewhere (package registry) is this source's from now on.
	if origin := r.kernel.from.digest; e.record.Source != origin {
		e.record.Source = origin
		e.changed, s.cache.dirty = true, true
	}
	update := func(src *source, stamp, digest *format.Digest) {
		if !src.mayDiffer(*stamp, *digest) {
			return
		}
		d, err := src.contentDigest()
		if err != nil {
			return
		}
		*stamp, *digest = src.stamp, d
		e.changed, s.cache.dirty = true, true
	}
	update(r.kernel, &e.record.KernelStamp, &e.record.KernelDigest)
	update(r.bias, &e.record.BiasStamp, &e.record.BiasDigest)
}

// lookAgain asks everything that the session loaded from whether it changed, once all of it was read, and returns an
// error if something has: of a source that changed while it was packed nobody knows whether a packing or a digest is of
// the old content, of the new, or of both. A session that packed nothing, but found entries by the content, may have
// found some of the old content and some of the new. It reads and asks without the cache's lock.
func (s *Session) lookAgain() (changed error) {
	asked := s.askedLater()
	for _, src := range asked.read {
		_, _ = src.contentDigest() // whoever needs it sees the error
	}
	uses := s.packed || asked.unidentified
	for _, w := range s.watches {
		uses = uses || w.read
	}
	for _, other := range asked.others {
		changed = errors.Join(changed, other.watch.changed())
		other.by.pins.Done()
	}
	if !uses && len(s.restamps) == 0 {
		return nil
	}
	for _, w := range s.watches {
		if err := w.changed(); err != nil {
			changed = errors.Join(changed, err)
			s.countChanged(w)
		}
	}
	if changed != nil && !uses {
		s.restamps = nil // nothing that was found depends on it
		return nil
	}
	return changed
}

func (s *Session) countChanged(w *watch) {
	c := s.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.SourcesChanged++
	c.events.add(slog.LevelWarn, "source changed while it was packed", slog.String("source", w.source))
}

// A later is what Finalize has to read and to ask.
type later struct {
	read         []*source
	others       []pinned
	unidentified bool // the session uses what others have packed, which does not say yet from what
}

// A pinned watch is another session's, which stays as long as it is pinned.
type pinned struct {
	watch *watch
	by    *Session
}

// askedLater returns what the session's entries were packed from: its own tensors are to be read, and others, whose
// sessions will look again after this one has used them, to be asked.
func (s *Session) askedLater() (l later) {
	c := s.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	read := func(sources ...*source) {
		for _, src := range sources {
			if src != nil {
				l.read = append(l.read, src)
			}
		}
	}
	for _, e := range s.used {
		switch {
		case e.kernel == nil:
		case e.by == s:
			read(e.kernel, e.bias)
		default:
			l.unidentified = true
			for _, src := range []*source{e.kernel, e.bias} {
				if src == nil || src.from.watch == nil || s.watches[src.from.watch.Watch] != nil {
					continue
				}
				e.by.pins.Add(1)
				l.others = append(l.others, pinned{src.from.watch, e.by})
			}
		}
	}
	for _, r := range s.restamps {
		read(r.kernel, r.bias)
	}
	return l
}

// usesMixedLocked returns an error if the session uses what another packed from a source that changed.
func (s *Session) usesMixedLocked() error {
	for _, e := range s.used {
		if e.doubt == mixed {
			return fmt.Errorf("packed weights %q of another session: their source was %w", e.name(), ErrSourceChanged)
		}
	}
	return nil
}

// mixLocked keeps nothing of what the session packed, and says of no entry found that it is of its sources.
func (s *Session) mixLocked() {
	s.restamps = nil
	for _, e := range s.used {
		if e.kernel != nil && e.by == s {
			e.suspectFor(mixed)
		}
	}
}
