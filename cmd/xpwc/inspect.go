package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"xpwc"
	"xpwc/cachefile"
	"xpwc/cmd/xpwc/internal/htmlreport"
	"xpwc/internal/bench/terminal"
	"xpwc/internal/console"
	"xpwc/internal/modelfile"
)

type inspectOptions struct {
	sort, filter string
	check, drawn bool
}

// entryOrders are the values of --sort. Names and seeds are sorted upwards, sizes and times downwards.
var entryOrders = map[string]func(a, b cachefile.Entry) int{
	"name":   func(a, b cachefile.Entry) int { return cmp.Compare(a.Name, b.Name) },
	"size":   func(a, b cachefile.Entry) int { return cmp.Compare(b.Size, a.Size) },
	"offset": func(a, b cachefile.Entry) int { return cmp.Compare(a.Offset, b.Offset) },
	"used":   func(a, b cachefile.Entry) int { return b.UsedAt.Compare(a.UsedAt) },
	"seed":   func(a, b cachefile.Entry) int { return cmp.Compare(a.Seed, b.Seed) },
}

var entryOrderNames = slices.Sorted(maps.Keys(entryOrders))

func newInspectCommand() *cobra.Command {
	var o inspectOptions
	cmd := &cobra.Command{
		Use:   "inspect FILE [DATA...]",
		Short: "Show what is in a cache file or a model",
		Long: `Shows the format of a cache file, the layouts (ways of packing) of its packed weights,
whether this machine's is among them, the entries, and what the bytes are used for. FILE
is a cache of xpwc, of ExecuTorch or of LiteRT, or a safetensors file with packed weights
in it. It is neither changed nor locked: it may be in use.

Of a program of ExecuTorch (.pte) it shows the methods, their operators, and the weights
by size. An operator is in a delegate for XNNPACK, or between delegates, where xpwc runs it
too, or outside: then ExecuTorch alone runs it. DATA are the program's .ptd files. Of a
.tflite file it shows the signatures (for --method of xpwc run), and whether they can be
run.

Only --check compares checksums; xpwc verify checks more. Exits with 1 if a part that was
read is damaged.`,
		Example: `  xpwc inspect model.xpwc
  xpwc inspect model.xpwc --sort size --filter attention
  xpwc inspect model.xpwc --check
  xpwc inspect model.xpwc --map
  xpwc inspect model.xpwc --json | jq '.entries[].name'
  xpwc inspect model.pte weights.ptd
  xpwc inspect model.tflite`,
		Args: usage(modelArgs),
		RunE: func(cmd *cobra.Command, args []string) error {
			if entryOrders[o.sort] == nil {
				return usagef("--sort %s: it is one of %s", o.sort, strings.Join(entryOrderNames, ", "))
			}
			file := modelfile.Parse(args[0])
			file.Data = args[1:]
			if file.Program() {
				if err := refuseFlags(cmd, file.Path, "sort", "check", "map"); err != nil {
					return err
				}
				return inspectProgram(cmd.Context(), file, o)
			}
			if inBundle := file.Bundle(); inBundle || isTFLite(file.Path) {
				if err := refuseFlags(cmd, args[0], "sort", "filter", "check", "map"); err != nil {
					return err
				}
				if inBundle {
					return inspectBundle(cmd.Context(), file)
				}
				return inspectModel(cmd.Context(), file)
			}
			return withShown(args[0], func(f shownFile, loc location) error {
				return inspect(cmd.Context(), f, loc,
					o)
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.sort, "sort", "offset", "`ORDER` of the entries: "+strings.Join(entryOrderNames, ", "))
	flags.StringVar(&o.filter, "filter", "",
		"only entries or weights whose name contains `TEXT`")
	flags.BoolVar(&o.check, "check", false, "compare the checksums of the entries shown")
	flags.BoolVar(&o.drawn, "map", false, "draw a map of the bytes in the file, in place of the table of entries")
	jsonFlag(cmd)
	return cmd
}

// inspection is the result of xpwc inspect.
type inspection struct {
	File       string             `json:"file"`
	Format     cachefile.Format   `json:"format"`
	Version    int                `json:"format_version"`
	ID         string             `json:"id,omitempty"`
	Generation uint64             `json:"generation"`
	Slots      []cachefile.Slot   `json:"slots,omitempty"`
	Layouts    []cachefile.Layout `json:"layouts"`
	Current    string             `json:"current_layout,omitempty"`
	Models     []cachefile.Model  `json:"models,omitempty"`
	Total      int                `json:"entry_count"`
	cachefile.Sizes
	Entries  []entryReport       `json:"entries"`
	Problems []cachefile.Problem `json:"problems"`
	Map      []cachefile.Segment `json:"map,omitempty"`
	Embedded *embedded           `json:"embedded,omitempty"` // where in the file the cache is; offsets begin there
	Stale    bool                `json:"stale,omitempty"`    // LiteRT marks a file as stale if it lacked an entry
	drawn    bool
}

// Checksum states of an entry.
const (
	sumUnchecked = "not checked"
	sumOK        = "ok"
	sumDamaged   = "damaged"
	sumNone      = "none" // ExecuTorch's entries have no checksums
)

type entryReport struct {
	cachefile.Entry
	Family   string `json:"family,omitempty"`
	Checksum string `json:"checksum"`
	PackedAt string `json:"packed_at,omitempty"`
	UsedAt   string `json:"used_at,omitempty"`
}

func inspect(ctx context.Context, f shownFile, loc location, o inspectOptions) error {
	r, err := report(f)
	if err != nil && !errors.Is(err, cachefile.ErrDamaged) {
		return err
	}
	r.Embedded = loc.in
	if l, ok := f.(litertCache); ok {
		r.Stale = l.file.Stale
	}
	entries := r.choose(f, o)
	var check func(cachefile.Entry) error
	if native, ok := f.(*cachefile.File); ok && o.check && r.Format == cachefile.Native {
		check = native.Check
	}
	if err := r.describe(ctx, entries, check); err != nil {
		return err
	}
	if r.drawn = o.drawn; r.drawn {
		r.Map, _ = f.Map() // report had its error
	}
	setResult(ctx, r)
	if len(r.Problems) > 0 {
		return damagedError{fmt.Errorf("%s is damaged: %d of %s; xpwc verify reports where", r.File, len(r.Problems),
			console.Plural(r.Total, "entry"))}
	}
	return nil
}

// A damagedError is a message of its own that matches cachefile.ErrDamaged.
type damagedError struct{ error }

func (damagedError) Is(target error) bool { return target == cachefile.ErrDamaged }

// report describes a file without its entries.
func report(f shownFile) (*inspection, error) {
	info, err := f.Info()
	r := &inspection{
		File: f.Path(), Format: info.Format, Version: info.Version, Generation: info.Generation,
		Total: info.Entries, Slots: info.Slots, Layouts: append([]cachefile.Layout{}, info.Layouts...), // not null
		Models: info.Models, Sizes: info.Sizes, Problems: []cachefile.Problem{},
	}
	if info.Format != cachefile.Native {
		return r, err
	}
	r.ID = cachefile.Digest(info.ID).String()
	if current, err := xpwc.CurrentLayout(); err == nil { // otherwise XNNPACK cannot run here
		r.Current = current.Fingerprint.String()
	}
	return r, err
}

// choose returns the entries to show, in their order, and notes those whose records are damaged.
func (r *inspection) choose(f shownFile, o inspectOptions) (entries []cachefile.Entry) {
	for e, err := range f.Entries() {
		switch {
		case err != nil:
			r.addProblem(err)
		case strings.Contains(e.Name, o.filter):
			entries = append(entries, e)
		}
	}
	slices.SortStableFunc(entries, entryOrders[o.sort])
	return entries
}

func (r *inspection) addProblem(err error) {
	p := cachefile.Problem{Message: err.Error()}
	if problem := (*cachefile.Problem)(nil); errors.As(err, &problem) {
		p = *problem
	}
	r.Problems = append(r.Problems, p)
}

// describe adds entries to the inspection, after checking them if check is given.
func (r *inspection) describe(ctx context.Context, entries []cachefile.Entry, check func(cachefile.Entry) error) error {
	progress := newProgress(ctx, "checking")
	var done, total int64
	for _, e := range entries {
		total += e.Size
	}
	defer progress.Finish()
	r.Entries = []entryReport{}
	for _, e := range entries {
		v := entryReport{Entry: e, Checksum: sumNone}
		if r.Format == cachefile.Native {
			v.Family, v.Checksum = e.Family.String(), sumUnchecked
			v.PackedAt, v.UsedAt = e.PackedAt.Format(time.RFC3339), e.UsedAt.Format(time.RFC3339)
		}
		if check != nil {
			err := check(e)
			switch {
			case errors.Is(err, cachefile.ErrDamaged):
				v.Checksum = sumDamaged
				r.addProblem(err)
			case err != nil:
				return err
			default:
				v.Checksum = sumOK
			}
			done += e.Size
			progress.Update(done, total)
		}
		r.Entries = append(r.Entries, v)
	}
	return nil
}

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
	t := newLayoutTable(w, r.Current)
	usable := false
	for _, l := range r.Layouts {
		usable = usable || l.Fingerprint.String() == r.Current
		t.add(l.Fingerprint, l.Description, int64(l.Entries), l.PayloadBytes, "")
	}
	if len(r.Layouts) > 0 {
		t.print()
	}
	switch {
	case usable:
	case r.Current == "":
		fmt.Fprintln(w, "This machine's layout is unknown: XNNPACK cannot run here.")
	case len(r.Layouts) == 0:
		fmt.Fprintf(w, "No layouts; this machine's is %s.\n", r.Current)
	default:
		fmt.Fprintf(w, "This machine's layout, %s, is not among them.\n", r.Current)
	}
	fmt.Fprintln(w)
}

// printModels prints the models of the entries, if any model is recorded.
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

// cell returns a table's cell, empty unless show is set.
func cell(show bool, text string) string {
	if show {
		return text
	}
	return console.Blank
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
		return console.Blank
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

// drawMap draws the bytes of a file, a character for each piece of equal size. Headers, indexes and dead bytes are
// shown however small they are.
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
	largest := make([]int64, len(cells)) // bytes of the kind that the cell shows
	marks, kinds, payloads := map[cachefile.Kind]string{}, map[cachefile.Kind]bool{}, 0
	for _, m := range mapMarks {
		marks[m.kind] = m.marks
	}
	for _, s := range segments {
		kinds[s.Kind] = true
		mark := marks[s.Kind][0]
		if s.Kind == cachefile.Payload {
			mark = marks[s.Kind][payloads%2]
			payloads++
		}
		for offset := s.Offset; offset < s.Offset+s.Size; {
			cell := offset / perCell
			n := min((cell+1)*perCell, s.Offset+s.Size) - offset
			weight := n
			if s.Kind != cachefile.Payload && s.Kind != cachefile.Padding {
				weight += perCell
			}
			if weight > largest[cell] {
				cells[cell], largest[cell] = mark, weight
			}
			offset += n
		}
	}
	for row := int64(0); row < int64(len(cells)); row += columns {
		fmt.Fprintf(w, "%*d  %s\n", offsets-2, row*perCell, cells[row:min(row+columns, int64(len(cells)))])
	}
	fmt.Fprintf(w, "\nEach character is %s.\n", console.Size(perCell))
	for _, m := range mapMarks {
		if kinds[m.kind] {
			fmt.Fprintf(w, "%-4s %s\n", m.marks, m.text)
		}
	}
}
