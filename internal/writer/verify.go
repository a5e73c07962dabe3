package writer

import (
	"slices"
	"sync/atomic"
	"time"

	"xpwc/internal/entries"
	"xpwc/internal/format"
	"xpwc/internal/store"
)

// Payloads are verified when the first inference is likely over: reading them takes the memory's bandwidth from it,
// and the disk's. A session that begins or is finalized puts it off, but not for ever.
const (
	verifyPause  = time.Second
	verifyWithin = 10 * time.Second
)

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
	hashing []queued
	file    *sharedReader // of the loaded index, or nil

	timer   *time.Timer // starts the goroutine, or nil
	running bool        // the goroutine
	due     time.Time
	latest  time.Time     // of due
	pause   time.Duration // verifyPause, but in tests
	stop    int32         // 1 when the cache is closed; atomic
}

// A queued entry is to be verified, with what the file has for it.
type queued struct {
	entry  *entries.Entry
	reader *sharedReader
	offset uint64 // in the file that is read: the entry may move
}

// A sharedReader is closed when no payload refers to it.
type sharedReader struct {
	store.Reader // nil until it is opened
	index        *format.Index
	uses         int
}

// Release closes the file.
func (r *sharedReader) Release() error { return r.Close() }

// verifyLaterLocked queues an entry that a session uses, if it is one of the file that nothing was compared with yet.
func (w *Writer) verifyLaterLocked(e *entries.Entry) {
	if !w.options.Background || e.Verified || e.Queued || !e.Listed(w.loaded.id) {
		return
	}
	v := &w.verifier
	if v.file == nil || v.file.index != w.loaded.index {
		v.file = &sharedReader{index: w.loaded.index}
	}
	v.file.uses++
	e.Queued = true
	v.waiting = append(entries.Roomier(v.waiting, manyEntries/8), queued{e, v.file, e.Record.Offset})
}

// wanted reports whether there is a reason to verify an entry that was queued.
func (q *queued) wanted() bool {
	return q.entry.Sessions > 0 && !q.entry.Verified && q.entry.Withheld == nil
}

// beginVerifying begins to verify what is queued, unless that has begun.
func (w *Writer) beginVerifying() {
	w.openUnread()
	w.mu.Lock()
	defer w.unlock()
	v := &w.verifier
	w.dropUnwantedLocked()
	if len(v.waiting) == 0 {
		return
	}
	if !v.running && v.timer == nil {
		v.latest = time.Now().Add(verifyWithin)
		v.timer = time.AfterFunc(v.pause, w.verify)
	}
	v.putOff()
}

// openUnread opens the file that is yet to be opened to be verified, if there is one.
func (w *Writer) openUnread() {
	var unread *format.Index
	w.locked(func() { unread = w.verifier.unread() })
	if unread != nil {
		w.openToVerify(unread)
	}
}

// unread returns the loaded index if payloads of it are queued, and the file is yet to be opened to read them.
func (v *verifier) unread() *format.Index {
	if v.file != nil && v.file.Reader == nil {
		return v.file.index
	}
	return nil
}

// openToVerify opens the file that an index was loaded from once more, so that it can be read whatever becomes of it.
// If that is not the loaded one any more, what was queued is not verified: no further session is given it.
func (w *Writer) openToVerify(index *format.Index) {
	st := w.file.take()
	defer w.file.give()
	var r store.Reader
	if st.Index() == index {
		var err error
		r, err = st.Reader()
		w.note(err) // the next session that uses it tries again
	}
	w.mu.Lock()
	defer w.unlock()
	f := w.verifier.file
	switch {
	case f == nil || f.index != index || f.Reader != nil: // somebody else has
		if r != nil {
			w.freed = append(w.freed, &sharedReader{Reader: r})
		}
	case r != nil:
		f.Reader = r
	default:
		w.verifier.file = nil
		w.dropUnwantedLocked()
	}
}

