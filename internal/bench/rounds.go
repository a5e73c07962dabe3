package bench

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"xpwc/internal/console"
)

// rounds measures the modes one after the other and again, so that a change of the machine meanwhile affects all of
// them.
type rounds struct {
	task
	modes []string

	file   string // the file of cold, warm and dropped
	ideal  string // the file of ideal
	spare  string // what is written for comparison
	stored bool   // file was written by a cold run and not dropped from the page cache since

	result *result
}

// Repeats is how often the modes that take almost no time, ideal and warm, are run in each round.
const Repeats = 5

func newRounds(p prepared, dir string, modes []string) *rounds {
	r := &rounds{
		task:  p.task,
		modes: modes,
		file:  filepath.Join(dir, p.base+".bench.xpwc"),
		ideal: filepath.Join(dir, p.base+".bench.ideal"),
		spare: filepath.Join(dir, p.base+".bench.tmp"),
		result: &result{
			Name: p.base, Model: p.title, Layers: p.Stack.Layers, Float32: p.Stack.Float32, Threads: p.Threads,
		},
	}
	for _, mode := range modes {
		r.result.Modes = append(r.result.Modes, &modeResult{Mode: mode})
	}
	if r.wants(modeCold) {
		r.result.Write = &baseline{}
	}
	if r.wants(modeDropped, modeDroppedLazy) {
		r.result.Read, r.result.Keep = &baseline{}, &baseline{}
	}
	return r
}

func (r *rounds) wants(modes ...string) bool {
	return slices.ContainsFunc(modes, func(m string) bool { return slices.Contains(r.modes, m) })
}

// prepare records what there is to pack, for the ideal cache.
func (r *rounds) prepare(ctx context.Context) error {
	if err := r.withCache(r.file).removeCache(); err != nil {
		return err
	}
	if err := remove(r.spare); err != nil {
		return err
	}
	return r.withCache(r.ideal).startQuietly(ctx, modeRecord, &r.result.recording)
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

func (r *rounds) round(ctx context.Context, n int) error {
	for _, mode := range []string{modeNone, modeXNNPACK} {
		if err := r.measure(ctx, mode, ""); err != nil {
			return err
		}
	}
	if err := r.cold(ctx, n); err != nil {
		return err
	}
	for i := range Repeats {
		pair := []struct{ mode, file string }{{modeIdeal, r.ideal}, {modeWarm, r.file}}
		if (n+i)%2 == 1 {
			slices.Reverse(pair)
		}
		for _, p := range pair {
			if err := r.measure(ctx, p.mode, p.file); err != nil {
				return err
			}
		}
	}
	return r.dropped(ctx, n)
}

// measure runs a mode if it is wanted.
func (r *rounds) measure(ctx context.Context, mode, file string) error {
	i := slices.Index(r.modes, mode)
	if i < 0 {
		return nil
	}
	var m measured
	t := r.withCache(file)
	if mode != modeIdeal && mode != modeWarm { // which take almost no memory
		t.Touch = r.result.PayloadBytes * 5 / 4
	}
	if err := t.startQuietly(ctx, mode, &m); err != nil {
		return err
	}
	if mode != modeCold && m.Packed > 0 {
		return fmt.Errorf("mode %s packed %d entries of %s, and must pack none", mode, m.Packed, file)
	}
	to := r.result.Modes[i]
	to.Runs = append(to.Runs, &m)
	return nil
}

// cold packs into a new file, and writes the same bytes to the disk to compare; every second round the other way round.
// If the mode is not wanted, it makes the file for the modes that need it.
func (r *rounds) cold(ctx context.Context, n int) error {
	if !r.wants(modeCold) {
		if r.stored || !r.wants(modeWarm, modeDropped, modeDroppedLazy) {
			return nil
		}
		r.stored = true
		if err := r.withCache(r.file).removeCache(); err != nil {
			return err
		}
		return r.withCache(r.file).startQuietly(ctx, modeCold, &measured{})
	}
	pack := func() error {
		r.stored = true
		if err := r.withCache(r.file).removeCache(); err != nil {
			return err
		}
		return r.measure(ctx, modeCold, r.file)
	}
	write := func() error {
		took, err := writeDurably(r.ideal, r.result.PayloadBytes, r.spare)
		r.result.Write.add(console.Milliseconds(took))
		return err
	}
	return alternate(n, pack, write)
}

// dropped loads the file when it is not in the page cache, and reads it without the page cache to compare.
func (r *rounds) dropped(ctx context.Context, n int) error {
	if !r.wants(modeDropped, modeDroppedLazy) {
		return nil
	}
	r.stored = false
	load := func(mode string) func() error {
		return func() error {
			if !r.wants(mode) {
				return nil
			}
			if err := dropPages(r.file); err != nil {
				return err
			}
			return r.measure(ctx, mode, r.file)
		}
	}
	read := func(keep bool, to *baseline) func() error {
		return func() error {
			if err := dropPages(r.file); err != nil {
				return err
			}
			took, err := readDirect(r.file, keep)
			to.add(console.Milliseconds(took))
			return err
		}
	}
	return alternate(n,
		load(modeDropped), read(false, r.result.Read), read(true, r.result.Keep), load(modeDroppedLazy))
}

// alternate takes the steps in their order, and in every second round from the last to the first.
func alternate(n int, steps ...func() error) error {
	if n%2 == 1 {
		slices.Reverse(steps)
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}
