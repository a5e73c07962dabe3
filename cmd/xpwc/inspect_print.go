package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"

	"xpwc/cachefile"
	"xpwc/cmd/xpwc/internal/htmlreport"
	"xpwc/internal/bench/terminal"
	"xpwc/internal/console"
)

// shortLayout is how many digits of a fingerprint tables have: enough to distinguish layouts, and to name them with
// --layout.
const shortLayout = 8

// longModel is how many columns a model's name has in the table of entries.
const longModel = 24

func (r *inspection) print(w io.Writer) {
	r.printSummary(w)
	if r.drawn {
		fmt.Fprintln(w)
		drawMap(w, r.Map, r.FileBytes)
		return
	}
	for _, p := range r.Problems {
		fmt.Fprintf(w, "damaged: %s\n", console.Printable(p.Place()))
	}
	fmt.Fprintln(w)
	if len(r.Entries) == 0 {
		fmt.Fprintln(w, "No entries to show.")
		return
	}
	r.printEntries(w)
}

func (r *inspection) printSummary(w io.Writer) {
	if r.Format == cachefile.Native {
		fmt.Fprintf(w, "%s: packed weights cache, format version %d, generation %d\n", r.File, r.Version, r.Generation)
	} else {
		fmt.Fprintf(w, "%s: %s's packed weights cache, version %d\n", r.File, htmlreport.Whose(r.Format), r.Version)
	}
	if r.Embedded != nil {
		fmt.Fprintf(w, "note: %s: %s\n", r.File, r.Embedded.note())
	}
	if r.Stale {
		fmt.Fprintln(w, "note:", staleLiteRT)
	}
	for _, s := range r.Slots {
		if s.State == cachefile.SlotTorn {
			fmt.Fprintf(w, "note: the slot of the header at %d is invalid: after a crash, or by damage\n", s.Offset)
		}
	}
	fmt.Fprintln(w)
	if r.Format == cachefile.Native {
		r.printLayouts(w)
		printModels(w, r.Models)
	}
	var t console.Table
	t.Row("", "bytes", "")
	row := func(name string, n int64) {
		if n > 0 {
			t.Row(name, console.Size(n), console.Percent(n, r.FileBytes))
		}
	}
	row("payloads of "+console.Plural(r.Total, "entry"), r.PayloadBytes)
	row("header", r.HeaderBytes)
	row("index", r.IndexBytes)
	row("index for ExecuTorch", r.TrailerBytes)
	row("padding", r.PaddingBytes)
	row("dead", r.DeadBytes)
	row("uncommitted", r.UncommittedBytes)
	t.Row("file", console.Size(r.FileBytes), "")
	t.Print(w)
}

func (r *inspection) printLayouts(w io.Writer) {
	t := newLayoutTable(w, r.Here)
	here := false
	for _, l := range r.Layouts {
		here = here || l.Fingerprint.String() == r.Here
		t.add(l.Fingerprint, l.Description, int64(l.Entries), l.PayloadBytes, "")
	}
	if len(r.Layouts) > 0 {
		t.print()
	}
	switch {
	case here:
	case r.Here == "":
		fmt.Fprintln(w, "This machine's layout is unknown: XNNPACK cannot run here.")
	case len(r.Layouts) == 0:
		fmt.Fprintf(w, "No layouts; this machine's is %s.\n", r.Here)
	default:
		fmt.Fprintf(w, "This machine's layout, %s, is not among them.\n", r.Here)
	}
	fmt.Fprintln(w)
}

// printModels prints what entries were packed from, where that is known of some.
func printModels(w io.Writer, models []cachefile.Model) {
	if len(modelNames(models)) == 0 {
		return
	}
	var t console.Table
	t.Row("packed from", "entries", "payloads")
	row := func(name string, m cachefile.Model) { t.Row(name, fmt.Sprint(m.Entries), console.Size(m.PayloadBytes)) }
	var unknown cachefile.Model
	for _, m := range models {
		if m.Name != "" {
			row(m.Name, m)
			continue
		}
		unknown.Entries += m.Entries
		unknown.PayloadBytes += m.PayloadBytes
	}
	if unknown.Entries > 0 {
		row("not known", unknown)
	}
	t.Fit(terminal.Width(w))
	t.Print(w)
	fmt.Fprintln(w)
}

// modelNames returns the names of models, as far as they are known, each once.
func modelNames(models []cachefile.Model) (names []string) {
	for _, m := range models { // in the order of their names
		if m.Name != "" && !slices.Contains(names, m.Name) {
			names = append(names, m.Name)
		}
	}
	return names
}

