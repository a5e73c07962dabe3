package bench

import (
	"fmt"
	"io"
	"slices"

	"xpwc/internal/console"
	"xpwc/internal/execution"
)

// print writes the tables. They are at most 90 columns wide.
func (r *result) print(w io.Writer) error {
	fmt.Fprintf(w, "\n%s\n", r.Model)
	fmt.Fprintf(w, "%s of packed weights in %d entries; %s; %s\n", console.Mebibytes(r.PayloadBytes), r.Payloads,
		console.Plural(r.Rounds, "round"), console.Plural(r.Threads, "thread"))
	fmt.Fprintln(w, "Medians. The clock starts when the model is mapped and XNNPACK is initialized.")
	fmt.Fprintln(w, "Before each run, another process used and freed memory page by page.")
	times, memory := modesTable("ms", r.Modes, timeColumns), modesTable("MiB", r.Modes, memoryColumns)
	err := printTables(w, times, memory, r.diskTable())
	for _, note := range r.notes() {
		fmt.Fprintf(w, "Note: %s\n", note)
	}
	fmt.Fprintln(w)
	return err
}

// printTables prints tables with empty lines in front of them, but those without a row.
func printTables(w io.Writer, tables ...*console.Table) error {
	for _, t := range tables {
		if len(t.Rows) < 2 {
			continue
		}
		fmt.Fprintln(w)
		if err := t.Print(w); err != nil {
			return err
		}
	}
	return nil
}

// A column of a table has a figure of each mode.
type column struct {
	title string
	cell  func(m *modeResult) string
}

// columnOf is that of a figure's medians. What does not apply is console.None.
func columnOf(title string, f figure, write func(float64) string) column {
	return column{title, func(m *modeResult) string {
		if s, ok := m.Figures[f]; ok {
			return write(s.Median)
		}
		return console.None
	}}
}

// betweenColumn has the least and the greatest value.
func betweenColumn(f figure) column {
	return column{"min - max", func(m *modeResult) string {
		if s, ok := m.Figures[f]; ok {
			return s.between()
		}
		return console.None
	}}
}

// between writes the least and the greatest value.
func (s spread) between() string { return console.Digits(s.Min) + " - " + console.Digits(s.Max) }

func count(v float64) string { return fmt.Sprintf("%.0f", v) }

func mebibytes(v float64) string { return fmt.Sprintf("%.1f", v/(1<<20)) }

var timeColumns = []column{
	columnOf("open", openMS, console.Digits), columnOf("subgraph", subgraphMS, console.Digits),
	columnOf("create", createMS, console.Digits), columnOf("finalize", finalizeMS, console.Digits),
	columnOf("total", totalMS, console.Digits), betweenColumn(totalMS),
	columnOf("first", firstMS, console.Digits), columnOf("steady", steadyMS, console.Digits),
}

var memoryColumns = []column{
	columnOf("RssAnon", rssAnon, mebibytes), columnOf("RssFile", rssFile, mebibytes),
	columnOf("Priv.Dirty", dirty, mebibytes), columnOf("Pss", pss, mebibytes),
	columnOf("peak RSS", peakBytes, mebibytes),
}

// modesTable has a row for each mode to which any of the columns applies.
func modesTable(title string, modes []*modeResult, columns []column) *console.Table {
	t := &console.Table{}
	head := []string{title}
	for _, c := range columns {
		head = append(head, c.title)
	}
	t.Row(head...)
	for _, m := range modes {
		cells := []string{m.Mode}
		for _, c := range columns {
			cells = append(cells, c.cell(m))
		}
		if slices.ContainsFunc(cells[1:], func(cell string) bool { return cell != console.None }) {
			t.Row(cells...)
		}
	}
	return t
}

func (r *result) diskTable() *console.Table {
	t := &console.Table{}
	t.Row("disk, ms", "median", "min - max")
	row := func(what string, s spread) { t.Row(what, console.Digits(s.Median), s.between()) }
	row("cold: from finalize until all is on the disk", r.mode(modeCold).Figures[commitMS])
	row("writing the same bytes, 1 MiB at a time, and fdatasync", spreadOf(r.Write))
	if dropped := r.mode(modeDropped); dropped != nil {
		row("dropped: to the first answer", dropped.Figures[answerMS])
		row("reading the file with O_DIRECT, 8 MiB at a time", spreadOf(r.Read))
	}
	return t
}

// notes are what the cache reported, each once.
func (r *result) notes() []string {
	var all []string
	for _, m := range r.Modes {
		for _, run := range m.Runs {
			for _, n := range run.Notes {
				all = append(all, m.Mode+": "+n)
			}
			if len(run.Reasons) > 0 {
				entries := execution.PrivateCell(int64(run.Figures[private]), run.Reasons)
				all = append(all, m.Mode+": packed into private memory: "+entries)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
