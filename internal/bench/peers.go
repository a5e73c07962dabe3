package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"xpwc/internal/bench/chain"
	"xpwc/internal/bench/terminal"
	"xpwc/internal/console"
)

// Chain is the beginning of the names of models that are generated: "chain.tflite", "chain-int8.tflite" and
// "chain.pte". See package chain.
const Chain = "chain"

// chainMatrices is how many matrices a chain has: 896 MiB of weights.
const chainMatrices = 14

// PeersOptions are what RunPeers measures.
type PeersOptions struct {
	Models    []string // .tflite files and .pte programs, or one of Chain's names
	Rounds    int
	Processes int    // that have one model loaded at the same time; 0 for none
	Dir       string // for cache files and generated models, created if it is not there
	JSON      string // file for all figures, or ""; results of other models that it has are kept
	Programs  Programs
	// Only names a peer, if only its ways are measured. They must give the same answer.
	Only string
}

// Programs are the hosts of the peers. What has no program is not measured.
type Programs struct {
	LiteRT     string // internal/bench/litert
	Reader     string // internal/bench/reader
	ExecuTorch string // examples/executorch
	DropIn     string // a library with the class on the reader, in place of the one in ExecuTorch's backend
	XPWC       string // the tool, built with the XNNPACK of ExecuTorch, to pack ahead for the others
}

// RunPeers measures how long xpwc and others that keep packed weights in files need for the same models, and how much
// memory. It prints tables to stdout, and to stderr what it is doing.
func RunPeers(ctx context.Context, o PeersOptions, stdout, stderr io.Writer) error {
	for _, name := range o.Models {
		c, err := newComparison(ctx, name, o, stderr)
		if err != nil {
			return err
		}
		if err := errors.Join(c.run(ctx, o, stderr), c.clean()); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if o.JSON != "" {
			if err := addToJSON(o.JSON, c.result); err != nil {
				return err
			}
		}
		if err := c.result.printPeers(stdout); err != nil {
			return err
		}
		differs := func(m *modeResult) bool { return m.Difference != 0 }
		if o.Only != "" && slices.ContainsFunc(c.result.Modes, differs) {
			return fmt.Errorf("%s: the answers of %s differ", name, o.Only)
		}
	}
	return nil
}

// comparison is one model in all ways in which it can be run.
type comparison struct {
	model  string
	files  peerFiles
	memory int64 // that a process without a cache needs, about
	ways   []*way
	result *result
}

func newComparison(ctx context.Context, name string, o PeersOptions, stderr io.Writer) (*comparison, error) {
	if err := os.MkdirAll(o.Dir, 0o777); err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, err
	}
	ext := filepath.Ext(name)
	base := strings.TrimSuffix(filepath.Base(name), ext)
	generated := name == Chain+ext || name == Chain+chain.InInt8
	if generated {
		base = fmt.Sprintf("%s-%d%s", Chain, chainMatrices, strings.TrimPrefix(base, Chain))
		name = filepath.Join(dir, base+ext)
		progress := terminal.NewProgress(stderr, "generating")
		err := chain.Generate(ctx, name, chainMatrices, progress.Update)
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
		model: name, files: peerFiles{filepath.Join(dir, base)}, memory: size * 2,
		result: &result{Name: "peers-" + base, Model: filepath.Base(name) + ", " + console.Mebibytes(size), Threads: 1,
			Rounds: o.Rounds, Processes: o.Processes},
	}
	switch ext {
	case ".tflite":
		c.ways, err = modelWays(c.files, name, o.Programs)
		if generated && o.Programs.Reader != "" && o.Programs.XPWC != "" {
			c.ways = append(c.ways, readerWays(c.files, name, o.Programs)...)
		}
	case ".pte":
		c.ways, err = programWays(c.files, name, o.Programs)
	default:
		err = fmt.Errorf("%s: LiteRT runs .tflite files, and ExecuTorch .pte programs", name)
	}
	c.ways = slices.DeleteFunc(c.ways, func(w *way) bool { return !strings.HasPrefix(w.name, o.Only) })
	if err == nil && len(c.ways) == 0 {
		err = fmt.Errorf("%s: %s does not run it, or its program was not given", name, o.Only)
	}
	return c, err
}

