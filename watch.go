package xpwc

import (
	"errors"
	"fmt"
	"log/slog"

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
	switch changed, err := w.Changed(); {
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
		s.lastOrigin, s.lastSource = &origin{digestOfStrings(id.Source), w}, id.Source
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

// needed reports whether the entry's stamps or digests may have to be written anew.
func (r *restamping) needed() bool {
	e := r.entry
	if e.kernel != nil || e.reason != "" {
		return false
	}
	origin, unknown := r.kernel.from.digest, e.record.Source == (format.Digest{})
	if unknown && origin != (format.Digest{}) {
		return true
	}
	return e.record.Source == origin &&
		(r.kernel.differs(e.record.KernelStamp, e.record.KernelDigest) ||
			r.bias.differs(e.record.BiasStamp, e.record.BiasDigest))
}

// differs reports whether a source is not what a record says of it: by the stamp or, if it has none, by the digest.
// Its content was just read if it has none.
func (s *source) differs(stamp, digest format.Digest) bool {
	if s == nil {
		return false
	}
	if s.stamp != (Digest{}) {
		return stamp != s.stamp
	}
	d, err := s.contentDigest()
	return err == nil && digest != d
}

// restampLater takes note that content of this session was just seen to be packed into an entry's bytes, or to have
// its digest. Finalize says so in the entry, so that the next look-up need not compare, unless the content changed
// since.
func (s *Session) restampLater(w *weight, e *entry) {
	if r := (restamping{w.kernel, w.bias, e}); r.needed() {
		s.restamps = append(s.restamps, r)
	}
}

// restamp brings an entry's stamps and digests up to date. Where one content comes from several sources, the first
// keeps its stamps: they would be rewritten with every change of source. c.mu is held.
func (s *Session) restamp(r restamping) {
	if !r.needed() {
		return
	}
	e := r.entry
	// What was packed elsewhere (package registry) is this source's from now on.
	if origin := r.kernel.from.digest; e.record.Source != origin {
		e.record.Source = origin
		e.changed, s.cache.dirty = true, true
	}
	update := func(src *source, stamp, digest *format.Digest) {
		if !src.differs(*stamp, *digest) {
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

// lookAgain asks everything that the session loaded from whether it changed, once all of it was read: of a source
// that changed while it was packed nobody knows whether a packing or a digest is of the old content, of the new, or
// of both. Nothing packed in this session is kept then, and no entry found is said to be of this source. A session that
// packed nothing, but found entries by the content, may have found some of the old content and some of the new. c.mu is
// held.
func (s *Session) lookAgain() {
	var unidentified []*entry // of other sessions, which will look again after this one has used them
	changed := s.usesMixed()
	for _, e := range s.used {
		if e.kernel != nil && e.by == s {
			readAll(e.kernel, e.bias)
		} else if e.kernel != nil {
			unidentified = append(unidentified, e)
		}
	}
	for _, r := range s.restamps {
		readAll(r.kernel, r.bias)
	}
	uses := s.packed || len(unidentified) > 0 || changed != nil
	for _, w := range s.watches {
		uses = uses || w.read
	}
	if !uses && len(s.restamps) == 0 {
		return
	}
	for _, e := range unidentified {
		changed = errors.Join(changed, s.askFor(e.kernel), s.askFor(e.bias))
	}
	for _, w := range s.watches {
		if err := w.changed(); err != nil {
			changed = errors.Join(changed, err)
			s.cache.stats.SourcesChanged++
			s.cache.events.add(slog.LevelWarn, "source changed while it was packed", slog.String("source", w.source))
		}
	}
	if changed == nil {
		return
	}
	s.restamps = nil
	for _, e := range s.used {
		if e.kernel != nil && e.by == s {
			e.suspectFor(mixed)
		}
	}
	if uses {
		s.err = errors.Join(changed, s.err)
	}
}

// usesMixed returns an error if the session uses what another packed from a source that changed.
func (s *Session) usesMixed() error {
	for _, e := range s.used {
		if e.doubt == mixed {
			return fmt.Errorf("packed weights %q of another session: their source was %w", e.name(), ErrSourceChanged)
		}
	}
	return nil
}

// readAll has everything read that will be said of sources. Whoever needs it sees the errors.
func readAll(sources ...*source) {
	for _, src := range sources {
		if src != nil {
			_, _ = src.contentDigest()
		}
	}
}

// askFor asks for another session's tensor, which is there as long as that session is not finalized.
func (s *Session) askFor(src *source) error {
	if src == nil || src.from.watch == nil || s.watches[src.from.watch.Watch] != nil {
		return nil
	}
	return src.from.watch.changed()
}
