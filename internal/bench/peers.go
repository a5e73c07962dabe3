package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"xpwc/internal/console"
	"xpwc/internal/generated"
	"xpwc/internal/modelfile"
	"xpwc/models/inference"
	"xpwc/models/npy"
)

// Chain is the beginning of the names of models that are generated: "chain.tflite", "chain-int8.tflite" and
// "chain.pte". See
// [generated.Chain].
const Chain = "chain"

// inInt8 is what the name of a chain with weights in 8 bits ends in.
const inInt8 = "-int8.tflite"

// chainMatrices is how many matrices a chain has: 896 MiB of weights.
const chainMatrices = 14

// PeersOptions are what RunPeers measures.
type PeersOptions struct {
	Models    []string // .tflite files and .pte programs, or one of Chain's names
	Rounds    int
	Processes int      // that have one model loaded at the same time; 0 for none
	Dir       string   // for cache files and generated models, created if it is not there
	JSON      string   // file for all figures, or ""
	Programs  Programs // of the peers
	// Peer names a peer, if only its ways are measured. They must give the same answer.
	Peer string
}

// RunPeers measures how long xpwc and others that keep packed weights in files need for the same models, and how much
// memory. It prints tables to stdout, and to stderr what it is doing.
func RunPeers(ctx context.Context, o PeersOptions, stdout, stderr io.Writer) error {
	report := &Report{Environment: environment()}
	for _, name := range o.Models {
		c, err := newPeers(ctx, name, o, stderr)
		if err != nil {
			return err
		}
		if err := report.add(c, o.JSON, func() error { return c.runPeers(ctx, o) }); err != nil {
			return err
		}
		if err := c.result.printPeers(stdout); err != nil {
			return err
		}
		if o.Peer != "" && !c.result.sameOutputs() {
			return fmt.Errorf("%s: the answers of %s differ", name, o.Peer)
		}
	}
	return nil
}

func newPeers(ctx context.Context, name string, o PeersOptions, stderr io.Writer) (*comparison, error) {
	if err := os.MkdirAll(o.Dir, 0o777); err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, err
	}
	ext := filepath.Ext(name)
	base := strings.TrimSuffix(filepath.Base(name), ext)
	chain := name == Chain+ext || name == Chain+inInt8
	if chain {
		base = fmt.Sprintf("%s-%d%s", Chain, chainMatrices, strings.TrimPrefix(base, Chain))
		name = filepath.Join(dir, base+ext)
		chain := generated.Chain(chainMatrices, strings.HasSuffix(name, inInt8))
		if err := generate(ctx, chain, name, stderr); err != nil {
			return nil, err
		}
	}
	size, err := readThrough(name)
	if err != nil {
		return nil, err
	}
	base += strings.ReplaceAll(ext, ".", "-")
	c := &comparison{
		model: []string{name}, churned: size * 5 / 4, stderr: stderr,
		outputs: outputDir(filepath.Join(dir, base+".output")),
		result: &result{
			Name: "peers-" + base, Model: filepath.Base(name) + ", " + console.Mebibytes(size), Threads: 1,
			Processes: o.Processes,
		},
	}
	p := peers{o.Programs, name, filepath.Join(dir, base), c.outputs}
	var ways []*way
	switch ext {
	case ".tflite":
		ways, err = p.ofModel(chain)
	case ".pte":
		ways, err = p.ofProgram()
	default:
		err = fmt.Errorf("%s: LiteRT runs .tflite files, and ExecuTorch .pte programs", name)
	}
	c.add(slices.DeleteFunc(ways, func(w *way) bool { return !strings.HasPrefix(w.Mode, o.Peer) })...)
	if err == nil && len(c.ways) == 0 {
		err = fmt.Errorf("%s: %s does not run it, or its program is not there", name, o.Peer)
	}
	return c, err
}

func (c *comparison) runPeers(ctx context.Context, o PeersOptions) error {
	if err := c.prepare(ctx); err != nil {
		return err
	}
	if err := c.churnPacked(); err != nil {
		return err
	}
	if err := c.rounds(ctx, o.Rounds); err != nil || o.Processes == 0 {
		return err
	}
	defer c.sumUp()
	var many []func() error
	for _, w := range c.ways {
		if !w.start.packs() && w.start != fromDisk { // what follows a first start is a next one
			many = append(many, func() error { return c.measureMany(ctx, w, o.Processes) })
		}
		// ExecuTorch's host is left out: it is an example to copy from, and does not wait.
		if w.start == nextStart && w.read == nil && !strings.HasPrefix(w.Mode, "ExecuTorch") {
			together := func() error { return c.measureTogether(ctx, w, o.Processes) }
			many = append(many, slices.Repeat([]func() error{together}, togetherTimes)...)
		}
	}
	return inAnyOrder(many)
}

