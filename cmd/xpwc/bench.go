package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"xpwc/internal/bench"
	"xpwc/internal/generated"
	"xpwc/internal/modelfile"
)

func newBenchCommand() *cobra.Command {
	var o measureOptions
	o.Path = bench.Llama
	cmd := &cobra.Command{
		Use:   "bench [MODEL [DATA...]]",
		Short: "Measure a model with the cache and with every alternative",
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
threads are started. Figures are medians. Compare only figures of the same run with each
other. See docs/measurements.md.`,
			bench.Layers, bench.LayersFloat32),
		Example: `  xpwc bench
  xpwc bench --layers 4 --runs 3
  xpwc bench pose_landmark_heavy.tflite --figures bench.json`,
		Args: usage(optionalModelArgs),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.Rounds < 1 || o.Rounds > 1000 {
				return usagef("--runs %d: must be from 1 to 1000", o.Rounds)
			}
			if err := o.begin(cmd, args); err != nil {
				return err
			}
			all, err := bench.Run(cmd.Context(), o.Options, textOutput(cmd), cmd.ErrOrStderr())
			if len(all.Results) > 0 {
				setResult(cmd.Context(), printedResult{all})
			}
			return err
		},
	}
	f := cmd.Flags()
	o.flags(cmd)
	f.IntVar(&o.Layers, "layers", 0, "number `N` of layers of one llama, with int8 weights (default two of them)")
	f.IntVar(&o.Rounds, "runs", 7, "number `N` of rounds")
	return cmd
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

func newDemoCommand() *cobra.Command {
	var o measureOptions
	o.Path = bench.DemoModel
	cmd := &cobra.Command{
		Use:   "demo [MODEL [DATA...]]",
		Short: "Compare running a model without a cache, cold and warm",
		Long: `Runs a model three times, each time in a process of its own: without a cache, cold
(XNNPACK packs the weights into a new cache file), and warm (the file is mapped and
nothing is packed). Prints how long each took, and whether the outputs are equal bit for
bit.

MODEL is a .tflite file, a program of ExecuTorch (.pte; DATA are its .ptd files), or the
word llama: a generated stack of layers of Llama 3.2 1B's shape with int8 weights. By
default it is
` + bench.DemoModel + `.

Total load is the time from the opened model to a runtime that can be executed: opening
the cache, loading the tensors, creating the runtime with all packing, finalizing. The
first inference includes planning the runtime's memory. Memory is measured after the first
inference; in the cold run, after the cache is saved.`,
		Example: `  xpwc demo pose_landmark_heavy.tflite
  xpwc demo model.pte weights.ptd
  xpwc demo llama --layers 4 --json`,
		Args: usage(optionalModelArgs),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.begin(cmd, args); err != nil {
				return err
			}
			shown, err := bench.Demo(cmd.Context(), o.Options, textOutput(cmd), cmd.ErrOrStderr())
			if shown != nil {
				setResult(cmd.Context(), printedResult{shown})
			}
			return err
		},
	}
	o.flags(cmd)
	cmd.Flags().IntVar(&o.Layers, "layers", bench.DemoLayers, "number `N` of layers of the model llama")
	return cmd
}

// measureOptions are the flags of commands that measure a model.
type measureOptions struct{ bench.Options }

func (o *measureOptions) flags(cmd *cobra.Command) {
	methodFlag(cmd, &o.Method)
	threadsFlag(cmd, &o.Threads)
	jsonFlag(cmd)
	f := cmd.Flags()
	f.StringVar(&o.Dir, "dir", "demo", "`DIR` for cache files and generated weights, created if it is not there")
	f.StringVar(&o.Figures, "figures", "", "also write all figures to `FILE`, in JSON")
}

// begin takes the arguments, and checks the flags.
func (o *measureOptions) begin(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		o.Path, o.Data = args[0], args[1:]
	}
	if cmd.Flags().Changed("layers") {
		if o.Path != bench.Llama {
			return usagef("--layers is for the model llama, not for %s", o.Path)
		}
		if o.Layers < 1 || o.Layers > generated.MaxLayers {
			return usagef("--layers %d: must be from 1 to %d", o.Layers, generated.MaxLayers)
		}
	}
	jobOf(cmd.Context()).waitFor(fmt.Sprintf("files that were made in %s are still there", o.Dir))
	return errors.Join(checkModel(modelfile.File{Path: o.Path, Method: o.Method}), checkThreads(o.Threads))
}
