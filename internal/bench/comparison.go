package bench

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
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

	firstFromDisk start = "first start, from the disk"
)

// packs reports whether a process makes its cache file.
func (s start) packs() bool { return s == firstStart || s == firstFromDisk }

// A way is one in which a process runs the model.
type way struct {
	modeResult
	start   start
	command []string
	cache   string                          // its file, a directory with "/" at its end, or "" without a cache
	pack    func(ctx context.Context) error // makes the file of a next start; nil if a process of this way does
	model   string                          // a file that this way alone reads, and from the disk too; or ""
	read    func(p *process) (*run, error)  // waits until a process has answered; nil means process.read
}

// wait waits until a process has answered.
func (w *way) wait(p *process) (*run, error) {
	if w.read != nil {
		return w.read(p)
	}
	return p.read()
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
		if w.cache == "" || w.start.packs() {
			continue
		}
		pack := w.pack
		if pack == nil {
			pack = w.runOnce
		}
		if err := errors.Join(w.makeDirectory(), pack(ctx)); err != nil {
			return fmt.Errorf("%s: %w", w.Mode, err)
		}
	}
	return nil
}

func (w *way) runOnce(ctx context.Context) error {
	p, err := startProcess(ctx, w.command)
	if err != nil {
		return err
	}
	if _, err = w.wait(p); err != nil {
		return p.failure(err)
	}
	return p.stop()
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
		maps.Copy(r.Figures, memory)
	}
	if err := errors.Join(err, p.stop()); err != nil {
		return fmt.Errorf("%s: %w", w.Mode, err)
	}
	if w.start.packs() {
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
	r, err := w.wait(p)
	if err == nil && r.Output == "" {
		r.Output, err = c.outputs.sum()
	}
	if err == nil && w.cache != "" && !w.start.packs() && r.Figures[packed] > 0 {
		err = fmt.Errorf("%.0f entries of %s were packed, and must be found", r.Figures[packed], w.cache)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", w.Mode, p.failure(err))
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
	files, err := w.cacheFiles()
	if err := errors.Join(err, w.makeDirectory()); err != nil {
		return err
	}
	if w.model != "" {
		files = append(files, w.model)
	}
	if w.start != fromDisk && w.start != firstFromDisk {
		_, err := readIn(slices.Concat(c.model, files)...)
		return err
	}
	for _, path := range files {
		if err := dropPages(path); err != nil {
			return err
		}
	}
	_, err = readIn(c.model...)
	return err
}

// makeDirectory makes the directory of a cache, if it is one.
func (w *way) makeDirectory() error {
	if !strings.HasSuffix(w.cache, "/") {
		return nil
	}
	return os.MkdirAll(w.cache, 0o777)
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
	if strings.HasSuffix(w.cache, "/") {
		err = errors.Join(err, os.RemoveAll(w.cache))
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
