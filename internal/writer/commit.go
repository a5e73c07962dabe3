package writer

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"xpwc/internal/ask"
	"xpwc/internal/entries"
	"xpwc/internal/format"
	"xpwc/internal/store"
)

// A host that loads one method after another would pack slowly if each packing were flushed at once. So a commit waits
// for a moment, or while other sessions pack, for commitWithin at most.
const (
	commitPause  = 100 * time.Millisecond
	commitWithin = time.Second
)

// A round is a commit, with a compaction if the file needs one. Save returns its error.
type round struct {
	done bool
	err  error
}

// commitSoonLocked schedules a commit for when no session packs. Save and Close do not wait for it.
func (w *Writer) commitSoonLocked() {
	if w.inMemory() || w.phase == closed || w.activity == scheduled {
		return
	}
	if w.activity != idle {
		w.askLocked()
		return
	}
	latest := time.Now().Add(commitWithin)
	w.activity = scheduled
	var timer *time.Timer
	timer = time.AfterFunc(commitPause, func() {
		w.mu.Lock()
		defer w.unlock()
		switch {
		case w.timer != timer: // a commit was started meanwhile
		case w.packing > 0 && time.Now().Before(latest):
			timer.Reset(commitPause)
		default:
			w.startLocked()
		}
	})
	w.timer = timer
}

// askLocked returns the next round. The current one may have chosen its entries already.
func (w *Writer) askLocked() *round {
	if w.next == nil {
		w.next = &round{}
	}
	return w.next
}

// startLocked starts a round in the background, after the current one.
func (w *Writer) startLocked() *round {
	if w.inMemory() || w.phase == closed {
		return &round{done: true}
	}
	r := w.askLocked()
	if w.activity == committing || w.activity == compacting {
		return r
	}
	w.beginRoundLocked()
	return r
}

// beginRoundLocked begins the next round.
func (w *Writer) beginRoundLocked() {
	if w.timer != nil {
		w.timer.Stop()
		w.timer = nil
	}
	w.activity = committing
	r := w.next
	w.next = nil
	go w.commitRound(r)
}

// awaitCommitLocked waits until all finalized entries are on stable storage. It releases mu meanwhile.
func (w *Writer) awaitCommitLocked() error {
	r := w.startLocked()
	for !r.done {
		w.changed.Wait()
	}
	return r.err
}

// commitRound commits, and compacts the file if that is worth it.
func (w *Writer) commitRound(r *round) {
	var err error
	defer func() { w.endRound(r, err) }()
	err = w.commit()
	if err == nil && w.worthCompacting() {
		w.Note(w.rewrite(w.withinCap))
	}
	if err != nil {
		w.remember(err)
		w.options.Report(slog.LevelWarn, "packed weights could not be committed", slog.Any("error", err))
	}
	w.giveUpWriting()
}

// giveUpWriting releases the writer's lock unless this process needs it.
func (w *Writer) giveUpWriting() {
	st := w.file.takeStill()
	defer w.file.give()
	w.Note(w.endIfUnneeded(st))
}

// endRound wakes the waiters of a round, and begins the next round if there is one.
func (w *Writer) endRound(r *round, err error) {
	w.mu.Lock()
	defer w.unlock()
	r.done, r.err = true, err
	w.restLocked()
}

// restLocked ends a round or a compaction.
func (w *Writer) restLocked() {
	w.activity = idle
	switch {
	case w.next == nil:
	case w.phase == closed: // all was saved
		w.next.done, w.next = true, nil
	default:
		w.beginRoundLocked()
	}
	w.changed.Broadcast()
}

// A choice has the contents of the next generation.
type choice struct {
	records        []format.Record
	layouts        []format.Layout // as the loaded index has them
	entries        []*entries.Entry
	changed        []*entries.Entry // with changes that no generation has
	dirty          bool             // there are such changes
	duplicateBytes uint64           // bytes of new payloads that the file has under other keys
}

