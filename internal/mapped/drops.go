package mapped

import (
	"os"
	"slices"
	"sync"
)

// drops are parts of a mapping that wait until they are given back together. Each call of the system interrupts every
// processor that runs the process (a TLB shootdown), which takes longer than to pack a small tensor.
type drops struct {
	mu    sync.Mutex
	parts []part
	bytes int
}

// A part of a mapping begins and ends at a byte.
type part struct{ start, end int }

const (
	dropStep  = 4 << 20 // bytes that are given back together
	dropParts = 1 << 10 // or so many parts
)

// add adds a part. If the parts are to be given back, it returns them in their order, and forgets them. Parts with less
// than a page between them are one, since the page belongs to neither alone.
func (d *drops) add(p part) []part {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.parts, d.bytes = append(d.parts, p), d.bytes+p.end-p.start
	if d.bytes < dropStep && len(d.parts) < dropParts {
		return nil
	}
	slices.SortFunc(d.parts, func(a, b part) int { return a.start - b.start })
	joined := d.parts[:1]
	for _, p := range d.parts[1:] {
		if last := &joined[len(joined)-1]; p.start-last.end < os.Getpagesize() {
			last.end = max(last.end, p.end)
		} else {
			joined = append(joined, p)
		}
	}
	d.parts, d.bytes = nil, 0
	return joined
}
