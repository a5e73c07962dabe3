package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"
)

// A start is a kind of starting processes that answer a prompt.
type start struct {
	name      string
	processes int
	cached    bool
	prepare   func() error // or nil
}

// figures are those of the processes that are started together.
type figures struct {
	first     time.Duration // from exec to the first token, of the last process that has one
	memory    int64         // of all when they have one: their shares of pages, which sum up to what they take together
	anonymous int64         // of it, what is in no file
}

// compare starts processes in all ways and prints their figures: the medians of some rounds, or with a single round
// the answers too.
func (o options) compare(ctx context.Context, dir, prompt string, rounds int, w io.Writer) error {
	cache := filepath.Join(dir, "llm.xpwc")
	removed := func() error {
		if err := os.Remove(cache); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	dropped := func() error { return errors.Join(drop(cache), drop(o.model)) }
	starts := []start{
		{"without cache", 1, false, nil},
		{"first start", 1, true, removed},
		{"next start", 1, true, nil},
		{"next start, from the disk", 1, true, dropped},
		{"eight at once, without cache", 8, false, nil},
		{"eight at once, next start", 8, true, nil},
	}
	if rounds == 1 {
		starts = starts[:3]
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\tfirst token\tmemory\tof it anonymous")
	for _, start := range starts {
		answer := io.Discard
		if rounds == 1 {
			fmt.Fprintf(w, "%s: %s", start.name, prompt)
			answer = w
		}
		all := make([]figures, rounds)
		for round := range all {
			var err error
			if all[round], err = start.run(ctx, cache, prompt, answer); err != nil {
				return fmt.Errorf("%s: %w", start.name, err)
			}
		}
		slices.SortFunc(all, func(a, b figures) int { return int(a.first - b.first) })
		median := all[rounds/2]
		fmt.Fprintf(table, "%s\t%d ms\t%d MiB\t%d MiB\n", start.name, median.first.Milliseconds(), median.memory>>20,
			median.anonymous>>20)
	}
	o.cache = cache
	return errors.Join(withService(o, func(s *service) error {
		least, err := s.limit(prompt)
		fmt.Fprintf(table, "limit: computing it\t%d ms\n", least.Milliseconds())
		return err
	}), table.Flush())
}

// run starts processes, has each wait when its first token is there, looks at their memory, and writes their answers.
func (s start) run(ctx context.Context, cache, prompt string, answer io.Writer) (f figures, err error) {
	if s.prepare != nil {
		if err := s.prepare(); err != nil {
			return f, err
		}
	}
	program, err := os.Executable()
	if err != nil {
		return f, err
	}
	var args []string
	flag.Visit(func(f *flag.Flag) {
		if f.Name != "compare" && f.Name != "rounds" && f.Name != "cache" {
			args = append(args, "-"+f.Name+"="+f.Value.String())
		}
	})
	if s.cached {
		args = append(args, "-cache="+cache)
	}
	ctx, kill := context.WithCancel(ctx)
	defer kill()
	type process struct {
		*exec.Cmd
		output *bufio.Reader
	}
	var all []process
	defer func() {
		if err != nil {
			kill()
		}
		for _, p := range all {
			err = errors.Join(err, p.Wait())
		}
	}()
	begin := time.Now()
	for range s.processes {
		p := exec.CommandContext(ctx, program, append(args, "--", prompt)...)
		p.Stderr = os.Stderr
		pipe, err := p.StdoutPipe()
		if err != nil {
			return f, err
		}
		if err := p.Start(); err != nil {
			return f, err
		}
		all = append(all, process{p, bufio.NewReader(pipe)})
	}
	waiting := make(chan error)
	for _, p := range all {
		go func() {
			_, err := p.output.Peek(1)
			waiting <- errors.Join(err, p.Process.Signal(syscall.SIGSTOP))
		}()
	}
	for range all {
		err = errors.Join(err, <-waiting)
	}
	f.first = time.Since(begin)
	for _, p := range all {
		err = errors.Join(err, f.addMemory(p.Process.Pid))
	}
	for _, p := range all {
		err = errors.Join(err, p.Process.Signal(syscall.SIGCONT))
		if err == nil {
			_, err = io.Copy(answer, p.output)
		}
	}
	fmt.Fprintln(answer)
	return f, err
}

func (f *figures) addMemory(pid int) error {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	for line := range bytes.Lines(b) {
		name, value, _ := strings.Cut(string(line), ":")
		into := map[string]*int64{"Pss": &f.memory, "Pss_Anon": &f.anonymous}[name]
		if into == nil {
			continue
		}
		kib, wrong := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		err = errors.Join(err, wrong)
		*into += kib << 10
	}
	return err
}

// limit returns how long a runtime that is open takes to compute the first token.
func (s *service) limit(prompt string) (took time.Duration, err error) {
	ids, err := s.encode(prompt)
	for range 2 { // the first one meets the file's pages
		i, opened := s.model.newInstance(s.cache, s.threads)
		if err := errors.Join(err, opened); err != nil {
			return 0, err
		}
		begin := time.Now()
		_, err = i.next(ids)
		took = time.Since(begin)
		err = errors.Join(err, i.close())
	}
	return took, err
}

// drop has the system forget a file's pages, so that they are read from the disk.
func drop(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return errors.Join(f.Sync(), unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED))
}
