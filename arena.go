package xpwc

import "xpwc/internal/format"

// An arena hands out private memory, many small pieces to a region: one mapping a piece would exhaust the number of
// mappings a process may have.
type arena struct {
	current *region
	used    uint64
}

const arenaRegion = 1 << 20

// alloc returns n zeroed bytes, aligned as packed weights are. The region stays until the reservation's reference and all
// taken since are released.
func (a *arena) alloc(n uint64) (reservation, error) {
	if a.current == nil || a.used+n > uint64(len(a.current.Data())) {
		if n > arenaRegion/4 {
			r, err := newAnonymousRegion(n)
			if err != nil {
				return reservation{}, err
			}
			return reservation{Region: r, Data: r.Data()[:n:n]}, nil
		}
		r, err := newAnonymousRegion(arenaRegion)
		if err != nil {
			return reservation{}, err
		}
		if err := a.drop(); err != nil {
			return reservation{}, err
		}
		a.current, a.used = r, 0
	}
	start := a.used
	a.used = format.AlignUp(start+n, format.Alignment)
	return reservation{Region: a.current.Retain(), Data: a.current.Data()[start : start+n : start+n]}, nil
}

// drop gives up the arena's own reference to the region it allocates from.
func (a *arena) drop() error {
	if a.current == nil {
		return nil
	}
	r := a.current
	a.current = nil
	return r.Release()
}

func newAnonymousRegion(n uint64) (*region, error) {
	data, err := mapAnonymous(int(format.AlignUp(max(n, 1), uint64(mapGranularity()))))
	if err != nil {
		return nil, err
	}
	return NewPrivateRegion(data, unmap), nil
}
