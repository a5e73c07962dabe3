package xpwc

import (
	"io"
	"slices"
	"sync/atomic"
	"time"

	"xpwc/internal/digest"
	"xpwc/internal/format"
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
	waiting []payload
	hashing []payload
	file    *sharedReader // of the payload queued last

	timer   *time.Timer // starts the goroutine, or nil
	running bool        // the goroutine
	due     time.Time
	latest  time.Time     // of due
	pause   time.Duration // verifyPause, but in tests
	stop    int32         // 1 when the cache is closed; atomic, because C reads it too
}

// A payload is what the file has for an entry, to be verified.
type payload struct {
	entry        *entry
	reader       *sharedReader
	offset, size uint64
	sum          format.Digest
	state        payloadState
}

type payloadState int

const (
	notHashed payloadState = iota
	hashed
	unreadable
)

// A payloadReader is a cache file that is open once more, to be hashed by somebody who is not in a hurry.
type payloadReader interface {
	// hash fills in the sums and states of payloads, each of which it is given once. They stay notHashed when stop is
	// not 0, and with an error, which is one of the system's and says nothing of them.
	hash(payloads []payload, stop *int32) error
	io.Closer
}

// A sharedReader is closed when no payload refers to it.
type sharedReader struct {
	payloadReader
	base *region // what the store had loaded from that file
	uses int
}

// hashWith hashes a payload that r reads, on the calling thread.
func (p *payload) hashWith(r io.ReaderAt, stop *int32) {
	var h digest.Hash
	b := make([]byte, min(p.size, 64<<10))
	for at := uint64(0); at < p.size; at += uint64(len(b)) {
		if atomic.LoadInt32(stop) != 0 {
			return
		}
		b = b[:min(uint64(len(b)), p.size-at)]
		if n, _ := r.ReadAt(b, int64(p.offset+at)); n < len(b) {
			p.state = unreadable
			return
		}
		_, _ = h.Write(b) // never fails
	}
	p.sum, p.state = h.Sum(), hashed
}

// verifyLater queues an entry that a session uses, if it is one of the file that nothing was compared with yet.
func (c *core) verifyLater(e *entry) {
	if c.options.Verify != VerifyInBackground || !e.committed || e.verified || e.queued || !c.loaded(e) {
		return
	}
	v := &c.verifier
	if v.file == nil || v.file.base != c.store.base {
		r, err := c.store.disk.Reader()
		if err != nil { // the next session that uses it tries again
			c.note(err)
			return
		}
		v.file = &sharedReader{payloadReader: r, base: c.store.base}
	}
	v.file.uses++
	e.queued = true
	if v.waiting == nil {
		v.waiting = make([]payload, 0, c.usual)
	}
	v.waiting = append(v.waiting, payload{entry: e, reader: v.file, offset: e.record.Offset, size: e.record.Size})
}

// wanted reports whether there is a reason to verify an entry that was queued.
func (e *entry) wanted() bool { return e.sessions > 0 && !e.verified && !e.suspect }

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
		v.take()
		r := v.hashing[0].reader
		c.mu.Unlock()
		err := r.hash(v.hashing, &v.stop)
		c.mu.Lock()
		v.latest = time.Now().Add(verifyWithin)
		c.note(err)
		c.judge(v.hashing)
		for _, p := range v.hashing {
			c.note(v.release(p))
		}
		v.hashing = nil
	}
	v.running = false
	c.idle.Broadcast()
}

// dropUnwanted takes out of the queue what need not be verified any more, and closes files that nothing is left of.
func (v *verifier) dropUnwanted() {
	v.waiting = slices.DeleteFunc(v.waiting, func(p payload) bool {
		if p.entry.wanted() {
			return false
		}
		_ = v.release(p) // of a file that was only read
		return true
	})
}

// take moves from the queue what is hashed next: payloads of one file.
func (v *verifier) take() {
	n, size := 0, uint64(0)
	for _, p := range v.waiting[:min(verifiedTogether, len(v.waiting))] {
		size += p.size
		if p.reader != v.waiting[0].reader || n > 0 && size > verifiedBytesTogether {
			break
		}
		n++
	}
	v.hashing = slices.Clone(v.waiting[:n])
	v.waiting = slices.Delete(v.waiting, 0, n)
}

// release ends what a payload was queued for.
func (v *verifier) release(p payload) error {
	p.entry.queued = false
	p.reader.uses--
	if p.reader.uses > 0 {
		return nil
	}
	if v.file == p.reader {
		v.file = nil
	}
	return p.reader.Close()
}

// judge compares what the file has with what was committed.
func (c *core) judge(payloads []payload) {
	damaged := false
	for _, p := range payloads {
		switch e := p.entry; {
		case c.closing, p.state == notHashed, e.verified, e.suspect:
		case p.state == hashed && p.sum == e.record.Sum:
			c.stats.Verified.add(len(e.data))
			e.verified = true
		default:
			c.damagedPayload(e)
			damaged = true
		}
	}
	switch {
	case !damaged:
	case c.store.locked:
		c.commitSoon()
	default:
		c.commitChanges()
	}
}

// unverified counts what open sessions use and the verifier has yet to come to.
func (v *verifier) unverified() (n Count) {
	for _, queue := range [][]payload{v.hashing, v.waiting} {
		for i := range queue { // whose sums are being filled in
			if e := queue[i].entry; e.wanted() {
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
