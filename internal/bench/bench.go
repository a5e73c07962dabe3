// Package bench measures how a cache of packed weights changes the loading and running of models. [Run] compares it
// with every alternative and with the limit, [Demo] only with running without a cache, and [RunPeers] with other
// runtimes' caches. Each measurement is taken by a process of its own, [Measure] or a peer's host.
package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"xpwc/internal/bench/terminal"
	"xpwc/internal/console"
	"xpwc/internal/generated"
	"xpwc/internal/modelfile"
)

// Llama is the name of a model that needs no file: generated stacks of layers of Llama 3.2 1B's shape.
const Llama = "llama"

// Layers of the generated stacks that are measured by default.
const (
	Layers        = 16
	LayersFloat32 = 4
)

// A Subject is the model that is measured, and how.
type Subject struct {
	modelfile.File        // its path may be Llama
	Threads        int    // 0 for one for each processor
	Dir            string // for cache files and generated weights, created if it is not there
	Figures        string // file for all figures in JSON, or ""
}

// Options are what Run measures, or Demo.
type Options struct {
	Subject
	Layers int // of the model Llama with int8 weights; of Run 0 for two stacks, of Layers and of LayersFloat32
	Rounds int // of Run
}

// A stack is one that is generated.
type stack struct {
	layers int
	int8   bool
}

// Run measures the modes in rounds. It prints tables to stdout, and to stderr what it is doing. It fails if the outputs
// of the modes differ. What was measured by then is returned with an error, too.
func Run(ctx context.Context, o Options, stdout, stderr io.Writer) (*Report, error) {
	report := &Report{Environment: environment()}
	stacks := []stack{{layers: o.Layers, int8: true}}
	if o.Path == Llama && o.Layers == 0 {
		stacks = []stack{{Layers, true}, {LayersFloat32, false}}
	}
	var errs []error
	for _, st := range stacks {
		c, t, err := subject(ctx, o.Subject, st, stderr)
		if err != nil {
			return report, err
		}
		if err := report.add(c, o.Figures, func() error { return c.runModes(ctx, t, o) }); err != nil {
			return report, err
		}
		if err := c.result.print(stdout); err != nil {
			return report, err
		}
		if !c.result.sameOutputs() {
			errs = append(errs, fmt.Errorf("%s: %w", c.result.Model, errDiffer))
		}
	}
	return report, errors.Join(errs...)
}

// add has a model measured, and adds what was found. A file that is named gets all of it so far.
func (r *Report) add(c *comparison, figures string, measure func() error) error {
	if err := errors.Join(measure(), c.clean()); err != nil {
		return fmt.Errorf("%s: %w", c.result.Model, err)
	}
	if r.Results = append(r.Results, c.result); figures == "" {
		return nil
	}
	return writeJSON(figures, r)
}

var errDiffer = errors.New("the outputs differ: all modes must agree bit for bit")

