package main

import (
	"context"
	"fmt"
	"io"
)

// demoShared repeats the experiment of ExecuTorch PR 9155: two methods that share weights, in one process, with a cache and without.
func demoShared(ctx context.Context, t target, title, jsonFile string, stdout, stderr io.Writer) error {
	if err := t.removeCache(); err != nil {
		return err
	}
	var without, with twice
	fmt.Fprintln(stderr, "two methods without a cache")
	if err := t.withoutCache().start(ctx, &without, stderr, "--twice"); err != nil {
		return err
	}
	fmt.Fprintln(stderr, "two methods on one cache")
	if err := t.start(ctx, &with, stderr, "--twice"); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "\nTwo methods that share their weights: %s\n\n", title)
	var table table
	table.row("RSS", "before", "after the 1st", "after the 2nd", "the 2nd added")
	row := func(name string, r twice) {
		if r.AfterSecond == 0 { // the system does not tell
			table.row(name, none, none, none, none)
			return
		}
		table.row(name, mebibytes(r.Before), mebibytes(r.AfterFirst), mebibytes(r.AfterSecond), mebibytes(r.AfterSecond-r.AfterFirst))
	}
	row("no cache", without)
	row("one cache", with)
	if err := table.print(stdout); err != nil {
		return err
	}
	fmt.Fprint(stdout, "\nFor comparison, ExecuTorch PR 9155 reports of a model of its own: after the first 62.8 MiB,\n"+
		"after the second 130.0 MiB without a cache and 93.2 MiB with one.\n\n")
	if jsonFile != "" {
		if err := writeJSON(jsonFile, []twice{without, with}); err != nil {
			return err
		}
	}
	if without.Sum != with.Sum {
		return errDiffer
	}
	fmt.Fprintf(stdout, "All outputs are identical bit for bit.\nSHA-256 %s\n", with.Sum)
	return nil
}
