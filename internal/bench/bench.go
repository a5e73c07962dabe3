// Package bench measures what a cache of packed weights does for loading and running models: against every alternative and against the
// limit (Run), and in short (Demo). Each measurement is taken in a process of its own, which [Measure] describes.
package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"

	"xpwc/internal/bench/llama"
)

// Llama is the name of a model that needs no file: generated stacks of layers of Llama 3.2 1B's shape.
const Llama = "llama"

// Layers of the generated stacks that are measured unless others are asked for.
const (
	Layers        = 16
	LayersFloat32 = 4
)

// AllModes are the ways in which a model can be run, in the order of the tables.
var AllModes = []string{modeNone, modeXNNPACK, modeIdeal, modeCold, modeWarm, modeDropped, modeDroppedLazy}

// Modes are those this system can measure.
func Modes() []string {
	if runtime.GOOS == "linux" {
		return AllModes
	}
	return slices.DeleteFunc(slices.Clone(AllModes), dropsPages)
}

func dropsPages(mode string) bool { return mode == modeDropped || mode == modeDroppedLazy }

// Options are what Run measures.
type Options struct {
	Model   string        // a file, or Llama
	Stacks  []llama.Stack // of the model Llama, one after the other
	Modes   []string      // in the order of AllModes
	Rounds  int
	Threads int    // 0 for one for each processor
	Dir     string // for cache files and generated weights, created if it is not there
	JSON    string // file for all figures, or ""
}

// Run measures the modes in rounds and prints tables to stdout, and to stderr what it is doing. It fails if the modes' outputs differ.
func Run(ctx context.Context, o Options, stdout, stderr io.Writer) error {
	report := benchReport{Environment: environment()}
	stacks := o.Stacks
	if o.Model != Llama {
		stacks = []llama.Stack{{}}
	}
	var errs []error
	for _, stack := range stacks {
		p, err := prepare(ctx, o.Model, o.Dir, stack, o.Threads, stderr)
		if err != nil {
			return err
		}
		result, err := runOne(ctx, p, o, stderr)
		if err != nil {
			return fmt.Errorf("%s: %w", p.title, err)
		}
		report.Results = append(report.Results, result)
		if err := result.print(stdout); err != nil {
			return err
		}
		if !result.sameOutputs() {
			errs = append(errs, fmt.Errorf("%s: %w", p.title, errModesDiffer))
		}
	}
	if o.JSON != "" {
		errs = append(errs, writeJSON(o.JSON, report))
	}
	return errors.Join(errs...)
}

var errModesDiffer = errors.New("the outputs differ: all modes must agree bit for bit")

func runOne(ctx context.Context, p prepared, o Options, stderr io.Writer) (result *benchResult, err error) {
	r := newRounds(p, o.Dir, o.Modes)
	defer func() { err = errors.Join(err, r.clean()) }()
	fmt.Fprintf(stderr, "%s: recording\n", p.title)
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	for n := range o.Rounds {
		fmt.Fprintf(stderr, "%s: round %d of %d\n", p.title, n+1, o.Rounds)
		if err := r.round(ctx, n); err != nil {
			return nil, err
		}
	}
	r.result.Rounds = o.Rounds
	r.result.judge()
	return r.result, nil
}

func writeJSON(path string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o666)
}
