// Command plots draws what xpwc bench --json wrote: go -C internal/bench/plots run . FILE DIR.
//
// It is a program of its own: the memory that xpwc bench measures has no plotting library in it.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg/draw"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "plots:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return errors.New("give the file that xpwc bench --json wrote, and a directory for the plots")
	}
	content, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	var report report
	if err := json.Unmarshal(content, &report); err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	if err := os.MkdirAll(args[1], 0o777); err != nil {
		return err
	}
	for _, r := range report.Results {
		if err := r.draw(args[1]); err != nil {
			return err
		}
	}
	return nil
}

// report is the part of a file of xpwc bench --json that is drawn.
type report struct {
	Results []result `json:"results"`
}

type result struct {
	Name      string  `json:"name"`
	Model     string  `json:"model"`
	Modes     []mode  `json:"modes"`
	Processes int     `json:"processes"` // of many
	Read      *spread `json:"read_direct_ms"`
	Keep      *spread `json:"read_direct_keep_ms"`
}

type mode struct {
	Mode    string            `json:"mode"`
	Figures map[string]spread `json:"figures"`
	Many    *many             `json:"many"`
}

// many is what some processes with one model took together.
type many struct {
	LoadMS   float64 `json:"load_ms"`
	PSSBytes float64 `json:"pss_bytes"`
}

// titles are what the modes of xpwc bench mean.
var titles = map[string]string{
	"none": "without cache", "xnnpack": "XNNPACK's own cache", "ideal": "limit", "cold": "first start",
	"warm": "next start", "dropped": "next start, from disk", "dropped-lazy": "from disk, page by page",
	"reread": "next start, read before",
	"write":  "packed, then written",
}

func (m mode) title() string {
	if t, ok := titles[m.Mode]; ok {
		return t
	}
	return m.Mode
}

type spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// draw writes the plots of a model. The name of each begins with the model's.
func (r result) draw(dir string) error {
	for name, draw := range map[string]func() ([]*chart, error){
		"load": r.loadChart, "memory": r.memoryChart, "dropped": r.droppedChart, "processes": r.processesCharts,
	} {
		charts, err := draw()
		if err == nil && charts != nil {
			err = save(filepath.Join(dir, r.Name+"-"+name+".svg"), charts...)
		}
		if err != nil {
			return fmt.Errorf("plot %s of %s: %w", name, r.Model, err)
		}
	}
	return nil
}

// loadChart has each mode's total load; nil if that was not measured.
func (r result) loadChart() ([]*chart, error) {
	c := newChart("Total load: "+r.Model, "ms (median, least and greatest), logarithmic")
	c.X.Scale, c.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	low, high := math.Inf(1), 0.0
	for _, m := range r.Modes {
		if s, ok := m.Figures["total_load_ms"]; ok {
			c.add(m.title(), s)
			low, high = min(low, s.Min), max(high, s.Max)
		}
	}
	if len(c.names) == 0 {
		return nil, nil
	}
	if err := c.points(); err != nil {
		return nil, err
	}
	// Whole decades, for a tick at either end; a little more, so that rounding does not lose the first one.
	c.X.Min, c.X.Max = 0.999*math.Pow(10, math.Floor(math.Log10(low))), math.Pow(10, math.Ceil(math.Log10(high)))
	return []*chart{c}, nil
}

// memoryChart has each mode's memory after the first inference; nil where the system has no such figures.
func (r result) memoryChart() ([]*chart, error) {
	const mib = 1 << 20
	c := newChart("Memory after the first inference: "+r.Model, "MiB (median)")
	var anon, file plotter.Values
	var peaks plotter.XYs
	for i, m := range r.Modes {
		if _, ok := m.Figures["peak_rss_bytes"]; !ok {
			return nil, nil
		}
		c.add(m.title(), spread{})
		anon = append(anon, m.Figures["first_rss_anon_bytes"].Median/mib)
		file = append(file, m.Figures["first_rss_file_bytes"].Median/mib)
		peaks = append(peaks, plotter.XY{X: m.Figures["peak_rss_bytes"].Median / mib, Y: float64(-i)})
	}
	private, err := c.columns(anon, blue)
	if err != nil {
		return nil, err
	}
	shared, err := c.columns(file, amber)
	if err != nil {
		return nil, err
	}
	shared.StackOn(private)
	peak, err := plotter.NewScatter(peaks)
	if err != nil {
		return nil, err
	}
	peak.GlyphStyle = draw.GlyphStyle{Color: ink, Radius: 4, Shape: draw.RingGlyph{}}
	c.Add(peak)
	c.legend = []entry{
		{"memory of its own (RssAnon)", private}, {"files, which others share (RssFile)", shared}, {"peak", peak},
	}
	c.fromZero()
	return []*chart{c}, nil
}

// droppedChart has what the first answer takes when the file is not in the page cache; nil if that was not measured.
func (r result) droppedChart() ([]*chart, error) {
	if r.Read == nil {
		return nil, nil
	}
	c := newChart("First answer when the file must come from the disk: "+r.Model, "ms (median, least and greatest)")
	c.add("only reading the file", *r.Read)
	if r.Keep != nil {
		c.add("reading into new memory", *r.Keep)
	}
	for _, m := range r.Modes {
		if strings.HasPrefix(m.Mode, "dropped") {
			c.add(m.title(), m.Figures["first_answer_ms"])
		}
	}
	err := c.points()
	c.fromZero()
	return []*chart{c}, err
}

// processesCharts have what some processes with one model take together; nil if that was not measured.
func (r result) processesCharts() ([]*chart, error) {
	const mib = 1 << 20
	memory := newChart(fmt.Sprintf("Memory of %d processes together: %s", r.Processes, r.Model), "MiB (sum of PSS)")
	loads := newChart("Time to load them, one after the other", "ms (sum)")
	var sizes, times plotter.Values
	for _, m := range r.Modes {
		if m.Many == nil {
			continue
		}
		for _, c := range []*chart{memory, loads} {
			c.add(strings.Replace(m.title(), "next start", "with cache", 1), spread{})
		}
		sizes, times = append(sizes, m.Many.PSSBytes/mib), append(times, m.Many.LoadMS)
	}
	if len(sizes) == 0 {
		return nil, nil
	}
	for c, values := range map[*chart]plotter.Values{memory: sizes, loads: times} {
		if _, err := c.columns(values, blue); err != nil {
			return nil, err
		}
		if err := c.figures(values); err != nil {
			return nil, err
		}
		c.fromZero()
		c.X.Max *= 1.05 // for the last figure
	}
	return []*chart{memory, loads}, nil
}
