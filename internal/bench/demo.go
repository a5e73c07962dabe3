package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"xpwc/internal/console"
	"xpwc/internal/execution"
	"xpwc/internal/llama"
	"xpwc/internal/modelfile"
)

// DemoModel is the model that a demo runs by default. make third_party fetches it.
const DemoModel = "third_party/models/pose_landmark_heavy.tflite"

// DemoLayers is how many layers a demo's generated stack has by default: about 500 MB of weights.
var DemoLayers = llama.LayersFor(500e6)

// DemoOptions are what Demo runs.
type DemoOptions struct {
	Model   string   // a file, or Llama
	Data    []string // the .ptd files of a program
	Method  string   // of a program; "" for its only one, or the one called forward
	Layers  int      // of the model Llama
	Threads int      // 0 for one for each processor
	Dir     string   // for the cache file and generated weights, created if it is not there
	Figures string   // file for the figures in JSON, or ""
	Shared  bool     // two runtimes that share their weights, in place of the three modes
}

// A Demonstration is what Demo measured: of each mode, or, if weights are shared, of two methods without a cache and
// with one.
type Demonstration struct {
	Modes   []measurement `json:"modes,omitempty"`
	Methods []twice       `json:"methods,omitempty"`
}

// Demo runs a model without a cache, cold and warm, and prints what each took. It fails if the outputs differ. What was
// measured is returned with an error, too, if all of it was.
func Demo(ctx context.Context, o DemoOptions, stdout, stderr io.Writer) (*Demonstration, error) {
	model := modelfile.File{Path: o.Model, Data: o.Data, Method: o.Method}
	p, err := prepare(ctx, model, o.Dir, llama.Stack{Layers: o.Layers}, o.Threads, stderr)
	if err != nil {
		return nil, err
	}
	t := p.withCache(filepath.Join(o.Dir, p.base+".demo.xpwc"))
	if o.Shared {
		return demoShared(ctx, t, p.title, o.Figures, stdout, stderr)
	}
	return demoModes(ctx, t, p.title, o.Figures, stdout, stderr)
}

func demoModes(ctx context.Context, t task, title, file string, stdout, stderr io.Writer) (*Demonstration, error) {
	if err := t.removeCache(); err != nil {
		return nil, err
	}
	shown := &Demonstration{}
	var all []*measured
	before := processors()
	for _, run := range []struct {
		mode, what string
		task       task
	}{
		{modeNone, "without a cache", t.withCache("")},
		{modeCold, "first start: packing into " + t.Cache, t},
		{modeWarm, "next start: mapping " + t.Cache, t},
	} {
		fmt.Fprintln(stderr, run.what)
		var r measured
		if err := run.task.start(ctx, run.mode, &r, stderr); err != nil {
			return nil, fmt.Errorf("mode %s: %w", run.mode, err)
		}
		all, shown.Modes = append(all, &r), append(shown.Modes, r.measurement)
	}
	fmt.Fprintf(stdout, "\n%s\n\n", title)
	if err := modesTable(all).Print(stdout); err != nil {
		return nil, err
	}
	fmt.Fprintf(stdout, "\n%s", disturbed(before, processors()))
	err := summarize(stdout, all[0], all[1], all[2])
	if file != "" {
		err = errors.Join(err, writeJSON(file, shown.Modes))
	}
	return shown, err
}

