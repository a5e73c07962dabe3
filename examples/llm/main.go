// Command llm runs language models with XNNPACK: bundles of LiteRT-LM, and Llama models in GGUF such as SmolLM2. The
// first start packs the weights into the cache file; every later one maps them.
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

	"xpwc/models/llm"
)

type options struct {
	model, cache string
	weights      weights
	tokens       int
	threads      int
	sampling     llm.Sampling
	chat         bool
	times        bool
}

func main() {
	var o options
	serve := flag.String("serve", "", "serve HTTP on this `ADDRESS`")
	flag.StringVar(&o.model, "model", "third_party/llm/SmolLM2-135M-Instruct.Q4_1.gguf", "`FILE` of the model: GGUF or .litertlm")
	flag.StringVar(&o.cache, "cache", "", "cache `FILE` of packed weights; none is used if it is empty")
	flag.StringVar((*string)(&o.weights), "weights", string(int8Weights), "`KIND` of weights of GGUF: float32 or int8")
	flag.IntVar(&o.tokens, "n", 48, "`NUMBER` of tokens to answer with at most")
	flag.IntVar(&o.threads, "threads", runtime.GOMAXPROCS(0), "`NUMBER` of threads")
	flag.Float64Var(&o.sampling.Temperature, "temperature", 0, "`TEMPERATURE` to sample with; 0 takes the likeliest token")
	flag.Uint64Var(&o.sampling.Seed, "seed", 1, "`SEED` of sampling")
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

// A service is a model with its tokenizer. Its methods may be called from many goroutines.
type service struct {
	options
	language
	tokens func() (*tokenizer, error)
}

// withService opens all that do needs. Everything is closed in the reverse order of its opening.
func withService(o options, do func(*service) error) (err error) {
	s := &service{options: o}
	if s.language, err = openLanguage(o); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	// The tables of the tokenizer take as long as a next start: they are made meanwhile.
	s.tokens = sync.OnceValues(s.tokenizer)
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
	t, err := s.newText()
	if err != nil {
		return err
	}
	loaded := time.Since(begin)
	defer func() { err = errors.Join(err, t.close()) }()
	ids, err := s.encode(prompt)
	if err != nil {
		return err
	}
	tokens, err := s.tokens()
	if err != nil {
		return err
	}
	begin = time.Now()
	_, err = generate(ctx, t, ids, o.tokens, o.sampling.Choice(), tokens.ends, func(token int) error {
		if o.times {
			fmt.Fprintf(os.Stderr, "loaded in %v, and computed the first token in %v\n",
				loaded.Round(time.Millisecond), time.Since(begin).Round(time.Millisecond))
			o.times = false
		}
		_, err := io.WriteString(w, tokens.decode(token))
		return err
	})
	return err
}

// encode returns a prompt's tokens.
func (s *service) encode(prompt string) (ids []int, err error) {
	tokens, err := s.tokens()
	if err != nil {
		return nil, err
	}
	if s.chat {
		ids, err = tokens.chat([]message{{"user", prompt}})
	} else {
		ids, err = tokens.encode(prompt)
	}
	if err == nil && len(ids) == 0 {
		err = errors.New("the prompt is empty")
	}
	return ids, err
}
