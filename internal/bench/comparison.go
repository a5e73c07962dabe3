package bench

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A start is the state that a process starts in.
type start string

const (
	withoutCache start = "without cache"
	firstStart   start = "first start" // no cache file, which the process makes
	nextStart    start = "next start"  // the cache file of an earlier process
	fromDisk     start = "next start, from the disk"
)

// A way is one in which a process runs the model.
type way struct {
	modeResult
	start   start
	command []string
	cache   string                          // its file, "" without a cache
	pack    func(ctx context.Context) error // makes the file of a next start; nil if a process of this way does
}

// A comparison measures one model in some ways, each time in a process of its own.
type comparison struct {
	result  *result
	model   []string // its files
	churned int64    // bytes that are used and freed before each process
	ways    []*way
	outputs outputDir // of hosts that do not print the sum of their outputs
	stderr  io.Writer
}

func (c *comparison) add(ways ...*way) {
	for _, w := range ways {
		c.ways, c.result.Modes = append(c.ways, w), append(c.result.Modes, &w.modeResult)
	}
}

// prepare makes the cache files that are there before the first measurement, and no others.
func (c *comparison) prepare(ctx context.Context) error {
	fmt.Fprintf(c.stderr, "%s: packing\n", c.result.Model)
	if err := errors.Join(c.clean(), c.outputs.clear()); err != nil {
		return err
	}
	for _, w := range c.ways {
		if w.cache == "" || w.start == firstStart {
			continue
		}
		pack := w.pack
		if pack == nil {
			pack = func(ctx context.Context) error {
				_, err := runProcess(ctx, w.command)
				return err
			}
		}
		if err := pack(ctx); err != nil {
			return fmt.Errorf("%s: %w", w.Mode, err)
		}
	}
	return nil
}

// clean removes the files of all ways, but not the model.
func (c *comparison) clean() error {
	err := c.outputs.remove()
	for _, w := range c.ways {
		err = errors.Join(err, w.removeCache())
	}
	return err
}

// rounds measures the ways again and again, and does what else is to be done in each round, in random order: so a
// change of the machine meanwhile affects all of them.
func (c *comparison) rounds(ctx context.Context, n int, extra ...func() error) error {
	for _, w := range c.ways {
		extra = append(extra, func() error { return c.measure(ctx, w) })
	}
	for i := range n {
		fmt.Fprintf(c.stderr, "%s: round %d of %d\n", c.result.Model, i+1, n)
		if err := inAnyOrder(extra); err != nil {
			return err
		}
	}
	c.result.Rounds = n
	c.sumUp()
	return nil
}

func (c *comparison) sumUp() {
	for _, m := range c.result.Modes {
		m.sumUp()
	}
}

func inAnyOrder(tasks []func() error) error {
	for _, i := range rand.Perm(len(tasks)) {
		if err := tasks[i](); err != nil {
			return err
		}
	}
	return nil
}

// measure runs one process.
func (c *comparison) measure(ctx context.Context, w *way) error {
	p, r, err := c.begin(ctx, w)
	if err != nil {
		return err
	}
	if _, ok := r.Figures[rssAnon]; !ok {
		var memory figures
		memory, err = p.memory()
		r.Figures[rssAnon] = memory[rssAnon]
	}
	if err := errors.Join(err, p.stop()); err != nil {
		return fmt.Errorf("%s: %w", w.Mode, err)
	}
	if w.start == firstStart {
		files, err := w.cacheFiles()
		if err != nil {
			return err
		}
		size, err := readIn(files...)
		if err := errors.Join(err, w.removeCache()); err != nil {
			return err
		}
		r.Figures[fileBytes] = float64(size)
	}
	w.Runs = append(w.Runs, r)
	return nil
}

// begin brings files and memory into the state that a process is to find, starts one, and waits until it has answered.
func (c *comparison) begin(ctx context.Context, w *way) (*process, *run, error) {
	if err := c.ready(ctx, w); err != nil {
		return nil, nil, err
	}
	p, err := startProcess(ctx, w.command)
	if err != nil {
		return nil, nil, err
	}
	r, err := p.read()
	if err == nil && r.Output == "" {
		r.Output, err = c.outputs.sum()
	}
	if err == nil && w.cache != "" && w.start != firstStart && r.Figures[packed] > 0 {
		err = fmt.Errorf("%.0f entries of %s were packed, and must be found", r.Figures[packed], w.cache)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", w.Mode, errors.Join(err, p.stop()))
	}
	return p, r, nil
}

// ready has another process use and free memory, and reads what the process is to find in the page cache: a system may
// take pages that were idle for seconds.
func (c *comparison) ready(ctx context.Context, w *way) error {
	if err := c.outputs.clear(); err != nil {
		return err
	}
	if c.churned > 0 {
		if _, err := (task{Mode: modeChurn, Churn: c.churned}).run(ctx); err != nil {
			return err
		}
	}
	paths := c.model
	switch w.start {
	case fromDisk:
		if err := dropPages(w.cache); err != nil {
			return err
		}
	case nextStart:
		files, err := w.cacheFiles()
		if err != nil {
			return err
		}
		paths = slices.Concat(paths, files)
	}
	_, err := readIn(paths...)
	return err
}

// literal makes a path a pattern that matches it alone.
var literal = strings.NewReplacer(`\`, `\\`, "[", `\[`, "*", `\*`, "?", `\?`)

// cacheFiles are the cache file and the files that its writer added.
func (w *way) cacheFiles() ([]string, error) {
	if w.cache == "" {
		return nil, nil
	}
	return filepath.Glob(literal.Replace(w.cache) + "*")
}

func (w *way) removeCache() error {
	files, err := w.cacheFiles()
	for _, path := range files {
		err = errors.Join(err, os.RemoveAll(path))
	}
	return err
}

// readIn has all of some files in the page cache, and returns how many bytes they have.
func readIn(paths ...string) (total int64, err error) {
	for _, path := range paths {
		n, err := readThrough(path)
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}

func readThrough(path string) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return io.Copy(struct{ io.Writer }{io.Discard}, f)
}

// sumOf writes the SHA-256 of outputs, one after the other.
func sumOf(outputs ...[]byte) string {
	h := sha256.New()
	for _, b := range outputs {
		h.Write(b)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// remove removes a file, if there is one.
func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// writeDurably returns how long it takes to write a file's first n bytes to a new file, 1 MiB at a time, and to wait
// for the disk, as dd conv=fdatasync does. The bytes are in memory before the clock starts. They are the file's own
// because some disks write other bytes, such as zeros, faster. The new file is removed again.
func writeDurably(src string, n int64, path string) (took time.Duration, err error) {
	content, err := os.ReadFile(src)
	if err != nil {
		return 0, err
	}
	start := time.Now()
	f, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.Remove(path)) }()
	for piece := range slices.Chunk(content[:n], 1<<20) {
		if _, err = f.Write(piece); err != nil {
			break
		}
	}
	err = errors.Join(err, syncData(f))
	took = time.Since(start)
	return took, errors.Join(err, f.Close())
}
