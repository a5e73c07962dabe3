package writer

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"xpwc/internal/format"
	"xpwc/internal/osdisk"
	"xpwc/internal/store"
)

// busyPause is how long a process does not wait again after it waited for another one in vain.
const busyPause = time.Minute

// An attempt is the result of trying to become the writer of the file.
type attempt struct {
	ok       bool
	busy     bool   // another process is writing
	replaced bool   // another file was found: with it, it is tried again at once
	reason   string // why this process must not write, or ""
	err      error  // what keeps this process from writing, or nil
}

// begin makes this process the writer of the file, for a user that packs, which is counted from then on, or for a
// compaction (u is nil). It waits for another process within limits. It returns the reason why it is not, or "".
func (w *Writer) begin(u *User) (reason string) {
	deadline := w.deadline(u)
	if u != nil {
		w.addWaiting(1)
		defer w.addWaiting(-1)
	}
	reported := false
	start := time.Now()
	defer func() {
		if u != nil && reported {
			u.Waits++
			u.Waited += time.Since(start)
		}
	}()
	retries := 0
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		a := w.tryBegin(u)
		switch {
		case a.ok:
			return ""
		case a.reason != "":
			return a.reason
		case a.err != nil:
			return w.refused(a.err)
		case a.replaced && retries < 3:
			retries++
			continue
		case !time.Now().Before(deadline):
			if a.busy { // and not this one, which compacts
				w.locked(func() { w.busyUntil = time.Now().Add(busyPause) })
			}
			return ReasonBusy
		case a.busy && !reported:
			reported = true
			w.options.Report(slog.LevelInfo, "waiting for another process that packs into the cache file",
				slog.Duration("at_most", w.options.Wait))
		}
		time.Sleep(pause)
	}
}

// addWaiting counts users that wait to pack: no compaction begins before them, or one after the other could keep them
// out.
func (w *Writer) addWaiting(n int) {
	w.mu.Lock()
	defer w.unlock()
	w.waiting += n
	w.changed.Broadcast()
}

// deadline returns until when another process is waited for.
func (w *Writer) deadline(u *User) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if u != nil && time.Now().Before(w.busyUntil) {
		return time.Now()
	}
	return time.Now().Add(w.options.Wait)
}

// tryBegin tries it once. If it is ok, the user, or a compaction, is counted until leave.
func (w *Writer) tryBegin(u *User) attempt {
	st := w.file.take()
	defer w.file.give()
	reason, ok := w.enter(u)
	if !ok {
		return attempt{reason: reason}
	}
	prevID := st.ID()
	ok, err := w.beginOnce(st)
	a := attempt{ok: ok, busy: !ok && err == nil}
	if errors.Is(err, store.ErrReplaced) {
		if err = w.accept(st, st.Reopen()); err == nil {
			w.noticeReplacement(st, prevID)
		}
		a.replaced = err == nil
	} else if isUnusable(err) {
		err = w.accept(st, err)
		a.replaced = err == nil
	}
	w.notice(st)
	if !ok {
		w.leave(u)
	}
	a.err = err
	if ok {
		w.locked(func() { w.busyUntil = time.Time{} })
	}
	return a
}

// enter counts a user that is about to pack, so that no compaction begins, or a compaction, unless the file is not to
// be written to: then ok is false, with the reason, or with none if this process compacts or has closed the file.
func (w *Writer) enter(u *User) (reason string, ok bool) {
	w.mu.Lock()
	defer w.unlock()
	if reason = w.refusedLocked(); reason != "" {
		return reason, false
	}
	if w.phase == closed || u != nil && w.activity == compacting {
		return "", false
	}
	if u != nil {
		u.packs = true
	}
	w.packing++
	return "", true
}

// leave takes a user that does not pack any more, or a compaction, out of the count.
func (w *Writer) leave(u *User) {
	w.locked(func() { w.leaveLocked(u) })
}

