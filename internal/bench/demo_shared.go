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

// Memory before two methods are loaded, and after each of them.
const (
	before      = "before_"
	afterFirst  = "after_first_"
	afterSecond = "after_second_"

	secondAdded figure = "second_added_bytes"
)

// demoShared repeats the experiment of pull request 9155 to ExecuTorch: two methods that share weights, in one process,
// without a cache and with one.
func demoShared(ctx context.Context, t task, title string, stdout, stderr io.Writer) (*Demonstration, error) {
	shown := &Demonstration{}
	var ways []*modeResult
	for _, way := range []struct {
		name, what string
		task       task
	}{
		{"without cache", "two methods without a cache", t.withCache("")},
		{"one cache", "two methods on one cache", t},
	} {
		fmt.Fprintln(stderr, way.what)
		r := &run{}
		if err := way.task.start(ctx, modeTwice, r, stderr); err != nil {
			return nil, err
		}
		figures := r.shown(before+rss, afterFirst+rss, afterSecond+rss)
		figures["cache"] = way.task.Cache != ""
		shown.Methods = append(shown.Methods, figures)
		m := &modeResult{Mode: way.name, Runs: []*run{r}}
		m.sumUp()
		ways = append(ways, m)
	}
	fmt.Fprintf(stdout, "\nTwo methods that share their weights: %s\n", title)
	mib := func(v float64) string { return console.Mebibytes(int64(v)) }
	err := printTables(stdout, modesTable("RSS", ways, []column{
		columnOf("before", before+rss, mib), columnOf("after the 1st", afterFirst+rss, mib),
		columnOf("after the 2nd", afterSecond+rss, mib), columnOf("the 2nd added", secondAdded, mib),
	}))
	if err != nil {
		return nil, err
	}
	fmt.Fprint(stdout, "\nFor comparison, ExecuTorch's pull request 9155 reports, of another model: 62.8 MiB after\n"+
		"the first; after the second 130.0 MiB without a cache and 93.2 MiB with one.\n\n")
	sum := ways[0].Runs[0].Output
	if ways[1].Runs[0].Output != sum {
		return shown, errDiffer
	}
	fmt.Fprintf(stdout, "All outputs are identical bit for bit.\nSHA-256 %s\n", sum)
	return shown, nil
}

// measureTwice loads and runs a model twice in this process, as two methods that share all their weights.
func measureTwice(t task) (r *run, err error) {
	r = &run{Figures: figures{}}
	if err := xnnpack.Initialize(); err != nil {
		return nil, err
	}
	m, err := t.Model.Open()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	if err := r.takeMemory(before); err != nil {
		return nil, err
	}
	for _, after := range []figure{afterFirst, afterSecond} {
		e, loadErr := execution.Load(m, execution.PackedIn(t.Cache, &xpwc.Options{}), t.Threads)
		if loadErr != nil {
			return nil, loadErr
		}
		defer func() { err = errors.Join(err, e.Close()) }()
		if err := r.method(e, after); err != nil {
			return nil, err
		}
	}
	if second, known := r.Figures[afterSecond+rss]; known {
		r.Figures[secondAdded] = second - r.Figures[afterFirst+rss]
	}
	return r, nil
}

// method runs one of the two, and measures the memory after it.
func (r *run) method(e *execution.Execution, after figure) error {
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
	if r.Output != "" && r.Output != sum {
		return errors.New("the outputs of the two runtimes differ")
	}
	r.Output = sum
	return r.takeMemory(after)
}
