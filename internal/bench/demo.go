package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"xpwc"
	"xpwc/internal/console"
	"xpwc/internal/execution"
	"xpwc/internal/instance"
	"xpwc/models"
	"xpwc/xnnpack"
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
	c, t, err := subject(ctx, o.Subject, stack{o.Layers, true}, stderr)
	if err != nil {
		return nil, err
	}
	cache := filepath.Join(o.Dir, c.result.Name+".demo.xpwc")
	if err := checkOwn(cache); err != nil {
		return nil, err
	}
	if err := remove(cache); err != nil {
		return nil, err
	}
	var shown *Demonstration
	if o.Shared {
		shown, err = c.demoShared(ctx, t, cache, stdout)
	} else {
		shown, err = c.demoModes(ctx, t, cache, stdout)
	}
	if shown == nil || o.Figures == "" {
		return shown, err
	}
	return shown, errors.Join(err, writeJSON(o.Figures, append(shown.Modes, shown.Methods...)))
}

// runOnce has a process do the task, and its figures be those of a mode.
func (c *comparison) runOnce(ctx context.Context, t task, name, what string) (*run, error) {
	fmt.Fprintln(c.stderr, what)
	r, err := t.run(ctx)
	if err != nil {
		return nil, err
	}
	m := &modeResult{Mode: name, Runs: []*run{r}}
	m.sumUp()
	c.result.Modes = append(c.result.Modes, m)
	return r, nil
}

func (c *comparison) demoModes(ctx context.Context, t task, cache string, stdout io.Writer) (*Demonstration, error) {
	shown := &Demonstration{}
	for _, way := range []struct{ mode, cache, name, what string }{
		{modeNone, "", "without cache", "without a cache"},
		{modeCold, cache, "first start", "first start: packing into " + cache},
		{modeWarm, cache, "next start", "next start: mapping " + cache},
	} {
		r, err := c.runOnce(ctx, t.in(way.mode, way.cache), way.name, way.what)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", way.name, err)
		}
		figures := r.shown(createMS, totalMS, firstMS, rssAnon, rssFile, dirty, hits, packed, private, bytesWritten,
			fileBytes, payloadBytes)
		figures["mode"] = way.mode
		shown.Modes = append(shown.Modes, figures)
	}
	fmt.Fprintf(stdout, "\n%s\n", c.result.Model)
	if err := printTables(stdout, transposed(modesTable("", c.result.Modes, demoColumns))); err != nil {
		return nil, err
	}
	fmt.Fprintln(stdout)
	return shown, c.result.summarize(stdout)
}

func inMebibytes(v float64) string { return console.Mebibytes(int64(v)) }

func inBytes(v float64) string { return console.Size(int64(v)) }

var demoColumns = []column{
	columnOf("open cache", openMS, console.MS), columnOf("load tensors", subgraphMS, console.MS),
	columnOf("create runtime", createMS, console.MS), columnOf("finalize", finalizeMS, console.MS),
	columnOf("total load", totalMS, console.MS), columnOf("first inference", firstMS, console.MS),
	columnOf("steady inference (median)", steadyMS, console.MS), columnOf("RssAnon", rssAnon, inMebibytes),
	columnOf("RssFile", rssFile, inMebibytes), columnOf("Private_Dirty", dirty, inMebibytes),
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
			inMebibytes(without[rssAnon]-own), inMebibytes(with[payloadBytes]))
	}
	return r.compareOutputs(w)
}

// compareOutputs says whether the outputs of all modes are the same, and fails if they are not.
func (r *result) compareOutputs(w io.Writer) error {
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

// Memory before two methods are loaded, and after each of them.
const (
	before      = "before_"
	afterFirst  = "after_first_"
	afterSecond = "after_second_"

	secondAdded figure = "second_added_bytes"
)

// demoShared repeats the experiment of pull request 9155 to ExecuTorch: two methods that share weights, in one process,
// without a cache and with one.
func (c *comparison) demoShared(ctx context.Context, t task, cache string, stdout io.Writer) (*Demonstration, error) {
	shown := &Demonstration{}
	for _, way := range []struct{ cache, name, what string }{
		{"", "without cache", "two methods without a cache"},
		{cache, "one cache", "two methods on one cache"},
	} {
		r, err := c.runOnce(ctx, t.in(modeTwice, way.cache), way.name, way.what)
		if err != nil {
			return nil, err
		}
		figures := r.shown(before+rss, afterFirst+rss, afterSecond+rss)
		figures["cache"] = way.cache != ""
		shown.Methods = append(shown.Methods, figures)
	}
	fmt.Fprintf(stdout, "\nTwo methods that share their weights: %s\n", c.result.Model)
	err := printTables(stdout, modesTable("RSS", c.result.Modes, []column{
		columnOf("before", before+rss, inMebibytes), columnOf("after the 1st", afterFirst+rss, inMebibytes),
		columnOf("after the 2nd", afterSecond+rss, inMebibytes), columnOf("the 2nd added", secondAdded, inMebibytes),
	}))
	if err != nil {
		return nil, err
	}
	fmt.Fprint(stdout, "\nFor comparison, ExecuTorch's pull request 9155 reports, of another model: 62.8 MiB after\n"+
		"the first; after the second 130.0 MiB without a cache and 93.2 MiB with one.\n\n")
	return shown, c.result.compareOutputs(stdout)
}

// twice loads and runs a model twice in this process, as two methods that share all their weights.
func (r *run) twice(m models.Model, t task) (err error) {
	if err := errors.Join(xnnpack.Initialize(), r.takeMemory(before)); err != nil {
		return err
	}
	for _, after := range []figure{afterFirst, afterSecond} {
		e, loadErr := instance.New(m, execution.PackedIn(t.Cache, &xpwc.Options{}), t.Threads)
		if loadErr != nil {
			return loadErr
		}
		defer func() { err = errors.Join(err, e.Close()) }()
		if err := errors.Join(execution.FillKnuth(e), saveAndInfer(e)); err != nil {
			return err
		}
		sum := outputSum(e)
		if r.Output != "" && r.Output != sum {
			return errors.New("the outputs of the two runtimes differ")
		}
		r.Output = sum
		if err := r.takeMemory(after); err != nil {
			return err
		}
	}
	if second, known := r.Figures[afterSecond+rss]; known {
		r.Figures[secondAdded] = second - r.Figures[afterFirst+rss]
	}
	return nil
}

// saveAndInfer saves the cache, if there is one, and then has all weights in this process' memory.
func saveAndInfer(e *instance.Instance) error {
	if e.Cache != nil {
		if err := e.Cache.Save(); err != nil {
			return err
		}
	}
	_, err := e.Infer()
	return err
}
