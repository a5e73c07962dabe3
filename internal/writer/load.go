package writer

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"xpwc/internal/entries"
	"xpwc/internal/format"
	"xpwc/internal/store"
)

// How entries in memory follow the store when it loads another generation or file, or none.

// refresh picks up a newer generation that another process committed.
func (w *Writer) refresh() error {
	st := w.file.take()
	defer w.file.give()
	if st == nil || !w.followsFile() {
		return nil
	}
	prevID := st.ID()
	err := st.Refresh()
	if err == nil {
		w.noticeReplacement(st, prevID)
	}
	return w.accept(st, err)
}

// followsFile reports whether the file at the path is loaded again: not if the writer is closed, nor if the file is
// unusable, since the first miss replaces it. A read-only cache looks again: another process may have replaced it.
func (w *Writer) followsFile() bool {
	w.mu.Lock()
	defer w.unlock()
	if w.access == unusable && w.options.ReadOnly {
		w.access = writable
	}
	return w.access != unusable && w.phase != closed
}

// isUnusable reports whether an error is that the file has nothing to use.
func isUnusable(err error) bool {
	return errors.Is(err, format.ErrDamaged) || errors.Is(err, format.ErrForeign) || errors.Is(err, format.ErrVersion)
}

// accept applies the result of loading the file to the cache. The error is for the caller of Open.
func (w *Writer) accept(st *store.Store, err error) error {
	if errors.Is(err, store.ErrOverwritten) {
		w.loseFile(st.ID(), err)
	}
	if isUnusable(err) || errors.Is(err, format.ErrNotCache) { // what was mapped may be cut off or written over
		w.distrust(st, err)
	}
	if err != nil && w.options.Strict && !errors.Is(err, format.ErrEmptyHeader) { // which nothing was lost of
		err = errors.Join(err, st.Abandon()) // sessions may use uncommitted space, which Close would cut off
		w.notice(st)
		return err
	}
	cur := loadedBy(st)
	w.mu.Lock()
	defer w.unlock()
	w.noticeLocked(cur)
	switch {
	case err == nil:
		w.cause = nil
		w.changeAccessLocked(writable, "", nil)
	case errors.Is(err, format.ErrDamaged):
		if prev := w.figures.Damaged; prev == nil || prev.Error() != err.Error() {
			w.options.Report(slog.LevelWarn, "cache file is damaged", slog.Any("error", err))
		}
		w.figures.Damaged, w.cause = err, err
		w.changeAccessLocked(unusable, "", nil)
	case errors.Is(err, format.ErrForeign), errors.Is(err, format.ErrOlder):
		w.cause = err
		w.changeAccessLocked(unusable, "", nil)
	case errors.Is(err, format.ErrVersion): // a newer one, of programs that are to go on with it
		w.changeAccessLocked(newer, "cache file of a newer format version is left alone", err)
	case errors.Is(err, store.ErrUnmappable):
		w.changeAccessLocked(unmappable, "cache file cannot be mapped", err)
	default:
		return err
	}
	return nil
}

// changeAccessLocked changes whether the file may be written to, which stays as it is for a process that must not. It
// reports why, the first time.
func (w *Writer) changeAccessLocked(mode access, report string, err error) {
	if w.access == forbidden {
		return
	}
	if err != nil {
		w.figures.LastError = err
		if w.access != mode {
			w.options.Report(slog.LevelWarn, report, slog.Any("error", err))
		}
	}
	w.access = mode
}

// notice updates the cache's copy of the loaded generation. It is called after everything that may change it.
func (w *Writer) notice(st *store.Store) {
	cur := loadedBy(st)
	w.mu.Lock()
	defer w.unlock()
	w.noticeLocked(cur)
}

// loadedBy returns what a store has loaded, with a reference to its memory.
func loadedBy(st *store.Store) loaded {
	cur := loaded{
		id: st.ID(), slot: st.Slot(), torn: st.Torn(), index: st.Index(), file: st.Loaded(),
		written: st.Writing(),
	}
	if cur.index != nil {
		cur.base = st.Base().Retain()
	}
	return cur
}

func (w *Writer) noticeLocked(cur loaded) {
	prev := w.loaded
	w.dropBaseLocked()
	w.loaded = cur
	if prev.id == cur.id && prev.index == cur.index {
		return
	}
	if prev.id != cur.id {
		w.damage, w.duplicateBytes = map[uint64]bool{}, 0
	}
	w.entries.SettlePacked(func(e *entries.Entry) bool { return e.File != cur.id })
	w.dropUnusedLocked()
}

func (w *Writer) dropBaseLocked() {
	if w.loaded.base != nil {
		w.freed = append(w.freed, w.loaded.base)
		w.loaded.base = nil
	}
}

// dropUnusedLocked drops unused entries of an index that is no longer the loaded one.
func (w *Writer) dropUnusedLocked() {
	w.dropWhereLocked(func(e *entries.Entry) bool {
		return e.Sessions == 0 && e.State != entries.Private && e.State != entries.Packed && e.Identified() &&
			(!e.Changed || e.File != w.loaded.id)
	})
}

// noticeReplacement reports a file that is no longer the one at the path, if it was one.
func (w *Writer) noticeReplacement(st *store.Store, prevID [16]byte) {
	if prevID != [16]byte{} && prevID != st.ID() {
		w.options.Report(slog.LevelInfo, "cache file was replaced by another process")
	}
}

