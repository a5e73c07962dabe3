package store

import (
	"runtime"
	"sync"
)

// Pages of the page cache are dear to come by one at a time, when XNNPACK first writes to each. So while XNNPACK packs,
// another thread supplies those that it will write to next.

const (
	// suppliedAtOnce is how much is supplied with one call. Meanwhile no memory of this process can be mapped or
	// unmapped, and whoever ends the supplying waits.
	suppliedAtOnce = 1 << 20

	// suppliedAhead is at most supplied beyond what is reserved.
	suppliedAhead = 16 << 20

	// suppliedFrom is how much must be packed before anything is supplied: for less, it does not pay.
	suppliedFrom = 1 << 20
)

// Supply has pages supplied for what was reserved last, and ahead of what is reserved next, of which about following
// bytes are expected. Ahead is no more than was reserved since Begin. It returns at once.
func (st *Store) Supply(following uint64) {
	if st.segment == nil || st.reserved+following < suppliedFrom || runtime.GOMAXPROCS(0) == 1 {
		return
	}
	ahead := min(st.reserved, following, suppliedAhead)
	st.supplier.supply(st.last, min(st.segment.used+int(ahead), len(st.segment.data)))
}

// EndSupply takes note that nothing more is expected to be packed for now. It does not wait.
func (st *Store) EndSupply() { st.supplier.end() }

// A supplier supplies the pages of one segment. It is stopped before the segment is sealed, detached, cut off or
// unmapped. A nil one supplies nothing.
type supplier struct {
	disk Disk
	data []byte

	mu       sync.Mutex
	from, to int           // what is to be supplied
	running  chan struct{} // closed when the goroutine has ended; nil while there is none
	stopped  bool
}

func newSupplier(d Disk, data []byte) *supplier { return &supplier{disk: d, data: data} }

// supply has data[from:to] supplied, in place of what was to be supplied before from.
func (s *supplier) supply(from, to int) {
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
		piece := s.next()
		if piece == nil {
			return
		}
		if err := s.disk.Supply(piece); err != nil { // whoever writes there is given pages, or the error
			s.mu.Lock()
			s.stopped = true
			s.mu.Unlock()
		}
	}
}

// next returns what is to be supplied next, or nil if the goroutine is to end.
func (s *supplier) next() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped || s.from >= s.to {
		s.running = nil
		return nil
	}
	from := s.from &^ (int(s.disk.Granularity()) - 1)
	s.from = min(from+suppliedAtOnce, s.to)
	return s.data[from:s.from]
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

// stop returns when nothing is supplied any more.
func (s *supplier) stop() {
	if s == nil {
		return
	}
	s.mu.Lock()
	s.stopped = true
	running := s.running
	s.mu.Unlock()
	if running != nil {
		<-running
	}
}
