package bench

import (
	"fmt"
	"io"
	"math"

	"xpwc/internal/console"
)

// many is what some processes took together.
type many struct {
	LoadMS     float64 `json:"load_ms"`                    // the sum: they were started one after the other
	TogetherMS float64 `json:"together_load_ms,omitempty"` // the median of all, where they loaded at the same instant
	SlowestMS  float64 `json:"slowest_load_ms,omitempty"`  // likewise, that of the slowest of each time
	PSSBytes   float64 `json:"pss_bytes"`                  // when all had answered
}

// takeResults takes what the ways have measured.
func (c *comparison) takeResults() (err error) {
	for _, w := range c.ways {
		m := &modeResult{Mode: w.name, Runs: w.runs, Many: w.many}
		m.sumUp()
		if m.Difference, err = difference(c.ways[0].outputs, w.outputs); err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		c.result.Modes = append(c.result.Modes, m)
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

// printPeers writes the table.
func (r *result) printPeers(w io.Writer) error {
	fmt.Fprintf(w, "\n%s; medians of %s; 1 thread\n", r.Model, console.Plural(r.Rounds, "round"))
	mib := func(v float64) string { return console.Digits(v / (1 << 20)) }
	of := func(title string, write func(float64) string, get func(*many) float64) column {
		return column{title, func(m *modeResult) string {
			if m.Many == nil || get(m.Many) == 0 {
				return console.None
			}
			return write(get(m.Many))
		}}
	}
	return printTables(w, modesTable("ms and MiB", r.Modes, []column{
		columnOf("load", totalMS, console.Digits), betweenColumn(totalMS), columnOf("first", firstMS, console.Digits),
		columnOf("answer", answerMS, console.Digits), columnOf("steady", steadyMS, console.Digits),
		columnOf("RssAnon", rssAnon, mib), columnOf("file", fileBytes, mib),
		of(fmt.Sprintf("PSS of %d", r.Processes), mib, func(m *many) float64 { return m.PSSBytes }),
		of("their loads", console.Digits, func(m *many) float64 { return m.LoadMS }),
		of("at once", console.Digits, func(m *many) float64 { return m.TogetherMS }),
		of("slowest", console.Digits, func(m *many) float64 { return m.SlowestMS }),
		{"difference", func(m *modeResult) string { return fmt.Sprintf("%.0e", m.Difference) }},
	}))
}
