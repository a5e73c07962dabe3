package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"xpwc/internal/bench"
	"xpwc/internal/modelfile"
)

func newBenchCommand() *cobra.Command {
	o := bench.Options{Subject: bench.Subject{File: modelfile.File{Path: bench.Llama}}}
	var layers int
	cmd := &cobra.Command{
		Use:   "bench [MODEL [DATA...]]",
		Short: "Measure a model with the cache, with every alternative, and at the limit",
		Long: fmt.Sprintf(`Loads and runs a model in several modes, each time in a process of its own. A round runs
each mode once, in random order, each after a process that uses and frees memory.

  none     without a cache
  xnnpack  with XNNPACK's own cache, in the heap of one process
  write    packing into one buffer, which is written to a new file and then mapped
  ideal    with a provider in C that knows every answer in advance and maps packed bytes
           from a file: the limit
  cold     packing into a new cache file
  warm     from such a file
  dropped  from such a file when it is not in the page cache, with Options.Prefetch

MODEL is a .tflite file, a program of ExecuTorch (.pte; DATA are its .ptd files), a
.safetensors file with its description MODEL.json, or the word llama. By default it is
llama: two generated stacks of layers of Llama 3.2 1B's shape, one of %d layers with int8
weights and one of %d layers in float32. With --layers it is one with int8 weights.

In all modes, the clock starts when the model is mapped, XNNPACK is initialized and its
threads are started. Warm and ideal are run %d times in each round. Figures are
medians. Compare only figures of the same run with each other. See docs/measurements.md.`,
			bench.Layers, bench.LayersFloat32, bench.Repeats),
		Example: `  xpwc bench
  xpwc bench --layers 4 --runs 3
  xpwc bench pose_landmark_heavy.tflite --figures bench.json`,
		Args: usage(optionalModelArgs),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				o.Path, o.Data = args[0], args[1:]
			}
			if err := checkBench(cmd, &o, layers); err != nil {
				return err
			}
			jobOf(cmd.Context()).waitFor(fmt.Sprintf("files that were made in %s are still there", o.Dir))
			all, err := bench.Run(cmd.Context(), o, textOutput(cmd), cmd.ErrOrStderr())
			if len(all.Results) > 0 {
				setResult(cmd.Context(), printedResult{all})
			}
			return err
		},
	}
	f := cmd.Flags()
	subjectFlags(cmd, &o.Subject)
	f.IntVar(&layers, "layers", bench.Layers, "number `N` of layers of the model llama, with int8 weights")
	f.IntVar(&o.Rounds, "runs", 7, "number `N` of rounds")
	return cmd
}

// checkBench checks the flags, and completes the options.
func checkBench(cmd *cobra.Command, o *bench.Options, layers int) error {
	if err := checkSubject(&o.Subject); err != nil {
		return err
	}
	if o.Rounds < 1 || o.Rounds > 1000 {
		return usagef("--runs %d: must be from 1 to 1000", o.Rounds)
	}
	if err := checkLayers(cmd, o.Path, layers); err != nil {
		return err
	}
	if cmd.Flags().Changed("layers") {
		o.Layers = layers
	}
	return nil
}

// newMeasureCommand is the command of the processes that demo and bench start, one for each measurement.
func newMeasureCommand() *cobra.Command {
	return &cobra.Command{
		Use:    bench.MeasureCommand,
		Hidden: true,
		Args:   usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return bench.Measure(args, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}