// putOff leaves the machine to whoever loads a model, or runs it first.
func (v *verifier) putOff() {
	v.due = time.Now().Add(v.pause)
	if v.due.After(v.latest) {
		v.due = v.latest
	}
}

// verify is the verifier's goroutine.
func (w *Writer) verify() {
	for {
		w.openUnread()
		payloads, reader := w.toVerify()
		if len(payloads) == 0 {
			return
		}
		store.Hash(reader, payloads, &w.verifier.stop)
		if w.verified(payloads) {
			w.commitAtOnce() // so that the file is rid of it
		}
	}
}

// toVerify takes from the queue what is hashed next: payloads of one file. There are none if the goroutine is to end.
func (w *Writer) toVerify() (payloads []store.Payload, reader *sharedReader) {
	w.mu.Lock()
	defer w.unlock()
	v := &w.verifier
	if v.timer == nil && !v.running { // the cache was closed meanwhile
		return nil, nil
	}
	v.timer, v.running = nil, true
	w.dropUnwantedLocked()
	if pause := time.Until(v.due); len(v.waiting) > 0 && w.phase == open {
		if pause <= 0 {
			return v.take()
		}
		v.timer = time.AfterFunc(pause, w.verify)
	}
	v.running = false
	w.changed.Broadcast()
	return nil, nil
}

// dropUnwantedLocked takes out of the queue what need not be verified any more, or cannot, and gives up files that
// nothing is left of.
func (w *Writer) dropUnwantedLocked() {
	v := &w.verifier
	v.waiting = slices.DeleteFunc(v.waiting, func(q queued) bool {
		if q.wanted() && (q.reader.Reader != nil || q.reader == v.file) {
			return false
		}
		w.dequeueLocked(q)
		return true
	})
}

// take moves from the queue what is hashed next, and returns it.
func (v *verifier) take() (payloads []store.Payload, reader *sharedReader) {
	size := uint64(0)
	for _, q := range v.waiting[:min(verifiedTogether, len(v.waiting))] {
		size += q.entry.Record.Size
		if q.reader != v.waiting[0].reader || len(payloads) > 0 && size > verifiedBytesTogether {
			break
		}
		payloads = append(payloads, store.Payload{Offset: q.offset, Size: q.entry.Record.Size})
	}
	n := len(payloads)
	v.hashing = slices.Clone(v.waiting[:n])
	v.waiting = slices.Delete(v.waiting, 0, n)
	return payloads, v.hashing[0].reader
}

// dequeueLocked ends what an entry was queued for.
func (w *Writer) dequeueLocked(q queued) {
	q.entry.Queued = false
	q.reader.uses--
	if q.reader.uses > 0 {
		return
	}
	if w.verifier.file == q.reader {
		w.verifier.file = nil
	}
	if q.reader.Reader != nil {
		w.freed = append(w.freed, q.reader)
	}
}

// verified compares what the file has with what was committed, and reports whether something is damaged.
func (w *Writer) verified(payloads []store.Payload) (found bool) {
	w.mu.Lock()
	defer w.unlock()
	v := &w.verifier
	v.latest = time.Now().Add(verifyWithin)
	was := w.figures.DamagedPayloads
	for i, q := range v.hashing {
		if p := &payloads[i]; w.phase == open && p.State != store.NotHashed {
			w.judgeLocked(q.entry, p.State == store.Hashed && p.Sum == q.entry.Record.Sum)
		}
		w.dequeueLocked(q)
	}
	v.hashing = nil
	return w.figures.DamagedPayloads > was
}

// unverified counts what open sessions use and the verifier has yet to come to.
func (v *verifier) unverified() (n Count) {
	for _, queue := range [][]queued{v.hashing, v.waiting} {
		for _, q := range queue {
			if q.wanted() {
				n.add(len(q.entry.Data))
			}
		}
	}
	return n
}

// stopVerifying has the verifier end, and waits for it for a moment. There are no sessions.
func (w *Writer) stopVerifying() {
	atomic.StoreInt32(&w.verifier.stop, 1)
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
