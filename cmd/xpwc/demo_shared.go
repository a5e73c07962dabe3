package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"xpwc"
	"xpwc/xnnpack"
)

// demoShared repeats the experiment of ExecuTorch PR 9155: two methods that share weights, in one process, with a cache and without.
func demoShared(ctx context.Context, t target, title, jsonFile string, stdout, stderr io.Writer) error {
	if err := t.removeCache(); err != nil {
		return err
	}
	var without, with twice
	fmt.Fprintln(stderr, "two methods without a cache")
	if err := t.withCache("").start(ctx, &without, stderr, "--twice"); err != nil {
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

// twice is what a process tells that ran two runtimes of one model.
type twice struct {
	Cache       bool   `json:"cache"`
	Before      int64  `json:"before_rss_bytes"`
	AfterFirst  int64  `json:"after_first_rss_bytes"`
	AfterSecond int64  `json:"after_second_rss_bytes"`
	Sum         string `json:"output_sha256"`
}

// measureTwice loads and runs a model two times in this process, as two methods that share all their weights. Where the system
// does not tell the memory, its figures are 0.
func measureTwice(t target) (r *twice, err error) {
	r = &twice{Cache: t.cache != ""}
	if err := xnnpack.Initialize(); err != nil {
		return nil, err
	}
	m, err := t.open()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	if err := r.takeRSS(&r.Before); err != nil {
		return nil, err
	}
	for _, after := range []*int64{&r.AfterFirst, &r.AfterSecond} {
		e, loadErr := load(m, packedIn(t.cache, &xpwc.Options{}), t.threads)
		if loadErr != nil {
			return nil, loadErr
		}
		defer func() { err = errors.Join(err, e.Close()) }()
		if err := r.method(e, after); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// method runs one of the two, and measures.
func (r *twice) method(e *execution, after *int64) error {
	e.fillKnuth()
	if _, err := e.infer(); err != nil {
		return err
	}
	if e.cache != nil {
		if err := errors.Join(e.cache.Save(), e.touch()); err != nil {
			return err
		}
	}
	sum := e.outputSum()
	if r.Sum != "" && r.Sum != sum {
		return errors.New("the outputs of the two runtimes differ")
	}
	r.Sum = sum
	return r.takeRSS(after)
}

func (r *twice) takeRSS(to *int64) error {
	m, err := measureMemory()
	if errors.Is(err, errNoMemoryFigures) {
		return nil
	}
	*to = m.RSS
	return err
}
