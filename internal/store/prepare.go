package store

import (
	"sync/atomic"
	"time"

	"xpwc/internal/format"
)

// Pages of the page cache are dear to come by one at a time, when XNNPACK first writes to each, and small. So memory is
// prepared before it is reserved, in large pages: beside XNNPACK, while it packs what was reserved before.

const (
	// PreparedAtOnce is how much is prepared with one call, which begins at a multiple of it but for the first. Twice
	// as much would be pages that the host of a virtual machine may have to supply, which takes it milliseconds.
	PreparedAtOnce = 1 << 20

	// preparedFrom is how much must be packed before anything is prepared: for less, it does not pay.
	preparedFrom = 1 << 20

	// preparedAhead is at most prepared beyond what is reserved.
	preparedAhead = LastSegment

	// preparedSpace is of how much the disk space is reserved at once for what is prepared ahead.
	preparedSpace = 8 << 20
)

// patience is how long a reservation waits for PreparedAtOnce, which mostly takes a fifth of it. Tests change it.
var patience = 1500 * time.Microsecond

// A Preparer is a disk that can take memory for a part of a file before somebody writes there. Not every system can.
type Preparer interface {
	// Prepares reports whether that pays with this file.
	Prepares() bool
	// Prepare has the page cache take memory for a part of the file, in large pages if it can. There is space for the
	// part, nothing was written to it, and it is zeros afterwards as before. An error changes nothing for whoever
	// writes there. It may be called beside all other methods.
	Prepare(offset, size int64) error
}

// A preparation prepares a part of the file, from its beginning to its end.
type preparation struct {
	reached atomic.Uint64 // up to where it is prepared
	stop    atomic.Bool
	ended   chan struct{} // closed when nothing more is prepared
	err     error         // what ended it; to be read when it has ended
}

func prepare(p Preparer, from, to uint64) *preparation {
	pr := &preparation{ended: make(chan struct{})}
	pr.reached.Store(from)
	go func() {
		defer close(pr.ended)
		for from < to && !pr.stop.Load() {
			next := min(from-from%PreparedAtOnce+PreparedAtOnce, to)
			if pr.err = p.Prepare(int64(from), int64(next-from)); pr.err != nil {
				return
			}
			from = next
			pr.reached.Store(from)
		}
	}()
	return pr
}

// prepareReserved has the memory prepared of what is to be reserved from start to end, after which about following
// bytes are expected. It waits for that. If it takes too long, as where the host of a virtual machine has taken the
// memory back, nothing more is prepared: page faults are given small pages, which the system mostly has.
func (st *Store) prepareReserved(start, end, following uint64) {
	if st.preparer == nil || st.reserved+end-start+following < preparedFrom {
		return
	}
	if st.preparation != nil && end <= st.preparation.reached.Load() {
		return
	}
	st.stopPreparing()
	expected := format.AlignUp(end+following, st.disk.Granularity())
	st.startPreparing(start, min(format.AlignUp(end, PreparedAtOnce), expected, st.backed))
	if st.preparation == nil {
		return
	}
	begun, most := time.Now(), patience*time.Duration((end-start)/PreparedAtOnce+1)
	enough := time.NewTimer(most)
	defer enough.Stop()
	select {
	case <-st.preparation.ended:
	case <-enough.C:
	}
	if time.Since(begun) >= most {
		st.leavePreparing()
	}
}

// prepareAhead has the memory prepared of what is reserved next, about following bytes, but not of more than was
// reserved since Begin: as far as the disk has space for it.
func (st *Store) prepareAhead(following uint64) {
	to := st.tail + min(following, st.reserved, preparedAhead)
	to -= to % PreparedAtOnce
	if st.preparer == nil || to <= st.tail {
		return
	}
	if st.preparation != nil {
		select {
		case <-st.preparation.ended:
			st.stopPreparing()
		default:
			return // what it does not reach is prepared when it has ended
		}
	}
	if to > st.backed && st.allocate(format.AlignUp(to, preparedSpace)) != nil {
		st.preparer = nil // what the disk has left is for what is packed
		return
	}
	st.startPreparing(st.tail, to)
}

// startPreparing begins to prepare what lies between two offsets and is not prepared yet. Nothing else is prepared.
func (st *Store) startPreparing(from, to uint64) {
	if from = max(from, st.prepared); from < to && st.preparer != nil {
		st.preparation = prepare(st.preparer, from, to)
	}
}

// stopPreparing returns when nothing is prepared any more.
func (st *Store) stopPreparing() {
	pr := st.preparation
	if pr == nil {
		return
	}
	pr.stop.Store(true)
	<-pr.ended
	st.prepared = pr.reached.Load()
	if pr.err != nil { // whoever writes there is given pages, or the error
		st.preparer = nil
	}
	st.preparation = nil
}

// leavePreparing is for who is not the writer any more.
func (st *Store) leavePreparing() {
	st.stopPreparing()
	st.preparer = nil
}

// EndPreparing takes note that nothing more is expected to be packed for now. It does not wait.
func (st *Store) EndPreparing() {
	if st.preparation != nil {
		st.preparation.stop.Store(true)
	}
}
