package bench

import (
	"runtime"
	"slices"
)

// benchReport is what bench --json writes.
type benchReport struct {
	Environment benchEnvironment `json:"environment"`
	Results     []*benchResult   `json:"results"`
}

type benchEnvironment struct {
	System     string `json:"system"`
	Processors int    `json:"processors"`
	Go         string `json:"go"`
}

func environment() benchEnvironment {
	return benchEnvironment{runtime.GOOS + "/" + runtime.GOARCH, runtime.NumCPU(), runtime.Version()}
}

// benchResult is all that was measured of one model.
type benchResult struct {
	Name    string `json:"name"` // for files
	Model   string `json:"model"`
	Layers  int    `json:"layers,omitempty"`
	Float32 bool   `json:"float32,omitempty"`
	Threads int    `json:"threads"`
	Rounds  int    `json:"rounds"`
	recording
	Modes []*modeResult `json:"modes"`
	Write *baseline     `json:"write_fdatasync_ms,omitempty"`  // the payloads' bytes; with cold
	Read  *baseline     `json:"read_direct_ms,omitempty"`      // the cache file; with dropped
	Keep  *baseline     `json:"read_direct_keep_ms,omitempty"` // the same, into as much memory as it has bytes
	Bars  []bar         `json:"bars"`
}

// baseline is what a mode's figure is compared with, in each round.
type baseline struct {
	Runs []float64 `json:"runs"`
	spread
}

func (b *baseline) add(v float64) {
	b.Runs = append(b.Runs, v)
	b.spread = spreadOf(b.Runs)
}

// modeResult has the runs of a mode, in their order, and their figures.
type modeResult struct {
	Mode    string            `json:"mode"`
	Runs    []*measured       `json:"runs"`
	Figures map[figure]spread `json:"figures"`
}

// A figure is one of what a run is summed up by.
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
	// The file's bytes that are no payload's, over those that are.
	overhead figure = "file_overhead"

	loadAnon, loadFile, loadDirty, loadPSS     figure = "load_rss_anon_bytes", "load_rss_file_bytes", "load_private_dirty_bytes", "load_pss_bytes"
	firstAnon, firstFile, firstDirty, firstPSS figure = "first_rss_anon_bytes", "first_rss_file_bytes", "first_private_dirty_bytes", "first_pss_bytes"
)

// figures returns what applies to the run.
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
		f[openMS], f[finalizeMS] = m.OpenMS, m.FinalizeMS
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
		f[firstAnon], f[firstFile], f[firstDirty], f[firstPSS] = float64(a.RSSAnon), float64(a.RSSFile), float64(a.PrivateDirty), float64(a.PSS)
	}
	if a := m.AfterLoad; a != nil {
		f[loadAnon], f[loadFile], f[loadDirty], f[loadPSS] = float64(a.RSSAnon), float64(a.RSSFile), float64(a.PrivateDirty), float64(a.PSS)
	}
	return f
}

// spread is how a figure is distributed over the runs.
type spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	Q1     float64 `json:"lower_quartile"`
	Q3     float64 `json:"upper_quartile"`
}

// spreadOf takes at least one value.
func spreadOf(values []float64) spread {
	v := slices.Sorted(slices.Values(values))
	at := func(part float64) float64 {
		place := part * float64(len(v)-1)
		i := int(place)
		return v[i] + (place-float64(i))*(v[min(i+1, len(v)-1)]-v[i])
	}
	return spread{at(0.5), v[0], v[len(v)-1], at(0.25), at(0.75)}
}

// sumUp makes the figures of the runs.
func (m *modeResult) sumUp() {
	values := map[figure][]float64{}
	for _, run := range m.Runs {
		for name, v := range run.figures() {
			values[name] = append(values[name], v)
		}
	}
	m.Figures = map[figure]spread{}
	for name, v := range values {
		m.Figures[name] = spreadOf(v)
	}
}

func (r *benchResult) mode(name string) *modeResult {
	for _, m := range r.Modes {
		if m.Mode == name {
			return m
		}
	}
	return nil
}

// median returns a median, if the mode was measured and the figure applies to it.
func (r *benchResult) median(mode string, f figure) (float64, bool) {
	m := r.mode(mode)
	if m == nil {
		return 0, false
	}
	s, ok := m.Figures[f]
	return s.Median, ok
}

func (r *benchResult) sameOutputs() bool {
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
