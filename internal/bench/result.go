package bench

import (
	"fmt"
	"io"
	"runtime"
	"slices"

	"xpwc"
	"xpwc/internal/console"
	"xpwc/internal/execution"
)

// A Report is what Run or RunPeers measured, of one model after the other. It is what is written to Options.Figures.
type Report struct {
	Environment machine   `json:"environment"`
	Results     []*result `json:"results"`
}

type machine struct {
	System     string `json:"system"`
	Processors int    `json:"processors"`
	Go         string `json:"go"`
}

func environment() machine {
	return machine{runtime.GOOS + "/" + runtime.GOARCH, runtime.NumCPU(), runtime.Version()}
}

// A figure is the name of a number that was measured.
type figure string

// figures are what one process measured. What does not apply, or is not known on this system, is not there.
type figures map[figure]float64

const (
	openMS     figure = "open_ms"
	subgraphMS figure = "subgraph_ms"
	createMS   figure = "create_runtime_ms"
	finalizeMS figure = "finalize_ms"
	totalMS    figure = "total_load_ms"
	firstMS    figure = "first_inference_ms"
	answerMS   figure = "first_answer_ms" // total load and first inference
	steadyMS   figure = "steady_ms"
	loadCPU    figure = "load_processor_ms"   // of the whole process, from opening the model
	answerCPU  figure = "answer_processor_ms" // and of the first inference
	commitMS   figure = "commit_ms"           // cold: from finalize until all is on the disk

	// What the cache did.
	hits         figure = "hits"
	packed       figure = "packed"
	reused       figure = "reused"
	private      figure = "private"
	bytesWritten figure = "bytes_written"
	fileBytes    figure = "file_bytes"
	payloadBytes figure = "payload_bytes"
	payloads     figure = "payloads" // of modeRecord

	// Memory of a process after its first answer, in mode cold when all is saved.
	rss       figure = "rss_bytes"
	rssAnon   figure = "rss_anon_bytes"
	rssFile   figure = "rss_file_bytes"
	dirty     figure = "private_dirty_bytes"
	pss       figure = "pss_bytes"
	peakBytes figure = "peak_rss_bytes" // of the process so far

	// Of programs that answer prompts.
	tokenMS      figure = "first_token_ms" // from exec to the first token
	tokenCPU     figure = "first_token_cpu_ms"
	promptTokens figure = "prompt_tokens"
	answerTokens figure = "answer_tokens"
	prefillRate  figure = "prefill_tokens_per_s" // of the prompt, until the answer's first token is there
	prefillCPU   figure = "prefill_cpu_ms_per_token"
	decodeRate   figure = "decode_tokens_per_s" // of the answer, after the first token
	decodeCPU    figure = "decode_cpu_ms_per_token"

	// Of several processes with one model.
	manyMS     figure = "many_load_ms"   // the sum: they were started one after the other
	manyPSS    figure = "many_pss_bytes" // when all had answered
	manyDirty  figure = "many_private_dirty_bytes"
	togetherMS figure = "together_load_ms" // of each that loaded at the same instant as the others
	slowestMS  figure = "slowest_load_ms"  // of the slowest of these
)

// A run is what one process measured.
type run struct {
	Figures figures       `json:"figures"`
	Output  string        `json:"output_sha256,omitempty"` // the sum of all outputs, one after the other
	Answer  string        `json:"answer,omitempty"`        // in hexadecimal digits
	Reasons []xpwc.Reason `json:"reasons,omitempty"`       // why entries are in private memory
	Notes   []string      `json:"notes,omitempty"`
}

// A result is all that was measured of one model.
type result struct {
	Name    string        `json:"name"` // the beginning of the names of its files
	Model   string        `json:"model"`
	Threads int           `json:"threads"`
	Rounds  int           `json:"rounds"`
	Modes   []*modeResult `json:"modes"`

	// Of Run:
	Payloads     int       `json:"payloads,omitempty"`
	PayloadBytes int64     `json:"payload_bytes,omitempty"`
	Write        []float64 `json:"write_fdatasync_ms,omitempty"` // the payloads' bytes; with cold
	Read         []float64 `json:"read_direct_ms,omitempty"`     // the cache file; with dropped

	Processes int `json:"processes,omitempty"` // of RunPeers' many
}

