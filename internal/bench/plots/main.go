// Command plots draws what xpwc bench --figures wrote: go -C internal/bench/plots run . FILE DIR.
//
// It is a program of its own: the memory that xpwc bench measures has no plotting library in it.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"image/color"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"xpwc/internal/console"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "plots:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return errors.New("give the file that xpwc bench --figures wrote, and a directory for the plots")
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

// report is the part of a file of xpwc bench --figures that is drawn.
type report struct {
	Results []result `json:"results"`
}

type result struct {
	Name      string `json:"name"`
	Model     string `json:"model"`
	Modes     []mode `json:"modes"`
	Processes int    `json:"processes"` // whose figures are many_pss_bytes and many_load_ms
}

type mode struct {
	Mode    string            `json:"mode"`
	Figures map[string]spread `json:"figures"`
}

type spread struct {
	Median float64 `json:"median"`
}

// draw writes the plots of a model. The name of each begins with the model's.
func (r result) draw(dir string) error {
	const mib = 1 << 20
	fromDisk := []row{starts[0], {"dropped", "next start, file on the disk"}, {"warm", "next start, file in memory"}}
	for name, charts := range map[string][]*chart{
		"load":      r.compared("Time to load", "ms", "total_load_ms", 1, starts),
		"dropped":   r.compared("Time to the first answer", "ms", "first_answer_ms", 1, fromDisk),
		"memory":    r.compared("Memory of its own after the first inference", "MiB", "rss_anon_bytes", mib, starts),
		"processes": r.processesCharts(),
	} {
		if charts == nil {
			continue
		}
		if err := save(filepath.Join(dir, r.Name+"-"+name+".svg"), charts...); err != nil {
			return fmt.Errorf("plot %s of %s: %w", name, r.Model, err)
		}
	}
	return nil
}

// A row is a mode with its name in a chart.
type row struct{ mode, name string }

// starts are what a reader compares first.
var starts = []row{{"none", "without cache"}, {"cold", "first start"}, {"warm", "next start"}}

// figures are the figures of a row's mode; nil if it was not measured.
func (r result) figures(line row) map[string]spread {
	for _, m := range r.Modes {
		if m.Mode == line.mode {
			return m.Figures
		}
	}
	return nil
}

// compared is a chart of the medians of one figure, in a unit; nil if a mode was not measured, or the system does not
// have the figure.
func (r result) compared(title, unit, figure string, base float64, rows []row) []*chart {
	c := newChart(title+": "+r.Model, unit+" (median)")
	for _, row := range rows {
		median, ok := r.figures(row)[figure]
		if !ok {
			return nil
		}
		c.add(row.name, median.Median/base)
	}
	return []*chart{c}
}

// processesCharts have what some processes with one model take together; nil if that was not measured.
func (r result) processesCharts() []*chart {
	const mib = 1 << 20
	var rows []row
	for _, m := range r.Modes {
		if _, ok := m.Figures["many_pss_bytes"]; ok {
			rows = append(rows, row{m.Mode, strings.Replace(m.Mode, "next start", "with cache", 1)})
		}
	}
	if rows == nil {
		return nil
	}
	together := fmt.Sprintf("Memory of %d processes together", r.Processes)
	return append(r.compared(together, "MiB", "many_pss_bytes", mib, rows),
		r.compared("Time to load them, one after the other", "ms", "many_load_ms", 1, rows)...)
}

var (
	sans = font.Font{Typeface: "Liberation", Variant: "Sans"}
	blue = color.RGBA{0x1f, 0x5f, 0xa8, 0xff}
)

const columnWidth = vg.Length(14)

// chart is a plot with a row for each name, from the top to the bottom.
type chart struct {
	*plot.Plot
	names  []string
	values plotter.Values
}

func (c *chart) add(name string, value float64) {
	c.names, c.values = append(c.names, name), append(c.values, value)
}

