package osdisk

import (
	"errors"
	"slices"
	"sync"

	"golang.org/x/sys/windows"
)

// views are the mappings of a file that can be, or were, written to: flushing a file does not flush them, but for what
// the system wrote back by itself.
type views struct {
	mu   sync.Mutex
	list []*mapping
}

// A mapping is a stretch of a file in memory, see [store.Mapping].
type mapping struct {
	disk *Disk
	data []byte

	mu   sync.Mutex // while it is flushed or unmapped
	gone bool       // it is unmapped
}

func (v *views) add(m *mapping) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.list = append(v.list, m)
}

func (v *views) remove(m *mapping) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.list = slices.DeleteFunc(v.list, func(w *mapping) bool { return w == m })
}

// flush hands all that was written to views to the system; flushing the file then waits for it. Who adds or unmaps
// another view meanwhile does not wait.
func (v *views) flush() error {
	for _, m := range v.snapshot() {
		if err := m.flush(); err != nil {
			return err
		}
	}
	return nil
}

func (v *views) snapshot() []*mapping {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.list)
}

// flushAttempts are made where the system is writing the same pages back by itself.
const flushAttempts = 20

func (m *mapping) flush() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gone {
		return nil
	}
	var err error
	for range flushAttempts {
		err = windows.FlushViewOfFile(addressOf(m.data), uintptr(len(m.data)))
		if !errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
			break
		}
	}
	return err
}

// unmap unmaps a mapping, written to or not.
func (v *views) unmap(m *mapping) error {
	var err error
	if slices.Contains(v.snapshot(), m) {
		err = m.flush() // nobody could later
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	v.remove(m)
	m.gone = true
	return errors.Join(err, windows.UnmapViewOfFile(addressOf(m.data)))
}
