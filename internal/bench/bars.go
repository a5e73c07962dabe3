package bench

import (
	"fmt"
	"math"

	"xpwc/internal/console"
)

// A bar is something this run is held to. The limit is one of the ratio, in hundredths, or, without one, of the value.
type bar struct {
	Name    string   `json:"name"`
	Unit    string   `json:"unit"` // of the value: "ms", "MiB", "%" or "bytes"
	Value   float64  `json:"value"`
	Against float64  `json:"against,omitempty"`
	Ratio   *float64 `json:"ratio,omitempty"`
	Limit   float64  `json:"limit"`
	Reached bool     `json:"reached"`
}

func (b bar) cells() []string {
	verdict := "not reached"
	if b.Reached {
		verdict = "reached"
	}
	unit := " " + b.Unit
	if b.Ratio == nil {
		return []string{b.Name, console.Digits(b.Value) + unit, console.None, console.None, console.Digits(b.Limit) + unit, verdict}
	}
	return []string{b.Name, console.Digits(b.Value) + unit, console.Digits(b.Against) + unit, fmt.Sprintf("%.2f", *b.Ratio), fmt.Sprintf("%.2f", b.Limit), verdict}
}

// LiteRT's warm load of the 16 layers in qc8w, and loading without a cache, on the machine of the issue.
const (
	litertWarmMS = 0.9
	litertNoneMS = 1182
)

// judge sums the runs up and holds them to what the cache promises, as far as the modes were measured.
func (r *benchResult) judge() {
	for _, m := range r.Modes {
		m.sumUp()
	}
	r.judgeWarm()
	r.judgeCold()
	r.judgeMemory()
	if v, ok := r.median(modeDropped, answerMS); ok {
		r.ratio("4  dropped: first answer, against reading the file", v, r.Read.Median, 1.1)
	}
	r.judgeFile()
}

// ratio adds a bar on two times.
func (r *benchResult) ratio(name string, value, against, limit float64) {
	ratio := math.Round(100*value/against) / 100
	r.Bars = append(r.Bars, bar{name, "ms", value, against, &ratio, limit, ratio <= limit})
}

// atMost adds a bar on a value that has a limit of its own.
func (r *benchResult) atMost(name, unit string, value, limit float64) {
	r.Bars = append(r.Bars, bar{Name: name, Unit: unit, Value: value, Limit: limit, Reached: value <= limit})
}

func (r *benchResult) judgeWarm() {
	warm, ok := r.median(modeWarm, totalMS)
	if !ok {
		return
	}
	if ideal, ok := r.median(modeIdeal, totalMS); ok {
		r.ratio("1  warm: total load, against ideal", warm, ideal, 1.25)
	}
	uncached, ok := r.median(modeNone, totalMS)
	if ok && r.Layers == Layers && !r.Float32 && r.Threads == 1 {
		r.ratio("1  warm: total load, against LiteRT's by none", warm, litertWarmMS*uncached/litertNoneMS, 1)
	}
	first, _ := r.median(modeWarm, firstMS)
	steady, _ := r.median(modeWarm, steadyMS)
	r.ratio("1  warm: first inference, against steady", first, steady, 1.1)
	if heap, ok := r.median(modeNone, steadyMS); ok {
		r.ratio("1  warm: steady inference, against none", steady, heap, 1)
	}
}

func (r *benchResult) judgeCold() {
	cold, ok := r.median(modeCold, packMS)
	if !ok {
		return
	}
	if uncached, ok := r.median(modeNone, packMS); ok {
		r.ratio("2  cold: create and finalize, against none", cold, uncached, 0.95)
	}
	commit, _ := r.median(modeCold, commitMS)
	r.ratio("2  cold: durable, against writing and fdatasync", commit, r.Write.Median, 1.2)
}

func (r *benchResult) judgeMemory() {
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
			r.atMost("3  warm: "+f.name+" over ideal's", "MiB", more, 4)
		}
	}
	if peak, ok := r.median(modeCold, peakBytes); ok && r.Layers > 0 { // elsewhere activations are no small part of it
		r.atMost("3  cold: peak RSS, at most packed + largest tensor + 16 MiB", "MiB", peak/mib,
			float64(r.PayloadBytes+r.LargestTensor)/mib+16)
	}
}

// judgeFile is about the stack: it has few weights but large ones, and no operator that packs unasked.
func (r *benchResult) judgeFile() {
	if r.Layers == 0 {
		return
	}
	for _, mode := range []string{modeCold, modeWarm} {
		if v, ok := r.median(mode, overhead); ok {
			r.atMost("5  "+mode+": file bytes that are no payload's", "%", 100*v, 0.1)
			break
		}
	}
	if v, ok := r.median(modeCold, copiedBytes); ok {
		r.atMost("8  cold: bytes copied after packing", "bytes", v, 0)
	}
}
