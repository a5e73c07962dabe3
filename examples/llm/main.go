// Command llm runs SmolLM2, a small language model, with XNNPACK. Its first start dequantises, quantises and packs the
// weights, into the cache file; every later one maps them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"

	"xpwc"
)

type options struct {
	model, cache string
	weights      weights
	tokens       int
	threads      int
	sampling
	chat  bool
	times bool
}

func main() {
	var o options
	serve := flag.String("serve", "", "serve HTTP on this `ADDRESS`")
	flag.StringVar(&o.model, "model", "third_party/llm/SmolLM2-135M-Instruct.Q4_1.gguf", "GGUF `FILE` of the model")
	flag.StringVar(&o.cache, "cache", "", "cache `FILE` of packed weights; none is used if it is empty")
	flag.StringVar((*string)(&o.weights), "weights", string(int8Weights), "`KIND` of weights: float32 or int8")
	flag.IntVar(&o.tokens, "n", 48, "`NUMBER` of tokens to answer with at most")
	flag.IntVar(&o.threads, "threads", runtime.GOMAXPROCS(0), "`NUMBER` of threads")
	flag.Float64Var(&o.temperature, "temperature", 0, "`TEMPERATURE` to sample with; 0 takes the likeliest token")
	flag.Uint64Var(&o.seed, "seed", 1, "`SEED` of sampling")
	flag.BoolVar(&o.chat, "chat", false, "the prompt is a question to an assistant, not a text to be continued")
	flag.BoolVar(&o.times, "times", false, "say how long loading took, and the first token")
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "usage: llm [flags] PROMPT\n")
		flag.PrintDefaults()
	}
	flag.Parse()
	if (*serve == "") != (flag.NArg() == 1) {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := withService(o, func(s *service) error {
		if *serve != "" {
			return s.serve(ctx, *serve, os.Stdout)
		}
		return s.answer(ctx, flag.Arg(0), o, os.Stdout)
	})
	if err != nil {
		fmt.Fprintf(os.Stderr, "llm: %v\n", err)
		os.Exit(1)
	}
}

// A service is a model with its tokenizer and its cache. Its methods may be called from many goroutines.
type service struct {
	options
	model  *model
	cache  *xpwc.Cache // nil if there is to be none
	tokens func() (*tokenizer, error)
}

// withService opens all that do needs. Everything is closed in the reverse order of its opening.
func withService(o options, do func(*service) error) (err error) {
	s := &service{options: o}
	if s.model, err = openModel(o.model, o.weights); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.model.close()) }()
	if o.cache != "" {
		if s.cache, err = xpwc.Open(o.cache, nil); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.cache.Close()) }()
	}
	// The tables of the tokenizer take as long as a next start: they are made meanwhile.
	s.tokens = sync.OnceValues(func() (*tokenizer, error) { return newTokenizer(s.model.file) })
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = s.tokens()
	}()
	defer func() { <-done }()
	return do(s)
}

// answer writes what follows a prompt, each token as it comes.
func (s *service) answer(ctx context.Context, prompt string, o options, w io.Writer) (err error) {
	begin := time.Now()
	i, err := s.model.newInstance(s.cache, o.threads)
	if err != nil {
		return err
	}
	loaded := time.Since(begin)
	defer func() { err = errors.Join(err, i.close()) }()
	ids, err := s.encode(prompt)
	if err != nil {
		return err
	}
	tokens, err := s.tokens()
	if err != nil {
		return err
	}
	begin = time.Now()
	return i.generate(ctx, ids, o.tokens, o.sampling, tokens.end, func(token int) error {
		if o.times {
			fmt.Fprintf(os.Stderr, "loaded in %v, and computed the first token in %v\n",
				loaded.Round(time.Millisecond), time.Since(begin).Round(time.Millisecond))
			o.times = false
		}
		_, err := io.WriteString(w, tokens.decode(token))
		return err
	})
}

// encode returns a prompt's tokens.
func (s *service) encode(prompt string) (ids []int, err error) {
	tokens, err := s.tokens()
	if err != nil {
		return nil, err
	}
	if s.chat {
		ids, err = tokens.question(prompt)
	} else {
		ids, err = tokens.encode(prompt)
	}
	if err == nil && len(ids) == 0 {
		err = errors.New("the prompt is empty")
	}
	return ids, err
}
