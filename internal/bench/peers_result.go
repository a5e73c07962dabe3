package bench

import (
	"fmt"
	"io"
	"math"

	"xpwc/internal/console"
)

// peersReport is what is written to PeersOptions.JSON.
type peersReport struct {
	Environment machine        `json:"environment"`
	Results     []*peersResult `json:"results"`
}

// peersResult is all that was measured of one model.
type peersResult struct {
	Name      string      `json:"name"` // the beginning of the names of its plots
	Model     string      `json:"model"`
	Rounds    int         `json:"rounds"`
	Processes int         `json:"processes,omitempty"` // of many
	Modes     []*peerMode `json:"modes"`
}

// peerMode is a way and its figures.
type peerMode struct {
	Mode    string            `json:"mode"`
	Runs    []*peerRun        `json:"runs,omitempty"`
	Figures map[figure]spread `json:"figures"`
	Many    *many             `json:"many,omitempty"`
	// Difference is the greatest one between the answer and that of the first mode, divided by the greatest number of
	// the latter.
	Difference float64 `json:"difference"`
}

// many is what some processes took together.
type many struct {
	LoadMS       float64 `json:"load_ms"`                    // the sum: they were started one after the other
	TogetherMS   float64 `json:"together_load_ms,omitempty"` // the median of all, where they loaded at the same instant
	SlowestMS    float64 `json:"slowest_load_ms,omitempty"`  // likewise, that of the slowest of each time
	PSSBytes     int64   `json:"pss_bytes"`                  // when all had answered
	RSSAnonBytes int64   `json:"rss_anon_bytes"`             // likewise
}

const (
	peerLoadMS figure = "total_load_ms"
	peerCPUMS  figure = "load_cpu_ms"
	peerAnon   figure = "rss_anon_bytes"
	peerFile   figure = "file_bytes"
)

// take takes what the ways have measured.
func (r *peersResult) take(ways []*way) error {
	for _, w := range ways {
		m := &peerMode{Mode: w.name, Runs: w.runs, Many: w.many}
		values := map[figure][]float64{}
		for _, run := range w.runs {
			for f, v := range map[figure]float64{peerLoadMS: run.LoadMS, firstMS: run.FirstMS, steadyMS: run.SteadyMS,
				answerMS: run.LoadMS + run.FirstMS, peerAnon: float64(run.RSSAnonBytes)} {
				values[f] = append(values[f], v)
			}
			if run.LoadCPUMS > 0 {
				values[peerCPUMS] = append(values[peerCPUMS], run.LoadCPUMS)
			}
			if w.start == firstStart {
				values[peerFile] = append(values[peerFile], float64(run.written))
			}
		}
		m.Figures = spreadsOf(values)
		var err error
		if m.Difference, err = difference(ways[0].outputs, w.outputs); err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		r.Modes = append(r.Modes, m)
	}
	return nil
}

// difference is the greatest one between two answers, divided by the greatest number of the first.
func difference(want, got []float32) (float64, error) {
	if len(want) != len(got) {
		return 0, fmt.Errorf("the answer has %d numbers, not %d", len(got), len(want))
	}
	var most, greatest float64
	for i, w := range want {
		most = max(most, math.Abs(float64(w)-float64(got[i])))
		greatest = max(greatest, math.Abs(float64(w)))
	}
	if most == 0 {
		return 0, nil
	}
	return most / greatest, nil
}

// merge takes over what an earlier run measured and this one did not.
func (r *peersResult) merge(other *peersResult) {
	for i, m := range r.Modes {
		if i >= len(other.Modes) || other.Modes[i].Mode != m.Mode {
			return
		}
		before := other.Modes[i]
		if r.Rounds == 0 {
			m.Runs, m.Figures, m.Difference = before.Runs, before.Figures, before.Difference
		}
		if r.Processes == 0 {
			m.Many = before.Many
		}
	}
	if r.Rounds == 0 {
		r.Rounds = other.Rounds
	}
	if r.Processes == 0 {
		r.Processes = other.Processes
	}
}

// print writes the table.
func (r *peersResult) print(w io.Writer) error {
	fmt.Fprintf(w, "\n%s; medians of %s; 1 thread\n\n", r.Model, console.Plural(r.Rounds, "round"))
	t := &console.Table{}
	together := fmt.Sprintf("PSS of %d", r.Processes)
	t.Row("ms and MiB", "load", "min - max", "its CPU time", "first", "answer", "steady", "RssAnon", "file", together,
		"their loads", "at once", "slowest", "difference")
	for _, m := range r.Modes {
		digits := func(f figure, unit float64) string {
			s, ok := m.Figures[f]
			if !ok {
				return console.None
			}
			return console.Digits(s.Median / unit)
		}
		const mib = 1 << 20
		between, pss, loads, atOnce, slowest := console.None, console.None, console.None, console.None, console.None
		if s, ok := m.Figures[peerLoadMS]; ok {
			between = s.between()
		}
		if m.Many != nil {
			pss, loads = console.Digits(float64(m.Many.PSSBytes)/mib), console.Digits(m.Many.LoadMS)
			if m.Many.TogetherMS > 0 {
				atOnce, slowest = console.Digits(m.Many.TogetherMS), console.Digits(m.Many.SlowestMS)
			}
		}
		t.Row(m.Mode, digits(peerLoadMS, 1), between, digits(peerCPUMS, 1), digits(firstMS, 1),
			digits(answerMS, 1), digits(steadyMS, 1),
			digits(peerAnon, mib), digits(peerFile, mib), pss, loads, atOnce, slowest,
			fmt.Sprintf("%.0e", m.Difference))
	}
	return t.Print(w)
}
