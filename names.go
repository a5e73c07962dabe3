package xpwc

import (
	"slices"

	"xpwc/internal/ask"
)

// Names returns the sorted names of the packed weights in the cache that XNNPACK could use on this machine, each the
// weights' name directly followed by the bias' name. Variants of one name are one.
func (c *Cache) Names() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var names []string
	for _, f := range c.live {
		for _, e := range f.entries {
			if e.doubt == sound {
				names = append(names, e.name())
			}
		}
	}
	here, _ := ask.Layout()
	if c.store != nil && c.store.Index() != nil {
		index := c.store.Index()
		for i := range index.Len() {
			r, err := index.Record(i)
			if err != nil {
				c.note(c.damagedIndex(err))
				break
			}
			if r.Layout == here.Fingerprint && !c.damagedAt[r.Offset] {
				names = append(names, r.Kernel+r.Bias)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
