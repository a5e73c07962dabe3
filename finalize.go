package xpwc

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"xpwc/internal/entries"
	"xpwc/internal/writer"
)

// Finalize ends the creation of the runtime: call it when xnn_create_runtime has returned, before the runtime is set
// up. It msyncs and commits the new regions of the cache file, in the background, and frees the unpacked tensors that
// packing consumed. [Cache.Save] waits for the commit. Calling Finalize again returns the same.
//
// After an error the runtime must not be used. The error is the first that a callback could not return: ErrNotEager,
// ErrSourceChanged or ErrLost for instance, with Options.Strict also ErrDamaged. Errors that do not harm the runtime
// are in Stats.LastError and reported to Options.Logger.
func (s *Session) Finalize() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == stateClosed {
		return fmt.Errorf("finalize: %w", ErrClosed)
	}
	if s.state == stateFinalized {
		return errors.Join(s.err, s.user.Lost())
	}
	lost := s.finalize()
	err := errors.Join(s.err, lost)
	s.countLoad(err)
	s.cache.checkCap()
	return err
}

// finalize returns why what the runtime uses is lost, if it is.
func (s *Session) finalize() (lost error) {
	s.state = stateFinalized
	s.user.Unclaim()
	s.digests.Wait()
	end := s.recheckSources()
	s.findReasons()
	for _, p := range s.packings { // XNNPACK gave up on them
		s.discard(p)
	}
	lost = s.user.Finish(end) // schedules the commit; store.Commit.Write msyncs the new regions
	s.err = errors.Join(end.Changed, s.err)
	s.restamps, s.packings, s.announced = nil, nil, nil
	s.recycleScratch(nil)
	for _, src := range s.sources {
		if src.consumed && !src.retain.Load() {
			s.note(src.free())
		} else {
			s.retained = append(s.retained, src)
		}
	}
	s.data = nil
	s.sources, s.unfilled, s.origins, s.spare = nil, nil, nil, nil // there may be a million
	s.note(s.computed.drop())
	s.window.Detach()
	s.moving = nil
	s.addresses = nil
	s.provider.finalize()
	return lost
}

// recheckSources asks everything that the session loaded from whether it changed, once all of it was read, and returns
// an error if something has: of a source that changed while it was packed nobody knows whether a packing or a digest is
// of the old content, of the new, or of both. A session that packed nothing, but found entries by the content, may have
// found some of the old content and some of the new.
func (s *Session) recheckSources() (end writer.Ending) {
	packed := s.user.PackedEntries()
	end.Restamps, end.Variants = s.restamps, variants(packed)
	for _, o := range packed {
		computeAll(o.Kernel, o.Bias)
	}
	for _, r := range s.restamps {
		computeAll(r.Kernel, r.Bias)
	}
	uses := s.work != workNone
	for _, w := range s.watches {
		uses = uses || w.read
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

// variants returns the entries that were packed here from kernels with several packing identities, unless all uses gave
// the same bytes. A runtime whose creation failed has packed only some uses.
func variants(packed []writer.Sourced) (variants []*entries.Entry) {
	unseen := map[*entries.Entry]int32{} // uses
	for _, o := range packed {
		p := &o.Kernel.Reader.(*source).packing
		if !p.ambiguous {
			continue
		}
		if _, counted := unseen[o.Entry]; !counted {
			unseen[o.Entry] = p.uses
		}
		unseen[o.Entry]--
	}
	for e, n := range unseen {
		if n > 0 {
			variants = append(variants, e)
		}
	}
	return variants
}

// computeAll computes the digests of tensors. Their users get the errors.
func computeAll(contents ...*entries.Content) {
	for _, c := range contents {
		if c != nil {
			_, _ = c.Digest()
		}
	}
}

// countChanged counts and reports a source that changed.
func (c *core) countChanged(w *watch) {
	c.events.Add(slog.LevelWarn, "source changed while it was packed", slog.String("source", w.source))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sourcesChanged++
}

// countLoad counts the load that Finalize ends with an error or nil.
func (s *Session) countLoad(err error) {
	outcome := LoadMapped
	switch {
	case err != nil:
		outcome = LoadFailed
	case s.work == workNew:
		outcome = LoadPacked
	}
	c := s.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	loads := c.loads[outcome]
	loads.add(time.Since(s.begun))
	c.loads[outcome] = loads
}

// checkCap reports, once, that the file cannot hold what is used of it at the same time.
func (c *core) checkCap() {
	limit := c.options.MaxBytes
	if limit == 0 {
		return
	}
	if used := c.writer.Figures().MappedBytes; used > limit && !c.overflowed.Swap(true) {
		c.events.Add(slog.LevelWarn, "MaxBytes is less than sessions use at a time: each start packs some again",
			slog.Int64("max_bytes", limit), slog.Int64("used_bytes", used))
	}
}
