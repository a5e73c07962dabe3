package xpwc

import (
	"sync"
	"unsafe"

	"xpwc/internal/format"
	"xpwc/internal/osdisk"
	"xpwc/internal/store"
)

// An arena hands out private memory, many small pieces to a region: one mapping a piece would exhaust the number of
// mappings a process may have.
type arena struct {
	mu      sync.Mutex // nothing else is locked while it is held
	current *store.Region
	used    uint64
}

const arenaRegion = 1 << 20

// fitsArena reports whether a piece of n bytes shares a region with others.
func fitsArena(n uint64) bool { return n <= arenaRegion/4 }

// alloc returns n zeroed bytes, aligned as packed weights are. The region stays until the reservation's reference and
// all taken since are released.
func (a *arena) alloc(n uint64) (store.Reservation, error) {
	if !fitsArena(n) {
		r, err := newAnonymousRegion(n)
		if err != nil {
			return store.Reservation{}, err
		}
		return store.Reservation{Region: r, Data: r.Data()[:n:n]}, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.current == nil || a.used+n > uint64(len(a.current.Data())) {
		r, err := newAnonymousRegion(arenaRegion)
		if err != nil {
			return store.Reservation{}, err
		}
		if err := a.dropLocked(); err != nil {
			return store.Reservation{}, err
		}
		a.current, a.used = r, 0
	}
	start := a.used
	a.used = format.AlignUp(start+n, format.Alignment)
	return store.Reservation{Region: a.current.Retain(), Data: a.current.Data()[start : start+n : start+n]}, nil
}

// drop gives up the arena's own reference to the region it allocates from.
func (a *arena) drop() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.dropLocked()
}

func (a *arena) dropLocked() error {
	if a.current == nil {
		return nil
	}
	r := a.current
	a.current = nil
	return r.Release()
}

func newAnonymousRegion(n uint64) (*store.Region, error) {
	data, err := mapAnonymous(int(format.AlignUp(max(n, 1), osdisk.Granularity())))
	if err != nil {
		return nil, err
	}
	return store.NewPrivateRegion(data, unmap), nil
}

// addressOf returns where b starts in memory, which for mapped memory is also what XNNPACK knows it by.
func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
