package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	// longestPrompt is how many bytes a request may have.
	longestPrompt = 16 << 10
	// drain is how long answers under way may take when the service is to stop.
	drain = 10 * time.Second
)

var (
	errEmpty = errors.New("the prompt is empty")
	errText  = errors.New("the model has no token")
)

// serve answers requests until ctx is done. Each request has keys and values of its own; the weights are there once.
// The signal SIGHUP puts the present content of the model's file in force.
func (d *door) serve(ctx context.Context, address string, stdout io.Writer) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "serving on http://%s\n", listener.Addr())
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	go func() {
		for {
			select {
			case <-hangups:
				if err := d.reload(); err != nil {
					fmt.Fprintf(os.Stderr, "llm: %v\n", err)
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	server := &http.Server{Handler: d.handler(), ReadHeaderTimeout: 10 * time.Second}
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

// handler routes requests:
//
//	POST /v1/chat/completions  a chat, as OpenAI's API has it, also streamed
//	GET  /v1/models            the model's name
//	POST /                     a prompt, whose continuation comes token by token; ?n= is the number of tokens
//	GET  /metrics              for Prometheus: requests, tokens, and the figures of the cache
//	GET  /healthz              200 once the service serves
func (d *door) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /v1/chat/completions", d.figures.counted("chat", d.with((*service).chatCompletions)))
	mux.Handle("GET /v1/models", d.figures.counted("models", d.with((*service).listModels)))
	mux.Handle("POST /", d.figures.counted("prompt", d.with((*service).continuePrompt)))
	mux.Handle("GET /metrics", promhttp.HandlerFor(d.figures.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	return mux
}

// continuePrompt answers POST /.
func (s *service) continuePrompt(w http.ResponseWriter, r *http.Request) {
	prompt, err := io.ReadAll(http.MaxBytesReader(w, r.Body, longestPrompt))
	if len(prompt) == 0 && err == nil {
		err = errEmpty
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
		http.Error(w, err.Error(), statusOf(err))
	} else if err != nil {
		panic(http.ErrAbortHandler) // the client sees that the answer is not whole
	}
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
