package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"xpwc/internal/bench/llama"
)

// allModes in the order of the tables.
var allModes = []string{modeNone, modeXNNPACK, modeIdeal, modeCold, modeWarm, modeDropped, modeDroppedLazy}

// defaultModes are those this system can measure.
func defaultModes() []string {
	if runtime.GOOS == "linux" {
		return allModes
	}
	return slices.DeleteFunc(slices.Clone(allModes), dropsPages)
}

func dropsPages(mode string) bool { return mode == modeDropped || mode == modeDroppedLazy }

const (
	benchLayers        = 16
	benchLayersFloat32 = 4
)

type benchOptions struct {
	dir, json string
	layers    int
	float32   bool
	runs      int
	threads   int
	modes     []string
}

func newBenchCommand() *cobra.Command {
	var o benchOptions
	cmd := &cobra.Command{
		Use:   "bench [MODEL]",
		Short: "Measure loading and running a model against every alternative, and against the limit",
		Long: fmt.Sprintf(`Loads and runs a model in several ways, each time in a process of its own, in rounds: one after the other, and then again.

  none          without a cache
  xnnpack       with XNNPACK's own cache, in the heap of one process
  ideal         with a provider in C that knows every answer in advance and maps packed bytes from a file: the limit
  cold          packing into a new cache file
  warm          from that file
  dropped       from that file when it is not in the page cache, with Options.Prefetch
  dropped-lazy  the same without Options.Prefetch

MODEL is a .tflite file, a .safetensors file with its description MODEL.json, or the word llama (the default): generated stacks of
layers of Llama 3.2 1B's shape, %d layers with int8 weights and %d in float32. With --layers or --float32 it is one stack.

The clock starts when the process has mapped the model, XNNPACK is initialized and its threads are started, in all modes alike.
Warm and ideal are run %d times in each round. Figures are medians; compare those of one run only. See docs/measurements.md.`, benchLayers, benchLayersFloat32, repeats),
		Example: `  xpwc bench
  xpwc bench --layers 4 --runs 3 --modes none,ideal,warm
  xpwc bench pose_landmark_heavy.tflite --json bench.json`,
		Args: usage(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := llamaModelID
			if len(args) > 0 {
				name = args[0]
			}
			stacks, err := o.check(cmd, name)
			if err != nil {
				return err
			}
			return bench(cmd.Context(), name, stacks, o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.dir, "dir", "demo", "`DIR` for the cache files and generated weights, created if it is not there")
	f.StringVar(&o.json, "json", "", "also write all figures, of each run too, to `FILE`")
	f.IntVar(&o.layers, "layers", benchLayers, fmt.Sprintf("number `N` of layers of the model llama; with --float32 %d by default", benchLayersFloat32))
	f.BoolVar(&o.float32, "float32", false, "weights of the model llama in float32 in place of int8")
	f.IntVar(&o.runs, "runs", 7, "number `N` of rounds")
	f.StringSliceVar(&o.modes, "modes", defaultModes(), "`MODES` to measure")
	threadsFlag(cmd, &o.threads)
	return cmd
}

// check returns the stacks that are meant, if it is stacks.
func (o *benchOptions) check(cmd *cobra.Command, name string) ([]llama.Stack, error) {
	if err := checkThreads(o.threads); err != nil {
		return nil, err
	}
	if o.runs < 1 || o.runs > 1000 {
		return nil, usagef("--runs %d: must be from 1 to 1000", o.runs)
	}
	for _, mode := range o.modes {
		if !slices.Contains(allModes, mode) {
			return nil, usagef("--modes %s: the modes are %s", mode, strings.Join(allModes, ", "))
		}
		if !slices.Contains(defaultModes(), mode) {
			return nil, usagef("--modes %s: %w", mode, errNotHere)
		}
	}
	if len(o.modes) == 0 {
		return nil, usagef("--modes: none is given")
	}
	o.modes = slices.DeleteFunc(slices.Clone(allModes), func(m string) bool { return !slices.Contains(o.modes, m) })
	if o.float32 && !cmd.Flags().Changed("layers") {
		o.layers = benchLayersFloat32
	}
	if err := checkLayers(cmd, name, o.layers); err != nil {
		return nil, err
	}
	switch {
	case name != llamaModelID && o.float32:
		return nil, usagef("--float32 is for the model llama, not for %s", name)
	case name != llamaModelID:
		return []llama.Stack{{}}, nil
	case o.float32 || cmd.Flags().Changed("layers"):
		return []llama.Stack{{Layers: o.layers, Float32: o.float32}}, nil
	}
	return []llama.Stack{{Layers: benchLayers}, {Layers: benchLayersFloat32, Float32: true}}, nil
}

func bench(ctx context.Context, name string, stacks []llama.Stack, o benchOptions, stdout, stderr io.Writer) error {
	jobOf(ctx).heed(fmt.Sprintf("%s keeps what was made there", o.dir))
	report := benchReport{Environment: environment()}
	var errs []error
	for _, stack := range stacks {
		p, err := prepare(ctx, name, o.dir, stack, o.threads, stderr)
		if err != nil {
			return err
		}
		result, err := benchOne(ctx, p, o, stderr)
		if err != nil {
			return fmt.Errorf("%s: %w", p.title, err)
		}
		report.Results = append(report.Results, result)
		if err := result.print(stdout); err != nil {
			return err
		}
		if !result.sameOutputs() {
			errs = append(errs, fmt.Errorf("%s: %w", p.title, errOutputsDiffer))
		}
	}
	if o.json != "" {
		errs = append(errs, writeJSON(o.json, report))
	}
	return errors.Join(errs...)
}

var errOutputsDiffer = errors.New("the outputs differ: all modes must agree bit for bit")

func benchOne(ctx context.Context, p prepared, o benchOptions, stderr io.Writer) (result *benchResult, err error) {
	r := newRounds(p, o.dir, o.modes)
	defer func() { err = errors.Join(err, r.clean()) }()
	fmt.Fprintf(stderr, "%s: recording\n", p.title)
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	for n := range o.runs {
		fmt.Fprintf(stderr, "%s: round %d of %d\n", p.title, n+1, o.runs)
		if err := r.round(ctx, n); err != nil {
			return nil, err
		}
	}
	r.result.Rounds = o.runs
	r.result.judge()
	return r.result, nil
}
