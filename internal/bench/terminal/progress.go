// Package terminal shows the progress of long work.
package terminal

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"xpwc/internal/console"
)

// Progress shows how far a long piece of work is: as a bar on a terminal, elsewhere as a line for each quarter.
type Progress struct {
	w       io.Writer
	what    string
	bar     *progressbar.ProgressBar // on a terminal, from the first update on
	onTerm  bool
	start   time.Time // of the first update
	quarter int64
}

// patience is how long a piece of work may take before a line about it is worth printing.
const patience = time.Second

// NewProgress returns the progress of what is being done, such as "packing", to be shown on w. Finish ends it.
func NewProgress(w io.Writer, what string) *Progress {
	f, ok := w.(*os.File)
	return &Progress{w: w, what: what, onTerm: ok && term.IsTerminal(int(f.Fd()))}
}

// Update reports that done of total bytes are ready. It must not be called by several goroutines at the same time.
func (p *Progress) Update(done, total int64) {
	if p.onTerm {
		if p.bar == nil {
			p.bar = progressbar.NewOptions64(total,
				progressbar.OptionSetWriter(p.w),
				progressbar.OptionSetDescription(p.what),
				progressbar.OptionSetWidth(30),
				progressbar.OptionShowBytes(true),
				progressbar.OptionShowCount(),
				progressbar.OptionUseIECUnits(true),
				progressbar.OptionThrottle(100*time.Millisecond),
				progressbar.OptionClearOnFinish(),
			)
		}
		_ = p.bar.Set64(min(done, total)) // a bar that cannot be drawn stops no work
		return
	}
	if p.start.IsZero() {
		p.start = time.Now()
	}
	if total <= 0 || done*4/total <= p.quarter || time.Since(p.start) < patience {
		return
	}
	p.quarter = done * 4 / total
	fmt.Fprintf(p.w, "%s: %d %% of %s\n", p.what, p.quarter*25, console.Mebibytes(total))
}

// Finish removes the bar.
func (p *Progress) Finish() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}