// commit commits the finalized entries: choose, lay out, write, conclude. Without room for the index all stays as it is
// until the next commit. A failed write ends the file.
func (w *Writer) commit() error {
	w.awaitSums()
	if !underLock(w, w.hasNewsLocked) {
		return nil
	}
	w.learnLayout()
	st := w.file.take()
	defer w.file.give()
	if !st.Writing() {
		return nil
	}
	start := time.Now()
	chosen, err := w.choose(st)
	if err != nil {
		return err
	}
	plan, err := st.PrepareCommit(ask.Layouts(chosen.layouts, chosen.records), chosen.records)
	if err != nil {
		return w.undo(chosen, err)
	}
	written := w.file.whileStoring(plan.Write)
	inForce, err := st.Conclude(plan, written)
	switch {
	case written != nil:
		w.endFile(st, err)
		return err
	case errors.Is(err, store.ErrReplaced):
		return w.replaced(st)
	case !inForce:
		return w.undo(chosen, err)
	}
	w.Note(err)
	w.notice(st)
	bytes := w.conclude(chosen, plan, st.Slot().IndexOffset)
	w.options.Report(slog.LevelInfo, "committed packed weights", slog.Uint64("generation", plan.Generation()),
		slog.Int("entries", len(chosen.entries)), slog.Int64("bytes", bytes),
		slog.Duration("duration", time.Since(start)))
	return nil
}

// awaitSums waits for the checksums of all finalized entries.
func (w *Writer) awaitSums() {
	w.mu.Lock()
	defer w.unlock()
	w.sums.Start() // with mu held, or an entry that is finalized meanwhile would be waited for and never summed
	for e := range maps.Clone(w.summing) {
		for e.Identified() && w.summing[e] {
			w.changed.Wait()
		}
	}
}

// hasNewsLocked reports whether there is something to commit.
func (w *Writer) hasNewsLocked() bool {
	isNew := func(e *entries.Entry) bool { return e.Ready() || e.Discarded() }
	return w.dirty || slices.ContainsFunc(w.entries.Packed, isNew)
}

// choose returns the contents of the next generation: the records in force with their changes in memory, without
// superseded ones, and the entries that this process packed. Later changes wait for the generation after it.
func (w *Writer) choose(st *store.Store) (chosen choice, err error) {
	err = st.Relist()
	switch {
	case errors.Is(err, store.ErrUnmappable):
		return chosen, err // all stays as it is until the next commit
	case errors.Is(err, store.ErrFlush):
		w.endFile(st, err)
		return chosen, err
	}
	w.Note(w.accept(st, err))
	if err != nil {
		return chosen, err
	}
	listed, err := w.listed(st)
	if err != nil {
		return chosen, err
	}
	w.mu.Lock()
	defer w.unlock()
	unixTime := w.clock()
	for _, e := range w.entries.Packed {
		if e.Ready() {
			e.Record.PackedAt, e.Record.UsedAt = unixTime, unixTime
			chosen.entries = append(chosen.entries, e)
		}
		chosen.applyLocked(e, &e.Record, unixTime)
	}
	if w.loaded.index != nil {
		chosen.layouts = w.loaded.index.Layouts()
	}
	chosen.dirty, w.dirty = w.dirty, false
	chosen.records = slices.Grow(listed, len(w.entries.Packed))[:0]
	for i := range listed {
		r := listed[i]
		e := w.entries.Recorded(&r, w.loaded.id)
		if w.damage[r.Offset] || e != nil && e.Withheld != nil || w.entries.Supersedes(&r) {
			continue
		}
		if e != nil {
			chosen.applyLocked(e, &r, unixTime)
		}
		chosen.records = append(chosen.records, r)
	}
	stored := len(chosen.records)
	chosen.records = w.entries.AppendNext(chosen.records)
	chosen.duplicateBytes = equalBytes(chosen.records[stored:], chosen.records[:stored])
	return chosen, nil
}

