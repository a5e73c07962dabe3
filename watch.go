package xpwc

import (
	"errors"
	"fmt"
	"log/slog"

	"xpwc/internal/digest"
	"xpwc/internal/entries"
	"xpwc/internal/writer"
)

// A watch is a session's view of a Watch: what tensors come from, and whether that was changed in place.
type watch struct {
	Watch
	source string
	before error // what it said when the session first loaded from it
	read   bool  // tensors of it have no stamp: they are known by their content
}

// Changed returns an error that matches ErrSourceChanged if the content may have changed since it was given.
func (w *watch) Changed() error {
	if w.before != nil {
		return w.before
	}
	var changed bool
	err := guarded("Watch.Changed", func() (err error) {
		changed, err = w.Watch.Changed()
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
func (s *Session) origin(id *Identity) *entries.Origin {
	w := s.watch(id)
	if s.lastOrigin == nil || s.lastSource != id.Source || s.lastWatched != w {
		s.lastOrigin, s.lastSource, s.lastWatched = &entries.Origin{Source: digest.OfStrings(id.Source)}, id.Source, w
		if w != nil {
			s.lastOrigin.Watch = w
		}
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
		w.before = w.Changed()
		if s.watches == nil {
			s.watches = map[Watch]*watch{}
		}
		s.watches[id.Watch] = w
	}
	w.read = w.read || id.Stamp == ""
	s.lastWatch = w
	return w
}

// restampLater takes note that content of this session was just seen to be packed into an entry's bytes, or to have
// its digest. Finalize says so in the entry, so that the next look-up need not compare, unless the content changed
// since.
func (s *Session) restampLater(w *weight, v *writer.View) {
	r := writer.Restamp{Entry: v.Entry, Kernel: &w.kernel.is}
	if w.bias != nil {
		r.Bias = &w.bias.is
	}
	if r.Needed(v) {
		s.restamps = append(s.restamps, r)
	}
}

// lookAgain asks everything that the session loaded from whether it changed, once all of it was read, and returns an
// error if something has: of a source that changed while it was packed nobody knows whether a packing or a digest is of
// the old content, of the new, or of both. A session that packed nothing, but found entries by the content, may have
// found some of the old content and some of the new.
func (s *Session) lookAgain() (end writer.Ending) {
	unfinished := s.user.Unfinished(func(o *entries.Origin) bool { return s.watches[o.Watch.(*watch).Watch] == nil })
	defer unfinished.Unpin()
	end.Restamps, end.Variants = s.restamps, variants(unfinished.Own)
	for _, o := range unfinished.Own {
		readAll(o.Kernel, o.Bias)
	}
	for _, r := range s.restamps {
		readAll(r.Kernel, r.Bias)
	}
	uses := s.work != workNone || unfinished.Others
	for _, w := range s.watches {
		uses = uses || w.read
	}
	for _, other := range unfinished.Asked {
		end.Changed = errors.Join(end.Changed, other.Changed())
	}
	if !uses && len(s.restamps) == 0 {
		return end
	}
	for _, w := range s.watches {
		if err := w.Changed(); err != nil {
			end.Changed = errors.Join(end.Changed, err)
			s.cache.countChanged(w)
		}
	}
	if end.Changed != nil && !uses {
		end.Changed, end.Restamps = nil, nil // nothing that was found depends on it
	}
	return end
}

// countChanged takes note that a source changed.
func (c *core) countChanged(w *watch) {
	c.events.add(slog.LevelWarn, "source changed while it was packed", slog.String("source", w.source))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sourcesChanged++
}

// readAll has everything read that will be said of tensors. Whoever needs it sees the errors.
func readAll(contents ...*entries.Content) {
	for _, c := range contents {
		if c != nil {
			_, _ = c.Digest()
		}
	}
}
