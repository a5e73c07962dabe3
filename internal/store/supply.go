package store

import (
	"runtime"
	"sync"

	"xpwc/internal/format"
)

// Pages of the page cache are dear to come by one at a time, when XNNPACK first writes to each. So while XNNPACK packs,
// another thread supplies those that it will write to next; and what comes after the segment, which is not mapped yet,
// a third prepares.

const (
	// suppliedAtOnce is how much is supplied with one call. Meanwhile no memory of this process can be mapped or
	// unmapped, and whoever ends the supplying waits.
	suppliedAtOnce = 1 << 20

	// suppliedAhead is at most supplied beyond what is reserved.
	suppliedAhead = 16 << 20

	// suppliedFrom is how much must be packed before anything is supplied: for less, it does not pay.
	suppliedFrom = 1 << 20

	// PreparedAtOnce is how much is prepared with one call, which begins at a multiple of it.
	PreparedAtOnce = 1 << 20

	// preparedSpace is of how much the disk space is reserved at once. If there is not so much, nothing more is
	// prepared before the next segment: what the disk has left is for what is packed.
	preparedSpace = 8 << 20
)

// A Preparer is a disk that can take memory for a file before it is mapped. Not every system can.
type Preparer interface {
	// Prepares reports whether that pays with this file.
	Prepares() bool
	// Prepare has the page cache take memory for a part of the file, in large pages if it can. There is space for the
	// part, nothing was written to it, nothing of it is mapped, and it is zeros afterwards as before. An error changes
	// nothing for whoever maps it. It may be called beside all other methods.
	Prepare(offset, size int64) error
}

// Supply has pages supplied for what was reserved last, and ahead of what is reserved next, of which about following
// bytes are expected. Ahead is no more than was reserved since Begin. It returns at once.
func (st *Store) Supply(following uint64) {
	if st.segment == nil || st.reserved+following < suppliedFrom || runtime.GOMAXPROCS(0) == 1 {
		return
	}
	reached := st.segment.offset + uint64(st.segment.used)
	ahead := min(st.reserved, following)
	st.supplier.supply(st.segment.offset+uint64(st.last), min(reached+min(ahead, suppliedAhead), st.segment.end()))
	st.prepareNext(reached + ahead)
}

// prepareNext has the memory of the next segment prepared up to an offset, if the disk has space for it. Nothing is
// reserved there before that segment is mapped, which ends this first.
func (st *Store) prepareNext(to uint64) {
	from := st.segment.end()
	next := from + min(2*st.growth, LastSegment)
	to = min(format.AlignUp(to, st.disk.Granularity()), next)
	if to <= from || st.preparer.isStopped() {
		return
	}
	if to > st.backed {
		space := min(format.AlignUp(to, preparedSpace), next)
		if st.allocate(st.backed, space-st.backed) != nil {
			st.preparer.stop()
			return
		}
	}
	st.preparer.supply(from, to)
}

// EndSupply takes note that nothing more is expected to be packed for now. It does not wait.
func (st *Store) EndSupply() {
	st.supplier.end()
	st.preparer.end()
}

// stopSupply returns when nothing is supplied or prepared any more, until the next segment.
func (st *Store) stopSupply() {
	st.supplier.stop()
	st.preparer.stop()
}

// A supplier supplies a part of the file, from its beginning to its end: the pages of one segment, or the memory of the
// next. It is stopped before the segment is sealed, cut off or unmapped, and before the next is mapped. A nil
// one supplies nothing.
type supplier struct {
	step func(from, to uint64) error // supplies what lies between two offsets in the file
	size uint64                      // of a step at most; all but the first begin at a multiple of it

	mu       sync.Mutex
	from, to uint64        // what is to be supplied
	running  chan struct{} // closed when the goroutine has ended; nil while there is none
	stopped  bool
}

func newSupplier(page uint64, r *Region) *supplier {
	return &supplier{size: suppliedAtOnce, step: func(from, to uint64) error {
		return r.mapped.Supply(int(from&^(page-1)-r.offset), int(to-r.offset))
	}}
}

// newPreparer returns nil if the disk cannot prepare.
func newPreparer(d File) *supplier {
	p, ok := d.(Preparer)
	if !ok || !p.Prepares() {
		return nil
	}
	return &supplier{size: PreparedAtOnce, step: func(from, to uint64) error {
		return p.Prepare(int64(from), int64(to-from))
	}}
}

// supply has what lies between two offsets supplied, in place of what was to be supplied before from.
func (s *supplier) supply(from, to uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.from, s.to = max(s.from, from), max(s.to, to)
	if s.running == nil && !s.stopped && s.from < s.to {
		s.running = make(chan struct{})
		go s.run(s.running)
	}
}

func (s *supplier) run(ended chan<- struct{}) {
	defer close(ended)
	for {
		from, to, ok := s.next()
		if !ok {
			return
		}
		if err := s.step(from, to); err != nil { // whoever writes there is given pages, or the error
			s.halt()
		}
	}
}

// next returns what is to be supplied next; not ok: the goroutine is to end.
func (s *supplier) next() (from, to uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped || s.from >= s.to {
		s.running = nil
		return 0, 0, false
	}
	from = s.from
	s.from = min(from-from%s.size+s.size, s.to)
	return from, s.from, true
}

// end has nothing more supplied, but for what is just being supplied.
func (s *supplier) end() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.to = s.from
}

// isStopped reports whether nothing will be supplied any more.
func (s *supplier) isStopped() bool {
	if s == nil {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopped
}

// stop returns when nothing is supplied any more.
func (s *supplier) stop() {
	if s == nil {
		return
	}
	if running := s.halt(); running != nil {
		<-running
	}
}

// halt has nothing more supplied, but for what is just being supplied.
func (s *supplier) halt() (running <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	return s.running
}
