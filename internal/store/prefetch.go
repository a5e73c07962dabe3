package store

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"xpwc/internal/format"
)

// readAll has all of a mapped file's bytes in memory when it returns. They are mapped, so that using them takes no
// page faults, and read besides: bytes that the disk cannot give are then an error here and not a signal later, and
// where the machine is a virtual one, memory that a disk's controller has filled is only given to it when it first
// touches it. Several readers keep the disk busy meanwhile.
func (st *Store) readAll(m Mapping, readers int) error {
	const piece = 1 << 20 // of which each reads one after the other
	var (
		next  atomic.Int64
		group sync.WaitGroup
		errs  = make([]error, readers)
	)
	for i := range errs {
		group.Go(func() {
			buf := make([]byte, piece)
			for errs[i] == nil {
				start := next.Add(piece) - piece
				size := min(piece, int64(len(m.Data()))-start)
				if size <= 0 {
					return
				}
				if errs[i] = m.Populate(int(start), int(start+size)); errs[i] == nil {
					_, errs[i] = st.disk.ReadAt(buf[:size], start)
				}
			}
		})
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%s: its bytes cannot be read (%w): %w", st.path, err, format.ErrDamaged)
	}
	return nil
}
