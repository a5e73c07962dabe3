package store

import (
	"errors"
	"sync"
)

// A flush at the end of a long packing waits for the disk while the processors have nothing to do. So a store that is
// only packed into has the system write each segment as soon as it is complete. The flush of a commit stays as it is,
// and decides what is on stable storage.

// An EarlyWriter is a disk that can begin to write before it is flushed. Not every system can.
type EarlyWriter interface {
	// BeginWriting has the system begin to write what was written to a part of the file, and may wait for the disk to
	// take it. It must leave every error of writing to Flush; one that it returns itself, of which Flush need not know,
	// means that a part may be lost. errors.ErrUnsupported: this file cannot do it, and nothing was done. It may be
	// called beside all other methods, and after Close.
	BeginWriting(offset, size int64) error
}

// earlyWriter has complete parts of one file written, one after the other, on a goroutine of its own.
type earlyWriter struct {
	mu      sync.Mutex
	parts   []part
	running chan struct{} // closed when the goroutine has ended; nil while there is none
	off     bool          // it was found to be unsupported, or has failed
	err     error         // why what was begun may be lost
}

type part struct{ offset, size int64 }

// writeEarly seals the segments that are complete, and has them written.
func (st *Store) writeEarly() error {
	d, ok := st.disk.(EarlyWriter)
	if !ok || !st.options.Early || st.access != writing || st.early.isOff() {
		return nil
	}
	var parts []part
	sealed, err := st.seal(func(r *Region) bool {
		if r == st.segment || r.open.Load() > 0 {
			return false
		}
		parts = append(parts, st.ownPages(r))
		return true
	})
	for _, r := range sealed {
		r.giveBack()
		err = errors.Join(err, r.Release())
	}
	st.early.write(d, parts)
	return err
}

// ownPages are the pages of a segment that are only its own. Something may still be packed into those that the segments
// beside it have too.
func (st *Store) ownPages(r *Region) part {
	page := int64(st.disk.Granularity())
	from, to := int64(r.offset)+page, (int64(r.offset)+int64(r.used))&^(page-1)
	return part{from, max(to-from, 0)}
}

func (w *earlyWriter) isOff() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.off
}

func (w *earlyWriter) write(d EarlyWriter, parts []part) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.parts = append(w.parts, parts...)
	if w.running == nil && len(w.parts) > 0 {
		w.running = make(chan struct{})
		go w.run(d, w.running)
	}
}

func (w *earlyWriter) run(d EarlyWriter, ended chan<- struct{}) {
	defer close(ended)
	for {
		p, ok := w.next()
		if !ok {
			return
		}
		if p.size == 0 { // which would be all of the file
			continue
		}
		if err := d.BeginWriting(p.offset, p.size); err != nil {
			w.fail(err)
		}
	}
}

func (w *earlyWriter) next() (part, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.parts) == 0 || w.off {
		w.parts, w.running = nil, nil
		return part{}, false
	}
	p := w.parts[0]
	w.parts = w.parts[1:]
	return p, true
}

func (w *earlyWriter) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.off = true
	if !errors.Is(err, errors.ErrUnsupported) {
		w.err = err
	}
}

// end returns when nothing is written early any more: what is left is the flush's to write. The error says that what
// was written may be lost, which counts as a flush that failed. A nil one has written nothing.
func (w *earlyWriter) end() error {
	if w == nil {
		return nil
	}
	if running := w.drop(); running != nil {
		<-running
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// drop has nothing more written but what is being written.
func (w *earlyWriter) drop() (running <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.parts = nil
	return w.running
}
