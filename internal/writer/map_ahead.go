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

// A stretch is memory of a region, to which it holds a reference.
type stretch struct {
	region   *store.Region
	from, to int
}

// mapAheadLocked begins to map what a session uses of the file, each entry once for a process.
func (w *Writer) mapAheadLocked(used []*entries.Entry) {
	if w.options.Store.Prefetch || runtime.GOMAXPROCS(0) == 1 {
		return
	}
	var all []stretch
	for _, e := range used {
		if e.Ahead || !e.Listed(w.loaded.id) || e.Region.File() != e.File {
			continue
		}
		e.Ahead = true
		from := int(e.Record.Offset - e.Region.Offset())
		to := from + len(e.Data)
		if n := len(all) - 1; n >= 0 && all[n].region == e.Region && from >= all[n].to && from-all[n].to < mappedApart {
			all[n].to = to
		} else if len(e.Data) >= mappedApart {
			all = append(all, stretch{e.Region.Retain(), from, to})
		}
	}
	if len(all) > 0 {
		w.mapping.Go(func() {
			for _, s := range all {
				s.populate(&w.stop)
				w.Note(s.region.Release())
			}
		})
	}
}

func (s stretch) populate(stop *int32) {
	for from := s.from; from < s.to && atomic.LoadInt32(stop) == 0; from += mappedAtOnce {
		if s.region.PopulateCached(from, min(from+mappedAtOnce, s.to)) != nil {
			return // whoever reads there has the page, or the error
		}
	}
}
