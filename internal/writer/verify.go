package writer

import (
	"errors"
	"time"

	"xpwc/internal/entries"
	"xpwc/internal/format"
	"xpwc/internal/store"
)

// verifyPause is how long after a session was finalized its payloads are verified: when the first inference is likely
// over. Reading them takes the memory's bandwidth from it, and the disk's.
const verifyPause = time.Second

// stopPatience is how long Close waits for what is being hashed, which ends within milliseconds unless the disk does
// not answer. It needs nothing that Close gives up.
const stopPatience = 100 * time.Millisecond

// A verifier has the payloads of the file that sessions use hashed in the background. Its writer's mu guards it.
type verifier struct {
	waiting []queued
	hashing *entries.Entry // or nil

	timer   *time.Timer   // starts the goroutine, or nil
	running bool          // the goroutine
	pause   time.Duration // verifyPause, but in tests
}

// A queued entry is to be verified, with where it lies in the file that its region was mapped from: it may move.
type queued struct {
	entry  *entries.Entry
	offset uint64
}

// verifyLaterLocked queues an entry that a session uses, if it is one of the file that nothing was compared with yet.
// What a compaction has moved was compared with its sum then, and lies elsewhere in the file that its region is of.
func (w *Writer) verifyLaterLocked(e *entries.Entry) {
	loaded := e.Region.Reader() != nil && e.Region.File() == e.File && e.Listed(w.loaded.id)
	if !w.options.Verify || !loaded || e.Verified || e.Queued {
		return
	}
	e.Queued = true
	v := &w.verifier
	v.waiting = append(v.waiting, queued{e, e.Record.Offset})
}

// wanted reports whether there is a reason to verify an entry that was queued.
func wanted(e *entries.Entry) bool { return e.Sessions > 0 && !e.Verified && e.Withheld == nil }

// verifySoonLocked begins to verify what is queued in a moment, unless that has begun.
func (w *Writer) verifySoonLocked() {
	v := &w.verifier
	if len(v.waiting) > 0 && !v.running && v.timer == nil {
		v.timer = time.AfterFunc(v.pause, w.verify)
	}
}

// verify is the verifier's goroutine.
func (w *Writer) verify() {
	hasher, damaged := store.NewHasher(&w.stop), false
	for {
		switch next, region := w.toVerify(!damaged); {
		case region != nil:
			sum, err := hasher.Sum(region.Reader(), next.offset, uint64(len(next.entry.Data)))
			damaged = w.verified(next.entry, region, sum, err) || damaged
		case damaged:
			w.commitAtOnce() // so that the file is rid of it
			damaged = false
		default:
			return
		}
	}
}

// toVerify takes from the queue what is hashed next, with a reference to its region. There is none if the queue is
// empty, after which the goroutine is to end if it may.
func (w *Writer) toVerify(mayEnd bool) (next queued, region *store.Region) {
	w.mu.Lock()
	defer w.unlock()
	v := &w.verifier
	if v.timer == nil && !v.running { // the cache was closed meanwhile
		return next, nil
	}
	v.timer, v.running = nil, true
	for len(v.waiting) > 0 && w.phase == open {
		next, v.waiting = v.waiting[0], v.waiting[1:]
		if wanted(next.entry) {
			v.hashing = next.entry
			return next, next.entry.Region.Retain()
		}
		next.entry.Queued = false
	}
	v.running = !mayEnd
	w.changed.Broadcast()
	return next, nil
}

// verified compares what the file has of an entry with what was committed, and reports whether it is damaged.
func (w *Writer) verified(e *entries.Entry, region *store.Region, sum format.Digest, err error) (damaged bool) {
	w.mu.Lock()
	defer w.unlock()
	was := w.figures.DamagedPayloads
	if w.phase == open && !errors.Is(err, store.ErrStopped) {
		w.judgeLocked(e, err == nil && sum == e.Record.Sum)
	}
	e.Queued, w.verifier.hashing = false, nil
	w.freed = append(w.freed, region)
	return w.figures.DamagedPayloads > was
}

// unverified counts what open sessions use and the verifier has yet to come to.
func (v *verifier) unverified() (n Count) {
	if v.hashing != nil && wanted(v.hashing) {
		n.add(len(v.hashing.Data))
	}
	for _, q := range v.waiting {
		if wanted(q.entry) {
			n.add(len(q.entry.Data))
		}
	}
	return n
}

// stopVerifying has the verifier end, and waits for it for a moment. There are no sessions.
func (w *Writer) stopVerifying() {
	deadline := time.Now().Add(stopPatience)
	defer time.AfterFunc(stopPatience, w.wake).Stop()
	w.mu.Lock()
	defer w.unlock()
	v := &w.verifier
	if v.timer != nil {
		v.timer.Stop()
		v.timer = nil
	}
	v.waiting = nil
	for v.running && time.Now().Before(deadline) {
		w.changed.Wait()
	}
}
