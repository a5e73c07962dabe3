package xpwc

// A region is a stretch of mapped memory, of the cache file or anonymous. It is unmapped when nothing refers to it: the
// address of what lies in it is what XNNPACK holds, so it never moves.
type region struct {
	data   []byte
	offset uint64   // in the file; 0 for anonymous memory
	file   [16]byte // identity of the file
	unmap  func([]byte) error

	refs   int  // entries and reservations in it, and its owner
	open   int  // reservations of it that may still be written to
	sealed bool // read-only in memory

	used     int  // bytes from the beginning that were reserved
	detached bool // private memory now, whatever the file has
	doubtful bool // while something of it was open, a flush of the file failed
}

// inFile reports whether what is in the region is in the file, and goes with it.
func (r *region) inFile() bool { return r.file != [16]byte{} && !r.detached }

func (r *region) retain() *region { r.refs++; return r }

func (r *region) release() error {
	r.refs--
	if r.refs > 0 {
		return nil
	}
	return r.unmap(r.data)
}

// end returns the file offset behind the region.
func (r *region) end() uint64 { return r.offset + uint64(len(r.data)) }

// A reservation is space handed to XNNPACK to pack into.
type reservation struct {
	region *region
	data   []byte
}

// offset returns where the reservation lies in the file.
func (r reservation) offset() uint64 {
	return r.region.offset + uint64(addressOf(r.data)-addressOf(r.region.data))
}

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
	if a.current == nil || a.used+n > uint64(len(a.current.data)) {
		if n > arenaRegion/4 {
			r, err := newAnonymousRegion(n)
			if err != nil {
				return reservation{}, err
			}
			return reservation{region: r, data: r.data[:n:n]}, nil
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
	a.used = alignUp(start+n, packedAlignment)
	return reservation{region: a.current.retain(), data: a.current.data[start : start+n : start+n]}, nil
}

// drop gives up the arena's own reference to the region it allocates from.
func (a *arena) drop() error {
	if a.current == nil {
		return nil
	}
	r := a.current
	a.current = nil
	return r.release()
}

func newAnonymousRegion(n uint64) (*region, error) {
	data, err := mapAnonymous(int(alignUp(max(n, 1), uint64(mapGranularity()))))
	if err != nil {
		return nil, err
	}
	return &region{data: data, unmap: unmap, refs: 1}, nil
}

// alignUp rounds n up to a multiple of alignment, a power of two.
func alignUp(n, alignment uint64) uint64 { return (n + alignment - 1) &^ (alignment - 1) }
