package writer

import (
	"fmt"
	"time"

	"xpwc/internal/entries"
	"xpwc/internal/store"
)

// A User is a session as the writer sees it. Several users may be used concurrently, each by one goroutine at a time.
type User struct {
	w      *Writer
	handle *Handle

	owner entries.Owner
	packs bool   // it is counted in Writer.packing
	empty string // why nothing could answer its look-ups when it began, or ""

	// Waits counts how often the session waited for another process, and SessionWaits for another session. Waited is
	// how long that took.
	Waits, SessionWaits int
	Waited              time.Duration

	views     []View // of its last look-up
	claim     *claim // on what it is packing, or nil; set with mu held
	impatient bool   // it has waited for Options.Wait in vain
}

// NewUser begins a session, which picks up what other processes have committed.
func (h *Handle) NewUser() (*User, error) {
	w := h.w
	if err := w.refresh(); err != nil {
		if w.options.Strict {
			return nil, err
		}
		w.Note(err) // what is loaded serves on
	}
	w.mu.Lock()
	defer w.unlock()
	if !h.open {
		return nil, fmt.Errorf("cache %s: %w", w.name(), ErrClosed)
	}
	u := &User{w: w, handle: h, empty: w.emptyLocked()}
	w.users[u] = true
	return u, nil
}

// StartWriting makes this process the file's writer for as long as the session packs, waiting for another process
// within limits. changed: what the cache holds may have changed since. reason is why the session is not to write to the
// file, or "".
func (u *User) StartWriting() (changed bool, reason string) {
	w := u.w
	writes := func() bool { return u.packs && w.loaded.written }
	if w.inMemory() || underLock(w, writes) {
		return false, ""
	}
	w.leave(u) // the file has ended or was replaced: it begins anew with the one that is there then
	return true, w.begin(u)
}

// StopWriting gives the writer's lock up, unless something else in this process needs it.
func (u *User) StopWriting() {
	w := u.w
	w.leave(u)
	st := w.file.take()
	defer w.file.give()
	if !w.file.storing { // else whoever stores does so afterwards: a look-up is not to wait for a flush
		w.Note(w.endIfUnneeded(st))
	}
}

// Reserve returns n bytes of the file to pack into, for an entry whose names have so many bytes. The error
// is why there are none; StartWriting must be called again if it is ErrReplaced.
func (u *User) Reserve(n, names uint64) (store.Reservation, error) {
	st := u.w.file.take()
	defer u.w.file.give()
	if !st.Writing() {
		u.w.notice(st)
		return store.Reservation{}, fmt.Errorf("cache %s: %w", u.w.name(), store.ErrReplaced)
	}
	r, err := st.Reserve(n, names)
	u.w.Note(err)
	return r, err
}

// Cancel releases space of the file.
func (u *User) Cancel(r store.Reservation) {
	st := u.w.file.take()
	defer u.w.file.give()
	u.w.Note(st.Cancel(r))
}

// Used returns the entries that the session uses, one for each time that it was given or kept. They are there until
// Close.
func (u *User) Used() []*entries.Entry {
	return underLock(u.w, func() []*entries.Entry { return u.owner.Used })
}

// Lost returns why the session's runtime must not be used any more, as far as is known, or nil.
func (u *User) Lost() error { return underLock(u.w, func() error { return u.owner.Lost }) }

// Check is Lost once the file was looked at: whether it is still the one that was loaded, and whether the disk has
// failed to take something.
func (u *User) Check() error {
	w := u.w
	file := underLock(w, func() *store.Loaded { return w.loaded.file })
	if err := u.Lost(); err != nil || file == nil {
		return err
	}
	if err := file.Check(); err != nil {
		w.lost(file.File(), err)
	}
	return u.Lost()
}

// Close ends the session. Private packed weights that no other session uses are given up.
func (u *User) Close() {
	w := u.w
	w.mu.Lock()
	defer w.unlock()
	for _, e := range u.owner.Used {
		w.releaseLocked(e)
	}
	w.entries.SettlePacked(func(e *entries.Entry) bool { return e.State == entries.Dropped })
	u.owner.Used = nil
	delete(w.users, u)
	w.changed.Broadcast()
	if w.loaded.written && w.packing == 0 {
		w.commitSoonLocked() // gives the lock to others, if nothing is to be committed
	}
}

// releaseLocked ends a session's use of an entry. One that no further session is given is freed at once when nobody
// uses it, and so are private ones, if the cache has a file, and memory of a file that is no longer in place. Others
// stay for the next session.
func (w *Writer) releaseLocked(e *entries.Entry) {
	e.Sessions--
	if e.Sessions > 0 {
		return
	}
	if e.Reason == "" {
		w.figures.MappedBytes -= int64(len(e.Data))
	} else {
		w.figures.PrivateBytes -= int64(len(e.Data))
	}
	if e.Reason == "" && e.Usable(w.loaded.id) && (w.inMemory() || e.Region.File() == w.loaded.id) {
		return
	}
	e.State = entries.Dropped
	w.entries.Remove(e)
	w.freed = append(w.freed, e.Region)
}
