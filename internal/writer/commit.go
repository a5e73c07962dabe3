package writer

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"xpwc/internal/entries"
	"xpwc/internal/format"
	"xpwc/internal/store"
)

// A host that loads one method after another would pack slowly with the disk flushed beside it each time. So what a
// session packed waits a moment, or while others pack, but not for long.
const (
	commitPause  = 100 * time.Millisecond
	commitWithin = time.Second
)

// A round is commits, until nothing more was asked for. Who waits for it is given its error.
type round struct {
	done bool
	err  error
}

// commitSoonLocked has a commit begin when no session has been packing for a moment. Save and Close do not wait for it.
func (w *Writer) commitSoonLocked() {
	if w.inMemory() || w.phase == closed || w.activity == due {
		return
	}
	if w.activity != resting {
		w.askLocked()
		return
	}
	latest := time.Now().Add(commitWithin)
	w.activity = due
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

// askLocked returns the round that what is finalized by now is committed in: a round that is under way may have chosen
// already what it commits.
func (w *Writer) askLocked() *round {
	if w.next == nil {
		w.next = &round{}
	}
	return w.next
}

// startLocked has a goroutine bring to the disk what is not there yet, after what is written now.
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

// beginRoundLocked begins what was asked for.
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

// awaitCommitLocked waits until what is finalized is on stable storage. mu is released meanwhile.
func (w *Writer) awaitCommitLocked() error {
	r := w.startLocked()
	for !r.done {
		w.changed.Wait()
	}
	return r.err
}

// commitRound makes the commits of a round, and compacts the file if that is worth it.
func (w *Writer) commitRound(r *round) {
	var err error
	defer func() { w.endRound(r, err) }()
	if w.writes() {
		w.options.Prepare() // nobody is to wait for it
	}
	err = w.commit()
	if err == nil && w.worthCompacting() {
		w.note(w.rewrite(w.withinCap))
	}
	if err != nil {
		w.failed(err)
	}
	w.giveUpWriting()
}

// writes reports whether there is something to commit.
func (w *Writer) writes() bool {
	w.mu.Lock()
	defer w.unlock()
	return w.dirty || len(w.entries.Unlisted) > 0
}

func (w *Writer) failed(err error) {
	w.mu.Lock()
	defer w.unlock()
	w.figures.LastError = err
	w.options.Report(slog.LevelWarn, "packed weights could not be committed", slog.Any("error", err))
}

// giveUpWriting gives the writer's lock to others if nobody here needs it.
func (w *Writer) giveUpWriting() {
	st := w.file.takeStill()
	defer w.file.give()
	w.note(w.endIfUnneeded(st))
}

// endRound has those who wait for a round go on, and begins the next if one was asked for.
func (w *Writer) endRound(r *round, err error) {
	w.mu.Lock()
	defer w.unlock()
	r.done, r.err = true, err
	w.restLocked()
}

// restLocked ends a round or a compaction.
func (w *Writer) restLocked() {
	w.activity = resting
	if w.next != nil && w.phase != closed {
		w.beginRoundLocked()
	}
	w.changed.Broadcast()
}

func (w *Writer) hasUncommitted() bool {
	w.mu.Lock()
	defer w.unlock()
	return w.hasUncommittedLocked()
}

func (w *Writer) hasUncommittedLocked() bool {
	for _, e := range w.entries.Unlisted {
		if e.Uncommitted() {
			return true
		}
	}
	return false
}

// A choice is what a commit commits.
type choice struct {
	entries []*entries.Entry
	// What nobody else is to use lies before the end of the generation, and so nobody is given its space.
	left    []*entries.Entry
	changes map[place]change // of records of the loaded index
	damage  map[uint64]bool  // offsets of payloads that are left out
	index   *format.Index
	layouts []format.Layout
	dirty   bool // there are changes that no generation has
}

// A place is where a record's payload lies, which records of several layouts may share.
type place struct {
	offset uint64
	layout format.Digest
}

// A change is what is to be written of a record in place of what the loaded index has.
type change struct {
	record  format.Record
	changed bool // else it is what was loaded once, and another process may have changed it since
	used    bool // it is used now
}

// commit commits what sessions have finalized: what, lay out, write, conclude. Where there is no room for the index all
// stays as it is until the next commit; if it cannot be written, that ends the file.
func (w *Writer) commit() error {
	w.awaitSums()
	st := w.file.take()
	defer w.file.give()
	if !st.Writing() {
		return nil
	}
	what, nothing := w.choose()
	if nothing {
		return nil
	}
	start := time.Now()
	records, err := w.records(st, what)
	if err != nil {
		return w.undone(what, err)
	}
	plan, err := st.PrepareCommit(w.options.Describe(what.layouts, records), records)
	if err != nil {
		return w.undone(what, err)
	}
	w.reads(what, plan)
	written := w.file.whileStoring(plan.Write)
	inForce, err := st.Conclude(plan, written)
	switch {
	case written != nil:
		w.endFile(st, err)
		return err
	case errors.Is(err, store.ErrReplaced):
		return w.replaced(st)
	case !inForce:
		return w.undone(what, err)
	}
	w.note(err)
	w.notice(st)
	bytes := w.concluded(what, plan)
	w.options.Report(slog.LevelInfo, "committed packed weights", slog.Uint64("generation", plan.Generation()),
		slog.Int("entries", len(what.entries)), slog.Int64("bytes", bytes),
		slog.Duration("duration", time.Since(start)))
	return nil
}

// awaitSums waits until the sums of what was handed in are known.
func (w *Writer) awaitSums() {
	w.mu.Lock()
	defer w.unlock()
	for w.summing > 0 {
		w.changed.Wait()
	}
}

// choose returns what is to be committed; nothing, if that is so.
func (w *Writer) choose() (what choice, nothing bool) {
	w.mu.Lock()
	defer w.unlock()
	now := w.now()
	for _, e := range w.entries.Unlisted {
		switch {
		case !e.Uncommitted() || !e.Identified() || !e.Summed:
		case e.Withheld == nil:
			e.Record.PackedAt, e.Record.UsedAt = now, now
			what.entries = append(what.entries, e)
		default:
			what.left = append(what.left, e)
		}
	}
	if len(what.entries)+len(what.left) == 0 && !w.dirty {
		return what, true
	}
	w.changesLocked(&what)
	return what, false
}

// changesLocked notes what the next generation says otherwise of records of the loaded index. What changes from then on
// is not in it.
func (w *Writer) changesLocked(what *choice) {
	what.dirty, w.dirty = w.dirty, false
	what.index, what.changes, what.damage = w.loaded.index, map[place]change{}, maps.Clone(w.damage)
	if what.index == nil {
		return
	}
	what.layouts = what.index.Layouts()
	for e := range w.entries.Named() {
		if e.Listed(w.loaded.id) && (e.Changed || e.Sessions > 0) {
			what.changes[place{e.Record.Offset, e.Record.Layout}] = change{e.Record, e.Changed, e.Sessions > 0}
		}
	}
}

// records returns what the next generation consists of: the loaded index with what changed in memory, what this process
// committed since, and the entries to be committed now; without what newer ones supersede.
func (w *Writer) records(st *store.Store, what choice) ([]format.Record, error) {
	now := w.now()
	var records []format.Record
	if what.index != nil {
		records = make([]format.Record, 0, what.index.Len()+len(what.entries))
		for i := range what.index.Len() {
			r, err := what.index.Record(i)
			if err != nil {
				err = st.Damaged(err)
				w.note(w.accept(st, err))
				w.notice(st)
				return nil, err
			}
			if what.damage[r.Offset] {
				continue
			}
			if c, is := what.changes[place{r.Offset, r.Layout}]; is {
				c.apply(&r, now)
			}
			records = append(records, r)
		}
	}
	return w.superseded(records, what), nil
}

// apply brings a record up to date. Two records may share a payload: the change is of the one with its key.
func (c *change) apply(r *format.Record, now int64) {
	if c.record.Key != r.Key || c.record.Seed != r.Seed {
		return
	}
	if c.changed {
		r.Flags |= c.record.Flags
		r.Source = c.record.Source
		r.KernelStamp, r.KernelDigest = c.record.KernelStamp, c.record.KernelDigest
		r.BiasStamp, r.BiasDigest = c.record.BiasStamp, c.record.BiasDigest
	}
	if c.used {
		r.UsedAt = now
	}
}

// superseded adds what this process packed to the records of an index, and leaves out what that supersedes.
func (w *Writer) superseded(records []format.Record, what choice) []format.Record {
	w.mu.Lock()
	defer w.unlock()
	for _, e := range what.entries {
		e.Committing = true
	}
	defer func() {
		for _, e := range what.entries {
			e.Committing = false
		}
	}()
	if len(w.entries.Unlisted) > 0 {
		kept := records[:0]
		for i := range records {
			if !w.entries.Known(records[i].Kernel).Supersedes(&records[i]) {
				kept = append(kept, records[i])
			}
		}
		records = kept
	}
	return append(records, w.entries.Next()...)
}

// undone takes note that a choice is in no generation, and returns the error.
func (w *Writer) undone(what choice, err error) error {
	w.mu.Lock()
	defer w.unlock()
	w.dirty = w.dirty || what.dirty
	return err
}

// reads says to a commit which memory of it is being read.
func (w *Writer) reads(what choice, plan *store.Commit) {
	w.mu.Lock()
	defer w.unlock()
	for _, e := range what.entries {
		if e.Sessions > 0 {
			plan.Reads(e.Region)
		}
	}
}

// concluded takes note that a generation is in force. It returns how many bytes of payloads it added.
func (w *Writer) concluded(what choice, plan *store.Commit) (bytes int64) {
	w.mu.Lock()
	defer w.unlock()
	for _, e := range what.entries {
		if e.State() == entries.Written && e.Unlisted { // it may have turned out wrong meanwhile
			w.becomeLocked(e, entries.Durable)
		}
		bytes += int64(len(e.Data))
	}
	w.entries.List(func(e *entries.Entry) bool {
		for _, other := range what.left {
			if e == other {
				return true
			}
		}
		return false
	})
	w.figures.WrittenBytes += bytes + int64(plan.IndexSize())
	return bytes
}

// replaced lets go of a file that another process, or somebody, put another in the place of while this one was its
// writer. What was packed stays in memory for those who use it.
func (w *Writer) replaced(st *store.Store) error {
	err := fmt.Errorf("cache %s: what was packed is not in it: %w", w.name(), store.ErrReplaced)
	w.loseSaved(err)
	w.setAside(st, err)
	err = errors.Join(err, w.accept(st, st.Reopen()))
	w.notice(st)
	return err
}

func (w *Writer) loseSaved(err error) {
	w.mu.Lock()
	defer w.unlock()
	w.loseLocked(err)
}
