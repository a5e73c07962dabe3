package writer

import (
	"runtime"
	"sync/atomic"

	"xpwc/internal/entries"
	"xpwc/internal/store"
)

// What is in the page cache takes a page fault all the same when it is first read through a mapping, one for 64 KiB. So
// another thread has those pages mapped, ahead of the first inference. What is not in the page cache is left to it:
// nobody knows what a model reads when.

const (
	// mappedAtOnce is how much is mapped with one call. Meanwhile no memory of this process can be mapped or unmapped.
	mappedAtOnce = 1 << 20

	// mappedApart are the least bytes for which it pays, where nothing beside them is mapped too.
	mappedApart = 64 << 10
)

// A mapper has packed weights that sessions use mapped by a goroutine. Its writer's mu guards it.
type mapper struct {
	waiting []stretch
	running bool  // the goroutine
	stop    int32 // 1 when the cache is closed; atomic
}

// A stretch is memory of a region, to which it holds a reference.
type stretch struct {
	region   *store.Region
	from, to int
}

// mapLaterLocked queues an entry's bytes in the file.
func (w *Writer) mapLaterLocked(e *entries.Entry) {
	if !e.Listed(w.loaded.id) || e.Region.File() != e.File || w.options.Store.Prefetch {
		return
	}
	from := int(e.Record.Offset - e.Region.Offset())
	to := from + len(e.Data)
	m := &w.mapper
	if n := len(m.waiting); n > 0 {
		if last := &m.waiting[n-1]; last.region == e.Region && from >= last.to && from-last.to < mappedApart {
			last.to = to
			return
		}
	}
	if len(e.Data) >= mappedApart && runtime.GOMAXPROCS(0) > 1 && w.phase == open {
		m.waiting = append(m.waiting, stretch{e.Region.Retain(), from, to})
	}
}

// mapSoonLocked begins to map what is queued.
func (w *Writer) mapSoonLocked() {
	if m := &w.mapper; len(m.waiting) > 0 && !m.running {
		m.running = true
		go w.mapWaiting()
	}
}

func (w *Writer) mapWaiting() {
	for s, ok := w.nextToMap(); ok; s, ok = w.nextToMap() {
		s.populate(&w.mapper.stop)
		w.note(s.region.Release())
	}
}

// nextToMap takes what is mapped next out of the queue. There is nothing if the goroutine is to end.
func (w *Writer) nextToMap() (s stretch, ok bool) {
	w.mu.Lock()
	defer w.unlock()
	m := &w.mapper
	if len(w.users) == 0 { // nobody reads it
		for _, s := range m.waiting {
			w.freed = append(w.freed, s.region)
		}
		m.waiting = nil
	}
	if len(m.waiting) == 0 {
		m.waiting, m.running = nil, false
		w.changed.Broadcast()
		return stretch{}, false
	}
	s, m.waiting = m.waiting[0], m.waiting[1:]
	return s, true
}

func (s stretch) populate(stop *int32) {
	for from := s.from; from < s.to && atomic.LoadInt32(stop) == 0; from += mappedAtOnce {
		if s.region.PopulateCached(from, min(from+mappedAtOnce, s.to)) != nil {
			return // whoever reads there has the page, or the error
		}
	}
}

// stopMapping returns when nothing is mapped in the background any more. There are no sessions.
func (w *Writer) stopMapping() {
	atomic.StoreInt32(&w.mapper.stop, 1)
	w.mu.Lock()
	defer w.unlock()
	for w.mapper.running {
		w.changed.Wait()
	}
	for _, s := range w.mapper.waiting {
		w.freed = append(w.freed, s.region)
	}
	w.mapper.waiting = nil
}