// clean removes the files of all ways, but not the model.
func (c *comparison) clean() error {
	errs := []error{c.files.remove()}
	for _, w := range c.ways {
		errs = append(errs, w.removeCache())
	}
	return errors.Join(errs...)
}

func (c *comparison) run(ctx context.Context, o PeersOptions, stderr io.Writer) error {
	fmt.Fprintf(stderr, "%s: packing\n", c.result.Model)
	for _, w := range c.ways {
		if err := c.prepare(ctx, w); err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
	}
	for n := range o.Rounds {
		fmt.Fprintf(stderr, "%s: round %d of %d\n", c.result.Model, n+1, o.Rounds)
		for _, i := range rand.Perm(len(c.ways)) {
			if err := c.measure(ctx, c.ways[i]); err != nil {
				return fmt.Errorf("%s: %w", c.ways[i].name, err)
			}
		}
	}
	for _, i := range rand.Perm(len(c.ways)) {
		w := c.ways[i]
		if o.Processes == 0 || w.start == firstStart {
			continue // what follows a first start is a next one
		}
		fmt.Fprintf(stderr, "%s: %d processes, %s\n", c.result.Model, o.Processes, w.name)
		if err := c.measureMany(ctx, w, o.Processes); err != nil {
			return fmt.Errorf("%d processes, %s: %w", o.Processes, w.name, err)
		}
	}
	if o.Processes > 0 {
		if err := c.measureTogether(ctx, o.Processes, stderr); err != nil {
			return err
		}
	}
	return c.takeResults()
}

// prepare makes the cache file that is there before the first measurement.
func (c *comparison) prepare(ctx context.Context, w *way) error {
	if err := w.removeCache(); err != nil || w.start != nextStart {
		return err
	}
	if w.pack != nil {
		return w.pack(ctx, c.model, w.cache)
	}
	h, err := c.begin(ctx, w)
	if err != nil {
		return err
	}
	return h.stop()
}

// measure runs one process.
func (c *comparison) measure(ctx context.Context, w *way) error {
	if w.start == firstStart {
		if err := w.removeCache(); err != nil {
			return err
		}
	}
	h, err := c.begin(ctx, w)
	if err != nil {
		return err
	}
	r := h.run()
	memory, err := h.memory()
	r.Figures[rssAnon] = memory[rssAnon]
	if w.start == firstStart && err == nil {
		r.Figures[fileBytes], err = w.cacheBytes()
	}
	if err := errors.Join(err, h.stop()); err != nil {
		return err
	}
	w.runs = append(w.runs, r)
	if w.outputs == nil {
		w.outputs, err = c.files.outputs()
	}
	return err
}

// begin starts a process and waits until it has answered.
func (c *comparison) begin(ctx context.Context, w *way) (*host, error) {
	if err := c.readFiles(ctx, w); err != nil {
		return nil, err
	}
	return answeringHost(ctx, w.command(c.model, w.cache))
}

// readFiles reads what a process is going to read: a system may take pages from the page cache that were idle for
// seconds.
func (c *comparison) readFiles(ctx context.Context, w *way) error {
	if err := c.files.clearOutputs(); err != nil {
		return err
	}
	if err := startChurning(ctx, c.memory); err != nil {
		return err
	}
	found, err := w.cacheFiles()
	if err != nil {
		return err
	}
	_, err = readIn(append(found, c.model)...)
	return err
}

// measureMany starts processes one after the other, of which all stay, and looks at their memory when all are there.
func (c *comparison) measureMany(ctx context.Context, w *way, n int) (err error) {
	hosts, err := startHosts(n, func() (*host, error) { return c.begin(ctx, w) })
	defer func() { err = errors.Join(err, stopAll(hosts)) }()
	if err != nil {
		return err
	}
	w.many = &many{}
	for _, h := range hosts {
		memory, err := h.memory()
		if err != nil {
			return err
		}
		w.many.LoadMS += h.report.LoadMS
		w.many.PSSBytes += memory[pss]
	}
	return nil
}

// addToJSON writes a result to a file, in place of the one of the same name if there is one.
func addToJSON(path string, r *result) error {
	all := Report{Environment: environment()}
	content, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(content, &all)
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	all.Results = slices.DeleteFunc(all.Results, func(other *result) bool { return other.Name == r.Name })
	all.Results = append(all.Results, r)
	return writeJSON(path, all)
}
