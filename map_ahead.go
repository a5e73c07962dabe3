package xpwc

import (
	"runtime"
	"sync/atomic"

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

// A mapper has packed weights that sessions use mapped by a goroutine. It is a part of its core, whose lock guards it.
type mapper struct {
	waiting []stretch
	running bool  // the goroutine
	stop    int32 // 1 when the core is closed; atomic
}

// A stretch is memory of a region, to which it holds a reference.
type stretch struct {
	region   *store.Region
	from, to int
}

// mapLater queues an entry's bytes in the file.
func (c *core) mapLater(e *entry) {
	from := int(addressOf(e.data) - addressOf(e.region.Data()))
	to := from + len(e.data)
	m := &c.mapper
	if n := len(m.waiting); n > 0 {
		if last := &m.waiting[n-1]; last.region == e.region && from >= last.to && from-last.to < mappedApart {
			last.to = to
			return
		}
	}
	if len(e.data) >= mappedApart && runtime.GOMAXPROCS(0) > 1 && !c.closing {
		m.waiting = append(m.waiting, stretch{e.region.Retain(), from, to})
	}
}

// mapSoon begins to map what is queued.
func (c *core) mapSoon() {
	if m := &c.mapper; len(m.waiting) > 0 && !m.running {
		m.running = true
		go c.mapWaiting()
	}
}

func (c *core) mapWaiting() {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := &c.mapper
	for len(m.waiting) > 0 {
		s := m.waiting[0]
		m.waiting = m.waiting[1:]
		if len(c.sessions) > 0 {
			c.unlocked(func() { s.populate(&m.stop) })
		}
		c.note(s.region.Release())
	}
	m.waiting, m.running = nil, false
	c.idle.Broadcast()
}

func (s stretch) populate(stop *int32) {
	for from := s.from; from < s.to && atomic.LoadInt32(stop) == 0; from += mappedAtOnce {
		if s.region.PopulateCached(from, min(from+mappedAtOnce, s.to)) != nil {
			return // whoever reads there has the page, or the error
		}
	}
}

// stopMapper returns when nothing is mapped in the background any more. There are no sessions.
func (c *core) stopMapper() {
	atomic.StoreInt32(&c.mapper.stop, 1)
	c.await(func() bool { return !c.mapper.running })
	for _, s := range c.mapper.waiting {
		c.note(s.region.Release())
	}
	c.mapper.waiting = nil
}