// churnPacked has as much memory used before each process as the model and its packed weights take.
func (c *comparison) churnPacked() error {
	var largest int64
	for _, w := range c.ways {
		files, err := w.cacheFiles()
		if err != nil {
			return err
		}
		size, err := readIn(files...)
		if err != nil {
			return err
		}
		largest = max(largest, size)
	}
	c.churned += largest * 5 / 4
	return nil
}

// togetherTimes is how often processes load together.
const togetherTimes = 5

// measureMany starts processes one after the other, of which all stay, and looks at their memory when all are there.
func (c *comparison) measureMany(ctx context.Context, w *way, n int) (err error) {
	fmt.Fprintf(c.stderr, "%s: %d processes, %s\n", c.result.Model, n, w.Mode)
	took := figures{}
	procs, err := startAll(n, func() (*process, error) {
		p, r, err := c.begin(ctx, w)
		if err == nil {
			took[manyMS] += r.Figures[totalMS]
		}
		return p, err
	})
	defer func() { err = errors.Join(err, stopAll(procs)) }()
	if err != nil {
		return err
	}
	for _, p := range procs {
		memory, err := p.memory()
		if err != nil {
			return err
		}
		took[manyPSS] += memory[pss]
		took[manyDirty] += memory[dirty]
	}
	w.many = append(w.many, took)
	return nil
}

// measureTogether has processes load at the same instant.
func (c *comparison) measureTogether(ctx context.Context, w *way, n int) error {
	fmt.Fprintf(c.stderr, "%s: %d processes at once, %s\n", c.result.Model, n, w.Mode)
	if err := c.ready(ctx, w); err != nil {
		return err
	}
	loads, err := loadTogether(ctx, w.command, n)
	if err != nil {
		return fmt.Errorf("%s: %w", w.Mode, err)
	}
	for _, ms := range loads {
		w.many = append(w.many, figures{togetherMS: ms})
	}
	w.many = append(w.many, figures{slowestMS: slices.Max(loads)})
	return nil
}

// loadTogether starts processes, lets all of them go when each could begin, and returns how long each took to load.
func loadTogether(ctx context.Context, command []string, n int) (loads []float64, err error) {
	procs, err := startAll(n, func() (*process, error) {
		return startProcess(ctx, command, togetherVariable+"=1")
	})
	defer func() { err = errors.Join(err, stopAll(procs)) }()
	if err != nil {
		return nil, err
	}
	for _, p := range procs {
		if _, err := p.stdout.ReadString('\n'); err != nil {
			return nil, fmt.Errorf("a process does not wait: %w", err)
		}
	}
	for _, p := range procs {
		if err := p.stdin.Close(); err != nil {
			return nil, err
		}
	}
	for _, p := range procs {
		r, err := p.read()
		if err != nil {
			return nil, err
		}
		loads = append(loads, r.Figures[totalMS])
	}
	return loads, nil
}

// printPeers writes the table.
func (r *result) printPeers(w io.Writer) error {
	fmt.Fprintf(w, "\n%s; medians of %s; 1 thread\n", r.Model, console.Plural(r.Rounds, "round"))
	return printTables(w, modesTable("ms and MiB", r.Modes, []column{
		columnOf("load", totalMS, console.Digits), betweenColumn(totalMS), columnOf("first", firstMS, console.Digits),
		columnOf("answer", answerMS, console.Digits), columnOf("steady", steadyMS, console.Digits),
		columnOf("CPU, load", loadCPU, console.Digits), columnOf("CPU, answer", answerCPU, console.Digits),
		columnOf("RssAnon", rssAnon, mebibytes), columnOf("file", fileBytes, mebibytes),
		columnOf(fmt.Sprintf("PSS of %d", r.Processes), manyPSS, mebibytes),
		columnOf("their loads", manyMS, console.Digits),
		columnOf("at once", togetherMS, console.Digits), columnOf("slowest", slowestMS, console.Digits),
		{"outputs", func(m *modeResult) string {
			if m.Runs[0].Output == r.Modes[0].Runs[0].Output {
				return "the same"
			}
			return "others"
		}},
	}))
}

