package bench

import (
	"runtime"
	"slices"

	"xpwc"
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
	commitMS   figure = "commit_ms" // cold: from finalize until all is on the disk

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

	// Of several processes with one model.
	manyMS     figure = "many_load_ms"     // the sum: they were started one after the other
	manyPSS    figure = "many_pss_bytes"   // when all had answered
	togetherMS figure = "together_load_ms" // of each that loaded at the same instant as the others
	slowestMS  figure = "slowest_load_ms"  // of the slowest of these
)

// A run is what one process measured.
type run struct {
	Figures figures       `json:"figures"`
	Output  string        `json:"output_sha256,omitempty"` // the sum of all outputs, one after the other
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
	all := slices.Clone(m.many)
	for _, run := range m.Runs {
		all = append(all, run.Figures)
	}
	for _, one := range all {
		for name, v := range one {
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
