// Command starts compares how a program starts without a cache and with one: the time from exec to the first byte that
// it writes, and its memory then. The program takes -cache FILE before its other arguments.
//
//	starts -cache llm.xpwc bin/llm -- 'The capital of France is'
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
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"
)

// A start is a way of starting processes of the program.
type start struct {
	name      string
	processes int
	cached    bool
	prepare   func() error
}

// figures are those of the processes that are started together.
type figures struct {
	first     time.Duration // from exec to the first output, of the last process that has one
	memory    int64         // of all when they have one: their shares of pages, which sum up to what they take together
	anonymous int64         // of it, what is in no file
}

func main() {
	cache := flag.String("cache", "", "cache `FILE` that the program is given; it is removed at first")
	source := flag.String("source", "", "`FILE` of the model")
	rounds := flag.Int("rounds", 1, "`NUMBER` of rounds: from 2 on more kinds of starts, and no outputs")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := errors.New("give -cache FILE, a program and its arguments")
	if *cache != "" && flag.NArg() > 0 && *rounds > 0 {
		err = compare(ctx, *cache, *source, flag.Args(), *rounds)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "starts: %v\n", err)
		os.Exit(1)
	}
}

// compare starts the program in all ways and prints their figures: the medians of some rounds, or with a single round
// the outputs too.
func compare(ctx context.Context, cache, source string, program []string, rounds int) error {
	removed := func() error {
		if err := os.Remove(cache); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return read(source)
	}
	inMemory := func() error { return errors.Join(read(cache), read(source)) }
	dropped := func() error { return errors.Join(drop(cache), drop(source)) }
	starts := []start{
		{"without cache", 1, false, removed},
		{"first start", 1, true, removed},
		{"next start", 1, true, inMemory},
		{"next start, from the disk", 1, true, dropped},
		{"eight at once, without cache", 8, false, inMemory},
		{"eight at once, next start", 8, true, inMemory},
	}
	if rounds == 1 {
		starts = starts[:3]
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	least := func(of string) string { // of one round there is none beside the median
		if rounds == 1 {
			return ""
		}
		return of + "\t"
	}
	fmt.Fprintf(table, "\tfirst output\t%smemory\tof it anonymous\n", least("least"))
	all := make([][]figures, len(starts))
	for range rounds {
		for i, start := range starts {
			output := io.Discard
			if rounds == 1 {
				fmt.Printf("%s: %s\n", start.name, program[len(program)-1])
				output = os.Stdout
			}
			f, err := start.run(ctx, cache, program, output)
			if err != nil {
				return fmt.Errorf("%s: %w", start.name, err)
			}
			all[i] = append(all[i], f)
		}
	}
	for i, start := range starts {
		slices.SortFunc(all[i], func(a, b figures) int { return int(a.first - b.first) })
		median := all[i][rounds/2]
		fmt.Fprintf(table, "%s\t%d ms\t%s%d MiB\t%d MiB\n", start.name, median.first.Milliseconds(),
			least(fmt.Sprint(all[i][0].first.Milliseconds(), " ms")), median.memory>>20, median.anonymous>>20)
	}
	return table.Flush()
}

// run starts processes, has each wait when its first output is there, looks at their memory, and writes their outputs.
func (s start) run(ctx context.Context, cache string, program []string, output io.Writer) (f figures, err error) {
	if err := s.prepare(); err != nil {
		return f, err
	}
	args := program[1:]
	if s.cached {
		args = append([]string{"-cache", cache}, args...)
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
		p := exec.CommandContext(ctx, program[0], args...)
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
			_, err = io.Copy(output, p.output)
		}
	}
	fmt.Fprintln(output)
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

// read has a file's pages in memory.
func read(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(io.Discard, f)
	return err
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
