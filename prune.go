package xpwc

import (
	"slices"

	"xpwc/internal/format"
)

// PruneOptions say what [Cache.Prune] keeps.
type PruneOptions struct {
	// KeepLayouts has the fingerprints of the layouts whose entries stay; empty for all. See CurrentLayout.
	KeepLayouts []Digest
	// MaxBytes is the size that the file is brought down to, by dropping the entries used longest ago; 0 for no limit.
	// An index takes a few hundred bytes for each entry, and counts.
	MaxBytes int64
}

// Prune compacts the file to the entries that are to be kept; see Compact for what it waits for, and its errors.
// Sessions that use others keep their memory, and what was dropped is packed again when it is asked for.
func (c *Cache) Prune(o PruneOptions) error {
	if err := c.checkOpen("prune"); err != nil {
		return err
	}
	return c.compactTo(func(records []format.Record) []format.Record {
		// What goes for its layout makes room for what stays, so this comes first.
		records = slices.DeleteFunc(records, func(r format.Record) bool {
			return len(o.KeepLayouts) > 0 && !slices.Contains(o.KeepLayouts, r.Layout)
		})
		return usedLast(c.withinCap(records), o.MaxBytes, c.now())
	})
}
