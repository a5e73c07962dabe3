package xpwc

import (
	"slices"
	"sync/atomic"
	"time"

	"xpwc/internal/format"
	"xpwc/internal/store"
)

// Payloads are verified when the first inference is likely over: reading them takes the memory's bandwidth from it,
// and the disk's. A session that begins or is finalized puts it off, but not for ever.
const (
	verifyPause  = time.Second
	verifyWithin = 10 * time.Second
)

// What is given to the thread that hashes at a time, at most, unless one payload is larger.
const (
	verifiedTogether      = 1024
	verifiedBytesTogether = 32 << 20
)

// stopPatience is how long Close waits for that thread. It ends within milliseconds where there is a processor for
// it, and where there is none it may not run for seconds; it needs nothing that Close gives up.
const stopPatience = 100 * time.Millisecond

// A verifier has the payloads of the file that sessions use hashed in the background. It is a part of its Cache,
// whose lock guards it.
type verifier struct {
	waiting []queued
	hashing []queued
	file    *sharedReader // of the payload queued last

	timer   *time.Timer // starts the goroutine, or nil
	running bool        // the goroutine
	due     time.Time
	latest  time.Time     // of due
	pause   time.Duration // verifyPause, but in tests
	stop    int32         // 1 when the cache is closed; atomic, because C reads it too
}

// A queued entry is to be verified, with what the file has for it.
type queued struct {
	entry  *entry
	reader *sharedReader
	offset uint64 // in the file that is read: the entry may move
}

// A sharedReader is closed when no payload refers to it.
type sharedReader struct {
	store.Reader
	index *format.Index // what the store had loaded from that file
	uses  int
}

// verifyLater queues an entry that a session uses, if it is one of the file that nothing was compared with yet.
func (c *core) verifyLater(e *entry) {
	if c.options.Verify != VerifyInBackground || e.verified || e.queued || !c.loaded(e) {
		return
	}
	v := &c.verifier
	if v.file == nil || v.file.index != c.store.Index() {
		r, err := c.store.Reader()
		if err != nil { // the next session that uses it tries again
			c.note(err)
			return
		}
		v.file = &sharedReader{Reader: r, index: c.store.Index()}
	}
	v.file.uses++
	e.queued = true
	v.waiting = append(doubled(v.waiting, c.tensorsExpected), queued{e, v.file, e.record.Offset})
}

// wanted reports whether there is a reason to verify an entry that was queued.
func (e *entry) wanted() bool { return e.sessions > 0 && !e.verified && e.doubt == sound }

// verifySoon begins to verify what is queued, unless that has begun.
func (c *core) verifySoon() {
	v := &c.verifier
	if len(v.waiting) == 0 {
		return
	}
	if !v.running && v.timer == nil {
		v.latest = time.Now().Add(verifyWithin)
		v.timer = time.AfterFunc(v.pause, c.verifyWaiting)
	}
	v.putOff()
}

// putOff leaves the machine to whoever loads a model, or runs it first.
func (v *verifier) putOff() {
	v.due = time.Now().Add(v.pause)
	if v.due.After(v.latest) {
		v.due = v.latest
	}
}

// verifyWaiting is the verifier's goroutine. It lets others hash: see verifier.c.
func (c *core) verifyWaiting() {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := &c.verifier
	if v.timer == nil { // the cache was closed meanwhile
		return
	}
	v.timer, v.running = nil, true
	for v.dropUnwanted(); len(v.waiting) > 0 && !c.closing; v.dropUnwanted() {
		if pause := time.Until(v.due); pause > 0 {
			v.timer = time.AfterFunc(pause, c.verifyWaiting)
			break
		}
		payloads := v.take()
		r := v.hashing[0].reader
		var err error
		c.unlocked(func() { err = r.Hash(payloads, &v.stop) })
		v.latest = time.Now().Add(verifyWithin)
		c.note(err)
		c.judge(v.hashing, payloads)
		for _, q := range v.hashing {
			c.note(v.release(q))
		}
		v.hashing = nil
	}
	v.running = false
	c.idle.Broadcast()
}

// dropUnwanted takes out of the queue what need not be verified any more, and closes files that nothing is left of.
func (v *verifier) dropUnwanted() {
	v.waiting = slices.DeleteFunc(v.waiting, func(q queued) bool {
		if q.entry.wanted() {
			return false
		}
		_ = v.release(q) // of a file that was only read
		return true
	})
}

// take moves from the queue what is hashed next, and returns it: payloads of one file.
func (v *verifier) take() []store.Payload {
	var payloads []store.Payload
	size := uint64(0)
	for _, q := range v.waiting[:min(verifiedTogether, len(v.waiting))] {
		size += q.entry.record.Size
		if q.reader != v.waiting[0].reader || len(payloads) > 0 && size > verifiedBytesTogether {
			break
		}
		payloads = append(payloads, store.Payload{Offset: q.offset, Size: q.entry.record.Size})
	}
	n := len(payloads)
	v.hashing = slices.Clone(v.waiting[:n])
	v.waiting = slices.Delete(v.waiting, 0, n)
	return payloads
}

// release ends what an entry was queued for.
func (v *verifier) release(q queued) error {
	q.entry.queued = false
	q.reader.uses--
	if q.reader.uses > 0 {
		return nil
	}
	if v.file == q.reader {
		v.file = nil
	}
	return q.reader.Close()
}

// judge compares what the file has with what was committed.
func (c *core) judge(entries []queued, payloads []store.Payload) {
	damaged := false
	for i, p := range payloads {
		switch e := entries[i].entry; {
		case c.closing, p.State == store.NotHashed, e.verified, e.doubt != sound:
		case p.State == store.Hashed && p.Sum == e.record.Sum:
			c.stats.Verified.add(len(e.data))
			e.verified = true
		default:
			c.damagedPayload(e)
			damaged = true
		}
	}
	switch {
	case !damaged:
	case c.store.Writing():
		c.commitSoon()
	default:
		c.commitChanges()
	}
}

// unverified counts what open sessions use and the verifier has yet to come to.
func (v *verifier) unverified() (n Count) {
	for _, queue := range [][]queued{v.hashing, v.waiting} {
		for _, q := range queue {
			if e := q.entry; e.wanted() {
				n.add(len(e.data))
			}
		}
	}
	return n
}

// stopVerifier has the verifier end, and waits for it for a moment. c.closing is set, and there are no sessions.
func (c *core) stopVerifier() {
	v := &c.verifier
	atomic.StoreInt32(&v.stop, 1)
	if v.timer != nil {
		v.timer.Stop()
		v.timer = nil
	}
	v.dropUnwanted() // which all is, without sessions
	deadline := time.Now().Add(stopPatience)
	defer time.AfterFunc(stopPatience, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.idle.Broadcast()
	}).Stop()
	for v.running && time.Now().Before(deadline) {
		c.idle.Wait()
	}
}
