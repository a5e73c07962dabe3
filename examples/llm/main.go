// Command llm runs language models with XNNPACK: bundles of LiteRT-LM, programs of ExecuTorch's export_llm, and Llama
// models in GGUF such as SmolLM2. The first start packs the weights into the cache file; every later one maps them.
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
	"runtime/debug"
	"slices"
	"sync"
	"syscall"
	"time"

	"xpwc/models/llm"
)

type options struct {
	model, cache string
	tokenizer    string
	weights      weights
	tokens       int
	threads      int
	sampling     llm.Sampling
	chat         bool
	times        bool
	second       string // prompt, of which make bench-llm measures the answer; "" if there is none
}

func main() {
	var o options
	serve := flag.String("serve", "", "serve HTTP on this `ADDRESS`")
	flag.StringVar(&o.model, "model", "third_party/llm/SmolLM2-135M-Instruct.Q4_1.gguf",
		"`FILE` of the model: GGUF, .litertlm or .pte")
	flag.StringVar(&o.tokenizer, "tokenizer", "",
		"`FILE` of the tokenizer of a .pte; tokenizer.json beside the model if it is empty")
	flag.StringVar(&o.cache, "cache", "", "cache `FILE` of packed weights; none is used if it is empty")
	flag.StringVar((*string)(&o.weights), "weights", string(int8Weights), "`KIND` of weights of GGUF: float32 or int8")
	flag.IntVar(&o.tokens, "n", 48, "`NUMBER` of tokens to answer with at most")
	flag.IntVar(&o.threads, "threads", runtime.GOMAXPROCS(0), "`NUMBER` of threads")
	flag.Float64Var(&o.sampling.Temperature, "temperature", 0,
		"`TEMPERATURE` to sample with; 0 takes the likeliest token")
	flag.Uint64Var(&o.sampling.Seed, "seed", 1, "`SEED` of sampling")
	flag.BoolVar(&o.chat, "chat", false, "the prompt is a question to an assistant, not a text to be continued")
	flag.BoolVar(&o.times, "times", false, "say how long loading took, and the first token")
	flag.StringVar(&o.second, "measure", "",
		"answer this second `PROMPT` too, print in JSON what it took, and stay until standard input ends")
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
	if err := run(ctx, o, *serve); err != nil {
		fmt.Fprintf(os.Stderr, "llm: %v\n", err)
		os.Exit(1)
	}
}

// run answers the prompt of the command line, or serves on an address. Until the first token, or until it serves, Go
// collects no garbage: a start makes little, and collecting it takes a seventh of its processor time. What a start
// needed and an answer does not, 30 MiB, then goes back to the system.
func run(ctx context.Context, o options, address string) (err error) {
	percent := debug.SetGCPercent(-1)
	collect := sync.OnceFunc(func() {
		debug.SetGCPercent(percent)
		go debug.FreeOSMemory()
	})
	if address != "" {
		d, err := openDoor(o)
		collect()
		if err != nil {
			return err
		}
		return errors.Join(d.serve(ctx, address, os.Stdout), d.close())
	}
	s, err := openService(o)
	if err != nil {
		return err
	}
	s.onToken = collect
	if o.second != "" {
		return errors.Join(s.measureAnswers(ctx, flag.Arg(0), o.second, os.Stdin, os.Stdout), s.end())
	}
	return errors.Join(s.answer(ctx, flag.Arg(0), o, os.Stdout), s.end())
}

// A service is a model with its tokenizer. Its methods may be called from many goroutines.
type service struct {
	options
	language
	tokens  func() (*tokenizer, error)
	made    chan struct{} // is closed when the tokenizer is made
	onToken func()        // is called with each token of an answer
	figures *figures
}

// openService opens a model, and makes its tokenizer meanwhile. The caller ends it.
func openService(o options) (*service, error) {
	l, err := openLanguage(o)
	if err != nil {
		return nil, err
	}
	s := &service{options: o, language: l, tokens: sync.OnceValues(l.tokenizer), made: make(chan struct{}),
		onToken: func() {}, figures: newFigures()}
	go func() { // the tables of the tokenizer take as long as a next start
		defer close(s.made)
		_, _ = s.tokens()
	}()
	return s, nil
}

// end closes the model. No request is under way.
func (s *service) end() error {
	<-s.made
	return s.close()
}

// answer writes what follows a prompt, each token as it comes.
func (s *service) answer(ctx context.Context, prompt string, o options, w io.Writer) (err error) {
	begin := time.Now()
	p, err := s.begin(prompt)
	if err != nil {
		return err
	}
	loaded := time.Since(begin)
	defer func() { err = errors.Join(err, p.close()) }()
	begin = time.Now()
	count := s.figures.began(len(p.ids))
	_, err = generate(ctx, p, p.ids, o.tokens, o.sampling.Choice(), p.tokens.ends, func(token int) error {
		if o.times {
			fmt.Fprintf(os.Stderr, "loaded in %v, and computed the first token in %v\n",
				loaded.Round(time.Millisecond), time.Since(begin).Round(time.Millisecond))
			o.times = false
		}
		count()
		s.onToken()
		_, err := io.WriteString(w, p.tokens.decode(token))
		return err
	})
	return err
}

// A prompted text is empty yet, and has the tokens of its prompt.
type prompted struct {
	text
	ids    []int
	tokens *tokenizer
}

// begin makes a text for a prompt. The caller closes it.
func (s *service) begin(prompt string) (p *prompted, err error) {
	p = &prompted{}
	if p.text, err = s.newText(); err != nil {
		return nil, err
	}
	if p.ids, err = s.encode(prompt); err == nil {
		p.tokens, err = s.tokens()
	}
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
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
		ids = slices.Concat(tokens.begin, ids)
	}
	if err == nil && len(ids) == 0 {
		err = errEmpty
	}
	return ids, err
}
