package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"xpwc/internal/console"
	"xpwc/internal/llama"
)

// DemoModel is the model that a demo runs by default. make third_party fetches it.
const DemoModel = "third_party/models/pose_landmark_heavy.tflite"

// DemoLayers is how many layers a demo's generated stack has by default: about 500 MB of weights.
const DemoLayers = 8

// DemoOptions are what Demo runs.
type DemoOptions struct {
	Subject
	Layers int  // of the model Llama
	Shared bool // two runtimes that share their weights, in place of the three modes
}

// A Demonstration is what Demo measured: of each mode, or, if weights are shared, of two methods without a cache and
// with one.
type Demonstration struct {
	Modes   []map[string]any `json:"modes,omitempty"`
	Methods []map[string]any `json:"methods,omitempty"`
}

// shown are figures and the outputs' sum, as they are in JSON. What does not apply is 0.
func (r *run) shown(of ...figure) map[string]any {
	all := map[string]any{"output_sha256": r.Output}
	for _, f := range of {
		all[string(f)] = r.Figures[f]
	}
	return all
}

// Demo runs a model without a cache, cold and warm, and prints what each took. It fails if the outputs differ. What was
// measured is returned with an error, too, if all of it was.
func Demo(ctx context.Context, o DemoOptions, stdout, stderr io.Writer) (*Demonstration, error) {
	p, err := prepare(ctx, o.Subject, llama.Stack{Layers: o.Layers}, stderr)
	if err != nil {
		return nil, err
	}
	t := p.withCache(filepath.Join(o.Dir, p.base+".demo.xpwc"))
	if err := t.removeCache(); err != nil {
		return nil, err
	}
	var shown *Demonstration
	if o.Shared {
		shown, err = demoShared(ctx, t, p.title, stdout, stderr)
	} else {
		shown, err = demoModes(ctx, t, p.title, stdout, stderr)
	}
	if shown == nil || o.Figures == "" {
		return shown, err
	}
	return shown, errors.Join(err, writeJSON(o.Figures, append(shown.Modes, shown.Methods...)))
}

func demoModes(ctx context.Context, t task, title string, stdout, stderr io.Writer) (*Demonstration, error) {
	shown := &Demonstration{}
	var all []*run
	for _, way := range []struct {
		mode, what string
		task       task
	}{
		{modeNone, "without a cache", t.withCache("")},
		{modeCold, "first start: packing into " + t.Cache, t},
		{modeWarm, "next start: mapping " + t.Cache, t},
	} {
		fmt.Fprintln(stderr, way.what)
		var r run
		if err := way.task.start(ctx, way.mode, &r, stderr); err != nil {
			return nil, fmt.Errorf("mode %s: %w", way.mode, err)
		}
		figures := r.shown(createMS, totalMS, firstMS, rssAnon, rssFile, dirty, hits, packed, private, bytesWritten,
			fileBytes, payloadBytes)
		figures["mode"] = r.Mode
		all, shown.Modes = append(all, &r), append(shown.Modes, figures)
	}
	fmt.Fprintf(stdout, "\n%s\n\n", title)
	if err := demoTable(all).Print(stdout); err != nil {
		return nil, err
	}
	fmt.Fprintln(stdout)
	return shown, summarize(stdout, all[0], all[1], all[2])
}

func demoTable(all []*run) *console.Table {
	t := &console.Table{}
	t.Row("", "without cache", "first start", "next start")
	mib := func(v float64) string { return console.Mebibytes(int64(v)) }
	size := func(v float64) string { return console.Size(int64(v)) }
	for _, row := range []struct {
		name  string
		of    figure
		write func(float64) string
	}{
		{"open cache", openMS, console.MS}, {"load tensors", subgraphMS, console.MS},
		{"create runtime", createMS, console.MS}, {"finalize", finalizeMS, console.MS},
		{"total load", totalMS, console.MS}, {"first inference", firstMS, console.MS},
		{"steady inference (median)", steadyMS, console.MS},
		{"RssAnon", rssAnon, mib}, {"RssFile", rssFile, mib}, {"Private_Dirty", dirty, mib},
		{"entries found", hits, count}, {"entries packed", packed, count},
		{"  packed again, found equal", reused, count}, {"entries in private memory", private, nil},
		{"written to the file", bytesWritten, size}, {"file size", fileBytes, size},
	} {
		cells := []string{row.name}
		for _, r := range all {
			cell := console.None
			if v, ok := r.Figures[row.of]; ok && row.of == private {
				cell = r.privateCell()
			} else if ok {
				cell = row.write(v)
			}
			cells = append(cells, cell)
		}
		t.Row(cells...)
	}
	return t
}

var errDiffer = errors.New("the outputs differ: without a cache, cold and warm must agree bit for bit")

// summarize prints the gains of the cache, a sentence for each, and fails if the outputs are not the same.
func summarize(w io.Writer, uncached, cold, warm *run) error {
	for _, r := range []*run{cold, warm} {
		for _, note := range r.Notes {
			fmt.Fprintf(w, "Note (%s): %s\n", r.Mode, note)
		}
	}
	without, with := uncached.Figures, warm.Figures
	fmt.Fprintf(w, "Loading takes %s at the next start, and %s without a cache:\n%s.\n",
		console.MS(with[totalMS]), console.MS(without[totalMS]), faster(without[totalMS], with[totalMS]))
	if own, known := with[rssAnon]; known && with[payloadBytes] > 0 {
		fmt.Fprintf(w, "Private memory (RssAnon) is %s less at the next start.\n"+
			"The packed weights, which are in the file, are %s.\n",
			console.Mebibytes(int64(without[rssAnon]-own)), console.Mebibytes(int64(with[payloadBytes])))
	}
	if more, ok := cold.Figures[overhead]; ok {
		fmt.Fprintf(w, "The cache file is %.2f %% larger than the packed weights in it.\n", 100*more)
	}
	if uncached.Output == cold.Output && cold.Output == warm.Output {
		fmt.Fprintf(w, "The three outputs are identical bit for bit.\nSHA-256 %s\n", warm.Output)
		return nil
	}
	for _, r := range []*run{uncached, cold, warm} {
		fmt.Fprintf(w, "SHA-256 of the outputs, %s: %s\n", r.Mode, r.Output)
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
