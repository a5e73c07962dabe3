// Command service serves .tflite models over HTTP. The packed weights of all models are in one cache file: the first
// start packs them, every later one maps them. A model can be loaded, and replaced by another version, while it serves.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"xpwc"
	"xpwc/metrics"
)

// How long requests under way may take when the service is to stop.
const drain = 30 * time.Second

func main() {
	address := flag.String("addr", "localhost:8080", "`ADDRESS` to listen on")
	cache := flag.String("cache", "models.xpwc", "cache `FILE` of packed weights; empty for none")
	dir := flag.String("models", ".", "`DIR` of the .tflite models")
	instances := flag.Int("instances", 1, "`N` requests to one model are computed at the same time")
	flag.Parse() // the names of models follow: DIR/NAME.tflite is served
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s := &service{dir: *dir, instances: *instances, figures: prometheus.NewRegistry(), byName: map[string]*model{}}
	if err := s.run(ctx, *address, *cache, flag.Args(), os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "service: %v\n", err)
		os.Exit(1)
	}
}

// run serves until ctx is done. Everything is closed in the reverse order of its opening: the server, which waits for
// its requests; the models; the cache, which waits for the disk.
func (s *service) run(ctx context.Context, address, cache string, names []string, stdout io.Writer) (err error) {
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	// Other instances may start on the same file at the same time: what one packs, the others wait for and find.
	s.cache, err = xpwc.Open(cache, &xpwc.Options{Logger: logger, WriterWait: time.Minute, OrMemory: true})
	if err != nil {
		return err
	}
	s.figures.MustRegister(metrics.NewCollector(s.cache))
	defer func() { err = errors.Join(err, s.close()) }()
	for _, name := range names {
		m, err := s.load(name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		fmt.Fprintf(stdout, "%s: loaded in %.1f ms, %d packed, %d mapped\n", name, m.LoadMS, m.Packed, m.Mapped)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: s.handler(), ReadHeaderTimeout: 10 * time.Second}
	fmt.Fprintf(stdout, "serving on http://%s\n", listener.Addr())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	logger.Info("stopping")
	ctx, cancel := context.WithTimeout(context.Background(), drain)
	defer cancel()
	return server.Shutdown(ctx)
}
