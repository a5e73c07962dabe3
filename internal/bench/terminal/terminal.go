// Package terminal shows the progress of long work.
package terminal

import (
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// Progress shows on a terminal how far a long piece of work is.
type Progress struct {
	w      io.Writer
	label  string
	bar    *progressbar.ProgressBar // from the first update on
	onTerm bool
}

// NewProgress shows the progress of a task, such as "packing", on w. Finish ends it.
func NewProgress(w io.Writer, label string) *Progress {
	f, ok := w.(*os.File)
	return &Progress{w: w, label: label, onTerm: ok && term.IsTerminal(int(f.Fd()))}
}

// Update reports that done of total bytes are ready. It must not be called by several goroutines at the same time.
func (p *Progress) Update(done, total int64) {
	if !p.onTerm {
		return
	}
	if p.bar == nil {
		p.bar = progressbar.NewOptions64(total,
			progressbar.OptionSetWriter(p.w),
			progressbar.OptionSetDescription(p.label),
			progressbar.OptionSetWidth(30),
			progressbar.OptionShowBytes(true),
			progressbar.OptionShowCount(),
			progressbar.OptionUseIECUnits(true),
			progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionClearOnFinish(),
		)
	}
	_ = p.bar.Set64(min(done, total)) // a bar that cannot be drawn stops no work
}

// Finish removes the bar.
func (p *Progress) Finish() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}

// Width returns how many columns the terminal w has, or 0 if w is not a terminal.
func Width(w io.Writer) int {
	f, ok := w.(interface{ Fd() uintptr })
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil || width < 40 {
		return 80
	}
	return width
}