func (r *inspection) printEntries(w io.Writer) {
	native := r.Format == cachefile.Native
	layouts := len(r.Layouts) > 1
	models := len(modelNames(r.Models)) > 0 && len(r.Models) > 1
	checked := func(e entryReport) bool { return e.Checksum != sumUnchecked && e.Checksum != sumNone }
	var t console.Table
	t.Row("name", "size", "seed", "offset", "model", "layout", "operator", "used", "checksum")
	total := int64(0)
	for _, e := range r.Entries {
		total += e.Size
		t.Row(shownName(&e.Entry), console.Size(e.Size), fmt.Sprintf("%08x", e.Seed), fmt.Sprint(e.Offset),
			cell(models && e.SourceName != "", console.Shorten(e.SourceName, longModel)),
			cell(layouts, e.Layout.String()[:shortLayout]), e.operator(),
			cell(native, e.Entry.UsedAt.Local().Format(time.DateOnly)), cell(checked(e), e.Checksum))
	}
	t.LeaveOutEmpty()
	fitEntries(&t, terminal.Width(w))
	t.Print(w)
	if len(r.Entries) < r.Total-len(r.Problems) {
		fmt.Fprintf(w, "\n%s of %d, %s.\n", console.Plural(len(r.Entries), "entry"), r.Total, console.Size(total))
	}
}

// cell is one of a table that says something, or nothing.
func cell(says bool, text string) string {
	if says {
		return text
	}
	return console.None
}

// fitEntries makes a table of entries fit a terminal.
func fitEntries(t *console.Table, width int) {
	t.LeaveOut(width, "offset", "seed", "checksum", "used") // --json and a wider terminal have them
	if slices.Contains(t.Rows[0], "model") {
		t.LeaveOut(width, "operator")
	}
	t.Fit(width)
}

// shownName is what tables call an entry: its kernel's name, with a mark where a bias is packed with it.
func shownName(e *cachefile.Entry) string {
	name := console.Printable(cmp.Or(e.Kernel, e.Name))
	if e.Kernel != "" && e.Bias != "" {
		name += " + bias"
	}
	return name
}

// operator returns the operator of an entry and the kernel's datatype, if they are recorded.
func (e *entryReport) operator() string {
	if e.Family == "" {
		return console.None
	}
	return e.Entry.Family.Operator.String() + " " + e.Entry.Family.Kernel.String()
}

// mapMarks are the marks of the map, in the order of its legend. Payloads that follow each other have different ones.
var mapMarks = []struct {
	kind  cachefile.Kind
	marks string
	text  string
}{
	{cachefile.Payload, "#=", "payloads, alternating"},
	{cachefile.Header, "H", "header"},
	{cachefile.Index, "I", "index"},
	{cachefile.Trailer, "T", "index for ExecuTorch"},
	{cachefile.OldIndex, "o", "old index"},
	{cachefile.Dead, "x", "dead"},
	{cachefile.Uncommitted, "?", "uncommitted: a program is writing, or was killed"},
	{cachefile.Padding, ".", "padding"},
}

const mapRows = 24

// drawMap draws the bytes of a file, a character for each piece of equal size. What is neither payload nor padding is
// shown however small it is.
func drawMap(w io.Writer, segments []cachefile.Segment, fileBytes int64) {
	if fileBytes == 0 {
		fmt.Fprintln(w, "The file is empty.")
		return
	}
	width := cmp.Or(terminal.Width(w), unknownWidth)
	offsets := len(fmt.Sprint(fileBytes)) + 2
	columns := int64(max(16, width-offsets-1))
	perCell := (fileBytes + columns*mapRows - 1) / (columns * mapRows)
	perCell = (perCell + 63) / 64 * 64
	cells := make([]byte, (fileBytes+perCell-1)/perCell)
	most := make([]int64, len(cells)) // bytes of what the cell shows
	marks, there, payloads := map[cachefile.Kind]string{}, map[cachefile.Kind]bool{}, 0
	for _, m := range mapMarks {
		marks[m.kind] = m.marks
	}
	for _, s := range segments {
		there[s.Kind] = true
		mark := marks[s.Kind][0]
		if s.Kind == cachefile.Payload {
			mark = marks[s.Kind][payloads%2]
			payloads++
		}
		for at := s.Offset; at < s.Offset+s.Size; {
			cell := at / perCell
			n := min((cell+1)*perCell, s.Offset+s.Size) - at
			weight := n
			if s.Kind != cachefile.Payload && s.Kind != cachefile.Padding {
				weight += perCell
			}
			if weight > most[cell] {
				cells[cell], most[cell] = mark, weight
			}
			at += n
		}
	}
	for row := int64(0); row < int64(len(cells)); row += columns {
		fmt.Fprintf(w, "%*d  %s\n", offsets-2, row*perCell, cells[row:min(row+columns, int64(len(cells)))])
	}
	fmt.Fprintf(w, "\nEach character is %s.\n", console.Size(perCell))
	for _, m := range mapMarks {
		if there[m.kind] {
			fmt.Fprintf(w, "%-4s %s\n", m.marks, m.text)
		}
	}
}
