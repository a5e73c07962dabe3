package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"xpwc/internal/console"
)

// LanguageModelsOptions are what RunLanguageModels measures.
type LanguageModelsOptions struct {
	Models    []string // one language model in one or more formats: .litertlm, .pte, .gguf
	Rounds    int
	Processes int      // that have one model loaded at the same time; 0 for none
	Threads   int      // of each program
	Tokens    int      // of each answer
	Prompts   []string // of the two answers of each process; nil means a short one and a long one
	Dir       string   // for cache files, created if it is not there
	JSON      string   // file for all figures, or ""
	Programs  Programs // of the peers, and bin/llm
}

// prompts are a short one, for the time to the first token, and a long one, for the speed.
var prompts = []string{
	"The capital of France is",
	"A packed-weights cache is a file. A program that runs a neural network first arranges each matrix of " +
		"the network in the order in which the kernels of its processor read it. That takes time and memory, " +
		"and the result is the same at each start. With a cache the first process writes the arranged " +
		"matrices into a file. Each later process maps that file into its address space and begins to compute " +
		"at once. The operating system reads a page of the file when it is first used, keeps it in memory, " +
		"and shares it between all processes that map the file. Here is a story about a small computer at the " +
		"sea that was started a hundred times each day. " +
		"Once upon a time",
}

// RunLanguageModels measures how xpwc and other programs start with a language model, how fast they answer, and how
// much memory they need. It prints tables to stdout, and to stderr what it is doing.
func RunLanguageModels(ctx context.Context, o LanguageModelsOptions, stdout, stderr io.Writer) error {
	if o.Prompts == nil {
		o.Prompts = prompts
	}
	report := &Report{Environment: environment()}
	c, err := newLanguageModels(o, stderr)
	if err != nil {
		return err
	}
	run := func() error { return c.runPeers(ctx, PeersOptions{Rounds: o.Rounds, Processes: o.Processes}) }
	if err := report.add(c, o.JSON, run); err != nil {
		return err
	}
	return c.result.printLanguageModels(stdout)
}

func newLanguageModels(o LanguageModelsOptions, stderr io.Writer) (*comparison, error) {
	if err := os.MkdirAll(o.Dir, 0o777); err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, err
	}
	c := &comparison{stderr: stderr, result: &result{Name: "llm", Threads: o.Threads, Processes: o.Processes}}
	var titles []string
	for _, model := range o.Models {
		size, err := readThrough(model)
		if err != nil {
			return nil, err
		}
		c.churned = max(c.churned, size*5/4)
		titles = append(titles, filepath.Base(model)+", "+console.Mebibytes(size))
		ways, err := languageModel{o, model, dir}.ways()
		if err != nil {
			return nil, err
		}
		c.add(ways...)
	}
	if c.result.Model = strings.Join(titles, "; "); len(c.ways) == 0 {
		return nil, errors.New("no program for these models is there")
	}
	return c, nil
}

// The hosts of language models in Programs. They take the same arguments.
const (
	languageHost = "llm"       // examples/llm
	liteRTLMHost = "litert_lm" // internal/bench/llm
	llamaHost    = "llama_cpp" // likewise
	llamaLibrary = "llama-cpp" // a directory next to the host, with llama.cpp's libraries
	executorchLM = "executorch_llm"
)

// A languageModel is a file, with the programs that run it.
type languageModel struct {
	LanguageModelsOptions
	path string
	dir  string // for cache files
}

func (m languageModel) ways() ([]*way, error) {
	switch strings.ToLower(filepath.Ext(m.path)) {
	case ".litertlm":
		return slices.Concat(m.ownWays("xpwc"), m.liteRTLM()), nil
	case ".pte":
		return slices.Concat(m.ownWays("xpwc, program"), m.executorch()), nil
	case ".gguf":
		return slices.Concat(m.ownWays("xpwc, GGUF"), m.llamaCPP()), nil
	default:
		return nil, fmt.Errorf("%s: language models are compared as .litertlm, .pte and .gguf files", m.path)
	}
}

// way is one in which a program starts with the model.
func (m languageModel) way(program string, s start, cache string, command []string) *way {
	return &way{modeResult: modeResult{Mode: program + ", " + string(s)}, start: s, command: command, cache: cache,
		model: m.path, read: (*process).readAnswers}
}

// cache is the beginning of the name of a way's cache.
func (m languageModel) cache(program string, s start) string {
	words := strings.NewReplacer(" ", "-", ",", "")
	return filepath.Join(m.dir, words.Replace(program+"."+string(s)))
}

var cachedStarts = []start{firstStart, firstFromDisk, nextStart, fromDisk}

func (m languageModel) ownWays(program string) (ways []*way) {
	host := m.Programs.path(languageHost)
	if host == "" {
		return nil
	}
	command := func(cache string) []string {
		return []string{host, "-model", m.path, "-cache", cache, "-threads", strconv.Itoa(m.Threads),
			"-n", strconv.Itoa(m.Tokens), "-measure", m.Prompts[1], "--", m.Prompts[0]}
	}
	ways = append(ways, m.way(program, withoutCache, "", command("")))
	for _, s := range cachedStarts {
		cache := m.cache(program, s)
		ways = append(ways, m.way(program, s, cache, command(cache)))
	}
	return ways
}

// command is that of a host in C. Its second argument is the cache, or another thing of its own.
func (m languageModel) command(host, second string) []string {
	return []string{host, m.path, second, strconv.Itoa(m.Threads), strconv.Itoa(m.Tokens), m.Prompts[0], m.Prompts[1]}
}

