package writer

import (
	"context"
	"errors"
	"slices"
	"time"

	"xpwc/internal/entries"
	"xpwc/internal/store"
)

// verifyPause is how long after a session was finalized its payloads are verified. By then the first inference is
// likely over, which needs the bandwidth of memory and disk.
const verifyPause = time.Second

// stopPatience is how long Close waits for the verifier, which ends within milliseconds unless the disk hangs. The
// verifier uses nothing that Close releases.
const stopPatience = 100 * time.Millisecond

// A verifier hashes the payloads in use in the background. Its writer's mu guards it.
type verifier struct {
	timer *time.Timer   // starts the goroutine, or has; nil when there is none
	pause time.Duration // verifyPause, but in tests
}

// unverified reports whether an entry is to be verified: a session uses it, it lies in the file that its region was
// loaded from, and nothing was compared with it yet. What a compaction has moved was compared with its sum then.
func unverified(e *entries.Entry) bool {
	return e.Sessions > 0 && !e.Verified && e.Withheld == nil && e.Region.Reader() != nil && e.Region.File() == e.File
}

// unverifiedLocked returns the entries that are yet to be verified.
func (w *Writer) unverifiedLocked() (pending []*entries.Entry) {
	if !w.options.Verify {
		return nil
	}
	for e := range w.entries.Entries() {
		if unverified(e) {
			pending = append(pending, e)
		}
	}
	return pending
}

// verifySoonLocked begins to verify what a session uses in a moment, unless that has begun.
func (w *Writer) verifySoonLocked(u *User) {
	v := &w.verifier
	if w.options.Verify && v.timer == nil && slices.ContainsFunc(u.owner.Used, unverified) {
		v.timer = time.AfterFunc(v.pause, w.verify)
	}
}

// verify is the verifier's goroutine.
func (w *Writer) verify() {
	hasher := new(store.Hasher)
	for {
		batch, damaged := w.toVerify(), false
		if len(batch) == 0 {
			return
		}
		for _, e := range batch {
			damaged = w.verifyOne(hasher, e) || damaged
		}
		if damaged {
			w.commitAtOnce() // so that the file is rid of it
		}
	}
}

// toVerify returns what is verified next. If there is nothing the goroutine ends.
func (w *Writer) toVerify() (batch []*entries.Entry) {
	w.mu.Lock()
	defer w.unlock()
	if w.phase == open {
		batch = w.unverifiedLocked()
	}
	if len(batch) == 0 {
		w.verifier.timer = nil
		w.changed.Broadcast()
	}
	return batch
}

// verifyOne compares the file's bytes of an entry with its checksum, and reports whether they are damaged.
func (w *Writer) verifyOne(hasher *store.Hasher, e *entries.Entry) (damaged bool) {
	region, offset := w.retainUnverified(e)
	if region == nil {
		return false
	}
	sum, err := hasher.Sum(w.working, region.Reader(), offset, uint64(len(e.Data)))
	w.mu.Lock()
	defer w.unlock()
	w.freed = append(w.freed, region)
	if w.phase != open || errors.Is(err, context.Canceled) {
		return false
	}
	return w.recordSumLocked(e, err == nil && sum == e.Record.Sum)
}

// retainUnverified returns an entry's region, with one more reference to it, and where the entry lies in its file. It
// returns nil if the entry need not be verified any more.
func (w *Writer) retainUnverified(e *entries.Entry) (region *store.Region, offset uint64) {
	w.mu.Lock()
	defer w.unlock()
	if w.phase != open || !unverified(e) {
		return nil, 0
	}
	return e.Region.Retain(), e.Record.Offset
}

// stopVerifying has the verifier end, and waits for it for a moment. There are no sessions.
func (w *Writer) stopVerifying() {
	deadline := time.Now().Add(stopPatience)
	defer time.AfterFunc(stopPatience, w.wake).Stop()
	w.mu.Lock()
	defer w.unlock()
	v := &w.verifier
	if v.timer != nil && v.timer.Stop() { // it has not started the goroutine
		v.timer = nil
	}
	for v.timer != nil && time.Now().Before(deadline) {
		w.changed.Wait()
	}
}
