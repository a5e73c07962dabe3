package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

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
		if err := all.add(c, o.JSON, func() error { return c.runPeers(ctx, o) }); err != nil {
			return err
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
		chain := generated.Chain(chainMatrices, strings.HasSuffix(name, inInt8))
		if err := generate(ctx, chain, name, stderr); err != nil {
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
	defer c.sumUp()
	var many []func() error
	for _, w := range c.ways {
		if w.start != firstStart { // what follows a first start is a next one
			many = append(many, func() error { return c.measureMany(ctx, w, o.Processes) })
		}
		// ExecuTorch's host is left out: it is an example to copy from, and does not wait.
		if w.start == nextStart && !strings.HasPrefix(w.Mode, "ExecuTorch") {
			together := func() error { return c.measureTogether(ctx, w, o.Processes) }
			many = append(many, slices.Repeat([]func() error{together}, togetherTimes)...)
		}
	}
	return inAnyOrder(many)
}

// togetherTimes is how often processes load together.
const togetherTimes = 5

// measureMany starts processes one after the other, of which all stay, and looks at their memory when all are there.
func (c *comparison) measureMany(ctx context.Context, w *way, n int) (err error) {
	fmt.Fprintf(c.stderr, "%s: %d processes, %s\n", c.result.Model, n, w.Mode)
	took := figures{}
	all, err := startAll(n, func() (*process, error) {
		p, r, err := c.begin(ctx, w)
		if err == nil {
			took[manyMS] += r.Figures[totalMS]
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
		took[manyPSS] += memory[pss]
	}
	w.many = append(w.many, took)
	return nil
}

// measureTogether has processes load at the same instant.
func (c *comparison) measureTogether(ctx context.Context, w *way, n int) error {
	fmt.Fprintf(c.stderr, "%s: %d processes at once, %s\n", c.result.Model, n, w.Mode)
	if err := c.ready(ctx, w); err != nil {
		return err
	}
	loads, err := loadTogether(ctx, w.command, n)
	if err != nil {
		return fmt.Errorf("%s: %w", w.Mode, err)
	}
	for _, ms := range loads {
		w.many = append(w.many, figures{togetherMS: ms})
	}
	w.many = append(w.many, figures{slowestMS: slices.Max(loads)})
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
	return printTables(w, modesTable("ms and MiB", r.Modes, []column{
		columnOf("load", totalMS, console.Digits), betweenColumn(totalMS), columnOf("first", firstMS, console.Digits),
		columnOf("answer", answerMS, console.Digits), columnOf("steady", steadyMS, console.Digits),
		columnOf("RssAnon", rssAnon, mebibytes), columnOf("file", fileBytes, mebibytes),
		columnOf(fmt.Sprintf("PSS of %d", r.Processes), manyPSS, mebibytes),
		columnOf("their loads", manyMS, console.Digits),
		columnOf("at once", togetherMS, console.Digits), columnOf("slowest", slowestMS, console.Digits),
		{"outputs", func(m *modeResult) string {
			if m.Runs[0].Output == r.Modes[0].Runs[0].Output {
				return "the same"
			}
			return "others"
		}},
	}))
}
