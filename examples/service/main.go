// Command service serves .tflite models over HTTP. The packed weights of all models are in one cache file: the first
// start packs them, every later one maps them. More models can be loaded while it serves.
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

	"xpwc"
	"xpwc/xnnpack"
)

const (
	// Other instances may start on the same file at the same time: what one packs, the others wait for and find.
	writerWait = time.Minute
	// How long requests under way may take when the service is to stop.
	drain = 30 * time.Second
)

type options struct {
	address string
	cache   string
	dir     string
	names   []string
}

func main() {
	var o options
	flag.StringVar(&o.address, "addr", "localhost:8080", "`ADDRESS` to listen on")
	flag.StringVar(&o.cache, "cache", "models.xpwc", "cache `FILE` of packed weights")
	flag.StringVar(&o.dir, "models", ".", "`DIR` of the .tflite models")
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "usage: service [flags] NAME...\nloads DIR/NAME.tflite and serves it\n")
		flag.PrintDefaults()
	}
	flag.Parse()
	o.names = flag.Args()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o, os.Stdout, slog.New(slog.NewTextHandler(os.Stderr, nil))); err != nil {
		fmt.Fprintf(os.Stderr, "service: %v\n", err)
		os.Exit(1)
	}
}

// run serves until ctx is done. Everything is closed in the reverse order of its opening: the server, which waits for
// its requests; the models, runtimes before sessions; the cache, which waits for the disk.
func run(ctx context.Context, o options, stdout io.Writer, logger *slog.Logger) (err error) {
	if err := xnnpack.Initialize(); err != nil {
		return err
	}
	cache, err := xpwc.Open(o.cache, &xpwc.Options{Logger: logger, WriterWait: writerWait})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cache.Close()) }()
	models := newRegistry(cache, o.dir, logger)
	defer func() { err = errors.Join(err, models.close()) }()

	if err := models.loadAll(o.names, stdout); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", o.address)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: newHandler(models), ReadHeaderTimeout: 10 * time.Second}
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
