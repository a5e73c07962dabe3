package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"syscall"
	"time"

	"xpwc/internal/console"
)

// A programStart is a way of starting processes of a program.
type programStart struct {
	name      string
	processes int
	command   []string
	prepare   func() error
}

// outputMS is the time from exec to the first output of a process, of the last one that has it where several are
// started at once.
const outputMS figure = "first_output_ms"

// CompareStarts starts a program without a cache and with one: it takes -cache FILE before its other arguments. It
// prints the time from exec to the first byte that the program writes, and its memory then: the medians of some rounds,
// or with a single round the outputs too.
func CompareStarts(ctx context.Context, cache, source string, program []string, rounds int, stdout io.Writer) error {
	removed := func() error {
		_, err := readIn(source)
		return errors.Join(remove(cache), err)
	}
	inMemory := func() error {
		_, err := readIn(cache, source)
		return err
	}
	dropped := func() error { return errors.Join(dropPages(cache), dropPages(source)) }
	cached := slices.Insert(slices.Clone(program), 1, "-cache", cache)
	starts := []programStart{
		{"without cache", 1, program, removed},
		{"first start", 1, cached, removed},
		{"next start", 1, cached, inMemory},
		{"next start, from the disk", 1, cached, dropped},
		{"eight at once, without cache", 8, program, inMemory},
		{"eight at once, next start", 8, cached, inMemory},
	}
	if rounds == 1 {
		starts = starts[:3]
	}
	modes := make([]*modeResult, len(starts))
	for i, s := range starts {
		modes[i] = &modeResult{Mode: s.name}
	}
	for range rounds {
		for i, s := range starts {
			output := io.Discard
			if rounds == 1 {
				fmt.Fprintf(stdout, "%s: %s\n", s.name, program[len(program)-1])
				output = stdout
			}
			f, err := s.run(ctx, output)
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			modes[i].Runs = append(modes[i].Runs, &run{Figures: f})
		}
	}
	for _, m := range modes {
		m.sumUp()
	}
	return modesTable("", modes, []column{columnOf("first output", outputMS, console.MS), betweenColumn(outputMS),
		columnOf("memory", pss, inBytes), columnOf("of it anonymous", rssAnon, inBytes)}).Print(stdout)
}

// run starts processes, has each wait when its first output is there, looks at their memory, and writes their outputs.
func (s programStart) run(ctx context.Context, output io.Writer) (f figures, err error) {
	if err := s.prepare(); err != nil {
		return nil, err
	}
	ctx, kill := context.WithCancel(ctx)
	begin := time.Now()
	procs, err := startAll(s.processes, func() (*process, error) { return startProcess(ctx, s.command) })
	defer func() {
		if err != nil {
			kill()
		}
		err = errors.Join(err, stopAll(procs))
		kill()
	}()
	if err != nil {
		return nil, err
	}
	waiting := make(chan error)
	for _, p := range procs {
		go func() {
			_, err := p.stdout.Peek(1)
			waiting <- errors.Join(err, p.cmd.Process.Signal(syscall.SIGSTOP))
		}()
	}
	for range procs {
		err = errors.Join(err, <-waiting)
	}
	f = figures{outputMS: console.Milliseconds(time.Since(begin))}
	for _, p := range procs {
		memory, wrong := p.memory()
		err = errors.Join(err, wrong)
		f[pss] += memory[pss]
		f[rssAnon] += memory[rssAnon]
	}
	for _, p := range procs {
		err = errors.Join(err, p.cmd.Process.Signal(syscall.SIGCONT))
		if err == nil {
			_, err = io.Copy(output, p.stdout)
		}
	}
	fmt.Fprintln(output)
	return f, err
}
