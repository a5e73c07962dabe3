package writer

import (
	"time"

	"xpwc/internal/store"
)

// A Probe is how tests look into a writer, and change what time would.
type Probe struct{ w *Writer }

// Probe returns the writer's probe.
func (w *Writer) Probe() Probe { return Probe{w} }

// File calls do with the store, which has the file taken meanwhile.
func (p Probe) File(do func(*store.Store)) {
	st := p.w.file.take()
	defer p.w.file.give()
	do(st)
	p.w.notice(st)
}

// Hold has what is due to be committed wait for Save, however long that takes to come.
func (p Probe) Hold() {
	w := p.w
	w.locked(func() {
		if w.activity == scheduled {
			w.timer.Stop()
			w.timer, w.activity = nil, idle
		}
	})
}

// Commit waits for the commit under way, or about to be.
func (p Probe) Commit() error {
	w := p.w
	w.mu.Lock()
	defer w.unlock()
	if w.activity == idle {
		return nil
	}
	return w.awaitCommitLocked()
}

// WriteAgain has the writer write to a file although its last one has just ended.
func (p Probe) WriteAgain() {
	p.w.locked(func() { p.w.endedUntil = time.Time{} })
}

// await returns when a condition of the writer is no longer so.
func (p Probe) await(cond func() bool) {
	p.w.locked(func() {
		for cond() {
			p.w.changed.Wait()
		}
	})
}

// AwaitSums waits until all sums of what was handed in are known.
func (p Probe) AwaitSums() { p.await(func() bool { return len(p.w.summing) > 0 }) }

// SetClock has the writer take the time, in seconds since 1970, from now.
func (p Probe) SetClock(clock func() int64) { p.w.clock = clock }

// Pack counts so many more sessions that pack.
func (p Probe) Pack(n int) { p.w.locked(func() { p.w.packing += n }) }

// GiveUp gives the writer's lock up, if nobody needs it.
func (p Probe) GiveUp() { p.w.giveUpWriting() }

// VerifyAtOnce has payloads verified as soon as a session is finalized.
func (p Probe) VerifyAtOnce() {
	p.w.locked(func() { p.w.verifier.pause = 0 })
}

// AwaitVerified returns when the verifier has ended, as it does when nothing is left.
func (p Probe) AwaitVerified() {
	p.await(func() bool { return p.w.verifier.timer != nil })
}

// Verifies reports whether the verifier is going to run.
func (p Probe) Verifies() (due bool) {
	return underLock(p.w, func() bool { return p.w.verifier.timer != nil })
}
