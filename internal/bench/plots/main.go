// Command plots draws what xpwc bench --figures wrote: go -C internal/bench/plots run . FILE DIR.
//
// It is a program of its own: the memory that xpwc bench measures has no plotting library in it.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
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

// figures are those of a row's mode; nil if it was not measured.
func (r result) figures(of row) map[string]spread {
	for _, m := range r.Modes {
		if m.Mode == of.mode {
			return m.Figures
		}
	}
	return nil
}

// compared is a chart of the medians of one figure, in a unit; nil if a mode was not measured, or the system does not
// have the figure.
func (r result) compared(title, unit, figure string, one float64, rows []row) []*chart {
	c := newChart(title+": "+r.Model, unit+" (median)")
	for _, row := range rows {
		median, ok := r.figures(row)[figure]
		if !ok {
			return nil
		}
		c.add(row.name, median.Median/one)
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
