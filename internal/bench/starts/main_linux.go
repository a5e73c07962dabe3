// Command starts compares how a program starts without a cache and with one; see [bench.CompareStarts].
//
//	starts -cache llm.xpwc bin/llm -- 'The capital of France is'
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"xpwc/internal/bench"
)

func main() {
	cache := flag.String("cache", "", "cache `FILE` that the program is given; it is removed at first")
	source := flag.String("source", "", "`FILE` of the model")
	rounds := flag.Int("rounds", 1, "`NUMBER` of rounds: from 2 on more kinds of starts, and no outputs")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := errors.New("give -cache FILE, a program and its arguments")
	if *cache != "" && flag.NArg() > 0 && *rounds > 0 {
		err = bench.CompareStarts(ctx, *cache, *source, flag.Args(), *rounds, os.Stdout)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "starts: %v\n", err)
		os.Exit(1)
	}
}
