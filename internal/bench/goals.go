package bench

import (
	"fmt"
	"math"

	"xpwc/internal/console"
)

// A goal is a figure that a run is to reach: the ratio of Value to Against, rounded to hundredths, must be at most
// Limit; without a ratio, Value itself must be.
type goal struct {
	Name    string   `json:"name"`
	Unit    string   `json:"unit"` // of the value: "ms", "MiB", "%" or "bytes"
	Value   float64  `json:"value"`
	Against float64  `json:"against,omitempty"`
	Ratio   *float64 `json:"ratio,omitempty"`
	Limit   float64  `json:"limit"`
	Reached bool     `json:"reached"`
}

func (g goal) cells() []string {
	verdict := "not reached"
	if g.Reached {
		verdict = "reached"
	}
	unit := " " + g.Unit
	if g.Ratio == nil {
		value, limit := console.Digits(g.Value)+unit, console.Digits(g.Limit)+unit
		return []string{g.Name, value, console.None, console.None, limit, verdict}
	}
	ratio, limit := fmt.Sprintf("%.2f", *g.Ratio), fmt.Sprintf("%.2f", g.Limit)
	return []string{g.Name, console.Digits(g.Value) + unit, console.Digits(g.Against) + unit, ratio, limit, verdict}
}

// What LiteRT took for the 16 layers in qc8w, loading them warm and without a cache, both on the same machine. Of this
// machine its loading without a cache is known, so that the ratio gives what LiteRT would take here.
const (
	litertWarmMS = 0.9
	litertNoneMS = 1182
)

// judge sums up the runs and compares them with the goals of all modes that were measured.
func (r *result) judge() {
	for _, m := range r.Modes {
		m.sumUp()
	}
	r.judgeWarm()
	r.judgeCold()
	r.judgeMemory()
	if v, ok := r.median(modeDropped, answerMS); ok {
		r.ratio("dropped: first answer, against reading the file", v, r.Read.Median, 1.1)
	}
	r.judgeFile()
}

// ratio adds a goal for two times.
func (r *result) ratio(name string, value, against, limit float64) {
	ratio := math.Round(100*value/against) / 100
	r.Goals = append(r.Goals, goal{name, "ms", value, against, &ratio, limit, ratio <= limit})
}

// atMost adds a goal for a value that has a limit of its own.
func (r *result) atMost(name, unit string, value, limit float64) {
	r.Goals = append(r.Goals, goal{Name: name, Unit: unit, Value: value, Limit: limit, Reached: value <= limit})
}

func (r *result) judgeWarm() {
	warm, ok := r.median(modeWarm, totalMS)
	if !ok {
		return
	}
	if ideal, ok := r.median(modeIdeal, totalMS); ok {
		r.ratio("warm: total load, against ideal", warm, ideal, 1.25)
	}
	uncached, ok := r.median(modeNone, totalMS)
	if ok && r.Layers == Layers && !r.Float32 && r.Threads == 1 {
		r.ratio("warm: total load, against LiteRT's by none", warm, litertWarmMS*uncached/litertNoneMS, 1)
	}
	best := math.Inf(1)
	for _, m := range r.Modes {
		best = min(best, m.Figures[steadyMS].Median)
	}
	for _, mode := range []string{modeWarm, modeReread} {
		if first, ok := r.median(mode, firstMS); ok {
			steady, _ := r.median(mode, steadyMS)
			r.ratio(mode+": first inference, against steady", first, steady, 1.03)
			r.ratio(mode+": steady inference, against the best mode", steady, best, 1)
		}
	}
}

func (r *result) judgeCold() {
	cold, ok := r.median(modeCold, packMS)
	if !ok {
		return
	}
	for _, mode := range []string{modeNone, modeWrite} {
		if other, ok := r.median(mode, packMS); ok {
			r.ratio("cold: create and finalize, against "+mode, cold, other, 1)
		}
	}
	commit, _ := r.median(modeCold, commitMS)
	r.ratio("cold: durable, against writing and fdatasync", commit, r.Write.Median, 1.2)
}

func (r *result) judgeMemory() {
	const mib = 1 << 20
	for _, f := range []struct {
		name         string
		loaded, then figure
	}{{"RssAnon", loadAnon, firstAnon}, {"Private_Dirty", loadDirty, firstDirty}} {
		more := math.Inf(-1)
		for _, at := range []figure{f.loaded, f.then} {
			warm, ok := r.median(modeWarm, at)
			ideal, also := r.median(modeIdeal, at)
			if ok && also {
				more = max(more, (warm-ideal)/mib)
			}
		}
		if !math.IsInf(more, -1) {
			r.atMost("warm: "+f.name+" over ideal's", "MiB", more, 4)
		}
	}
	// The activations of other models are a large part of the peak.
	if peak, ok := r.median(modeCold, peakBytes); ok && r.Layers > 0 {
		r.atMost("cold: peak RSS, at most packed + largest tensor + 16 MiB", "MiB", peak/mib,
			float64(r.PayloadBytes+r.LargestTensor)/mib+16)
	}
}

// judgeFile is for the generated stack only: it has few but large weights, and no operator that packs without a
// look-up.
func (r *result) judgeFile() {
	if r.Layers == 0 {
		return
	}
	for _, mode := range []string{modeCold, modeWarm} {
		if v, ok := r.median(mode, overhead); ok {
			r.atMost(mode+": file bytes that are not payload", "%", 100*v, 0.1)
			break
		}
	}
	if v, ok := r.median(modeCold, copiedBytes); ok {
		r.atMost("cold: bytes copied after packing", "bytes", v, 0)
	}
}
