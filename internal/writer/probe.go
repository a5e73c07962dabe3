package writer

import (
	"time"

	"xpwc/internal/store"
)

// A Probe lets tests look into a writer and stand in for time.
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

// Hold cancels a scheduled commit: entries wait for Save.
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

// WriteAgain lets the writer write although its last file has just ended.
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

// AwaitSums waits until all checksums are computed.
func (p Probe) AwaitSums() {
	p.w.sums.Start()
	p.await(func() bool { return len(p.w.summing) > 0 })
}

// SetClock replaces the writer's clock, in seconds since 1970.
func (p Probe) SetClock(clock func() int64) { p.w.clock = clock }

// Pack counts so many more sessions that pack.
func (p Probe) Pack(n int) { p.w.locked(func() { p.w.packing += n }) }

// GiveUp releases the writer's lock unless this process needs it.
func (p Probe) GiveUp() { p.w.giveUpWriting() }

// VerifyAtOnce makes verification begin as soon as a session is finalized.
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
