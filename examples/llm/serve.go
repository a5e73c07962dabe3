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

// serve answers requests until ctx is done: a POST of a prompt is answered token by token. ?n= is the number of tokens.
// Each request has a runtime of its own; the weights are there once.
func (s *service) serve(ctx context.Context, address string, stdout io.Writer) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "serving on http://%s\n", listener.Addr())
	server := &http.Server{Handler: s.handler(), ReadHeaderTimeout: 10 * time.Second}
	drained := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		waiting, cancel := context.WithTimeout(context.Background(), drain)
		defer cancel()
		drained <- errors.Join(server.Shutdown(waiting), server.Close())
	})
	err = server.Serve(listener)
	if stop() {
		return err
	}
	return <-drained
}

func (s *service) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /", func(w http.ResponseWriter, r *http.Request) {
		prompt, err := io.ReadAll(http.MaxBytesReader(w, r.Body, longestPrompt))
		if len(prompt) == 0 && err == nil {
			err = errors.New("the prompt is empty")
		}
		o := s.options
		if n := r.URL.Query().Get("n"); n != "" && err == nil {
			o.tokens, err = strconv.Atoi(n)
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
