package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

const (
	// longestPrompt is how many bytes a request may have.
	longestPrompt = 16 << 10
	// drain is how long answers under way may take when the service is to stop.
	drain = 10 * time.Second
)

// serve answers requests until ctx is done: a POST of a prompt is answered token by token. ?n= is the number of tokens
// and ?temperature= and ?seed= are for sampling. Each request has a runtime of its own; the weights are there once.
func (s *service) serve(ctx context.Context, address string, stdout io.Writer) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: s.handler(), ReadHeaderTimeout: 10 * time.Second}
	fmt.Fprintf(stdout, "serving on http://%s\n", listener.Addr())
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	waiting, cancel := context.WithTimeout(context.Background(), drain)
	defer cancel()
	return errors.Join(server.Shutdown(waiting), server.Close())
}

func (s *service) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /", func(w http.ResponseWriter, r *http.Request) {
		prompt, err := io.ReadAll(http.MaxBytesReader(w, r.Body, longestPrompt))
		o := s.options
		for name, set := range map[string]func(string) (err error){
			"n":           func(v string) (err error) { o.tokens, err = strconv.Atoi(v); return err },
			"temperature": func(v string) (err error) { o.temperature, err = strconv.ParseFloat(v, 64); return err },
			"seed":        func(v string) (err error) { o.seed, err = strconv.ParseUint(v, 10, 64); return err },
		} {
			if v := r.URL.Query().Get(name); v != "" {
				err = errors.Join(err, set(v))
			}
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		stream := &flushed{w, http.NewResponseController(w), false}
		if err := s.answer(r.Context(), string(prompt), o, stream); err != nil && !stream.begun {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		} else if err != nil {
			panic(http.ErrAbortHandler) // the client sees that the answer is not whole
		}
	})
	return mux
}

// flushed sends each token as it comes.
type flushed struct {
	io.Writer
	controller *http.ResponseController
	begun      bool
}

func (f *flushed) Write(b []byte) (int, error) {
	f.begun = true
	n, err := f.Writer.Write(b)
	return n, errors.Join(err, f.controller.Flush())
}
