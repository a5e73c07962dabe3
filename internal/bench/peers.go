package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"xpwc/internal/bench/terminal"
	"xpwc/internal/console"
	"xpwc/internal/generated"
)

// Chain is the beginning of the names of models that are generated: "chain.tflite", "chain-int8.tflite" and
// "chain.pte". See
// [generated.Chain].
const Chain = "chain"

// inInt8 is what the name of a chain with weights in 8 bits ends in.
const inInt8 = "-int8.tflite"

// chainMatrices is how many matrices a chain has: 896 MiB of weights.
const chainMatrices = 14

// PeersOptions are what RunPeers measures.
type PeersOptions struct {
	Models    []string // .tflite files and .pte programs, or one of Chain's names
	Rounds    int
	Processes int      // that have one model loaded at the same time; 0 for none
	Dir       string   // for cache files and generated models, created if it is not there
	JSON      string   // file for all figures, or ""
	Programs  Programs // of the peers
	// Only names a peer, if only its ways are measured. They must give the same answer.
	Only string
}

// RunPeers measures how long xpwc and others that keep packed weights in files need for the same models, and how much
// memory. It prints tables to stdout, and to stderr what it is doing.
func RunPeers(ctx context.Context, o PeersOptions, stdout, stderr io.Writer) error {
	all := &Report{Environment: environment()}
	for _, name := range o.Models {
		c, err := newPeers(ctx, name, o, stderr)
		if err != nil {
			return err
		}
		if err := errors.Join(c.runPeers(ctx, o), c.clean()); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		all.Results = append(all.Results, c.result)
		if o.JSON != "" {
			if err := writeJSON(o.JSON, all); err != nil {
				return err
			}
		}
		if err := c.result.printPeers(stdout); err != nil {
			return err
		}
		if o.Only != "" && !c.result.sameOutputs() {
			return fmt.Errorf("%s: the answers of %s differ", name, o.Only)
		}
	}
	return nil
}

func newPeers(ctx context.Context, name string, o PeersOptions, stderr io.Writer) (*comparison, error) {
	if err := os.MkdirAll(o.Dir, 0o777); err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, err
	}
	ext := filepath.Ext(name)
	base := strings.TrimSuffix(filepath.Base(name), ext)
	own := name == Chain+ext || name == Chain+inInt8
	if own {
		base = fmt.Sprintf("%s-%d%s", Chain, chainMatrices, strings.TrimPrefix(base, Chain))
		name = filepath.Join(dir, base+ext)
		progress := terminal.NewProgress(stderr, "generating")
		err := generated.Chain(chainMatrices, strings.HasSuffix(name, inInt8)).Generate(ctx, name, progress.Update)
		progress.Finish()
		if err != nil {
			return nil, err
		}
	}
	size, err := readThrough(name)
	if err != nil {
		return nil, err
	}
	base += strings.ReplaceAll(ext, ".", "-")
	c := &comparison{
		model: []string{name}, churned: size * 5 / 4, stderr: stderr,
		outputs: outputDir(filepath.Join(dir, base+".output")),
		result: &result{
			Name: "peers-" + base, Model: filepath.Base(name) + ", " + console.Mebibytes(size), Threads: 1,
			Processes: o.Processes,
		},
	}
	p := peers{o.Programs, name, filepath.Join(dir, base), c.outputs}
	var ways []*way
	switch ext {
	case ".tflite":
		ways, err = p.ofModel(own)
	case ".pte":
		ways, err = p.ofProgram()
	default:
		err = fmt.Errorf("%s: LiteRT runs .tflite files, and ExecuTorch .pte programs", name)
	}
	c.add(slices.DeleteFunc(ways, func(w *way) bool { return !strings.HasPrefix(w.Mode, o.Only) })...)
	if err == nil && len(c.ways) == 0 {
		err = fmt.Errorf("%s: %s does not run it, or its program is not there", name, o.Only)
	}
	return c, err
}

