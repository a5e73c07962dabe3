// Command demo runs a program in the stock ExecuTorch without a cache, with its own, and with a file that xpwc packed
// ahead of time.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"xpwc/internal/console"
)

// rounds is how often each mode is measured.
const rounds = 11

func main() {
	if len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr, "usage: demo BIN DIR PROGRAM.pte [DATA.ptd...]\n"+
			"runs the program with BIN/host, its caches in DIR, one of them packed by BIN/xpwc;\n"+
			"its inputs are in PROGRAM.in*.npy, if there are such files")
		os.Exit(2)
	}
	p := program{path: os.Args[3], data: os.Args[4:]}
	var err error
	if p.inputs, err = filepath.Glob(strings.TrimSuffix(p.path, ".pte") + ".in*.npy"); err == nil {
		err = demo(os.Args[1], os.Args[2], p, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// pack packs a program ahead of time for the stock ExecuTorch on a level of CPU.
func pack(tool string, p program, cpu, file string) error {
	args := append([]string{"pack", p.path, "--for", "executorch", "--cpu", cpu, "-o", file}, p.data...)
	if out, err := exec.Command(tool, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s pack: %w: %s", tool, err, bytes.TrimSpace(out))
	}
	return nil
}

// A mode is a way in which the program is run.
type mode struct {
	name  string
	cache string // the file, "" without one
	cold  bool   // there is no file before a run
	runs  []*report
	equal bool // all outputs are those of the first run of all
}

func demo(bin, dir string, p program, stdout io.Writer) error {
	h := host{path: filepath.Join(bin, "host")}
	cold := &mode{name: "its cache, cold", cache: filepath.Join(dir, "cold.packed_cache"), cold: true}
	warm := &mode{name: "its cache, warm", cache: filepath.Join(dir, "warm.packed_cache")}
	ahead := &mode{name: "packed ahead", cache: filepath.Join(dir, "ahead.packed_cache")}
	modes := []*mode{{name: "no cache"}, cold, warm, ahead}
	if err := remove(warm.cache); err != nil {
		return err
	}
	if err := pack(filepath.Join(bin, "xpwc"), p, "native", ahead.cache); err != nil {
		return err
	}
	if _, err := h.run(p, warm.cache, dir); err != nil { // packs it
		return err
	}
	var want []byte
	for n := range rounds {
		for i := range modes { // each round begins with another
			m := modes[(n+i)%len(modes)]
			got, err := m.run(h, p, dir)
			if err != nil {
				return fmt.Errorf("%s: %w", m.name, err)
			}
			if want == nil { // the first mode has no cache
				want = got
			}
			m.equal = bytes.Equal(got, want) && (n == 0 || m.equal)
		}
	}
	fmt.Fprintf(stdout, "\n%s in the stock ExecuTorch; medians of %d processes each\n\n", filepath.Base(p.path), rounds)
	if err := table(modes).Print(stdout); err != nil {
		return err
	}
	if slices.ContainsFunc(modes, func(m *mode) bool { return !m.equal }) {
		return errors.New("the outputs differ: they must be identical bit for bit")
	}
	return nil
}

// run adds a run to the mode, and returns all outputs.
func (m *mode) run(h host, p program, dir string) ([]byte, error) {
	if m.cold {
		if err := remove(m.cache); err != nil {
			return nil, err
		}
	}
	r, err := h.run(p, m.cache, dir)
	if err != nil {
		return nil, err
	}
	m.runs = append(m.runs, r)
	var all []byte
	for _, path := range r.outputFiles(dir) {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		all = append(all, b...)
	}
	return all, nil
}

func remove(file string) error {
	if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func table(modes []*mode) *console.Table {
	t := &console.Table{}
	row := func(name string, cell func(*mode) string) {
		cells := []string{name}
		for _, m := range modes {
			cells = append(cells, cell(m))
		}
		t.Row(cells...)
	}
	cached := func(name string, cell func(*mode) string) {
		row(name, func(m *mode) string {
			if m.cache == "" {
				return console.None
			}
			return cell(m)
		})
	}
	ms := func(of func(*report) float64) func(*mode) string {
		return func(m *mode) string { return console.MS(m.median(of)) }
	}
	row("", func(m *mode) string { return m.name })
	row("load", ms(func(r *report) float64 { return r.LoadMS }))
	for i, method := range modes[0].runs[0].Methods {
		of := ""
		if len(modes[0].runs[0].Methods) > 1 {
			of = method.Name + ", "
		}
		row(of+"first inference", ms(func(r *report) float64 { return r.Methods[i].FirstMS }))
		row(of+"steady inference", ms(func(r *report) float64 { return r.Methods[i].SteadyMS }))
	}
	row("RssAnon", func(m *mode) string {
		return console.Mebibytes(int64(m.median(func(r *report) float64 { return float64(r.RSSAnonBytes) })))
	})
	cached("entries packed by ExecuTorch", func(m *mode) string { return fmt.Sprint(m.runs[0].PackedEntries) })
	cached("bytes packed by ExecuTorch", func(m *mode) string { return console.Size(m.runs[0].PackedBytes) })
	cached("outputs as without a cache", func(m *mode) string {
		if m.equal {
			return "equal"
		}
		return "differ"
	})
	cached("file size", func(m *mode) string { return console.Size(m.runs[len(m.runs)-1].FileBytes) })
	return t
}

func (m *mode) median(of func(*report) float64) float64 {
	var all []float64
	for _, r := range m.runs {
		all = append(all, of(r))
	}
	slices.Sort(all)
	return all[len(all)/2]
}
