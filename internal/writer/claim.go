package writer

import (
	"log/slog"
	"time"

	"xpwc/internal/entries"
	"xpwc/internal/format"
)

// A claim is on the entry that a session is packing: other sessions that miss it wait instead of packing it, too. A
// session has at most one claim, and none while it waits, so there is no deadlock.
type claim struct {
	key      format.Key
	seed     uint32
	contents entries.Contents
	released chan struct{} // closed when the entry was inserted, or will not be
}

// Await waits until another session gives up its claim on the entry of a query, at most Options.Wait. It returns false
// at once if none has a claim. A session that has waited in vain does not wait again.
func (u *User) Await(q *Query) (waited bool) {
	w := u.w
	w.mu.Lock()
	c := u.claimedLocked(q)
	if c == nil {
		w.unlock()
		return false
	}
	w.figures.Waits++
	w.unlock()
	u.SessionWaits++
	start := time.Now()
	defer func() { u.Waited += time.Since(start) }()
	timeout := time.NewTimer(w.options.Wait)
	defer timeout.Stop()
	select {
	case <-c.released:
	case <-timeout.C:
		u.impatient = true
		w.locked(func() { w.figures.WaitTimeouts++ })
		w.options.Report(slog.LevelWarn, "another session does not finish packing an entry: packing it, too",
			slog.String("entry", q.Key.Kernel+q.Key.Bias), slog.Duration("waited", w.options.Wait))
	}
	return true
}

// Claim makes other sessions wait for the entry of a query until Unclaim. It returns false if the query must be looked
// up again: another session has claimed the entry, or there are other entries than LookUp has seen.
func (u *User) Claim(q *Query) (ok bool) {
	if q.Contents.Kernel == nil {
		return true
	}
	w := u.w
	w.mu.Lock()
	defer w.unlock()
	if !u.unchangedLocked(q, u.views, false) || u.claimedLocked(q) != nil {
		return false
	}
	u.claim = &claim{q.Key, q.Seed, q.Contents, make(chan struct{})}
	return true
}

// Claimed reports whether the session has a claim.
func (u *User) Claimed() bool { return u.claim != nil }

// Unclaim ends the session's claim, if it has one.
func (u *User) Unclaim() {
	if c := u.claim; c != nil {
		u.w.locked(func() { u.claim = nil })
		close(c.released)
	}
}

// claimedLocked returns another session's claim on the entry of a query, or nil.
func (u *User) claimedLocked(q *Query) *claim {
	if q.Contents.Kernel == nil || u.impatient || u.w.options.Wait <= 0 {
		return nil
	}
	u.w.resolveLocked(q)
	for user := range u.w.users {
		c := user.claim
		if user != u && c != nil && c.key == q.Key && c.seed == q.Seed && c.contents.Match(q.Contents) {
			return c
		}
	}
	return nil
}
