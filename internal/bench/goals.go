package bench

import (
	"fmt"
	"math"

	"xpwc/internal/console"
	"xpwc/internal/llama"
)

// A goal is a figure that a run is to reach: its value must be at most the limit. Without a unit it is a ratio.
type goal struct {
	Name    string  `json:"name"`
	Unit    string  `json:"unit,omitempty"`
	Value   float64 `json:"value"`
	Limit   float64 `json:"limit"`
	Reached bool    `json:"reached"`
}

func (g goal) cells() []string {
	write := func(v float64) string { return console.Digits(v) + " " + g.Unit }
	if g.Unit == "" {
		write = func(v float64) string { return fmt.Sprintf("%.2f", v) }
	}
	verdict := "not reached"
	if g.Reached {
		verdict = "reached"
	}
	return []string{g.Name, write(g.Value), write(g.Limit), verdict}
}

// litertByNone is what LiteRT took to load the 16 layers in qc8w warm, divided by what it took without a cache on the
// same machine. Times what loading takes without a cache here, it gives what LiteRT would take here.
const litertByNone = 0.9 / 1182

// judge sums up the runs and compares them with the goals of all modes that were measured.
func (r *result) judge() {
	const mib = 1 << 20
	for _, m := range r.Modes {
		m.sumUp()
	}
	of := r.median
	measured := func(name, unit string, value, limit float64) {
		if !math.IsNaN(value) { // nor is what it is compared with
			r.Goals = append(r.Goals, goal{name, unit, value, limit, value <= limit})
		}
	}
	// Ratios are judged as they are printed.
	ratio := func(name string, value, against, limit float64) {
		measured(name, "", math.Round(100*value/against)/100, limit)
	}
	ratio("warm: total load, against ideal", of(modeWarm, totalMS), of(modeIdeal, totalMS), 1.25)
	if r.Layers == Layers && !r.Float32 && r.Threads == 1 {
		litert := litertByNone * of(modeNone, totalMS)
		ratio("warm: total load, against LiteRT's by none", of(modeWarm, totalMS), litert, 1)
	}
	best := math.Inf(1)
	for _, m := range r.Modes {
		best = min(best, m.Figures[steadyMS].Median)
	}
	for _, mode := range []string{modeWarm, modeReread} {
		ratio(mode+": first inference, against steady", of(mode, firstMS), of(mode, steadyMS), 1.03)
		ratio(mode+": steady inference, against the best mode", of(mode, steadyMS), best, 1)
	}
	for _, mode := range []string{modeNone, modeWrite} {
		ratio("cold: create and finalize, against "+mode, of(modeCold, packMS), of(mode, packMS), 1)
	}
	ratio("cold: durable, against writing and fdatasync", of(modeCold, commitMS), spreadOf(r.Write).Median, 1.2)
	for _, f := range []figure{rssAnon, dirty} {
		loaded := of(modeWarm, loading+f) - of(modeIdeal, loading+f)
		answered := of(modeWarm, first+f) - of(modeIdeal, first+f)
		measured(fmt.Sprintf("warm: %s over ideal's", memoryNames[f]), "MiB", max(loaded, answered)/mib, 4)
	}
	if len(r.Read) > 0 {
		reading := spreadOf(r.Read).Median
		ratio("dropped: first answer, against reading the file", of(modeDropped, answerMS), reading, 1.1)
	}
	if r.Layers == 0 {
		return
	}
	// The generated stack has few but large weights, no operator that packs without a look-up, and small activations.
	measured("cold: peak RSS (packed, largest tensor, 16 MiB)", "MiB", of(modeCold, peakBytes)/mib,
		float64(r.PayloadBytes+llama.Stack{Float32: r.Float32}.LargestBytes())/mib+16)
	measured("cold: file bytes that are not payload", "%", 100*of(modeCold, overhead), 0.1)
	measured("cold: bytes copied after packing", "bytes", of(modeCold, copiedBytes), 0)
}
