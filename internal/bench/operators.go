package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"xpwc/internal/console"
)

// A contest is one model's inference time here and in its stock runtime, the least of several runs.
type contest struct {
	model       string
	ours, stock float64 // in milliseconds
	sameBits    bool
}

func (c contest) ratio() float64 { return c.ours / c.stock }

// RunOperators measures the inferences of models of one operator each, here and in their stock runtimes, one thread
// each, alternating. It prints a table of the models whose ratio is above limit, the slowest first, and counts the
// others. A model that does not run here or there is listed with the reason.
func RunOperators(ctx context.Context, o PeersOptions, limit float64, stdout, stderr io.Writer) error {
	var contests []contest
	var refused []string
	for i, model := range o.Models {
		fmt.Fprintf(stderr, "%d of %d: %s\n", i+1, len(o.Models), filepath.Base(model))
		c, err := compete(ctx, model, o)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			refused = append(refused, filepath.Base(model)+": "+strings.ReplaceAll(err.Error(), "\n", "; "))
			continue
		}
		contests = append(contests, c)
	}
	return errors.Join(printContests(stdout, contests, limit), printRefused(stdout, refused))
}

func compete(ctx context.Context, model string, o PeersOptions) (contest, error) {
	c, err := newPeers(ctx, model, o, io.Discard)
	if err != nil {
		return contest{}, err
	}
	c.churned = 0
	c.ways = slices.DeleteFunc(c.ways, func(w *way) bool { return w.start != withoutCache })
	if len(c.ways) != 2 {
		return contest{}, errors.New("its stock runtime's host is missing")
	}
	if err := errors.Join(c.rounds(ctx, o.Rounds), c.clean()); err != nil {
		return contest{}, err
	}
	ours, stock := &c.ways[0].modeResult, &c.ways[1].modeResult
	return contest{filepath.Base(model), ours.Figures[steadyMS].Min, stock.Figures[steadyMS].Min,
		ours.Runs[0].Output == stock.Runs[0].Output}, nil
}

func printContests(w io.Writer, contests []contest, limit float64) error {
	slices.SortFunc(contests, func(a, b contest) int { return cmp.Compare(b.ratio(), a.ratio()) })
	table := &console.Table{}
	table.Row("operator", "xpwc ms", "stock ms", "ratio", "answer")
	for _, c := range contests {
		if c.ratio() > limit {
			answer := "other bits"
			if c.sameBits {
				answer = "the same"
			}
			table.Row(c.model, fmt.Sprintf("%.4f", c.ours), fmt.Sprintf("%.4f", c.stock),
				fmt.Sprintf("%.2f", c.ratio()), answer)
		}
	}
	err := table.Print(w)
	fmt.Fprintf(w, "%s: at most 1.3 x %d, at most 1.5 x %d, at most 3 x %d\n", console.Plural(len(contests), "model"),
		countUpTo(1.3, contests), countUpTo(1.5, contests), countUpTo(3, contests))
	return err
}

// countUpTo returns how many ratios are at most a bound.
func countUpTo(bound float64, contests []contest) (n int) {
	for _, c := range contests {
		if c.ratio() <= bound {
			n++
		}
	}
	return n
}

func printRefused(w io.Writer, refused []string) (err error) {
	for _, line := range refused {
		_, err = fmt.Fprintf(w, "not measured: %s\n", line)
	}
	return err
}
