package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
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
	wait, letGo, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, wait.Close()) }()
	hosts := make([]*exec.Cmd, 0, n)
	said, stderr := make([]*bufio.Reader, n), make([]bytes.Buffer, n)
	defer func() {
		_ = letGo.Close() // which an error has left open
		for i, h := range hosts {
			if ended := h.Wait(); ended != nil {
				err = errors.Join(err, fmt.Errorf("%v: %w: %s", h, ended, bytes.TrimSpace(stderr[i].Bytes())))
			}
		}
	}()
	for i := range n {
		h := exec.CommandContext(ctx, command[0], command[1:]...)
		h.Env = append(h.Environ(), togetherVariable+"=1")
		h.Stdin, h.Stderr = wait, &stderr[i]
		stdout, err := h.StdoutPipe()
		if err != nil {
			return nil, err
		}
		if err := h.Start(); err != nil {
			return nil, err
		}
		hosts, said[i] = append(hosts, h), bufio.NewReader(stdout)
	}
	for _, s := range said {
		if _, err := s.ReadString('\n'); err != nil {
			return nil, fmt.Errorf("a process does not wait: %w", err)
		}
	}
	if err := letGo.Close(); err != nil {
		return nil, err
	}
	for _, s := range said {
		var r hostReport
		if err := json.NewDecoder(s).Decode(&r); err != nil {
			return nil, err
		}
		loads = append(loads, r.LoadMS)
	}
	return loads, nil
}
