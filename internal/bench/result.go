package bench

import (
	"runtime"
	"slices"
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

// A result is all that was measured of one model.
type result struct {
	Name    string        `json:"name"` // the beginning of the names of its files
	Model   string        `json:"model"`
	Layers  int           `json:"layers,omitempty"`
	Float32 bool          `json:"float32,omitempty"`
	Threads int           `json:"threads"`
	Rounds  int           `json:"rounds"`
	Modes   []*modeResult `json:"modes"`

	// Of Run:
	Payloads     int       `json:"payloads,omitempty"`
	PayloadBytes int64     `json:"payload_bytes,omitempty"`
	Write        []float64 `json:"write_fdatasync_ms,omitempty"` // the payloads' bytes; with cold
	Read         []float64 `json:"read_direct_ms,omitempty"`     // the cache file; with dropped

	// Of RunPeers:
	Processes int `json:"processes,omitempty"` // of many
}

// A modeResult has the runs of a mode, in their order, and their figures.
type modeResult struct {
	Mode    string            `json:"mode"`
	Runs    []*run            `json:"runs"`
	Figures map[figure]spread `json:"figures"`

	// Of RunPeers:
	Many *many `json:"many,omitempty"`
	// Difference is the greatest one between the answer and that of the first mode, divided by the greatest number of
	// the latter.
	Difference float64 `json:"difference,omitempty"`
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
		for name, v := range run.Figures {
			values[name] = append(values[name], v)
		}
	}
	m.Figures = map[figure]spread{}
	for name, v := range values {
		m.Figures[name] = spreadOf(v)
	}
}

func (r *result) sumUp() {
	for _, m := range r.Modes {
		m.sumUp()
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
