package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"xpwc/internal/bench"
	"xpwc/internal/generated"
	"xpwc/internal/modelfile"
)

func newDemoCommand() *cobra.Command {
	o := bench.DemoOptions{Subject: bench.Subject{File: modelfile.File{Path: bench.DemoModel}}}
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
			if len(args) > 0 {
				o.Path, o.Data = args[0], args[1:]
			}
			if err := checkLayers(cmd, o.Path, o.Layers); err != nil {
				return err
			}
			if err := checkSubject(&o.Subject); err != nil {
				return err
			}
			jobOf(cmd.Context()).waitFor(fmt.Sprintf("files that were made in %s are still there", o.Dir))
			shown, err := bench.Demo(cmd.Context(), o, textOutput(cmd), cmd.ErrOrStderr())
			if shown != nil {
				setResult(cmd.Context(), printedResult{shown})
			}
			return err
		},
	}
	subjectFlags(cmd, &o.Subject)
	cmd.Flags().IntVar(&o.Layers, "layers", bench.DemoLayers, "number `N` of layers of the model llama")
	return cmd
}

// subjectFlags are those of commands that measure a model.
func subjectFlags(cmd *cobra.Command, s *bench.Subject) {
	methodFlag(cmd, &s.Method)
	threadsFlag(cmd, &s.Threads)
	jsonFlag(cmd)
	f := cmd.Flags()
	f.StringVar(&s.Dir, "dir", "demo", "`DIR` for cache files and generated weights, created if it is not there")
	f.StringVar(&s.Figures, "figures", "", "also write all figures to `FILE`, in JSON")
}

func checkSubject(s *bench.Subject) error {
	if err := checkModel(modelfile.File{Path: s.Path, Method: s.Method}); err != nil {
		return err
	}
	return checkThreads(s.Threads)
}

// checkLayers checks the flag --layers.
func checkLayers(cmd *cobra.Command, model string, layers int) error {
	if cmd.Flags().Changed("layers") && model != bench.Llama {
		return usagef("--layers is for the model llama, not for %s", model)
	}
	if layers < 1 || layers > generated.MaxLayers {
		return usagef("--layers %d: must be from 1 to %d", layers, generated.MaxLayers)
	}
	return nil
}
