// Command peers compares xpwc with LiteRT and ExecuTorch: make bench-peers builds it with the XNNPACK of ExecuTorch.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"

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
	if len(args) > 0 {
		switch args[0] {
		case bench.HostCommand:
			return bench.Host(args[1:], os.Stdin, os.Stdout)
		case bench.MeasureCommand:
			return bench.Measure(os.Stdin, os.Stdout, os.Stderr)
		}
	}
	var o bench.PeersOptions
	f := flag.NewFlagSet("peers", flag.ContinueOnError)
	f.IntVar(&o.Rounds, "rounds", 5, "`rounds` of all modes")
	f.IntVar(&o.Processes, "processes", 8, "`number` of processes with one model at the same time; 0 for none")
	f.StringVar(&o.Dir, "dir", "demo/peers", "`directory` for cache files and generated models")
	f.StringVar(&o.JSON, "json", "", "`file` for all figures; those of other models that it has are kept")
	f.StringVar(&o.Only, "only", "", "measure only this `peer`, as LiteRT, and fail if its answers differ")
	f.StringVar(&o.Programs.LiteRT, "litert", "", "`program` of internal/bench/litert")
	f.StringVar(&o.Programs.Reader, "reader", "", "`program` of internal/bench/reader, which runs generated models")
	f.StringVar(&o.Programs.ExecuTorch, "executorch", "", "`program` of examples/executorch")
	f.StringVar(&o.Programs.DropIn, "drop-in", "", "`library` of capi/testdata/executorch/real.cc, on the reader")
	f.StringVar(&o.Programs.XPWC, "xpwc", "", "the tool, `xpwc`")
	if err := f.Parse(args); err != nil {
		return err
	}
	o.Models = f.Args()
	return bench.RunPeers(ctx, o, os.Stdout, os.Stderr)
}
