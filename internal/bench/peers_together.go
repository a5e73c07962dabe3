package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
)

// togetherVariable is set in the environment of a host that loads at the same instant as others: it prints an empty
// line when it could begin, waits until standard input ends, loads, prints a hostReport without methods, and ends.
const togetherVariable = "LOAD_TOGETHER"

// togetherTimes is how often processes load together.
const togetherTimes = 5

// measureTogether has processes load at the same instant, a few times, the ways that have a file in turn. ExecuTorch's
// host is left out: it is an example to copy from, and does not wait.
func (c *comparison) measureTogether(ctx context.Context, n int, stderr io.Writer) error {
	ways := slices.DeleteFunc(slices.Clone(c.ways), func(w *way) bool {
		return w.start != nextStart || strings.HasPrefix(w.name, "ExecuTorch")
	})
	all, slowest := make([][]float64, len(ways)), make([][]float64, len(ways))
	for range togetherTimes {
		for _, i := range rand.Perm(len(ways)) {
			w := ways[i]
			fmt.Fprintf(stderr, "%s: %d processes at once, %s\n", c.result.Model, n, w.name)
			if err := c.readFiles(ctx, w); err != nil {
				return err
			}
			loads, err := loadTogether(ctx, w.command(c.model, w.cache), n)
			if err != nil {
				return fmt.Errorf("%d processes at once, %s: %w", n, w.name, err)
			}
			all[i], slowest[i] = append(all[i], loads...), append(slowest[i], slices.Max(loads))
		}
	}
	for i, w := range ways {
		w.many.TogetherMS, w.many.SlowestMS = spreadOf(all[i]).Median, spreadOf(slowest[i]).Median
	}
	return nil
}

// loadTogether starts processes, lets all of them go when each could begin, and returns how long each took to load.
func loadTogether(ctx context.Context, command []string, n int) (loads []float64, err error) {
	hosts, err := startHosts(n, func() (*host, error) { return startHost(ctx, command, togetherVariable+"=1") })
	defer func() { err = errors.Join(err, stopAll(hosts)) }()
	if err != nil {
		return nil, err
	}
	for _, h := range hosts {
		if _, err := h.stdout.ReadString('\n'); err != nil {
			return nil, fmt.Errorf("a process does not wait: %w", err)
		}
	}
	for _, h := range hosts {
		if err := h.stdin.Close(); err != nil {
			return nil, err
		}
	}
	for _, h := range hosts {
		if err := h.read(); err != nil {
			return nil, err
		}
		loads = append(loads, h.report.LoadMS)
	}
	return loads, nil
}

// startHosts starts hosts one after the other. What was started is returned with an error, too.
func startHosts(n int, start func() (*host, error)) (all []*host, err error) {
	for range n {
		h, err := start()
		if err != nil {
			return all, err
		}
		all = append(all, h)
	}
	return all, nil
}

func stopAll(hosts []*host) (err error) {
	for _, h := range hosts {
		err = errors.Join(err, h.stop())
	}
	return err
}