// Programs is the directory of the peers' hosts and their libraries. Missing hosts are not measured.
type Programs string

// The files of Programs.
const (
	litertHost     = "litert"      // internal/bench/litert
	onnxHost       = "onnxruntime" // internal/bench/onnxruntime
	onnxLibrary    = "libonnxruntime.so"
	readerHost     = "reader"          // internal/bench/reader
	executorchHost = "executorch/host" // examples/executorch
	dropInLibrary  = "drop_in.so"      // the class on the reader, in place of the one in ExecuTorch's backend
	packTool       = "xpwc"            // the tool, built with the XNNPACK of ExecuTorch, to pack ahead for the others
)

// path is where a file is, or "".
func (p Programs) path(name string) string {
	if path := filepath.Join(string(p), name); p != "" {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return ""
}

// pack has the tool pack a model, and returns what it printed.
func (p Programs) pack(ctx context.Context, model string, options ...string) (string, error) {
	args := append([]string{"pack", model}, options...)
	out, err := exec.CommandContext(ctx, p.path(packTool), args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("xpwc pack: %w: %s", err, out)
	}
	return string(out), nil
}

// peers are the runtimes that can run a model.
type peers struct {
	Programs
	model   string
	base    string // the beginning of the names of cache files
	outputs outputDir
}

// A command is that of a host with a cache file, or none if that is "".
type command func(cache string) []string

// waysOf are the ways of a peer.
func (p peers) waysOf(peer string, run command) []*way {
	var ways []*way
	for _, s := range []start{withoutCache, firstStart, nextStart} {
		w := &way{modeResult: modeResult{Mode: peer + ", " + string(s)}, start: s}
		if s != withoutCache {
			w.cache = p.base + "." + peer + "." + string(s[:5])
		}
		w.command = run(w.cache)
		ways = append(ways, w)
	}
	return ways
}

// packed is a way of which the tool packs the file ahead.
func (p peers) packed(name, cache string, run command, options ...string) *way {
	w := &way{modeResult: modeResult{Mode: name}, start: nextStart, cache: p.base + "." + cache + ".packed"}
	w.command = append(asUser(), run(w.cache)...)
	w.pack = func(ctx context.Context) error {
		out, err := p.Programs.pack(ctx, p.model, append([]string{"-o", w.cache}, options...)...)
		if err != nil {
			return err
		}
		// A sealed file's readers are given the model's digest, so it prints that.
		if _, said, ok := strings.Cut(out, "sealed for the model "); ok {
			for i, argument := range w.command {
				w.command[i] = strings.Replace(argument, digestHere, strings.Fields(said)[0], 1)
			}
		}
		return nil
	}
	return w
}

// digestHere is the placeholder in a command for the digest, known when the file is packed.
const digestHere = "DIGEST"

// ofModel are the ways of a .tflite model. The reader's host can run a generated one and nothing else.
func (p peers) ofModel(generated bool) ([]*way, error) {
	ways, err := p.ownWays()
	if host := p.path(litertHost); host != "" {
		run := func(cache string) []string { return []string{host, p.model, cache, p.outputs.answer()} }
		ways = append(ways, p.waysOf("LiteRT", run)...)
		if p.path(packTool) != "" {
			ways = append(ways, p.packed("LiteRT, packed by xpwc", "LiteRT", run, "--for", "litert"))
		}
	}
	if generated && !strings.HasSuffix(p.model, inInt8) {
		onnx, wrong := p.onnxWays()
		ways, err = append(ways, onnx...), errors.Join(err, wrong)
	}
	if host := p.path(readerHost); generated && host != "" && p.path(packTool) != "" {
		kind := "float32"
		if strings.HasSuffix(p.model, inInt8) {
			kind = "int8"
		}
		run := func(cache string) []string {
			return []string{host, p.model, kind, cache, p.outputs.answer(), digestHere}
		}
		ways = append(ways, p.waysOf("reader", run)[0], p.packed("reader, packed by xpwc", "reader", run, "--sealed"))
	}
	return ways, err
}

// onnxWays are the ways of ONNX Runtime with a generated chain in float32. Its model is an .onnx file that reads the
// weights of the .tflite file. A first start writes a model with packed weights, and a next one loads that.
func (p peers) onnxWays() ([]*way, error) {
	host, library := p.path(onnxHost), p.path(onnxLibrary)
	if host == "" || library == "" {
		return nil, nil
	}
	model := strings.TrimSuffix(p.model, ".tflite") + ".onnx"
	content := generated.Chain(chainMatrices, false).ONNX(filepath.Base(p.model))
	if err := os.WriteFile(model, content, 0o666); err != nil {
		return nil, err
	}
	return p.waysOf("ONNX Runtime", func(cache string) []string {
		return []string{host, library, model, cache, p.outputs.answer()}
	}), nil
}

// ofProgram are the ways of a .pte program.
func (p peers) ofProgram() ([]*way, error) {
	ways, err := p.ownWays()
	host := p.path(executorchHost)
	if err != nil || host == "" {
		return ways, err
	}
	run := func(cache string) []string {
		args := []string{host, p.model, "--one-thread", "--stay", "--output-dir", string(p.outputs)}
		if cache != "" {
			args = append(args, "--cache", cache)
		}
		return args
	}
	ways = append(ways, p.waysOf("ExecuTorch", run)...)
	if p.path(packTool) != "" {
		ways = append(ways, p.packed("ExecuTorch, packed by xpwc", "ExecuTorch", run, "--for", "executorch"))
	}
	if library := p.path(dropInLibrary); library != "" && p.path(packTool) != "" {
		dropIn := func(cache string) []string {
			return append([]string{"env", "LD_PRELOAD=" + library}, run(cache+"#"+digestHere)...)
		}
		ways = append(ways, p.packed("ExecuTorch, drop-in on the reader", "drop-in", dropIn, "--sealed"))
	}
	return ways, nil
}

// asUser begins a command that root runs with the file permissions of an ordinary user.
func asUser() []string {
	if os.Geteuid() != 0 {
		return nil
	}
	return []string{"setpriv", "--bounding-set=-dac_override", "--inh-caps=-dac_override"}
}

// ownWays are what a program that loads the model with package inference has by default: a small model does without its
// file, so that all its starts are alike.
func (p peers) ownWays() ([]*way, error) {
	file := modelfile.File{Path: p.model}
	m, err := file.Open()
	if err != nil {
		return nil, err
	}
	small := m.WeightBytes() < inference.DefaultCacheFrom
	ways := p.waysOf("xpwc", func(string) []string { return nil })
	if small {
		ways = []*way{ways[0], {modeResult: modeResult{Mode: "xpwc, no file: under 1 MiB"}, start: nextStart}}
	}
	for _, w := range ways {
		t := task{Mode: modeWarm, Model: file, Threads: 1, Cache: w.cache, Peer: true}
		switch {
		case w.start == firstStart:
			t.Mode = modeCold
		case w.start == nextStart && small:
			t.Mode = modeMemory
		}
		command, wrong := t.command()
		w.command, err = command, errors.Join(err, wrong)
	}
	return ways, errors.Join(err, m.Close())
}

// An outputDir is where hosts write the outputs of their first answer. "" if there are no such hosts.
type outputDir string

// answer is where a host writes its outputs one after the other, if it does not write them as .npy files.
func (d outputDir) answer() string { return filepath.Join(string(d), "answer.f32") }

func (d outputDir) clear() error {
	if d == "" {
		return nil
	}
	return errors.Join(os.RemoveAll(string(d)), os.Mkdir(string(d), 0o777))
}

func (d outputDir) remove() error {
	if d == "" {
		return nil
	}
	return os.RemoveAll(string(d))
}

// sum is the SHA-256 of all outputs, in their order.
func (d outputDir) sum() (string, error) {
	content, err := os.ReadFile(d.answer())
	if !errors.Is(err, fs.ErrNotExist) {
		return sumOf(content), err
	}
	var data [][]byte
	for i := 0; ; i++ { // what examples/executorch writes
		content, err := os.ReadFile(filepath.Join(string(d), fmt.Sprintf("forward.out%d.npy", i)))
		if errors.Is(err, fs.ErrNotExist) && i > 0 {
			return sumOf(data...), nil
		}
		if err != nil {
			return "", err
		}
		a, err := npy.Read(content)
		if err != nil {
			return "", err
		}
		data = append(data, a.Data)
	}
}
