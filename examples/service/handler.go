package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"xpwc/metrics"
)

// The text of a number in JSON may take so many times the bytes of a float32.
const jsonPerByte = 8

// newHandler routes requests:
//
//	GET  /models               all models and their states
//	POST /models/NAME          loads a model in the background
//	POST /models/NAME/infer    executes it, on raw float32 or on JSON
//	GET  /metrics              for Prometheus
//	GET  /healthz              200 once the service serves
func newHandler(models *registry) http.Handler {
	collectors := prometheus.NewRegistry()
	collectors.MustRegister(metrics.NewCollector(models.cache))
	mux := http.NewServeMux()
	mux.HandleFunc("GET /models", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, models.list())
	})
	mux.HandleFunc("POST /models/{name}", func(w http.ResponseWriter, r *http.Request) {
		s, err := models.loadInBackground(r.PathValue("name"))
		switch {
		case err != nil:
			refuse(w, err)
		case s.State == ready:
			answer(w, http.StatusOK, s)
		default:
			answer(w, http.StatusAccepted, s)
		}
	})
	mux.HandleFunc("POST /models/{name}/infer", func(w http.ResponseWriter, r *http.Request) {
		m, err := models.get(r.PathValue("name"))
		if err == nil {
			err = m.serve(w, r)
		}
		if err != nil {
			refuse(w, err)
		}
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(collectors, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	return mux
}

// A badRequest is an error of the client's.
type badRequest struct{ error }

func (e badRequest) Unwrap() error { return e.error }

// serve executes the model on a request's body and answers in the same form: application/json, or else raw
// little-endian float32, all inputs or outputs one after the other.
func (m *model) serve(w http.ResponseWriter, r *http.Request) error {
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	inJSON := kind == "application/json"
	limit := int64(m.inputBytes)
	if inJSON {
		limit = 1<<10 + jsonPerByte*limit
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if err != nil {
		return badRequest{fmt.Errorf("the inputs take %d bytes of float32: %w", m.inputBytes, err)}
	}
	if inJSON {
		if body, err = m.decode(body); err != nil {
			return badRequest{err}
		}
	}
	if len(body) != m.inputBytes {
		return badRequest{fmt.Errorf("%d bytes; the inputs take %d of float32", len(body), m.inputBytes)}
	}
	outputs, err := m.infer(body)
	if err != nil {
		return err
	}
	if inJSON {
		answer(w, http.StatusOK, m.named(outputs))
		return nil
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	for _, out := range outputs {
		if _, err := w.Write(raw(out)); err != nil {
			return nil // the client has gone
		}
	}
	return nil
}

// answer sends a value as JSON.
func answer(w http.ResponseWriter, code int, value any) {
	body, err := json.Marshal(value)
	if err != nil { // numbers that JSON does not have
		refuse(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(append(body, '\n'))
}

// refuse answers the client with an error.
func refuse(w http.ResponseWriter, err error) {
	code := http.StatusInternalServerError
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		code = http.StatusRequestEntityTooLarge
	case errors.As(err, new(badRequest)):
		code = http.StatusBadRequest
	case errors.Is(err, errNoModel):
		code = http.StatusNotFound
	case errors.Is(err, errNotReady), errors.Is(err, errClosing):
		w.Header().Set("Retry-After", "1")
		code = http.StatusServiceUnavailable
	}
	http.Error(w, err.Error(), code)
}