// A modeResult has the runs of a mode, in their order, and their figures.
type modeResult struct {
	Mode    string            `json:"mode"`
	Runs    []*run            `json:"runs"`
	Figures map[figure]spread `json:"figures"`

	many []figures // of several processes, which RunPeers starts
}

// A spread is how a figure is distributed over the runs.
type spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// spreadOf returns the spread of at least one value.
func spreadOf(values []float64) spread {
	v := slices.Sorted(slices.Values(values))
	n := len(v)
	return spread{(v[(n-1)/2] + v[n/2]) / 2, v[0], v[n-1]}
}

// sumUp computes the figures from the runs.
func (m *modeResult) sumUp() {
	values := map[figure][]float64{}
	runs := slices.Clone(m.many)
	for _, run := range m.Runs {
		runs = append(runs, run.Figures)
	}
	for _, figs := range runs {
		for name, v := range figs {
			values[name] = append(values[name], v)
		}
	}
	m.Figures = map[figure]spread{}
	for name, v := range values {
		m.Figures[name] = spreadOf(v)
	}
}

func (r *result) mode(name string) *modeResult {
	i := slices.IndexFunc(r.Modes, func(m *modeResult) bool { return m.Mode == name })
	if i < 0 {
		return nil
	}
	return r.Modes[i]
}

func (r *result) sameOutputs() bool {
	first := r.Modes[0].Runs[0].Output
	for _, m := range r.Modes {
		if slices.ContainsFunc(m.Runs, func(run *run) bool { return run.Output != first }) {
			return false
		}
	}
	return true
}

// print writes the tables. They are at most 90 columns wide.
func (r *result) print(w io.Writer) error {
	fmt.Fprintf(w, "\n%s\n", r.Model)
	fmt.Fprintf(w, "%s of packed weights in %d entries; %s; %s\n", console.Mebibytes(r.PayloadBytes), r.Payloads,
		console.Plural(r.Rounds, "round"), console.Plural(r.Threads, "thread"))
	fmt.Fprintln(w, "Medians. The clock starts when the model is mapped and XNNPACK is initialized.")
	fmt.Fprintln(w, "Before each run, another process used and freed memory, in small pages and in large ones.")
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

// columnOf is that of a figure's medians. What does not apply is console.Blank.
func columnOf(title string, f figure, write func(float64) string) column {
	return column{title, func(m *modeResult) string {
		if s, ok := m.Figures[f]; ok {
			return write(s.Median)
		}
		return console.Blank
	}}
}

// betweenColumn has the least and the greatest value.
func betweenColumn(f figure) column {
	return column{"min - max", func(m *modeResult) string {
		if s, ok := m.Figures[f]; ok {
			return s.between()
		}
		return console.Blank
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
		if slices.ContainsFunc(cells[1:], func(cell string) bool { return cell != console.Blank }) {
			t.Row(cells...)
		}
	}
	return t
}

func (r *result) diskTable() *console.Table {
	t := &console.Table{}
	t.Row("disk, ms", "median", "min - max")
	row := func(label string, s spread) { t.Row(label, console.Digits(s.Median), s.between()) }
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
	var notes []string
	for _, m := range r.Modes {
		for _, run := range m.Runs {
			for _, n := range run.Notes {
				notes = append(notes, m.Mode+": "+n)
			}
			if len(run.Reasons) > 0 {
				entries := execution.PrivateCell(int64(run.Figures[private]), run.Reasons)
				notes = append(notes, m.Mode+": packed into private memory: "+entries)
			}
		}
	}
	slices.Sort(notes)
	return slices.Compact(notes)
}