func (c *comparison) runPeers(ctx context.Context, o PeersOptions) error {
	if err := c.prepare(ctx); err != nil {
		return err
	}
	if err := c.rounds(ctx, o.Rounds); err != nil || o.Processes == 0 {
		return err
	}
	for _, i := range rand.Perm(len(c.ways)) {
		w := c.ways[i]
		if w.start == firstStart {
			continue // what follows a first start is a next one
		}
		fmt.Fprintf(c.stderr, "%s: %d processes, %s\n", c.result.Model, o.Processes, w.Mode)
		if err := c.measureMany(ctx, w, o.Processes); err != nil {
			return fmt.Errorf("%d processes, %s: %w", o.Processes, w.Mode, err)
		}
	}
	return c.measureTogether(ctx, o.Processes)
}

// A many is what some processes took together.
type many struct {
	LoadMS     float64 `json:"load_ms"`                    // the sum: they were started one after the other
	TogetherMS float64 `json:"together_load_ms,omitempty"` // the median of all, where they loaded at the same instant
	SlowestMS  float64 `json:"slowest_load_ms,omitempty"`  // likewise, that of the slowest of each time
	PSSBytes   float64 `json:"pss_bytes"`                  // when all had answered
}

// measureMany starts processes one after the other, of which all stay, and looks at their memory when all are there.
func (c *comparison) measureMany(ctx context.Context, w *way, n int) (err error) {
	w.Many = &many{}
	all, err := startAll(n, func() (*process, error) {
		p, r, err := c.begin(ctx, w)
		if err == nil {
			w.Many.LoadMS += r.Figures[totalMS]
		}
		return p, err
	})
	defer func() { err = errors.Join(err, stopAll(all)) }()
	if err != nil {
		return err
	}
	for _, p := range all {
		memory, err := p.memory()
		if err != nil {
			return err
		}
		w.Many.PSSBytes += memory[pss]
	}
	return nil
}

// togetherTimes is how often processes load together.
const togetherTimes = 5

// measureTogether has processes load at the same instant, a few times, the ways that have a file in turn. ExecuTorch's
// host is left out: it is an example to copy from, and does not wait.
func (c *comparison) measureTogether(ctx context.Context, n int) error {
	ways := slices.DeleteFunc(slices.Clone(c.ways), func(w *way) bool {
		return w.start != nextStart || strings.HasPrefix(w.Mode, "ExecuTorch")
	})
	all, slowest := make([][]float64, len(ways)), make([][]float64, len(ways))
	for range togetherTimes {
		for _, i := range rand.Perm(len(ways)) {
			w := ways[i]
			fmt.Fprintf(c.stderr, "%s: %d processes at once, %s\n", c.result.Model, n, w.Mode)
			if err := c.ready(ctx, w); err != nil {
				return err
			}
			loads, err := loadTogether(ctx, w.command, n)
			if err != nil {
				return fmt.Errorf("%d processes at once, %s: %w", n, w.Mode, err)
			}
			all[i], slowest[i] = append(all[i], loads...), append(slowest[i], slices.Max(loads))
		}
	}
	for i, w := range ways {
		w.Many.TogetherMS, w.Many.SlowestMS = spreadOf(all[i]).Median, spreadOf(slowest[i]).Median
	}
	return nil
}

// loadTogether starts processes, lets all of them go when each could begin, and returns how long each took to load.
func loadTogether(ctx context.Context, command []string, n int) (loads []float64, err error) {
	all, err := startAll(n, func() (*process, error) {
		return startProcess(ctx, command, togetherVariable+"=1")
	})
	defer func() { err = errors.Join(err, stopAll(all)) }()
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		if _, err := p.stdout.ReadString('\n'); err != nil {
			return nil, fmt.Errorf("a process does not wait: %w", err)
		}
	}
	for _, p := range all {
		if err := p.stdin.Close(); err != nil {
			return nil, err
		}
	}
	for _, p := range all {
		r, err := p.read()
		if err != nil {
			return nil, err
		}
		loads = append(loads, r.Figures[totalMS])
	}
	return loads, nil
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
		{"outputs", func(m *modeResult) string {
			if m.Runs[0].Output == r.Modes[0].Runs[0].Output {
				return "the same"
			}
			return "others"
		}},
	}))
}
