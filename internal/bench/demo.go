package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"xpwc/internal/console"
)

// DemoModel is the model that a demo runs by default. make third_party fetches it.
const DemoModel = "third_party/models/pose_landmark_heavy.tflite"

// DemoLayers is how many layers a demo's generated stack has by default: about 500 MB of weights.
const DemoLayers = 8

// A Demonstration is what Demo measured of each mode. What does not apply is 0.
type Demonstration struct {
	Modes []map[string]any `json:"modes"`
}

// inJSON are the figures of a mode that are written.
var inJSON = []figure{createMS, totalMS, firstMS, rssAnon, rssFile, dirty, hits, packed, private, bytesWritten,
	fileBytes, payloadBytes}

// Demo runs a model once without a cache, cold and warm, and prints what each took. It fails if the outputs differ.
// What was measured is returned with an error, too, if all of it was.
func Demo(ctx context.Context, o Options, stdout, stderr io.Writer) (*Demonstration, error) {
	c, t, err := subject(ctx, o.Subject, stack{o.Layers, true}, stderr)
	if err != nil {
		return nil, err
	}
	cache := filepath.Join(o.Dir, c.result.Name+".demo.xpwc")
	if err := remove(cache); err != nil {
		return nil, err
	}
	shown := &Demonstration{}
	for _, way := range []struct{ mode, cache, name, what string }{
		{modeNone, "", "without cache", "without a cache"},
		{modeCold, cache, "first start", "first start: packing into " + cache},
		{modeWarm, cache, "next start", "next start: mapping " + cache},
	} {
		fmt.Fprintln(stderr, way.what)
		r, err := t.in(way.mode, way.cache).run(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", way.name, err)
		}
		m := &modeResult{Mode: way.name, Runs: []*run{r}}
		m.sumUp()
		c.result.Modes = append(c.result.Modes, m)
		figures := map[string]any{"mode": way.mode, "output_sha256": r.Output}
		for _, f := range inJSON {
			figures[string(f)] = r.Figures[f]
		}
		shown.Modes = append(shown.Modes, figures)
	}
	fmt.Fprintf(stdout, "\n%s\n", c.result.Model)
	if err := printTables(stdout, modesTable("", c.result.Modes, demoColumns).Transposed()); err != nil {
		return nil, err
	}
	fmt.Fprintln(stdout)
	err = c.result.summarize(stdout)
	if o.Figures != "" {
		err = errors.Join(err, writeJSON(o.Figures, shown.Modes))
	}
	return shown, err
}

func inBytes(v float64) string { return console.Size(int64(v)) }

var demoColumns = []column{
	columnOf("open cache", openMS, console.MS), columnOf("load tensors", subgraphMS, console.MS),
	columnOf("create runtime", createMS, console.MS), columnOf("finalize", finalizeMS, console.MS),
	columnOf("total load", totalMS, console.MS), columnOf("first inference", firstMS, console.MS),
	columnOf("steady inference (median)", steadyMS, console.MS), columnOf("RssAnon", rssAnon, inBytes),
	columnOf("RssFile", rssFile, inBytes), columnOf("Private_Dirty", dirty, inBytes),
	columnOf("entries found", hits, count), columnOf("entries packed", packed, count),
	columnOf("  packed again, found equal", reused, count), columnOf("entries in private memory", private, count),
	columnOf("written to the file", bytesWritten, inBytes), columnOf("file size", fileBytes, inBytes),
}

// summarize prints the gains of the cache, a sentence for each, and fails if the outputs are not the same.
func (r *result) summarize(w io.Writer) error {
	for _, note := range r.notes() {
		fmt.Fprintf(w, "Note: %s\n", note)
	}
	without, with := r.Modes[0].Runs[0].Figures, r.Modes[2].Runs[0].Figures
	fmt.Fprintf(w, "Loading takes %s at the next start, and %s without a cache:\n%s.\n",
		console.MS(with[totalMS]), console.MS(without[totalMS]), faster(without[totalMS], with[totalMS]))
	if own, known := with[rssAnon]; known && with[payloadBytes] > 0 {
		fmt.Fprintf(w, "Private memory (RssAnon) is %s less at the next start.\n"+
			"The packed weights, which are in the file, are %s.\n",
			inBytes(without[rssAnon]-own), inBytes(with[payloadBytes]))
	}
	if r.sameOutputs() {
		fmt.Fprintf(w, "All outputs are identical bit for bit.\nSHA-256 %s\n", r.Modes[0].Runs[0].Output)
		return nil
	}
	for _, m := range r.Modes {
		fmt.Fprintf(w, "SHA-256 of the outputs, %s: %s\n", m.Mode, m.Runs[0].Output)
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