// liteRTLM has the engine's cache in directories: the engine names its files.
func (m languageModel) liteRTLM() (ways []*way) {
	host := m.Programs.path(liteRTLMHost)
	if host == "" {
		return nil
	}
	ways = append(ways, m.way("LiteRT-LM", withoutCache, "", m.command(host, ":nocache")))
	for _, s := range cachedStarts {
		cache := m.cache("LiteRT-LM", s) + "/"
		ways = append(ways, m.way("LiteRT-LM", s, cache, m.command(host, cache)))
	}
	if m.Programs.path(packTool) == "" {
		return ways
	}
	const packed = "LiteRT-LM, packed by xpwc"
	for _, s := range []start{nextStart, fromDisk} {
		cache := m.cache(packed, s) + "/"
		w := m.way(packed, s, cache, append(asUser(), m.command(host, cache)...))
		w.pack = func(ctx context.Context) error {
			_, err := m.Programs.pack(ctx, m.path, "--for", "litert-lm", "-o", cache)
			return err
		}
		ways = append(ways, w)
	}
	return ways
}

// llamaCPP has no cache of packed weights.
func (m languageModel) llamaCPP() []*way {
	host := m.Programs.path(llamaHost)
	if host == "" {
		return nil
	}
	command := m.command(host, m.Programs.path(llamaLibrary))
	disk := m.way("llama.cpp", fromDisk, "", command)
	disk.Mode = "llama.cpp, from the disk"
	return []*way{m.way("llama.cpp", withoutCache, "", command), disk}
}

// executorch has the runner of ExecuTorch's Python package, which takes no cache file. The tokenizer lies beside the
// model.
func (m languageModel) executorch() []*way {
	host := m.Programs.path(executorchLM)
	if host == "" {
		return nil
	}
	command := m.command(host, filepath.Join(filepath.Dir(m.path), "tokenizer.json"))
	w := m.way("ExecuTorch", withoutCache, "", command)
	w.read = (*process).readAnswersOnceImported
	return []*way{w}
}

// A moment is a time, and the processor time that a process has used by then.
type moment struct {
	wall time.Time
	cpu  time.Duration
}

// since adds the time since an earlier moment to figures.
func (m moment) since(earlier moment, f figures, wall, cpu figure) {
	f[wall], f[cpu] = console.Milliseconds(m.wall.Sub(earlier.wall)), console.Milliseconds(m.cpu-earlier.cpu)
}

// readAnswersOnceImported is readAnswers of a program in Python: the clock starts when it has imported its modules.
func (p *process) readAnswersOnceImported() (*run, error) {
	begin, err := p.mark()
	if err != nil {
		return nil, err
	}
	return p.readAnswersSince(begin)
}

// readAnswers waits for a process that answers two prompts. It prints an empty line at each of these moments.
func (p *process) readAnswers() (*run, error) { return p.readAnswersSince(moment{wall: p.started}) }

// mark waits for an empty line.
func (p *process) mark() (m moment, err error) {
	line, err := p.stdout.ReadString('\n')
	if err != nil || line != "\n" {
		return m, fmt.Errorf("no answer, but %q: %w", line, err)
	}
	m.cpu, err = processorTimeOf(p.cmd.Process.Pid)
	m.wall = time.Now()
	return m, err
}

func (p *process) readAnswersSince(begin moment) (_ *run, err error) {
	const (
		firstToken = iota // of the first answer
		secondPrompt
		secondFirst // token of the second answer
		secondLast
		moments
	)
	var marks [moments]moment
	for i := range marks {
		if marks[i], err = p.mark(); err != nil {
			return nil, err
		}
	}
	r, err := p.read()
	if err != nil {
		return nil, err
	}
	f := figures{}
	marks[firstToken].since(begin, r.Figures, tokenMS, tokenCPU)
	marks[secondFirst].since(marks[secondPrompt], f, prefillRate, prefillCPU)
	marks[secondLast].since(marks[secondFirst], f, decodeRate, decodeCPU)
	prompt, answer := r.Figures[promptTokens], r.Figures[answerTokens]-1 // the first one is prefill's
	if prompt < 1 || answer < 1 {
		return nil, fmt.Errorf("%.0f tokens were answered with %.0f", prompt, answer+1)
	}
	maps.Copy(r.Figures, figures{
		prefillRate: 1000 * prompt / f[prefillRate], prefillCPU: f[prefillCPU] / prompt,
		decodeRate: 1000 * answer / f[decodeRate], decodeCPU: f[decodeCPU] / answer,
	})
	return r, nil
}

// printLanguageModels writes the tables.
func (r *result) printLanguageModels(w io.Writer) error {
	fmt.Fprintf(w, "\n%s; medians of %s; %s\n", r.Model, console.Plural(r.Rounds, "round"),
		console.Plural(r.Threads, "thread"))
	times := modesTable("ms; tokens in a second", r.Modes, []column{
		columnOf("first token", tokenMS, console.Digits), betweenColumn(tokenMS),
		columnOf("CPU", tokenCPU, console.Digits),
		columnOf("prefill", prefillRate, console.Digits), columnOf("decode", decodeRate, console.Digits),
		columnOf("CPU of a token", decodeCPU, console.Digits),
		{"answer", func(m *modeResult) string {
			match := func(o *modeResult) bool { return o.Runs[0].Output == m.Runs[0].Output }
			return string(rune('a' + slices.IndexFunc(r.Modes, match)))
		}},
	})
	columns := []column{columnOf("PSS", pss, mebibytes), columnOf("private", dirty, mebibytes)}
	if r.Processes > 0 {
		columns = append(columns, columnOf(fmt.Sprintf("PSS of %d", r.Processes), manyPSS, mebibytes),
			columnOf("private", manyDirty, mebibytes))
	}
	return printTables(w, times, modesTable("MiB", r.Modes, append(columns, columnOf("file", fileBytes, mebibytes))))
}
