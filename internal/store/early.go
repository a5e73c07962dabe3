package store

import "errors"

// A flush at the end of a long packing waits for the disk while the processors have nothing to do. So a store that is
// only packed into has the system write each segment as soon as it is complete. The flush of a commit stays as it is,
// and decides what is on stable storage.

// An EarlyWriter is a disk that can begin to write before it is flushed. Not every system can.
type EarlyWriter interface {
	// BeginWriting has the system begin to write what was written to a part of the file, and may wait for the disk to
	// take it. It must leave every error of writing to Flush; one that it returns itself, of which Flush need not know,
	// means that a part may be lost. errors.ErrUnsupported: this file cannot do it, and nothing was done. It may be
	// called beside all other methods, and after Close.
	BeginWriting(offset, size int64) error
}

// writeEarly seals the segments that are complete, up to the first that is not, and has them written.
func (st *Store) writeEarly() error {
	d, ok := st.disk.(EarlyWriter)
	if !ok || !st.options.Early || st.access != writing || len(st.segments) == 0 {
		return nil
	}
	if st.early == nil {
		st.early = &supplier{size: FirstSegment, from: st.segments[0].offset, step: func(from, to uint64) error {
			return d.BeginWriting(int64(from), int64(to-from))
		}}
	}
	if st.early.isStopped() {
		return nil
	}
	complete := true
	sealed, err := st.seal(func(r *Region) bool {
		complete = complete && r != st.segment && r.open.Load() == 0
		return complete
	})
	for _, r := range sealed {
		// Something may still be packed into the page that the next segment has too.
		st.early.supply(0, (r.offset+uint64(r.used))&^(st.disk.Granularity()-1))
		r.giveBack()
		err = errors.Join(err, r.Release())
	}
	return err
}

// endEarly returns when nothing is written early any more: what is left is the flush's to write. The error says that
// what was written may be lost, which counts as a flush that failed. Of nil nothing was.
func (s *supplier) endEarly() error {
	if running := s.end(); running != nil {
		<-running
	}
	if err := s.failure(); !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return nil
}
