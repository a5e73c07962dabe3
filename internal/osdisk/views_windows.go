package osdisk

import (
	"errors"
	"slices"
	"sync"

	"golang.org/x/sys/windows"
)

// views are the mappings of a file that were written to: flushing a file does not flush them, but for what the system
// wrote back by itself. They stay until they were flushed after becoming read-only.
type views struct {
	mu   sync.Mutex
	list []*view
}

type view struct {
	mu     sync.Mutex // while it is flushed or unmapped
	data   []byte     // nil when it is unmapped
	sealed bool       // by the views' lock
}

func (v *views) add(b []byte) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.list = append(v.list, &view{data: b})
}

// find returns the view that begins where b does and has its size, or nil. A part of a view is none.
func (v *views) find(b []byte) *view {
	i := slices.IndexFunc(v.list, func(w *view) bool {
		return addressOf(w.data) == addressOf(b) && len(w.data) == len(b)
	})
	if i < 0 {
		return nil
	}
	return v.list[i]
}

func (v *views) remove(w *view) {
	v.list = slices.DeleteFunc(v.list, func(other *view) bool { return other == w })
}

// seal says that nothing will be written to a view any more.
func (v *views) seal(b []byte) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if w := v.find(b); w != nil {
		w.sealed = true
	}
}

// flush hands all that was written to views to the system; flushing the file then waits for it. Who adds or unmaps
// another view meanwhile does not wait.
func (v *views) flush() error {
	v.mu.Lock()
	list := slices.Clone(v.list)
	sealed := make([]bool, len(list))
	for i, w := range list {
		sealed[i] = w.sealed
	}
	v.mu.Unlock()
	for i, w := range list {
		if err := w.flush(); err != nil {
			return err
		}
		if sealed[i] {
			v.mu.Lock()
			v.remove(w)
			v.mu.Unlock()
		}
	}
	return nil
}

// flushAttempts are made where the system is writing the same pages back by itself.
const flushAttempts = 20

func (w *view) flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.data == nil {
		return nil
	}
	var err error
	for range flushAttempts {
		err = windows.FlushViewOfFile(addressOf(w.data), uintptr(len(w.data)))
		if !errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
			break
		}
	}
	return err
}

// unmap unmaps a mapping, written to or not.
func (v *views) unmap(b []byte) error {
	v.mu.Lock()
	w := v.find(b)
	v.mu.Unlock()
	if w == nil {
		return unmap(b)
	}
	err := w.flush() // nobody could later
	w.mu.Lock()
	defer w.mu.Unlock()
	v.mu.Lock()
	v.remove(w)
	v.mu.Unlock()
	w.data = nil
	return errors.Join(err, unmap(b))
}
