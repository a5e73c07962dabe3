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

// Replace has the writer own another store, which is loaded.
func (p Probe) Replace(st *store.Store) error {
	w := p.w
	w.file.take()
	defer w.file.give()
	w.file.st = st
	err := w.accept(st, st.Load())
	w.notice(st)
	return err
}

// Hold has what is due to be committed wait for Save, however long that takes to come.
func (p Probe) Hold() {
	w := p.w
	w.mu.Lock()
	defer w.unlock()
	if w.activity == due {
		w.timer.Stop()
		w.timer, w.activity = nil, resting
	}
}

// Commit waits for the commit under way, or about to be.
func (p Probe) Commit() error {
	w := p.w
	w.mu.Lock()
	defer w.unlock()
	if w.activity == resting {
		return nil
	}
	return w.awaitCommitLocked()
}

// WriteAgain has the writer write to a file although its last one has just ended.
func (p Probe) WriteAgain() {
	w := p.w
	w.mu.Lock()
	defer w.unlock()
	w.endedUntil = time.Time{}
}

// AwaitSums waits until all sums of what was handed in are known.
func (p Probe) AwaitSums() { p.w.awaitSums() }

// SetClock has the writer take the time, in seconds since 1970, from now.
func (p Probe) SetClock(now func() int64) { p.w.now = now }

// Pack counts one more session that packs, or, with false, one less.
func (p Probe) Pack(more bool) {
	w := p.w
	w.mu.Lock()
	defer w.unlock()
	if more {
		w.packing++
	} else {
		w.packing--
	}
}

// GiveUp gives the writer's lock up, if nobody needs it.
func (p Probe) GiveUp() { p.w.giveUpWriting() }

// Len returns how many names are in memory.
func (p Probe) Len() int {
	w := p.w
	w.mu.Lock()
	defer w.unlock()
	return w.entries.Len()
}

// VerifyAtOnce has payloads verified as soon as a session is finalized.
func (p Probe) VerifyAtOnce() {
	w := p.w
	w.mu.Lock()
	defer w.unlock()
	w.verifier.pause = 0
}

// AwaitVerified returns when the verifier has ended, as it does when nothing is left.
func (p Probe) AwaitVerified() {
	w := p.w
	w.mu.Lock()
	defer w.unlock()
	for w.verifier.running || w.verifier.timer != nil {
		w.changed.Wait()
	}
}

// AwaitMapped returns when nothing more is mapped in the background.
func (p Probe) AwaitMapped() {
	w := p.w
	w.mu.Lock()
	defer w.unlock()
	for w.mapper.running {
		w.changed.Wait()
	}
}

// Verifies reports whether the verifier has a file to read, and whether it is going to run.
func (p Probe) Verifies() (file, due bool) {
	w := p.w
	w.mu.Lock()
	defer w.unlock()
	return w.verifier.file != nil, w.verifier.timer != nil
}
