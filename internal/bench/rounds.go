package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"

	"xpwc/internal/console"
)

// rounds measures the modes one after the other and again, so that a change of the machine meanwhile affects all of
// them.
type rounds struct {
	task
	file  string // the file of cold, warm and dropped
	ideal string // the file of ideal
	spare string // what is written for comparison

	result *result
}

// Repeats is how often the modes that take almost no time, ideal and warm, are run in each round.
const Repeats = 5

func newRounds(p prepared, dir string) *rounds {
	r := &rounds{
		task:  p.task,
		file:  filepath.Join(dir, p.base+".bench.xpwc"),
		ideal: filepath.Join(dir, p.base+".bench.ideal"),
		spare: filepath.Join(dir, p.base+".bench.tmp"),
		result: &result{
			Name: p.base, Model: p.title, Layers: p.stack.Layers, Float32: p.stack.Float32, Threads: p.Threads,
		},
	}
	for _, mode := range modes() {
		r.result.Modes = append(r.result.Modes, &modeResult{Mode: mode})
	}
	return r
}

// prepare records what there is to pack, for the ideal cache.
func (r *rounds) prepare(ctx context.Context) error {
	if err := r.withCache(r.file).removeCache(); err != nil {
		return err
	}
	if err := remove(r.spare); err != nil {
		return err
	}
	err := r.withCache(r.ideal).startQuietly(ctx, modeRecord, &r.recording)
	r.result.Payloads = len(r.Places)
	for _, p := range r.Places {
		r.result.PayloadBytes += p[1]
	}
	return err
}

// clean removes the files that prepare and the rounds made.
func (r *rounds) clean() error {
	for _, path := range []string{r.file, r.ideal} {
		if err := remove(path); err != nil {
			return err
		}
	}
	return nil
}

// A round runs first what packs, then what follows a cold run, and then what drops its file from the page cache: each
// of these in random order.
func (r *rounds) round(ctx context.Context) error {
	uncached := func(mode string) func() error { return func() error { return r.measure(ctx, mode, "") } }
	packing := []func() error{uncached(modeNone), uncached(modeXNNPACK), r.write(ctx), r.cold(ctx), r.writeToCompare}
	var finding []func() error
	for range Repeats {
		finding = append(finding,
			func() error { return r.measure(ctx, modeIdeal, r.ideal) },
			func() error { return r.measure(ctx, modeWarm, r.file) })
	}
	for _, steps := range [][]func() error{packing, finding, r.dropped(ctx)} {
		for _, i := range rand.Perm(len(steps)) {
			if err := steps[i](); err != nil {
				return err
			}
		}
	}
	return nil
}

// measure runs a mode, after another process has used and freed memory. What the mode is to find in the page cache is
// read first: a system may take pages that were idle for seconds.
func (r *rounds) measure(ctx context.Context, mode, file string) error {
	if err := startChurning(ctx, r.result.PayloadBytes*5/4); err != nil {
		return err
	}
	found := r.modelFiles()
	if mode == modeIdeal || mode == modeWarm || mode == modeReread {
		found = append(found, file)
	}
	if _, err := readIn(found...); err != nil {
		return err
	}
	var m run
	if err := r.withCache(file).startQuietly(ctx, mode, &m); err != nil {
		return err
	}
	if n := m.Figures[packed]; mode != modeCold && n > 0 {
		return fmt.Errorf("mode %s packed %.0f entries of %s, and must pack none", mode, n, file)
	}
	to := r.result.mode(mode)
	to.Runs = append(to.Runs, &m)
	return nil
}

// write packs into a buffer, and writes that to a new file.
func (r *rounds) write(ctx context.Context) func() error {
	return func() error {
		return errors.Join(r.measure(ctx, modeWrite, r.spare), remove(r.spare))
	}
}

// cold packs into a new file.
func (r *rounds) cold(ctx context.Context) func() error {
	return func() error {
		if err := r.withCache(r.file).removeCache(); err != nil {
			return err
		}
		return r.measure(ctx, modeCold, r.file)
	}
}

// writeToCompare writes the bytes that cold packs to the disk.
func (r *rounds) writeToCompare() error {
	took, err := writeDurably(r.ideal, r.result.PayloadBytes, r.spare)
	r.result.Write = append(r.result.Write, console.Milliseconds(took))
	return err
}

// dropped loads the file when it is not in the page cache, and reads it without the page cache to compare; and loads it
// when another process has read it from the disk. Where the system cannot drop it there are no such steps.
func (r *rounds) dropped(ctx context.Context) (steps []func() error) {
	if r.result.mode(modeDropped) == nil {
		return nil
	}
	for _, do := range []func() error{
		func() error { return r.measure(ctx, modeDropped, r.file) },
		func() error {
			took, err := readDirect(r.file)
			r.result.Read = append(r.result.Read, console.Milliseconds(took))
			return err
		},
		func() error { return r.reread(ctx) },
	} {
		steps = append(steps, func() error {
			if err := dropPages(r.file); err != nil {
				return err
			}
			return do()
		})
	}
	return steps
}

// reread has a process bring the file into the page cache, as the first one after a start of the machine does, and
// loads it in others.
func (r *rounds) reread(ctx context.Context) error {
	if err := r.withCache(r.file).startQuietly(ctx, modeWarm, &run{}); err != nil {
		return err
	}
	for range Repeats {
		if err := r.measure(ctx, modeReread, r.file); err != nil {
			return err
		}
	}
	return nil
}