func (w *Writer) leaveLocked(u *User) {
	if u != nil {
		if !u.packs {
			return
		}
		u.packs = false
	}
	w.packing--
	w.changed.Broadcast()
}

// refused records an error that keeps this process from writing, and returns the reason to report.
func (w *Writer) refused(err error) string {
	w.mu.Lock()
	defer w.unlock()
	w.noteLocked(err)
	w.forbidLocked(err)
	if reason := w.refusedLocked(); reason != "" {
		return reason
	}
	return ReasonDisk
}

// forbidLocked reports whether an error is that this process may not write to the file, which it does not try again.
func (w *Writer) forbidLocked(err error) bool {
	if !errors.Is(err, fs.ErrPermission) && !errors.Is(err, osdisk.ErrReadOnlyFileSystem) {
		return false
	}
	w.access = forbidden
	return true
}

// refusedLocked returns why the file is not written to, or "".
func (w *Writer) refusedLocked() string {
	switch {
	case w.options.ReadOnly, w.access == forbidden:
		return ReasonReadOnly
	case w.access == newer:
		return ReasonVersion
	case w.access == unmappable:
		return ReasonDisk
	}
	return ""
}

// Arrival is how long after its last write a file that is too short, or begins with zeros, may still be being copied.
// Tests change it.
var Arrival = 2 * time.Second

// beginOnce makes this process the writer of the file, if no other is. The error may be why its last file ended.
func (w *Writer) beginOnce(st *store.Store) (bool, error) {
	inTheWay, err := w.pausing()
	if err != nil {
		return false, err
	}
	if inTheWay != nil {
		arriving := errors.Is(inTheWay, store.ErrShort) || errors.Is(inTheWay, format.ErrEmptyHeader)
		if arriving && osdisk.WrittenSince(w.options.Path, time.Now().Add(-Arrival)) {
			return false, nil // it may still be being copied here: moving it would break the copy
		}
		aside, ok, err := st.MakeWay(inTheWay)
		if aside != "" {
			w.reportSetAside(aside, inTheWay)
		}
		if err != nil || !ok {
			return false, err
		}
		w.locked(func() {
			if w.access == unusable {
				w.access = writable
			}
		})
	}
	ok, err := st.Begin()
	if errors.Is(err, store.ErrFlush) {
		w.endFile(st, err)
	}
	return ok, err
}

// pausing returns what is wrong with a file that is to make way first, or why nothing is to be written for now.
func (w *Writer) pausing() (inTheWay, err error) {
	w.mu.Lock()
	defer w.unlock()
	if time.Now().Before(w.endedUntil) {
		return nil, w.ended
	}
	if w.access == unusable {
		inTheWay = w.cause
	}
	return inTheWay, nil
}

// commitAtOnce begins to commit changed flags and stamps, unless another process writes. Then the next commit has them.
func (w *Writer) commitAtOnce() {
	if !w.mayChange() {
		return
	}
	a := w.tryBegin(nil)
	w.mu.Lock()
	defer w.unlock()
	switch {
	case a.ok:
		w.leaveLocked(nil)
		w.startLocked()
	case a.err != nil && !w.forbidLocked(a.err):
		w.noteLocked(a.err)
	}
}

func (w *Writer) mayChange() bool {
	st := w.file.take()
	defer w.file.give()
	dear := st.CopiesUp()
	w.mu.Lock()
	defer w.unlock()
	return !dear && w.refusedLocked() == "" && w.access != unusable && w.activity != compacting && w.phase == open
}

// endIfUnneeded releases the writer's lock unless this process packs or has a commit to make. While something
// uncommitted is in memory this process must stay the writer: the next one would give its space away.
func (w *Writer) endIfUnneeded(st *store.Store) error {
	needed := func() bool { return w.packing > 0 || w.next != nil || w.hasUncommittedLocked() }
	if underLock(w, needed) {
		return nil
	}
	err := st.EndWriting()
	w.notice(st)
	if err != nil {
		return fmt.Errorf("give up writing cache %s: %w", w.name(), err)
	}
	return nil
}
