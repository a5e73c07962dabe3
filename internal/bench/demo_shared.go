package bench

import (
	"context"
	"errors"
	"fmt"
	"io"

	"xpwc"
	"xpwc/internal/console"
	"xpwc/internal/execution"
	"xpwc/xnnpack"
)

// demoShared repeats the experiment of pull request 9155 to ExecuTorch: two methods that share weights, in one process,
// without a cache and with one.
func demoShared(ctx context.Context, t task, title, file string, stdout, stderr io.Writer) (*Demonstration, error) {
	if err := t.removeCache(); err != nil {
		return nil, err
	}
	var without, with twice
	fmt.Fprintln(stderr, "two methods without a cache")
	if err := t.withCache("").start(ctx, modeTwice, &without, stderr); err != nil {
		return nil, err
	}
	fmt.Fprintln(stderr, "two methods on one cache")
	if err := t.start(ctx, modeTwice, &with, stderr); err != nil {
		return nil, err
	}
	fmt.Fprintf(stdout, "\nTwo methods that share their weights: %s\n\n", title)
	var table console.Table
	table.Row("RSS", "before", "after the 1st", "after the 2nd", "the 2nd added")
	row := func(name string, r twice) {
		if r.AfterSecond == 0 { // the system has no such figures
			table.Row(name, console.None, console.None, console.None, console.None)
			return
		}
		table.Row(name, console.Mebibytes(r.Before), console.Mebibytes(r.AfterFirst), console.Mebibytes(r.AfterSecond),
			console.Mebibytes(r.AfterSecond-r.AfterFirst))
	}
	row("without cache", without)
	row("one cache", with)
	if err := table.Print(stdout); err != nil {
		return nil, err
	}
	fmt.Fprint(stdout, "\nFor comparison, ExecuTorch's pull request 9155 reports, of another model: 62.8 MiB after\n"+
		"the first; after the second 130.0 MiB without a cache and 93.2 MiB with one.\n\n")
	shown := &Demonstration{Methods: []twice{without, with}}
	if file != "" {
		if err := writeJSON(file, shown.Methods); err != nil {
			return shown, err
		}
	}
	if without.Sum != with.Sum {
		return shown, errDiffer
	}
	fmt.Fprintf(stdout, "All outputs are identical bit for bit.\nSHA-256 %s\n", with.Sum)
	return shown, nil
}

// twice is what a process reports that ran two runtimes of one model.
type twice struct {
	Cache       bool   `json:"cache"`
	Before      int64  `json:"before_rss_bytes"`
	AfterFirst  int64  `json:"after_first_rss_bytes"`
	AfterSecond int64  `json:"after_second_rss_bytes"`
	Sum         string `json:"output_sha256"`
}

// measureTwice loads and runs a model twice in this process, as two methods that share all their weights. Where the
// system has no figures of memory they are 0.
func measureTwice(t task) (r *twice, err error) {
	r = &twice{Cache: t.Cache != ""}
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
		e, loadErr := execution.Load(m, execution.PackedIn(t.Cache, &xpwc.Options{}), t.Threads)
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

// method runs one of the two, and measures the memory after it.
func (r *twice) method(e *execution.Execution, after *int64) error {
	if err := e.FillKnuth(); err != nil {
		return err
	}
	if _, err := e.Infer(); err != nil {
		return err
	}
	if e.Cache != nil {
		if err := errors.Join(e.Cache.Save(), touch(e)); err != nil {
			return err
		}
	}
	sum := outputSum(e)
	if r.Sum != "" && r.Sum != sum {
		return errors.New("the outputs of the two runtimes differ")
	}
	r.Sum = sum
	return r.takeRSS(after)
}

func (r *twice) takeRSS(to *int64) error {
	m, err := measureMemory()
	*to = int64(m[rss])
	return err
}
