package store

import (
	"sync"

	"xpwc/internal/format"
)

// An Arena hands out private memory, many small pieces to a region: one mapping a piece would exhaust the number of
// mappings a process may have.
type Arena struct {
	page     uint64
	allocate func(size int) ([]byte, error)
	free     func([]byte) error

	mu      sync.Mutex // nothing else is locked while it is held
	current *Region
	used    uint64
}

const arenaRegion = 1 << 20

// NewArena returns an arena of zeroed memory that allocate returns, in multiples of a page, and free gives back.
func NewArena(page uint64, allocate func(size int) ([]byte, error), free func([]byte) error) *Arena {
	return &Arena{page: page, allocate: allocate, free: free}
}

// FitsArena reports whether a piece of n bytes shares a region with others.
func FitsArena(n uint64) bool { return n <= arenaRegion/4 }

// Alloc returns n zeroed bytes, aligned as packed weights are. The region stays until the reservation's reference and
// all taken since are released.
func (a *Arena) Alloc(n uint64) (Reservation, error) {
	if !FitsArena(n) {
		r, err := a.Region(n)
		if err != nil {
			return Reservation{}, err
		}
		return Reservation{Region: r, Data: r.data[:n:n]}, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.current == nil || a.used+n > uint64(len(a.current.data)) {
		r, err := a.Region(arenaRegion)
		if err != nil {
			return Reservation{}, err
		}
		if err := a.dropLocked(); err != nil {
			return Reservation{}, err
		}
		a.current, a.used = r, 0
	}
	start := a.used
	a.used = format.AlignUp(start+n, format.Alignment)
	return Reservation{Region: a.current.Retain(), Data: a.current.data[start : start+n : start+n]}, nil
}

// Region returns a region of its own of at least n bytes, with one reference to it.
func (a *Arena) Region(n uint64) (*Region, error) {
	data, err := a.allocate(int(format.AlignUp(max(n, 1), a.page)))
	if err != nil {
		return nil, err
	}
	r := &Region{data: data, unmap: func() error { return a.free(data) }}
	return r.Retain(), nil
}

// Drop releases the arena's reference to its current region.
func (a *Arena) Drop() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.dropLocked()
}

func (a *Arena) dropLocked() error {
	if a.current == nil {
		return nil
	}
	r := a.current
	a.current = nil
	return r.Release()
}