// runModes measures all modes of this system, and what the disk takes for the same bytes.
func (c *comparison) runModes(ctx context.Context, t task, o Options) error {
	base := filepath.Join(o.Dir, c.result.Name+".bench.")
	var errs []error
	mode := func(name string, s start, cache string) *way {
		command, err := t.in(name, cache).command()
		errs = append(errs, err)
		return &way{modeResult: modeResult{Mode: name}, start: s, command: command, cache: cache}
	}
	ideal, warm := mode(modeIdeal, nextStart, base+"ideal"), mode(modeWarm, nextStart, base+"xpwc")
	ideal.pack = func(ctx context.Context) error {
		r, err := t.in(modeRecord, ideal.cache).run(ctx)
		if err == nil {
			c.result.Payloads, c.result.PayloadBytes = int(r.Figures[payloads]), int64(r.Figures[payloadBytes])
			c.churned = c.result.PayloadBytes * 5 / 4
		}
		return err
	}
	c.add(mode(modeNone, withoutCache, ""), mode(modeXNNPACK, withoutCache, ""),
		mode(modeWrite, firstStart, base+"written"), ideal, mode(modeCold, firstStart, base+"cold"), warm)
	disk := []func() error{func() error {
		took, err := writeDurably(ideal.cache, c.result.PayloadBytes, base+"tmp")
		c.result.Write = append(c.result.Write, console.Milliseconds(took))
		return err
	}}
	if runtime.GOOS == "linux" { // elsewhere nothing can be dropped
		dropped := mode(modeDropped, fromDisk, base+"dropped")
		c.add(dropped)
		disk = append(disk, func() error {
			took, err := readDirect(dropped.cache)
			c.result.Read = append(c.result.Read, console.Milliseconds(took))
			return err
		})
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := c.prepare(ctx); err != nil {
		return err
	}
	return c.rounds(ctx, o.Rounds, disk...)
}

// subject checks a model and reads its files into the page cache, so that the first mode does not wait longer for the
// disk than the others. If its path is Llama, it generates the stack in its directory, unless it is there.
// The task is to run it.
func subject(ctx context.Context, s Subject, st stack, stderr io.Writer) (*comparison, task, error) {
	if err := os.MkdirAll(s.Dir, 0o777); err != nil {
		return nil, task{}, err
	}
	name := filepath.Base(s.Path)
	title := name
	t := task{Model: s.File, Threads: s.Threads}
	if s.Path == Llama {
		kind, description := "qc8w", "qd8-f32-qc8w"
		if !st.int8 {
			kind, description = "f32", "f32"
		}
		name = fmt.Sprintf("llama-%s-%d", kind, st.layers)
		t.Model = modelfile.File{Path: filepath.Join(s.Dir, name+".tflite")}
		title = fmt.Sprintf("llama, %s, %s", console.Plural(st.layers, "layer"), description)
		if err := generate(ctx, generated.Stack(st.layers, st.int8), t.Model.Path, stderr); err != nil {
			return nil, task{}, err
		}
	}
	m, err := t.Model.Open() // for its errors, which would otherwise come from a process
	if err != nil {
		if s.Path == DemoModel && errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w; name a model, or fetch this one with make third_party", err)
		}
		return nil, task{}, err
	}
	if err := m.Close(); err != nil {
		return nil, task{}, err
	}
	c := &comparison{model: append([]string{t.Model.Path}, t.Model.Data...), stderr: stderr}
	total, err := readIn(c.model...)
	c.result = &result{
		Name: strings.TrimSuffix(name, filepath.Ext(s.Path)), Model: title + ", " + console.Mebibytes(total),
		Threads: s.Threads,
	}
	return c, t, err
}

// generate makes the file of a generated model, unless it is there.
func generate(ctx context.Context, m generated.Model, path string, stderr io.Writer) error {
	progress := terminal.NewProgress(stderr, "generating")
	defer progress.Finish()
	return m.Generate(ctx, path, progress.Update)
}

func writeJSON(path string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o666)
}

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
	for _, way := range []struct{ mode, cache, name, label string }{
		{modeNone, "", "without cache", "without a cache"},
		{modeCold, cache, "first start", "first start: packing into " + cache},
		{modeWarm, cache, "next start", "next start: mapping " + cache},
	} {
		fmt.Fprintln(stderr, way.label)
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
	uncached, cached := r.Modes[0].Runs[0].Figures, r.Modes[2].Runs[0].Figures
	fmt.Fprintf(w, "Loading takes %s at the next start, and %s without a cache:\n%s.\n",
		console.MS(cached[totalMS]), console.MS(uncached[totalMS]), faster(uncached[totalMS], cached[totalMS]))
	if anon, ok := cached[rssAnon]; ok && cached[payloadBytes] > 0 {
		fmt.Fprintf(w, "Private memory (RssAnon) is %s less at the next start.\n"+
			"The packed weights, which are in the file, are %s.\n",
			inBytes(uncached[rssAnon]-anon), inBytes(cached[payloadBytes]))
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

func faster(uncached, cached float64) string {
	if cached <= 0 || uncached < cached {
		return "no gain"
	}
	return console.Digits(uncached/cached) + " times faster"
}
