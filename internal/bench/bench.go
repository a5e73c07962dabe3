// Package bench measures how a cache of packed weights changes the loading and running of models. [Run] compares it
// with every alternative and with the limit, [Demo] only with running without a cache. Each measurement is taken by a
// process of its own, [Measure].
package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"xpwc/internal/llama"
	"xpwc/internal/modelfile"
)

// Llama is the name of a model that needs no file: generated stacks of layers of Llama 3.2 1B's shape.
const Llama = "llama"

// Layers of the generated stacks that are measured by default.
const (
	Layers        = 16
	LayersFloat32 = 4
)

// modes returns the ways in which a model can be run on this system, in the order of the tables.
func modes() []string {
	all := []string{modeNone, modeXNNPACK, modeWrite, modeIdeal, modeCold, modeWarm}
	if runtime.GOOS == "linux" {
		all = append(all, modeDropped, modeReread)
	}
	return all
}

// A Subject is the model that is measured, and how.
type Subject struct {
	modelfile.File        // its path may be Llama
	Threads        int    // 0 for one for each processor
	Dir            string // for cache files and generated weights, created if it is not there
	Figures        string // file for all figures in JSON, or ""
}

// Options are what Run measures.
type Options struct {
	Subject
	Stacks []llama.Stack // of the model Llama, one after the other
	Rounds int
}

// Run measures the modes in rounds. It prints tables to stdout, and to stderr what it is doing. It fails if the outputs
// of the modes differ. What was measured by then is returned with an error, too.
func Run(ctx context.Context, o Options, stdout, stderr io.Writer) (*Report, error) {
	all := &Report{Environment: environment()}
	stacks := o.Stacks
	if o.Path != Llama {
		stacks = []llama.Stack{{}}
	}
	var errs []error
	for _, stack := range stacks {
		p, err := prepare(ctx, o.Subject, stack, stderr)
		if err != nil {
			return all, err
		}
		r, err := runOne(ctx, p, o, stderr)
		if err != nil {
			return all, fmt.Errorf("%s: %w", p.title, err)
		}
		all.Results = append(all.Results, r)
		if err := r.print(stdout); err != nil {
			return all, err
		}
		if !r.sameOutputs() {
			errs = append(errs, fmt.Errorf("%s: %w", p.title, errModesDiffer))
		}
	}
	if o.Figures != "" {
		errs = append(errs, writeJSON(o.Figures, all))
	}
	return all, errors.Join(errs...)
}

var errModesDiffer = errors.New("the outputs differ: all modes must agree bit for bit")

func runOne(ctx context.Context, p prepared, o Options, stderr io.Writer) (of *result, err error) {
	r := newRounds(p, o.Dir)
	defer func() { err = errors.Join(err, r.clean()) }()
	fmt.Fprintf(stderr, "%s: recording\n", p.title)
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	for n := range o.Rounds {
		fmt.Fprintf(stderr, "%s: round %d of %d\n", p.title, n+1, o.Rounds)
		if err := r.round(ctx); err != nil {
			return nil, err
		}
	}
	r.result.Rounds = o.Rounds
	r.result.sumUp()
	return r.result, nil
}

func writeJSON(path string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o666)
}
