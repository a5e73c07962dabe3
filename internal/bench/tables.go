package bench

import (
	"fmt"
	"io"
	"slices"

	"xpwc/internal/console"
	"xpwc/internal/execution"
)

// print writes the tables. They are at most 120 columns wide.
func (r *result) print(w io.Writer) error {
	fmt.Fprintf(w, "\n%s; %s of packed weights in %d entries; %s; %s\n", r.Model, console.Mebibytes(r.PayloadBytes),
		r.Payloads, console.Plural(r.Rounds, "round"), console.Plural(r.Threads, "thread"))
	fmt.Fprintln(w, "Medians. In all modes, the model is mapped and XNNPACK is initialized before the clock starts.")
	fmt.Fprintln(w, "Before each run, another process used and freed memory page by page.")
	for _, t := range []*console.Table{r.times(), r.memoryTable(), r.diskTable(), r.goalTable()} {
		if len(t.Rows) == 0 {
			continue
		}
		fmt.Fprintln(w)
		if err := t.Print(w); err != nil {
			return err
		}
	}
	for _, note := range r.notes() {
		fmt.Fprintf(w, "Note: %s\n", note)
	}
	fmt.Fprintln(w)
	return nil
}

// cell writes a median, or console.None if the figure does not apply.
func (m *modeResult) cell(f figure, write func(float64) string) string {
	s, ok := m.Figures[f]
	if !ok {
		return console.None
	}
	return write(s.Median)
}

func (m *modeResult) digits(f figure) string { return m.cell(f, console.Digits) }

// between writes the least and the greatest value.
func (s spread) between() string { return console.Digits(s.Min) + " - " + console.Digits(s.Max) }

func count(v float64) string { return fmt.Sprintf("%.0f", v) }

func (r *result) times() *console.Table {
	t := &console.Table{}
	t.Row("ms", "open", "subgraph", "create", "finalize", "total load", "min - max", "first", "steady", "faults",
		"first's")
	for _, m := range r.Modes {
		total := m.Figures[totalMS]
		t.Row(m.Mode, m.digits(openMS), m.digits(subgraphMS), m.digits(createMS), m.digits(finalizeMS),
			console.Digits(total.Median), total.between(), m.digits(firstMS), m.digits(steadyMS),
			m.faults(loadMinor, loadMajor), m.faults(firstMinor, firstMajor))
	}
	return t
}

// faults writes minor and major ones.
func (m *modeResult) faults(minor, major figure) string {
	if _, ok := m.Figures[minor]; !ok {
		return console.None
	}
	return m.cell(minor, count) + "/" + m.cell(major, count)
}

func (r *result) memoryTable() *console.Table {
	t := &console.Table{}
	mib := func(v float64) string { return fmt.Sprintf("%.1f", v/(1<<20)) }
	for i, m := range r.Modes {
		if _, ok := m.Figures[peakBytes]; !ok {
			return t // this system has no such figures
		}
		if i == 0 {
			t.Row("MiB", "loaded:", "", "", "", "answered:", "", "", "", "")
			t.Row("", "RssAnon", "RssFile", "Priv.Dirty", "Pss", "RssAnon", "RssFile", "Priv.Dirty", "Pss",
				"peak RSS")
		}
		cells := []string{m.Mode}
		for _, f := range []figure{loadAnon, loadFile, loadDirty, loadPSS,
			firstAnon, firstFile, firstDirty, firstPSS, peakBytes} {
			cells = append(cells, m.cell(f, mib))
		}
		t.Row(cells...)
	}
	return t
}

func (r *result) diskTable() *console.Table {
	t := &console.Table{}
	row := func(what string, s spread) {
		if len(t.Rows) == 0 {
			t.Row("disk, ms", "median", "min - max")
		}
		t.Row(what, console.Digits(s.Median), s.between())
	}
	if cold := r.mode(modeCold); cold != nil {
		row("cold: from finalize until all is on the disk", cold.Figures[commitMS])
		row("writing the same bytes, 1 MiB at a time, and fdatasync", r.Write.spread)
	}
	for _, mode := range []string{modeDropped, modeDroppedLazy} {
		if m := r.mode(mode); m != nil {
			row(mode+": to the first answer", m.Figures[answerMS])
		}
	}
	if r.Read != nil {
		row("reading the file with O_DIRECT, 8 MiB at a time", r.Read.spread)
		row("the same, into new memory as large as the file", r.Keep.spread)
	}
	return t
}

func (r *result) goalTable() *console.Table {
	t := &console.Table{}
	for i, b := range r.Goals {
		if i == 0 {
			t.Row("goal", "this", "against", "ratio", "at most", "")
		}
		t.Row(b.cells()...)
	}
	return t
}

// notes are what the cache reported, each once.
func (r *result) notes() []string {
	var all []string
	for _, m := range r.Modes {
		for _, run := range m.Runs {
			notes := run.Notes
			if run.Private > 0 {
				private := "packed into private memory: " + execution.PrivateCell(run.Private, run.Reasons)
				notes = append(slices.Clone(notes), private)
			}
			for _, n := range notes {
				all = append(all, m.Mode+": "+n)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