func newChart(title, axis string) *chart {
	c := &chart{Plot: plot.New()}
	c.Title.Text, c.X.Label.Text = title, axis
	c.Title.TextStyle.Font = font.From(sans, 12)
	c.Title.Padding = 8
	for _, f := range []*font.Font{
		&c.X.Label.TextStyle.Font, &c.X.Tick.Label.Font, &c.Y.Tick.Label.Font,
	} {
		*f = font.From(sans, 10)
	}
	c.Y.LineStyle.Width, c.Y.Tick.LineStyle.Color = 0, color.Transparent
	c.Y.Scale = plot.InvertedScale{Normalizer: plot.LinearScale{}}
	return c
}

// columns draws the values with their figures.
func (c *chart) columns() error {
	b, err := plotter.NewBarChart(c.values, columnWidth)
	if err != nil {
		return err
	}
	b.Horizontal, b.Color, b.LineStyle.Width = true, blue, 0
	c.Add(b)
	c.X.Min, c.X.Max = 0, 1.05*c.X.Max // with some room at the right
	c.X.Tick.Marker = plot.TickerFunc(func(low, high float64) []plot.Tick {
		ticks := plot.DefaultTicks{}.Ticks(low, high)
		for i, t := range ticks {
			if t.Label != "" {
				ticks[i].Label = strconv.FormatFloat(t.Value, 'f', -1, 64) // in place of 2500.00
			}
		}
		return ticks
	})
	return c.figures()
}

// figures writes the values at the ends of columns.
func (c *chart) figures() error {
	marks := plotter.XYLabels{}
	for i, v := range c.values {
		marks.XYs = append(marks.XYs, plotter.XY{X: v, Y: float64(i)})
		marks.Labels = append(marks.Labels, console.Digits(v))
	}
	labels, err := plotter.NewLabels(marks)
	if err != nil {
		return err
	}
	for i := range labels.TextStyle {
		labels.TextStyle[i].Font = font.From(sans, 10)
		labels.TextStyle[i].YAlign = draw.YCenter
	}
	labels.Offset = vg.Point{X: 4, Y: 2} // the centre of a line of text is below that of its digits
	c.Add(labels)
	c.X.Max *= 1.05 // for the last figure
	return nil
}

const margin = vg.Length(10)

func (c *chart) height() vg.Length { return vg.Length(70 + 30*len(c.names)) }

// save writes charts as one SVG, from the top to the bottom. The same charts give the same bytes.
func save(path string, charts ...*chart) error {
	height := margin
	for _, c := range charts {
		if err := c.columns(); err != nil {
			return err
		}
		height += c.height() + margin
	}
	canvas := vgsvg.New(19*vg.Centimeter, height)
	page := draw.New(canvas)
	// To the last pixel, of which a part may be beyond the end: readers' backgrounds may be dark.
	right, above := page.Max.X+1, page.Max.Y+1
	corners := []vg.Point{{X: -1, Y: -1}, {X: right, Y: -1}, {X: right, Y: above}, {X: -1, Y: above}}
	page.FillPolygon(color.White, corners)
	top := page.Max.Y - margin
	for _, c := range charts {
		area := draw.Crop(page, margin, -margin, 0, 0)
		area.Max.Y, area.Min.Y = top, top-c.height()
		c.drawAt(area)
		top -= c.height() + margin
	}
	var svg bytes.Buffer
	if _, err := canvas.WriteTo(&svg); err != nil {
		return err
	}
	// Readers who do not have the font see another one.
	font, others := []byte("font-family:Liberation Sans;"), []byte("font-family:Liberation Sans,Arial,sans-serif;")
	return os.WriteFile(path, bytes.ReplaceAll(svg.Bytes(), font, others), 0o666)
}

func (c *chart) drawAt(area draw.Canvas) {
	var ticks plot.ConstantTicks
	var longest vg.Length
	for i, name := range c.names {
		ticks = append(ticks, plot.Tick{Value: float64(i), Label: name})
		longest = max(longest, c.Y.Tick.Label.Width(name))
	}
	// Ticks that nobody sees keep names away from the axis, also in a reader's font, which may be a seventh wider.
	c.Y.Tick.Length = 4 + longest/7
	c.Y.Tick.Marker = ticks
	c.Y.Min, c.Y.Max = -0.6, float64(len(c.names))-0.5
	c.Draw(area)
}
