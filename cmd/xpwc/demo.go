package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"xpwc/internal/bench/llama"
)

// demoBytes is about how much the generated stack has of weights unless it is told.
const demoBytes = 500e6

type demoOptions struct {
	dir, json string
	layers    int
	threads   int
	shared    bool
}

func newDemoCommand() *cobra.Command {
	var o demoOptions
	cmd := &cobra.Command{
		Use:   "demo [MODEL]",
		Short: "Compare running a model without a cache, cold and warm",
		Long: `Runs a model three times, each in a process of its own: without a cache, cold (XNNPACK packs the weights into a new cache
file), and warm (the file is mapped and nothing is packed). Prints what each took, and whether the outputs are equal bit for bit.

MODEL is a .tflite file, or the word llama: a generated stack of layers of Llama 3.2 1B's shape with int8 weights.
By default it is ` + defaultModel + `.

Total load is what lies between the opened model and a runtime that can be executed: opening the cache, loading the tensors,
creating the runtime with all packing, finalizing. The first inference includes planning the runtime's memory. Memory is
measured after the first inference, and in the cold run after the cache is saved.

--shared shows instead what a second method (runtime) costs that has the weights of the first, with a cache and without.`,
		Example: `  xpwc demo pose_landmark_heavy.tflite
  xpwc demo llama --layers 4 --json demo.json
  xpwc demo llama --shared`,
		Args: usage(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := defaultModel
			if len(args) > 0 {
				name = args[0]
			}
			if err := checkLayers(cmd, name, o.layers); err != nil {
				return err
			}
			if err := checkThreads(o.threads); err != nil {
				return err
			}
			return demo(cmd.Context(), name, o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.dir, "dir", "demo", "`DIR` for the cache file and generated weights, created if it is not there")
	f.StringVar(&o.json, "json", "", "also write the figures to `FILE`, a JSON list with an object for each mode")
	f.IntVar(&o.layers, "layers", llama.LayersFor(demoBytes), "number `N` of layers of the model llama")
	threadsFlag(cmd, &o.threads)
	f.BoolVar(&o.shared, "shared", false, "show what a second method with the same weights costs")
	return cmd
}

// checkLayers looks at the flag --layers.
func checkLayers(cmd *cobra.Command, model string, layers int) error {
	if cmd.Flags().Changed("layers") && model != llamaModelID {
		return usagef("--layers is for the model llama, not for %s", model)
	}
	if layers < 1 || layers > llama.MaxLayers {
		return usagef("--layers %d: must be from 1 to %d", layers, llama.MaxLayers)
	}
	return nil
}

func demo(ctx context.Context, name string, o demoOptions, stdout, stderr io.Writer) error {
	jobOf(ctx).heed(fmt.Sprintf("%s keeps what was made there", o.dir))
	p, err := prepare(ctx, name, o.dir, llama.Stack{Layers: o.layers}, o.threads, stderr)
	if err != nil {
		return err
	}
	t := p.withCache(filepath.Join(o.dir, p.base+".demo.xpwc"))
	if o.shared {
		return demoShared(ctx, t, p.title, o.json, stdout, stderr)
	}
	return demoModes(ctx, t, p.title, o.json, stdout, stderr)
}

func demoModes(ctx context.Context, t target, title, jsonFile string, stdout, stderr io.Writer) error {
	if err := t.removeCache(); err != nil {
		return err
	}
	var all []*measured
	for _, run := range []struct {
		mode, what string
		target     target
	}{
		{modeNone, "without a cache", t.withCache("")},
		{modeCold, "cold: packing into " + t.cache, t},
		{modeWarm, "warm: mapping " + t.cache, t},
	} {
		fmt.Fprintln(stderr, run.what)
		var r measured
		if err := run.target.start(ctx, &r, stderr, "--mode", run.mode); err != nil {
			return fmt.Errorf("mode %s: %w", run.mode, err)
		}
		all = append(all, &r)
	}
	fmt.Fprintf(stdout, "\n%s\n\n", title)
	if err := modesTable(all).print(stdout); err != nil {
		return err
	}
	fmt.Fprintln(stdout)
	err := summarize(stdout, all[0], all[1], all[2])
	if jsonFile != "" {
		list := make([]measurement, len(all))
		for i, r := range all {
			list[i] = r.measurement
		}
		err = errors.Join(err, writeJSON(jsonFile, list))
	}
	return err
}

func writeJSON(path string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o666)
}

func modesTable(all []*measured) *table {
	t := &table{}
	row := func(name string, cell func(*measured) string) {
		cells := []string{name}
		for _, r := range all {
			cells = append(cells, cell(r))
		}
		t.row(cells...)
	}
	// What does not apply without a cache, and what the system does not tell.
	cached := func(name string, cell func(*measured) string) {
		row(name, func(r *measured) string {
			if r.Mode == modeNone {
				return none
			}
			return cell(r)
		})
	}
	resident := func(name string, bytes func(*measured) int64) {
		row(name, func(r *measured) string {
			if !r.MemoryKnown {
				return none
			}
			return mebibytes(bytes(r))
		})
	}
	t.row("", "no cache", "cold", "warm")
	cached("open cache", func(r *measured) string { return ms(r.OpenMS) })
	row("load tensors", func(r *measured) string { return ms(r.LoadMS) })
	row("create runtime", func(r *measured) string { return ms(r.CreateRuntimeMS) })
	row("finalize", func(r *measured) string { return ms(r.FinalizeMS) })
	row("total load", func(r *measured) string { return ms(r.TotalLoadMS) })
	row("first inference", func(r *measured) string { return ms(r.FirstInferenceMS) })
	row("steady inference (median)", func(r *measured) string { return ms(r.SteadyMS) })
	resident("RssAnon", func(r *measured) int64 { return r.RSSAnonBytes })
	resident("RssFile", func(r *measured) int64 { return r.RSSFileBytes })
	resident("Private_Dirty", func(r *measured) int64 { return r.PrivateDirtyBytes })
	cached("entries hit", func(r *measured) string { return fmt.Sprint(r.Hits) })
	cached("entries packed", func(r *measured) string { return fmt.Sprint(r.Packed) })
	cached("  packed again, found equal", func(r *measured) string { return fmt.Sprint(r.Reused) })
	cached("entries private", func(r *measured) string { return privateCell(r.Private, r.Reasons) })
	cached("written to the file", func(r *measured) string { return size(r.BytesWritten) })
	cached("file size", func(r *measured) string { return size(r.FileBytes) })
	return t
}

var errDiffer = errors.New("the outputs differ: without a cache, cold and warm must agree bit for bit")

// summarize says in a sentence each what the cache was worth, and fails if the outputs are not the same.
func summarize(w io.Writer, uncached, cold, warm *measured) error {
	for _, r := range []*measured{cold, warm} {
		for _, note := range r.Notes {
			fmt.Fprintf(w, "Note (%s): %s\n", r.Mode, note)
		}
	}
	fmt.Fprintf(w, "Loading takes %s warm and %s without a cache: %s.\n", ms(warm.TotalLoadMS), ms(uncached.TotalLoadMS),
		faster(uncached.TotalLoadMS, warm.TotalLoadMS))
	if warm.MemoryKnown && uncached.MemoryKnown && warm.PayloadBytes > 0 {
		saved := uncached.RSSAnonBytes - warm.RSSAnonBytes
		fmt.Fprintf(w, "Private memory (RssAnon) is %s less warm: %.1f %% of the %s of packed weights.\n", mebibytes(saved),
			100*float64(saved)/float64(warm.PayloadBytes), mebibytes(warm.PayloadBytes))
	}
	if cold.PayloadBytes > 0 {
		fmt.Fprintf(w, "The cache file is %.2f %% larger than the packed weights in it.\n",
			100*float64(cold.FileBytes-cold.PayloadBytes)/float64(cold.PayloadBytes))
	}
	if uncached.OutputSHA256 == cold.OutputSHA256 && cold.OutputSHA256 == warm.OutputSHA256 {
		fmt.Fprintf(w, "The three outputs are identical bit for bit.\nSHA-256 %s\n", warm.OutputSHA256)
		return nil
	}
	for _, r := range []*measured{uncached, cold, warm} {
		fmt.Fprintf(w, "SHA-256 of the outputs, %s: %s\n", r.Mode, r.OutputSHA256)
	}
	return errDiffer
}

func faster(without, with float64) string {
	if with <= 0 || without < with {
		return "no gain"
	}
	if r := without / with; r < 10 {
		return fmt.Sprintf("%.1f times faster", r)
	}
	return fmt.Sprintf("%.0f times faster", without/with)
}
