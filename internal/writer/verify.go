package writer

import (
	"slices"
	"time"

	"xpwc/internal/entries"
	"xpwc/internal/store"
)

// verifyPause is how long after a session was finalized its payloads are verified: when the first inference is likely
// over. Reading them takes the memory's bandwidth from it, and the disk's.
const verifyPause = time.Second

// What is hashed at a time, at most, unless one payload is larger.
const (
	verifiedTogether      = 1024
	verifiedBytesTogether = 32 << 20
)

// stopPatience is how long Close waits for what is being hashed, which ends within milliseconds unless the disk does
// not answer. It needs nothing that Close gives up.
const stopPatience = 100 * time.Millisecond

// A verifier has the payloads of the file that sessions use hashed in the background. Its writer's mu guards it.
type verifier struct {
	waiting []queued
	hashing []queued // of one region, to which the goroutine has a reference

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
	reader, _ := e.Region.Reader()
	if reader == nil || e.Verified || e.Queued || !e.Listed(w.loaded.id) || e.Region.File() != e.File {
		return
	}
	e.Queued = true
	v := &w.verifier
	v.waiting = append(v.waiting, queued{e, e.Record.Offset})
}

// wanted reports whether there is a reason to verify an entry that was queued.
func (q queued) wanted() bool {
	return q.entry.Sessions > 0 && !q.entry.Verified && q.entry.Withheld == nil
}

// verifySoonLocked begins to verify what is queued in a moment, unless that has begun.
func (w *Writer) verifySoonLocked() {
	v := &w.verifier
	w.dropUnwantedLocked()
	if len(v.waiting) > 0 && !v.running && v.timer == nil {
		v.timer = time.AfterFunc(v.pause, w.verify)
	}
}

// verify is the verifier's goroutine.
func (w *Writer) verify() {
	for {
		payloads, region := w.toVerify()
		if region == nil {
			return
		}
		reader, _ := region.Reader()
		store.Hash(reader, payloads, &w.stop)
		if w.verified(payloads, region) {
			w.commitAtOnce() // so that the file is rid of it
		}
	}
}

// toVerify takes from the queue what is hashed next: payloads in one region, with a reference to it. There is none if
// the goroutine is to end.
func (w *Writer) toVerify() (payloads []store.Payload, region *store.Region) {
	w.mu.Lock()
	defer w.unlock()
	v := &w.verifier
	if v.timer == nil && !v.running { // the cache was closed meanwhile
		return nil, nil
	}
	v.timer, v.running = nil, true
	w.dropUnwantedLocked()
	if len(v.waiting) > 0 && w.phase == open {
		return v.take()
	}
	v.running = false
	w.changed.Broadcast()
	return nil, nil
}

// dropUnwantedLocked takes out of the queue what need not be verified any more.
func (w *Writer) dropUnwantedLocked() {
	v := &w.verifier
	v.waiting = slices.DeleteFunc(v.waiting, func(q queued) bool {
		q.entry.Queued = q.wanted()
		return !q.entry.Queued
	})
}

// take moves from the queue what is hashed next, and returns it.
func (v *verifier) take() (payloads []store.Payload, region *store.Region) {
	region = v.waiting[0].entry.Region.Retain()
	size := uint64(0)
	for _, q := range v.waiting[:min(verifiedTogether, len(v.waiting))] {
		size += q.entry.Record.Size
		if q.entry.Region != region || len(payloads) > 0 && size > verifiedBytesTogether {
			break
		}
		payloads = append(payloads, store.Payload{Offset: q.offset, Size: q.entry.Record.Size})
	}
	n := len(payloads)
	v.hashing = slices.Clone(v.waiting[:n])
	v.waiting = slices.Delete(v.waiting, 0, n)
	return payloads, region
}

// verified compares what the file has with what was committed, and reports whether something is damaged.
func (w *Writer) verified(payloads []store.Payload, region *store.Region) (found bool) {
	w.mu.Lock()
	defer w.unlock()
	v := &w.verifier
	was := w.figures.DamagedPayloads
	for i, q := range v.hashing {
		if p := &payloads[i]; w.phase == open && p.State != store.NotHashed {
			w.judgeLocked(q.entry, p.State == store.Hashed && p.Sum == q.entry.Record.Sum)
		}
		q.entry.Queued = false
	}
	v.hashing = nil
	w.freed = append(w.freed, region)
	return w.figures.DamagedPayloads > was
}

// unverified counts what open sessions use and the verifier has yet to come to.
func (v *verifier) unverified() (n Count) {
	for _, q := range slices.Concat(v.hashing, v.waiting) {
		if q.wanted() {
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
	w.dropUnwantedLocked() // which all is, without sessions
	for v.running && time.Now().Before(deadline) {
		w.changed.Wait()
	}
}