// damagedIndex gives up the file whose loaded index is damaged, unless a write has replaced it meanwhile. With
// Options.Strict it returns the error.
func (w *Writer) damagedIndex(index *format.Index, err error) error {
	st := w.file.takeStill()
	defer w.file.give()
	if st.Index() != index {
		return nil
	}
	return w.accept(st, st.Damaged(err))
}

// distrust withholds all entries of a damaged file, which may be truncated, and gives the file up.
func (w *Writer) distrust(st *store.Store, err error) {
	w.withholdFile(st, err)
	if st.Writing() && !w.options.Strict { // a later process would find it locked
		w.setAside(st, err)
		return
	}
	w.Note(st.Abandon())
	w.notice(st)
}

func (w *Writer) withholdFile(st *store.Store, err error) {
	writing := st.Writing()
	w.mu.Lock()
	defer w.unlock()
	for e := range w.entries.Entries() {
		if e.State == entries.Durable {
			e.Withhold(err)
		}
	}
	if writing && w.hasUncommittedLocked() { // sessions keep using these entries
		w.loseLocked(fmt.Errorf("cache %s: what was packed is not in it: %w", w.name(), err))
	}
}

// damagedPayloadLocked withholds a damaged payload from further sessions and from the next generation. The next session
// packs it again.
func (w *Writer) damagedPayloadLocked(e *entries.Entry) {
	w.figures.DamagedPayloads++
	err := fmt.Errorf("cache %s: payload of %q: %w", w.name(), e.Name(), format.ErrDamaged)
	w.figures.LastError = err
	w.options.Report(slog.LevelWarn, "damaged payload is packed afresh",
		slog.String("name", e.Name()), slog.Int("bytes", len(e.Data)), slog.Int("sessions", e.Sessions))
	if e.Listed(w.loaded.id) {
		w.damage[e.Record.Offset] = true
	}
	e.Withhold(err)
	w.dirty = true
}

// A failing disk may lose everything written since the last commit, and reports it once. So a failed flush ends the
// file: nothing is retried. Sessions that use uncommitted payloads get ErrLost; other processes begin a new file at
// once, this one after endedPause.

// endedPause is how long a process packs into private memory whose file has ended.
const endedPause = time.Minute

// endFile gives up the file after a failed flush, or a failed write of a commit.
func (w *Writer) endFile(st *store.Store, cause error) {
	st.Lose() // first, so that later inserts into the file are reported as lost
	w.loseUncommitted(cause)
	w.setAside(st, cause)
}

func (w *Writer) loseUncommitted(cause error) {
	w.mu.Lock()
	defer w.unlock()
	committed := func(e *entries.Entry) bool { return !e.Uncommitted() }
	uncommitted := slices.DeleteFunc(slices.Clone(w.entries.Packed), committed)
	if len(uncommitted) > 0 {
		w.loseLocked(cause)
	}
	w.loseEntriesLocked(uncommitted, cause)
	w.ended, w.endedUntil = cause, time.Now().Add(endedPause)
}

// lost handles an error of an open file, once nothing is being written to it.
func (w *Writer) lost(id [16]byte, err error) {
	st := w.file.takeStill()
	defer w.file.give()
	switch {
	case st.ID() != id: // it was replaced meanwhile
	case errors.Is(err, store.ErrFlush):
		w.endFile(st, err)
	default:
		w.Note(w.accept(st, err))
	}
}

// setAside gives up the file that this process writes, and renames it, so that a new one can take its path.
func (w *Writer) setAside(st *store.Store, cause error) {
	aside, err := st.End()
	w.Note(err)
	w.remember(cause)
	if aside != "" {
		w.reportSetAside(aside, cause)
	}
	w.notice(st)
}

func (w *Writer) reportSetAside(aside string, cause error) {
	w.options.Report(slog.LevelWarn, "damaged cache file was set aside",
		slog.String("as", aside), slog.Any("error", cause))
}

// loseFile marks all entries of a file as lost.
func (w *Writer) loseFile(id [16]byte, cause error) {
	w.mu.Lock()
	defer w.unlock()
	var gone []*entries.Entry
	for e := range w.entries.Entries() {
		if e.State != entries.Private && e.File == id {
			gone = append(gone, e)
		}
	}
	w.loseEntriesLocked(gone, cause)
}

// loseEntriesLocked withholds entries whose bytes may be lost. Sessions that use or pack them get ErrLost.
func (w *Writer) loseEntriesLocked(gone []*entries.Entry, cause error) {
	lost, inUse := map[*entries.Entry]bool{}, 0
	for _, e := range gone {
		e.Withhold(cause)
		lost[e] = true
		if e.Sessions > 0 || e.Packer != nil {
			inUse++
		}
		if e.Packer != nil {
			recordLossLocked(e.Packer, e, cause)
		}
	}
	if inUse == 0 {
		return
	}
	for u := range w.users {
		if i := slices.IndexFunc(u.owner.Used, func(e *entries.Entry) bool { return lost[e] }); i >= 0 {
			recordLossLocked(&u.owner, u.owner.Used[i], cause)
		}
	}
	w.figures.LostPayloads += int64(inUse)
	w.options.Report(slog.LevelError, "packed weights in use were lost",
		slog.Int("payloads", inUse), slog.Any("error", cause))
}

// recordLossLocked records that a session uses, or packed, an entry whose bytes may be lost.
func recordLossLocked(o *entries.Owner, e *entries.Entry, cause error) {
	o.Lost = cmp.Or(o.Lost, fmt.Errorf("packed weights of %q: %w: %w", e.Name(), ErrLost, cause))
}
