package main

import (
	"fmt"
	"io"
	"slices"
)

// print writes the tables, which fit 120 columns.
func (r *benchResult) print(w io.Writer) error {
	fmt.Fprintf(w, "\n%s; %s of packed weights in %d entries; %s; %s\n", r.Model, mebibytes(r.PayloadBytes), r.Payloads,
		plural(r.Rounds, "round"), plural(r.Threads, "thread"))
	fmt.Fprintln(w, "Medians. Before the clock starts the model is mapped and XNNPACK is initialized, in all modes,")
	fmt.Fprintln(w, "and the memory that a mode will take was just used by somebody: a hypervisor may take back what is free.")
	for _, t := range []*table{r.times(), r.memoryTable(), r.diskTable(), r.barTable()} {
		if len(t.rows) == 0 {
			continue
		}
		fmt.Fprintln(w)
		if err := t.print(w); err != nil {
			return err
		}
	}
	for _, note := range r.notes() {
		fmt.Fprintf(w, "Note: %s\n", note)
	}
	fmt.Fprintln(w)
	return nil
}

// cell writes a median in a unit, or that there is none.
func (m *modeResult) cell(f figure, write func(float64) string) string {
	s, ok := m.Figures[f]
	if !ok {
		return none
	}
	return write(s.Median)
}

func count(v float64) string { return fmt.Sprintf("%.0f", v) }

func (r *benchResult) times() *table {
	t := &table{}
	t.row("ms", "open", "subgraph", "create", "finalize", "total load", "min - max", "first", "steady", "faults", "first's")
	for _, m := range r.Modes {
		total := m.Figures[totalMS]
		t.row(m.Mode, m.cell(openMS, digits), m.cell(subgraphMS, digits), m.cell(createMS, digits), m.cell(finalizeMS, digits),
			digits(total.Median), digits(total.Min)+" - "+digits(total.Max), m.cell(firstMS, digits), m.cell(steadyMS, digits),
			m.faults(loadMinor, loadMajor), m.faults(firstMinor, firstMajor))
	}
	return t
}

// faults writes minor and major ones.
func (m *modeResult) faults(minor, major figure) string {
	if _, ok := m.Figures[minor]; !ok {
		return none
	}
	return m.cell(minor, count) + "/" + m.cell(major, count)
}

func (r *benchResult) memoryTable() *table {
	t := &table{}
	mib := func(v float64) string { return fmt.Sprintf("%.1f", v/(1<<20)) }
	for i, m := range r.Modes {
		if _, ok := m.Figures[peakBytes]; !ok {
			return t // this system does not tell
		}
		if i == 0 {
			t.row("MiB", "loaded:", "", "", "", "answered:", "", "", "", "")
			t.row("", "RssAnon", "RssFile", "Priv.Dirty", "Pss", "RssAnon", "RssFile", "Priv.Dirty", "Pss", "peak RSS")
		}
		cells := []string{m.Mode}
		for _, f := range []figure{loadAnon, loadFile, loadDirty, loadPSS, firstAnon, firstFile, firstDirty, firstPSS, peakBytes} {
			cells = append(cells, m.cell(f, mib))
		}
		t.row(cells...)
	}
	return t
}

func (r *benchResult) diskTable() *table {
	t := &table{}
	row := func(what string, s spread) {
		if len(t.rows) == 0 {
			t.row("disk, ms", "median", "min - max")
		}
		t.row(what, digits(s.Median), digits(s.Min)+" - "+digits(s.Max))
	}
	if cold := r.mode(modeCold); cold != nil {
		row("cold: from finalize to all being on the disk", cold.Figures[commitMS])
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

func (r *benchResult) barTable() *table {
	t := &table{}
	for i, b := range r.Bars {
		if i == 0 {
			t.row("bar", "this", "against", "ratio", "limit", "")
		}
		t.row(b.cells()...)
	}
	return t
}

// notes are what the cache had to say, each once.
func (r *benchResult) notes() []string {
	var all []string
	for _, m := range r.Modes {
		for _, run := range m.Runs {
			notes := run.Notes
			if run.Private > 0 {
				notes = append(slices.Clone(notes), "packed into private memory: "+privateCell(run.Private, run.Reasons))
			}
			for _, n := range notes {
				all = append(all, m.Mode+": "+n)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
