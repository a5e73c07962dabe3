package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"xpwc"
)

// The states of a model.
const (
	loading = "loading"
	ready   = "ready"
	failed  = "failed"
)

var (
	errNoModel  = errors.New("no such model")
	errNotReady = errors.New("the model is not ready")
	errClosing  = errors.New("the service is stopping")
)

// A status is of a model that was asked for.
type status struct {
	Name  string `json:"name"`
	State string `json:"state"`
	Error string `json:"error,omitempty"` // of a failed one

	// Of a ready one: what loading it took, and what became of its packed weights.
	LoadMS  float64 `json:"load_ms"`
	Mapped  int64   `json:"mapped"`  // found in the cache file
	Packed  int64   `json:"packed"`  // into it
	Checked int64   `json:"checked"` // packed without a look-up, and found equal to what the file has
	Private int64   `json:"private"` // packed into private memory
	Inputs  []value `json:"inputs,omitempty"`
	Outputs []value `json:"outputs,omitempty"`

	model *model
}

// A registry loads models and has them by name.
type registry struct {
	cache  *xpwc.Cache
	dir    string
	logger *slog.Logger

	one sync.Mutex // models are loaded one at a time, so that Stats shows what each took

	mu      sync.Mutex
	byName  map[string]*status
	order   []string // in which they were asked for
	closing bool

	underWay sync.WaitGroup
}

func newRegistry(cache *xpwc.Cache, dir string, logger *slog.Logger) *registry {
	return &registry{cache: cache, dir: dir, logger: logger, byName: map[string]*status{}}
}

// loadAll loads models before the service starts, and prints a table of what it took.
func (r *registry) loadAll(names []string, stdout io.Writer) error {
	t := tabwriter.NewWriter(stdout, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "model\tload\tmapped\tpacked\tpacked and found equal\tprivate")
	for _, name := range names {
		if _, begun, err := r.begin(name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		} else if !begun {
			continue // named twice
		}
		s := r.load(name)
		if s.State == failed {
			return fmt.Errorf("%s: %s", name, s.Error)
		}
		fmt.Fprintf(t, "%s\t%.1f ms\t%d\t%d\t%d\t%d\n", s.Name, s.LoadMS, s.Mapped, s.Packed, s.Checked, s.Private)
	}
	return t.Flush()
}

// loadInBackground has a model loaded unless it is already, and returns its status at once. A failed one is tried
// again.
func (r *registry) loadInBackground(name string) (status, error) {
	s, begun, err := r.begin(name)
	if begun {
		go func() {
			if s := r.load(name); s.State == failed {
				r.logger.Error("model cannot be loaded", "model", name, "error", s.Error)
			} else {
				r.logger.Info("model loaded", "model", name, "ms", s.LoadMS, "mapped", s.Mapped, "packed", s.Packed)
			}
		}()
	}
	return s, err
}

// begin takes note of a model that is about to be loaded. begun is false if it is loaded or being loaded already.
func (r *registry) begin(name string) (s status, begun bool, err error) {
	if strings.ContainsAny(name, `/\`) || !filepath.IsLocal(name) {
		return status{}, false, errNoModel
	}
	if _, err := os.Stat(r.path(name)); errors.Is(err, fs.ErrNotExist) {
		return status{}, false, errNoModel
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closing {
		return status{}, false, errClosing
	}
	if known := r.byName[name]; known != nil && known.State != failed {
		return *known, false, nil
	}
	if r.byName[name] == nil {
		r.order = append(r.order, name)
	}
	r.byName[name] = &status{Name: name, State: loading}
	r.underWay.Add(1)
	return *r.byName[name], true, nil
}

func (r *registry) path(name string) string { return filepath.Join(r.dir, name+".tflite") }

// load loads a model that begin took note of.
func (r *registry) load(name string) status {
	defer r.underWay.Done()
	r.one.Lock()
	before, start := r.cache.Stats(), time.Now()
	m, err := openModel(r.path(name), r.cache)
	took, after := time.Since(start), r.cache.Stats()
	r.one.Unlock()

	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.byName[name]
	if err != nil {
		s.State, s.Error = failed, err.Error()
		return *s
	}
	*s = status{
		Name:    name,
		State:   ready,
		LoadMS:  float64(took.Microseconds()) / 1000,
		Mapped:  after.Hits.Entries - before.Hits.Entries,
		Packed:  after.Packed.Entries - before.Packed.Entries,
		Checked: after.Reused.Entries - before.Reused.Entries,
		Private: private(after) - private(before),
		Inputs:  m.inputs,
		Outputs: m.outputs,
		model:   m,
	}
	return *s
}

func private(s xpwc.Stats) (entries int64) {
	for _, count := range s.Private {
		entries += count.Entries
	}
	return entries
}

// get returns a model that is ready. It stays open until all requests have ended.
func (r *registry) get(name string) (*model, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch s := r.byName[name]; {
	case s == nil:
		return nil, errNoModel
	case s.State != ready:
		return nil, fmt.Errorf("%w: %s %s", errNotReady, s.State, s.Error)
	default:
		return s.model, nil
	}
}

// list returns all models that were asked for.
func (r *registry) list() []status {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := []status{}
	for _, name := range r.order {
		all = append(all, *r.byName[name])
	}
	return all
}

// close waits for what is being loaded and closes all models.
func (r *registry) close() error {
	r.mu.Lock()
	r.closing = true
	r.mu.Unlock()
	r.underWay.Wait()
	var errs []error
	for _, name := range slices.Backward(r.order) {
		if m := r.byName[name].model; m != nil {
			errs = append(errs, m.close())
		}
	}
	return errors.Join(errs...)
}
