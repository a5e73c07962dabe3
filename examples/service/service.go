package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"xpwc"
	"xpwc/metrics"
	"xpwc/models"
	"xpwc/models/inference"
	"xpwc/models/tflite"
	"xpwc/xnnpack"
)

var errNoModel = errors.New("no such model")

// A service has models by name. Their packed weights lie in one cache.
type service struct {
	dir       string
	instances int
	cache     *xpwc.Cache
	figures   *prometheus.Registry

	loading sync.Mutex // models are loaded one at a time, so that Stats shows what each took

	mu     sync.Mutex
	byName map[string]*model
}

// A model is one that serves, and what its last load took.
type model struct {
	Inputs  []models.Value
	Outputs []models.Value
	LoadMS  float64
	Packed  int64 // into the cache
	Mapped  int64 // found in it
	runner  *inference.Runner
}

// close closes all models, and then the cache. No request is under way.
func (s *service) close() error {
	var errs []error
	for _, m := range s.byName {
		errs = append(errs, m.runner.Close())
	}
	return errors.Join(append(errs, s.cache.Close())...)
}

// load loads DIR/NAME.tflite, or puts what is there now in force in place of an earlier version. After an error that
// goes on serving.
func (s *service) load(name string) (*model, error) {
	s.loading.Lock()
	defer s.loading.Unlock()
	if filepath.Base(name) != name {
		return nil, errNoModel
	}
	prev, start := s.cache.Stats(), time.Now()
	file, err := tflite.Open(filepath.Join(s.dir, name+".tflite"), nil)
	if err != nil {
		return nil, err
	}
	for _, v := range slices.Concat(file.Inputs(), file.Outputs()) {
		if v.Type != xnnpack.Float32 {
			return nil, errors.Join(fmt.Errorf("%q is %v, and this service computes with float32", v.Name, v.Type),
				file.Close())
		}
	}
	m := &model{Inputs: file.Inputs(), Outputs: file.Outputs()}
	if earlier := s.get(name); earlier != nil {
		m.runner = earlier.runner
		err = m.runner.Reload(file)
	} else {
		m.runner, err = inference.Load(file, "", &inference.Options{Cache: s.cache, Instances: s.instances})
		if err == nil {
			s.figures.MustRegister(metrics.NewRunnerCollector(name, m.runner))
		}
	}
	if err != nil {
		return nil, err
	}
	m.LoadMS = float64(time.Since(start).Microseconds()) / 1000
	cur := s.cache.Stats()
	m.Packed, m.Mapped = cur.Packed.Entries-prev.Packed.Entries, cur.Hits.Entries-prev.Hits.Entries
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byName[name] = m
	return m, nil
}

// get returns nil for a model that was not loaded.
func (s *service) get(name string) *model {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byName[name]
}

// handler routes requests:
//
//	GET  /models               all models, with the cost of loading them
//	POST /models/NAME          loads a model, or its new version while the old one serves
//	POST /models/NAME/infer    computes: little-endian float32, all inputs one after the other, and so the outputs
//	GET  /metrics              for Prometheus
//	GET  /healthz              200 once the service serves
func (s *service) handler() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, do func(w http.ResponseWriter, r *http.Request) error) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			switch err := do(w, r); {
			case errors.Is(err, inference.ErrInputSize):
				http.Error(w, err.Error(), http.StatusBadRequest)
			case errors.Is(err, errNoModel), errors.Is(err, fs.ErrNotExist):
				http.Error(w, err.Error(), http.StatusNotFound)
			case err != nil:
				http.Error(w, err.Error(), http.StatusInternalServerError)
			}
		})
	}
	handle("GET /models", func(w http.ResponseWriter, _ *http.Request) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		return json.NewEncoder(w).Encode(s.byName)
	})
	handle("POST /models/{name}", func(w http.ResponseWriter, r *http.Request) error {
		m, err := s.load(r.PathValue("name"))
		if err != nil {
			return err
		}
		return json.NewEncoder(w).Encode(m)
	})
	handle("POST /models/{name}/infer", s.infer)
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.figures, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	return mux
}

// infer waits for its turn, for as long as the client does.
func (s *service) infer(w http.ResponseWriter, r *http.Request) error {
	m := s.get(r.PathValue("name"))
	if m == nil {
		return errNoModel
	}
	var inputs []any
	for _, v := range m.Inputs {
		n, err := v.ByteSize()
		if err != nil {
			return err
		}
		input := make([]float32, n/4)
		if err := binary.Read(r.Body, binary.LittleEndian, input); err != nil {
			return fmt.Errorf("%w %q: it takes %d bytes of float32: %w", inference.ErrInputSize, v.Name, n, err)
		}
		inputs = append(inputs, input)
	}
	if n, _ := r.Body.Read(make([]byte, 1)); n > 0 {
		return fmt.Errorf("%w: there are more bytes than the inputs take", inference.ErrInputSize)
	}
	results, err := m.runner.Run(r.Context(), inputs...)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	for _, result := range results {
		_ = binary.Write(w, binary.LittleEndian, result.Data) // an error means that the client has gone
	}
	return nil
}