func modesTable(all []*measured) *console.Table {
	t := &console.Table{}
	row := func(name string, cell func(*measured) string) {
		cells := []string{name}
		for _, r := range all {
			cells = append(cells, cell(r))
		}
		t.Row(cells...)
	}
	// Rows that do not apply without a cache, and rows of figures that a system may not have.
	cached := func(name string, cell func(*measured) string) {
		row(name, func(r *measured) string {
			if r.Mode == modeNone {
				return console.None
			}
			return cell(r)
		})
	}
	resident := func(name string, bytes func(*measured) int64) {
		row(name, func(r *measured) string {
			if !r.MemoryKnown {
				return console.None
			}
			return console.Mebibytes(bytes(r))
		})
	}
	t.Row("", "without cache", "first start", "next start")
	cached("open cache", func(r *measured) string { return console.MS(r.OpenMS) })
	row("load tensors", func(r *measured) string { return console.MS(r.LoadMS) })
	row("create runtime", func(r *measured) string { return console.MS(r.CreateRuntimeMS) })
	row("finalize", func(r *measured) string { return console.MS(r.FinalizeMS) })
	row("total load", func(r *measured) string { return console.MS(r.TotalLoadMS) })
	row("first inference", func(r *measured) string { return console.MS(r.FirstInferenceMS) })
	row("steady inference (median)", func(r *measured) string { return console.MS(r.SteadyMS) })
	resident("RssAnon", func(r *measured) int64 { return r.RSSAnonBytes })
	resident("RssFile", func(r *measured) int64 { return r.RSSFileBytes })
	resident("Private_Dirty", func(r *measured) int64 { return r.PrivateDirtyBytes })
	cached("entries found", func(r *measured) string { return fmt.Sprint(r.Hits) })
	cached("entries packed", func(r *measured) string { return fmt.Sprint(r.Packed) })
	cached("  packed again, found equal", func(r *measured) string { return fmt.Sprint(r.Reused) })
	cached("entries in private memory", func(r *measured) string {
		return execution.PrivateCell(r.Private, r.Reasons)
	})
	cached("written to the file", func(r *measured) string { return console.Size(r.BytesWritten) })
	cached("file size", func(r *measured) string { return console.Size(r.FileBytes) })
	return t
}

var errDiffer = errors.New("the outputs differ: without a cache, cold and warm must agree bit for bit")

// summarize prints the gains of the cache, a sentence for each, and fails if the outputs are not the same.
func summarize(w io.Writer, uncached, cold, warm *measured) error {
	for _, r := range []*measured{cold, warm} {
		for _, note := range r.Notes {
			fmt.Fprintf(w, "Note (%s): %s\n", r.Mode, note)
		}
	}
	fmt.Fprintf(w, "Loading takes %s at the next start, and %s without a cache:\n%s.\n",
		console.MS(warm.TotalLoadMS), console.MS(uncached.TotalLoadMS), faster(uncached.TotalLoadMS, warm.TotalLoadMS))
	if warm.MemoryKnown && uncached.MemoryKnown && warm.PayloadBytes > 0 {
		saved := uncached.RSSAnonBytes - warm.RSSAnonBytes
		fmt.Fprintf(w, "Private memory (RssAnon) is %s less at the next start.\n"+
			"The packed weights, which are in the file, are %s.\n",
			console.Mebibytes(saved), console.Mebibytes(warm.PayloadBytes))
	}
	if cold.PayloadBytes > 0 {
		fmt.Fprintf(w, "The cache file is %.2f %% larger than the packed weights in it.\n",
			100*float64(cold.FileBytes-cold.PayloadBytes)/float64(cold.PayloadBytes))
	}
	if uncached.OutputSHA256 == cold.OutputSHA256 && cold.OutputSHA256 == warm.OutputSHA256 {
		fmt.Fprintf(w, "The three outputs are identical bit for bit.\nSHA-256 %s\n", warm.OutputSHA256)
		return nil
	}
	for _, r := range []*measured{uncached, cold, warm} {
		fmt.Fprintf(w, "SHA-256 of the outputs, %s: %s\n", r.Mode, r.OutputSHA256)
	}
	return errDiffer
}

func faster(without, with float64) string {
	if with <= 0 || without < with {
		return "no gain"
	}
	if r := without / with; r < 10 {
		return fmt.Sprintf("%.1f times faster", r)
	}
	return fmt.Sprintf("%.0f times faster", without/with)
}
