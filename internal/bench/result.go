package bench

import (
	"runtime"
	"slices"
)

// A Report is what Run measured, of one model after the other. It is what is written to Options.Figures.
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

// A result is all that was measured of one model.
type result struct {
	Name    string `json:"name"` // the beginning of the names of its files
	Model   string `json:"model"`
	Layers  int    `json:"layers,omitempty"`
	Float32 bool   `json:"float32,omitempty"`
	Threads int    `json:"threads"`
	Rounds  int    `json:"rounds"`
	recording
	Modes []*modeResult `json:"modes"`
	Write *baseline     `json:"write_fdatasync_ms,omitempty"`  // the payloads' bytes; with cold
	Read  *baseline     `json:"read_direct_ms,omitempty"`      // the cache file; with dropped
	Keep  *baseline     `json:"read_direct_keep_ms,omitempty"` // the same, into new memory as large as the file
	Goals []goal        `json:"goals"`
}

// A baseline is what a mode's figure is compared with; it is measured in each round.
type baseline struct {
	Runs []float64 `json:"runs"`
	spread
}

func (b *baseline) add(v float64) {
	b.Runs = append(b.Runs, v)
	b.spread = spreadOf(b.Runs)
}

// A modeResult has the runs of a mode, in their order, and their figures.
type modeResult struct {
	Mode    string            `json:"mode"`
	Runs    []*measured       `json:"runs"`
	Figures map[figure]spread `json:"figures"`
}

// A figure is the name of one of the numbers that sum up a run.
type figure string

const (
	openMS      figure = "open_ms"
	subgraphMS  figure = "subgraph_ms"
	createMS    figure = "create_runtime_ms"
	finalizeMS  figure = "finalize_ms"
	totalMS     figure = "total_load_ms"
	packMS      figure = "create_and_finalize_ms"
	firstMS     figure = "first_inference_ms"
	answerMS    figure = "first_answer_ms" // total load and first inference
	firstSteady figure = "first_over_steady"
	steadyMS    figure = "steady_ms"
	commitMS    figure = "commit_ms"
	loadMinor   figure = "load_minor_faults"
	loadMajor   figure = "load_major_faults"
	firstMinor  figure = "first_inference_minor_faults"
	firstMajor  figure = "first_inference_major_faults"
	peakBytes   figure = "peak_rss_bytes"
	copiedBytes figure = "copied_bytes"
	// The bytes of the file that are not payload, divided by those that are.
	overhead figure = "file_overhead"

	// Memory after loading, and after the first inference.
	loadAnon   figure = "load_rss_anon_bytes"
	loadFile   figure = "load_rss_file_bytes"
	loadDirty  figure = "load_private_dirty_bytes"
	loadPSS    figure = "load_pss_bytes"
	firstAnon  figure = "first_rss_anon_bytes"
	firstFile  figure = "first_rss_file_bytes"
	firstDirty figure = "first_private_dirty_bytes"
	firstPSS   figure = "first_pss_bytes"
)

// figures returns those that apply to the run.
func (m *measured) figures() map[figure]float64 {
	f := map[figure]float64{
		subgraphMS:  m.LoadMS,
		createMS:    m.CreateRuntimeMS,
		totalMS:     m.TotalLoadMS,
		packMS:      m.CreateRuntimeMS + m.FinalizeMS,
		firstMS:     m.FirstInferenceMS,
		answerMS:    m.TotalLoadMS + m.FirstInferenceMS,
		firstSteady: m.FirstInferenceMS / m.SteadyMS,
		steadyMS:    m.SteadyMS,
	}
	if m.Mode != modeNone && m.Mode != modeIdeal {
		f[finalizeMS] = m.FinalizeMS
	}
	if m.Mode != modeNone && m.Mode != modeIdeal && m.Mode != modeWrite {
		f[openMS] = m.OpenMS
	}
	if m.Mode == modeCold {
		f[commitMS] = m.CommitMS
	}
	if m.PayloadBytes > 0 {
		f[copiedBytes] = float64(m.CopiedBytes)
		f[overhead] = float64(m.FileBytes-m.PayloadBytes) / float64(m.PayloadBytes)
	}
	if m.MemoryKnown {
		f[loadMinor], f[loadMajor] = float64(m.LoadFaults.Minor), float64(m.LoadFaults.Major)
		f[firstMinor], f[firstMajor] = float64(m.InferenceFaults.Minor), float64(m.InferenceFaults.Major)
		f[peakBytes] = float64(m.PeakRSSBytes)
		a := m.AfterInference
		f[firstAnon], f[firstFile] = float64(a.RSSAnon), float64(a.RSSFile)
		f[firstDirty], f[firstPSS] = float64(a.PrivateDirty), float64(a.PSS)
	}
	if a := m.AfterLoad; a != nil {
		f[loadAnon], f[loadFile] = float64(a.RSSAnon), float64(a.RSSFile)
		f[loadDirty], f[loadPSS] = float64(a.PrivateDirty), float64(a.PSS)
	}
	return f
}

// A spread is how a figure is distributed over the runs.
type spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	Q1     float64 `json:"lower_quartile"`
	Q3     float64 `json:"upper_quartile"`
}

// spreadOf returns the spread of at least one value.
func spreadOf(values []float64) spread {
	v := slices.Sorted(slices.Values(values))
	at := func(part float64) float64 {
		place := part * float64(len(v)-1)
		i := int(place)
		return v[i] + (place-float64(i))*(v[min(i+1, len(v)-1)]-v[i])
	}
	return spread{at(0.5), v[0], v[len(v)-1], at(0.25), at(0.75)}
}

// sumUp computes the figures from the runs.
func (m *modeResult) sumUp() {
	values := map[figure][]float64{}
	for _, run := range m.Runs {
		for name, v := range run.figures() {
			values[name] = append(values[name], v)
		}
	}
	m.Figures = spreadsOf(values)
}

func spreadsOf(values map[figure][]float64) map[figure]spread {
	spreads := map[figure]spread{}
	for name, v := range values {
		spreads[name] = spreadOf(v)
	}
	return spreads
}

func (r *result) mode(name string) *modeResult {
	for _, m := range r.Modes {
		if m.Mode == name {
			return m
		}
	}
	return nil
}

// median returns a median, if the mode was measured and the figure applies to it.
func (r *result) median(mode string, f figure) (float64, bool) {
	m := r.mode(mode)
	if m == nil {
		return 0, false
	}
	s, ok := m.Figures[f]
	return s.Median, ok
}

func (r *result) sameOutputs() bool {
	first := r.Modes[0].Runs[0].OutputSHA256
	for _, m := range r.Modes {
		for _, run := range m.Runs {
			if run.OutputSHA256 != first {
				return false
			}
		}
	}
	return true
}
