package writer

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"xpwc/internal/ask"
	"xpwc/internal/entries"
	"xpwc/internal/format"
	"xpwc/internal/store"
)

// A Keep returns the records that a compaction keeps.
type Keep func([]format.Record) []format.Record

// Compact rewrites the file with the records that keep returns (nil keeps all), within the file's cap. It waits for
// users that pack, and up to Options.Wait for another process that packs.
func (w *Writer) Compact(keep Keep) error {
	if err := w.beginCompaction(); err != nil || w.inMemory() {
		return err
	}
	defer w.locked(w.restLocked)
	if w.remainsUnusable() { // the next packing replaces it
		return nil
	}
	switch reason := w.begin(nil); reason {
	case "":
	case ReasonBusy:
		return fmt.Errorf("compact cache %s: %w", w.name(), ErrBusy)
	default:
		return fmt.Errorf("compact cache %s: not written to (%s): %w", w.name(), reason,
			cmp.Or(w.Figures().LastError, ErrReadOnly))
	}
	defer w.giveUpWriting()
	defer w.leave(nil)
	if err := w.commit(); err != nil {
		return err
	}
	if underLock(w, w.hasUncommittedLocked) {
		return fmt.Errorf("compact cache %s: %w", w.name(), ErrBusy)
	}
	return w.rewrite(func(records []format.Record) []format.Record {
		if keep != nil {
			records = keep(records)
		}
		return w.withinCap(records)
	})
}

// remainsUnusable reports whether nothing of the file can be used, and another process has not seen to that.
func (w *Writer) remainsUnusable() bool {
	isUnusable := func() bool { return w.access == unusable }
	if !underLock(w, isUnusable) {
		return false
	}
	st := w.file.take()
	defer w.file.give()
	w.Note(w.accept(st, st.Reopen()))
	return underLock(w, isUnusable)
}

// beginCompaction waits until no user packs or waits to pack. From then on none begins to pack, no commit starts, and
// Close waits.
func (w *Writer) beginCompaction() error {
	deadline := time.Now().Add(w.options.Wait)
	defer time.AfterFunc(w.options.Wait, w.wake).Stop()
	w.mu.Lock()
	defer w.unlock()
	busy := func() bool { return w.activity == committing || w.activity == compacting }
	for w.phase == open && (busy() || w.packing+w.waiting > 0 && time.Now().Before(deadline)) {
		w.changed.Wait()
	}
	switch {
	case w.phase != open:
		return fmt.Errorf("cache %s: %w", w.name(), ErrClosed)
	case w.packing > 0:
		return fmt.Errorf("compact cache %s: a session is still packing: %w", w.name(), ErrBusy)
	case w.inMemory():
		return nil
	}
	if w.activity == scheduled { // what was due is committed first
		w.askLocked()
		w.timer.Stop()
		w.timer = nil
	}
	w.activity = compacting
	return nil
}

func (w *Writer) wake() { w.locked(w.changed.Broadcast) }

// MinDeadBytes is how many dead bytes are not worth rewriting a file.
const MinDeadBytes = 16 << 10

// worthCompacting reports whether enough of the file is dead or stored twice, and no user packs into it. If so, none
// begins to pack until the round ends.
func (w *Writer) worthCompacting() bool {
	w.mu.Lock()
	defer w.unlock()
	slot, limit := w.loaded.slot, w.options.MaxBytes
	spare := slot.DeadBytes + w.duplicateBytes
	dead := spare > slot.PayloadBytes/4 && spare > MinDeadBytes
	large := limit > 0 && slot.End > uint64(limit)
	if !dead && !large || w.packing > 0 || w.hasUncommittedLocked() || !w.loaded.written {
		return false
	}
	w.activity = compacting
	return true
}

// rewrite writes the new file, with the records that keep returns, and puts it in place. This process is the writer,
// nothing is uncommitted, and no user packs.
func (w *Writer) rewrite(keep Keep) error {
	w.learnLayout()
	st := w.file.take()
	defer w.file.give()
	if !st.Writing() || st.Slot().Generation == 0 {
		return nil
	}
	start, oldEnd := time.Now(), st.Slot().End
	chosen, err := w.choose(st)
	if err != nil {
		return err
	}
	describe := func(records []format.Record) []format.Layout { return ask.Layouts(chosen.layouts, records) }
	var next *store.Rewriting
	err = w.file.whileStoring(func() (err error) {
		next, err = st.Rewrite(keep(chosen.records), describe)
		return err
	})
	if err == nil {
		err = next.TakePlace()
	}
	if err != nil {
		return w.undo(chosen, fmt.Errorf("compact cache: %w", err))
	}
	oldID := st.ID()
	err = next.Follow()
	w.moved(oldID, next, loadedBy(st))
	w.options.Report(slog.LevelInfo, "compacted the cache file",
		slog.Uint64("bytes_before", oldEnd), slog.Uint64("bytes", next.Size()),
		slog.Int("damaged_payloads", next.Damaged), slog.Duration("duration", time.Since(start)))
	return err
}

// moved sets the offsets of entries in the new file. Their memory stays the same.
func (w *Writer) moved(oldID [16]byte, next *store.Rewriting, cur loaded) {
	w.mu.Lock()
	defer w.unlock()
	w.duplicateBytes = 0
	w.figures.Compactions++
	w.figures.DamagedPayloads += int64(next.Damaged)
	w.figures.WrittenBytes += int64(next.Size())
	for e := range w.entries.Entries() {
		if offset, ok := next.Moved[e.Record.Offset]; ok && e.File == oldID && e.State == entries.Durable {
			e.File, e.Record.Offset = next.ID(), offset
		}
	}
	w.noticeLocked(cur)
}

// withinCap leaves out the records used longest ago until the file keeps to its cap.
func (w *Writer) withinCap(records []format.Record) []format.Record {
	return UsedLast(records, w.options.MaxBytes, w.clock())
}

// UsedLast returns, of the records, those used last that make a file of at most so many bytes; all if it is 0. A date
// in the future comes from a wrong clock: such a record counts as used longest ago.
func UsedLast(records []format.Record, maxBytes, unixTime int64) []format.Record {
	if maxBytes <= 0 {
		return records
	}
	const perRecord = 512 // index and alignment, generously
	total := uint64(format.HeaderSize)
	const day = 24 * 60 * 60 // clocks of several machines may differ
	used := func(r format.Record) int64 {
		if r.UsedAt > unixTime+day {
			return 0
		}
		return r.UsedAt
	}
	byUse := slices.Clone(records)
	slices.SortStableFunc(byUse, func(a, b format.Record) int { return -cmp.Compare(used(a), used(b)) })
	included := map[uint64]bool{}
	for _, r := range byUse {
		size := perRecord + uint64(2*len(r.Kernel)+2*len(r.Bias)+40*r.Copies.Len())
		if !included[r.Offset] { // records may share a payload
			size += format.AlignUp(r.Size, format.Alignment)
		}
		if total+size <= uint64(maxBytes) {
			total += size
			included[r.Offset] = true
		}
	}
	return slices.DeleteFunc(records, func(r format.Record) bool { return !included[r.Offset] })
}
