package main

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"os"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

var (
	sans  = font.Font{Typeface: "Liberation", Variant: "Sans"}
	blue  = color.RGBA{0x1f, 0x5f, 0xa8, 0xff}
	amber = color.RGBA{0xe0, 0x9a, 0x2b, 0xff}
	ink   = color.RGBA{0x22, 0x22, 0x22, 0xff}
)

const columnWidth = vg.Length(14)

// chart is a plot with a row for each name, from the top to the bottom.
type chart struct {
	*plot.Plot
	names   []string
	spreads []spread
}

func newChart(title, axis string) *chart {
	c := &chart{Plot: plot.New()}
	c.Title.Text, c.X.Label.Text = title, axis
	c.Title.TextStyle.Font = font.From(sans, 12)
	c.Title.Padding = 8
	for _, f := range []*font.Font{
		&c.X.Label.TextStyle.Font, &c.X.Tick.Label.Font, &c.Y.Tick.Label.Font, &c.Legend.TextStyle.Font,
	} {
		*f = font.From(sans, 10)
	}
	c.Y.LineStyle.Width, c.Y.Tick.Length = 0, 0
	grid := plotter.NewGrid()
	grid.Horizontal.Color = nil
	c.Add(grid)
	return c
}

func (c *chart) add(name string, s spread) {
	c.names, c.spreads = append(c.names, name), append(c.spreads, s)
}

// fromZero leaves some room at the right.
func (c *chart) fromZero() { c.X.Min, c.X.Max = 0, 1.05*c.X.Max }

// points draws the spreads, with the medians in figures.
func (c *chart) points() error {
	var at struct {
		plotter.XYs
		plotter.XErrors
	}
	labels := make([]string, len(c.spreads))
	for i, s := range c.spreads {
		at.XYs = append(at.XYs, plotter.XY{X: s.Median, Y: float64(-i)})
		at.XErrors = append(at.XErrors, struct{ Low, High float64 }{s.Median - s.Min, s.Max - s.Median})
		labels[i] = digits(s.Median)
	}
	ranges, err := plotter.NewXErrorBars(at)
	if err != nil {
		return err
	}
	medians, err := plotter.NewScatter(at)
	if err != nil {
		return err
	}
	figures, err := plotter.NewLabels(plotter.XYLabels{XYs: at.XYs, Labels: labels})
	if err != nil {
		return err
	}
	medians.GlyphStyle = draw.GlyphStyle{Color: blue, Radius: 4, Shape: draw.CircleGlyph{}}
	for i := range figures.TextStyle {
		figures.TextStyle[i].Font = font.From(sans, 10)
		figures.TextStyle[i].XAlign = draw.XCenter
	}
	figures.Offset.Y = 7
	c.Add(ranges, medians, figures)
	return nil
}

// columns draws a value for each name.
func (c *chart) columns(values plotter.Values, fill color.Color) (*plotter.BarChart, error) {
	// A bar chart of the library goes from the bottom to the top.
	b, err := plotter.NewBarChart(reversed(values), columnWidth)
	if err != nil {
		return nil, err
	}
	b.Horizontal, b.Color, b.LineStyle.Width = true, fill, 0
	b.XMin = float64(1 - len(values))
	c.Add(b)
	return b, nil
}

func reversed(values plotter.Values) plotter.Values {
	out := make(plotter.Values, len(values))
	for i, v := range values {
		out[len(values)-1-i] = v
	}
	return out
}

// save writes the chart as SVG. The same chart gives the same bytes.
func (c *chart) save(path string) error {
	var ticks plot.ConstantTicks
	for i, name := range c.names {
		ticks = append(ticks, plot.Tick{Value: float64(-i), Label: name})
	}
	c.Y.Tick.Marker = ticks
	c.Y.Min, c.Y.Max = 0.5-float64(len(c.names)), 0.6
	canvas := vgsvg.New(19*vg.Centimeter, vg.Length(70+30*len(c.names)))
	c.Draw(draw.Crop(draw.New(canvas), 6, -6, 4, -6))
	var svg bytes.Buffer
	if _, err := canvas.WriteTo(&svg); err != nil {
		return err
	}
	// Readers who do not have the font see another one.
	own, others := []byte("font-family:Liberation Sans;"), []byte("font-family:Liberation Sans,Arial,sans-serif;")
	return os.WriteFile(path, bytes.ReplaceAll(svg.Bytes(), own, others), 0o666)
}

// digits writes a positive number with three significant digits, and at most two after the point.
func digits(v float64) string {
	return fmt.Sprintf("%.*f", min(max(2-int(math.Floor(math.Log10(v))), 0), 2), v)
}