// equalBytes returns the bytes of new payloads that are stored already, or stored twice, under other keys.
func equalBytes(added, stored []format.Record) (bytes uint64) {
	type content struct {
		sum  format.Digest
		size uint64
	}
	keys := make(map[content]map[format.Key]bool, len(added)) // under which the content of new payloads is stored
	for i := range added {
		keys[content{added[i].Sum, added[i].Size}] = map[format.Key]bool{}
	}
	store := func(r *format.Record) (duplicate bool) {
		stored := keys[content{r.Sum, r.Size}]
		if stored == nil || stored[r.Key] {
			return false
		}
		stored[r.Key] = true
		return len(stored) > 1
	}
	for i := range stored {
		store(&stored[i])
	}
	for i := range added {
		if store(&added[i]) {
			bytes += added[i].Size
		}
	}
	return bytes
}

// listed returns the records of the loaded index. If one is damaged, it returns those before it with the error, and the
// file is given up.
func (w *Writer) listed(st *store.Store) ([]format.Record, error) {
	index := st.Index()
	if index == nil {
		return nil, nil
	}
	records := make([]format.Record, 0, index.Len()+1)
	for i := range index.Len() {
		r, err := index.Record(i)
		if err != nil {
			err = st.Damaged(err)
			w.Note(w.accept(st, err))
			return records, err
		}
		records = append(records, r)
	}
	return records, nil
}

// applyLocked updates the record of an entry in the next generation. If this process changed nothing, another one may
// have changed the record since the entry was loaded.
func (c *choice) applyLocked(e *entries.Entry, r *format.Record, unixTime int64) {
	if e.Changed {
		rec := &e.Record
		r.Flags |= rec.Flags
		r.Source, r.SourceName = rec.Source, rec.SourceName
		listed := r.Stamps // which another process may have written
		r.Stamps, r.Digests = rec.Stamps, rec.Digests
		for s := range rec.Copies.All() {
			r.AddCopy(s)
		}
		r.AddCopy(listed)
		e.Changed = false
		c.changed = append(c.changed, e)
	}
	if e.Sessions > 0 {
		r.UsedAt = unixTime
	}
}

// undo marks the changes of a choice as uncommitted again, and returns the error.
func (w *Writer) undo(chosen choice, err error) error {
	w.mu.Lock()
	defer w.unlock()
	w.dirty = w.dirty || chosen.dirty
	for _, e := range chosen.changed {
		e.Changed = true
	}
	return err
}

// conclude marks the entries of a generation as durable. end is the offset of its end. It returns how many bytes of
// payloads the generation added.
func (w *Writer) conclude(chosen choice, plan *store.Commit, end uint64) (bytes int64) {
	w.mu.Lock()
	defer w.unlock()
	for _, e := range chosen.entries {
		if e.Withheld != nil { // it was found damaged meanwhile: the next generation omits it
			w.damage[e.Record.Offset], w.dirty = true, true
		}
		if e.State == entries.Packed { // it may have been lost meanwhile
			e.State = entries.Durable
		}
		bytes += int64(len(e.Data))
	}
	// The space of discarded entries lies before the end of the generation, so it is not reserved again.
	w.entries.SettlePacked(func(e *entries.Entry) bool {
		return e.State == entries.Durable || e.Discarded() && e.Record.Offset < end
	})
	w.figures.WrittenBytes += bytes + int64(plan.IndexSize())
	w.duplicateBytes += chosen.duplicateBytes
	return bytes
}

// replaced gives up a file that was replaced while this process was its writer. Sessions keep its mapping.
func (w *Writer) replaced(st *store.Store) error {
	err := fmt.Errorf("cache %s: what was packed is not in it: %w", w.name(), store.ErrReplaced)
	w.locked(func() { w.loseLocked(err) })
	w.setAside(st, err)
	return errors.Join(err, w.accept(st, st.Reopen()))
}
