// Command peers compares xpwc with LiteRT and ExecuTorch: make bench-peers builds it with the XNNPACK of ExecuTorch.
// The peers' programs are in the same directory.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"

	"xpwc/internal/bench"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) > 0 && args[0] == bench.MeasureCommand {
		return bench.Measure(args[1:], os.Stdin, os.Stdout)
	}
	var o bench.PeersOptions
	f := flag.NewFlagSet("peers", flag.ContinueOnError)
	f.IntVar(&o.Rounds, "rounds", 5, "`rounds` of all modes")
	f.IntVar(&o.Processes, "processes", 8, "`number` of processes with one model at the same time; 0 for none")
	f.StringVar(&o.Dir, "dir", "demo/peers", "`directory` for cache files and generated models")
	f.StringVar(&o.JSON, "json", "", "`file` for all figures")
	limit := f.Float64("operators", 0,
		"measure only inferences without a cache, and print the models above this `ratio` to the stock runtime's time")
	tokens := f.Int("tokens", 0, "compare language models, with answers of so many `tokens`")
	threads := f.Int("threads", 1, "`threads` of each program with a language model")
	f.StringVar(&o.Peer, "only", "", "measure only this `peer`, as LiteRT, and fail if its answers differ")
	if err := f.Parse(args); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	o.Models, o.Programs = f.Args(), bench.Programs(filepath.Dir(self))
	if *limit > 0 {
		return bench.RunOperators(ctx, o, *limit, os.Stdout, os.Stderr)
	}
	if *tokens > 0 {
		return bench.RunLanguageModels(ctx, bench.LanguageModelsOptions{Models: o.Models, Rounds: o.Rounds,
			Processes: o.Processes, Threads: *threads, Tokens: *tokens, Dir: o.Dir, JSON: o.JSON, Programs: o.Programs},
			os.Stdout, os.Stderr)
	}
	return bench.RunPeers(ctx, o, os.Stdout, os.Stderr)
}
