package execution

import (
	"xpwc"
	"xpwc/internal/console"
)

// ShowPacking returns the Options.Progress of a cache that shows on p how far packing is.
func ShowPacking(p *console.Progress) func(xpwc.Progress) {
	return func(now xpwc.Progress) { p.Update(now.Done, now.Total) }
}
