package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"xpwc"
	"xpwc/internal/console"
	"xpwc/internal/execution"
	"xpwc/internal/instance"
	"xpwc/internal/modelfile"
	"xpwc/xnnpack"
)

// Modes: the ways in which a process of this program runs a model.
const (
	modeNone    = "none"    // without a cache
	modeXNNPACK = "xnnpack" // with XNNPACK's own cache
	modeWrite   = "write"   // packing into one buffer, and writing that to a new file
	modeIdeal   = "ideal"   // with a provider in C that knows every answer in advance
	modeCold    = "cold"    // packing into a new cache file
	modeWarm    = "warm"    // from the file that a cold run wrote
	modeDropped = "dropped" // warm, when the file is not in the page cache, with Options.Prefetch

	modeRecord = "record" // not measured: writes the file of modeIdeal
	modeMemory = "memory" // with a cache that has no file
	modeChurn  = "churn"  // not measured: uses memory, and frees it
)

// A task is what a process of this program does.
type task struct {
	Mode    string
	Model   modelfile.File
	Threads int
	Cache   string // file, "" without one
	Churn   int64  // bytes that modeChurn uses
	// Peer: it is compared with hosts of others. Loading begins with opening the model, as theirs does, and memory is
	// looked at from outside.
	Peer bool
}

func (t task) in(mode, cache string) task {
	t.Mode, t.Cache = mode, cache
	return t
}

// togetherVariable is set in the environment of a process that loads at the same instant as others: it prints an empty
// line when it could begin, waits until standard input ends, loads, reports the time of that alone, and ends.
const togetherVariable = "LOAD_TOGETHER"

// Measure is a process that RunPeers, Run or Demo has started, with its arguments.
func Measure(args []string, stdin io.Reader, stdout io.Writer) error {
	if len(args) != 1 {
		return errors.New("measure: give what to measure, in JSON")
	}
	var t task
	if err := json.Unmarshal([]byte(args[0]), &t); err != nil {
		return fmt.Errorf("measure: %w", err)
	}
	wait := func() error {
		_, err := io.Copy(io.Discard, stdin)
		return err
	}
	say := func(r *run) error {
		if err := json.NewEncoder(stdout).Encode(r); err != nil {
			return err
		}
		return wait()
	}
	if t.Mode == modeChurn {
		if err := churn(t.Churn); err != nil {
			return err
		}
		return say(&run{Figures: figures{}})
	}
	together := os.Getenv(togetherVariable) != ""
	if together {
		fmt.Fprintln(stdout)
		if err := wait(); err != nil {
			return err
		}
	}
	return t.measure(together, say)
}

// measure prints its measurements while the model is still loaded.
func (t task) measure(together bool, say func(*run) error) (err error) {
	r := &run{Figures: figures{}}
	start, startCPU := time.Now(), processorTime()
	if t.Peer {
		xnnpack.InitializeSoon() // as the Load functions of the models' packages do
	}
	m, err := t.Model.Open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	b, done, err := t.backing(r.Figures)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	if !t.Peer {
		runtime.GC() // before the clock starts
	}
	e, err := instance.New(m, b, t.Threads)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	r.takeTimes(t.Mode, e.Times)
	if t.Peer {
		r.takeTime(totalMS, time.Since(start))
		r.takeTime(loadCPU, processorTime()-startCPU)
	}
	if together {
		return say(r)
	}
	if err := r.infer(t, e); err != nil {
		return err
	}
	r.countCache(t.Cache, e.Cache)
	return say(r)
}

// backing is where the packed weights are. done ends its use, after the runtime's.
func (t task) backing(f figures) (b instance.Backing, done func() error, err error) {
	done = func() error { return nil }
	switch t.Mode {
	case modeXNNPACK:
		return instance.PackedInHeapCache, done, nil
	case modeMemory:
		return instance.PackedInOpened(func() (*xpwc.Cache, error) { return xpwc.Open("", nil) }), done, nil
	case modeIdeal, modeWrite, modeRecord:
		return t.provided(f)
	}
	return execution.PackedIn(t.Cache, &xpwc.Options{Prefetch: t.Mode == modeDropped}), done, nil
}

func (r *run) takeTimes(mode string, t instance.Times) {
	r.takeTime(subgraphMS, t.Load)
	r.takeTime(createMS, t.Create)
	r.takeTime(totalMS, t.Total())
	if mode != modeNone && mode != modeIdeal {
		r.takeTime(finalizeMS, t.Finalize)
	}
	if mode != modeNone && mode != modeIdeal && mode != modeWrite {
		r.takeTime(openMS, t.Open)
	}
}

func (r *run) takeTime(fig figure, d time.Duration) { r.Figures[fig] = console.Milliseconds(d) }

// processorTime returns the processor time of this process so far, of the system too; 0 where it is not known.
func processorTime() time.Duration {
	used, _ := processorTimeOf(os.Getpid())
	return used
}

// takeMemory takes this process' memory, after giving the free pages of the Go heap back to the system.
func (r *run) takeMemory() error {
	debug.FreeOSMemory()
	m, err := memoryOf(os.Getpid())
	maps.Copy(r.Figures, m)
	return err
}

// infer measures inferences, and memory after the first one. In mode cold that one runs while the file is saved, and is
// followed by another when it was: saving may have taken pages out of this process' memory. A peer saves the file after
// its answer, as a program does that leaves it to the background, which begins later.
func (r *run) infer(t task, e *instance.Instance) error {
	var commit time.Duration
	saved := make(chan error, 1)
	save := func() {
		start := time.Now()
		err := e.Cache.Save()
		commit = time.Since(start)
		saved <- err
	}
	if t.Mode == modeCold && !t.Peer {
		go save()
	}
	if err := execution.FillKnuth(e); err != nil {
		return err
	}
	startCPU := processorTime()
	took, err := e.Infer()
	if err != nil {
		return err
	}
	r.takeTime(firstMS, took)
	if t.Peer {
		r.Figures[answerCPU] = r.Figures[loadCPU] + console.Milliseconds(processorTime()-startCPU)
	}
	r.Figures[answerMS] = r.Figures[totalMS] + r.Figures[firstMS]
	r.Output = outputSum(e)
	if t.Mode == modeCold {
		if t.Peer {
			save()
		}
		if err := <-saved; err != nil {
			return err
		}
		r.takeTime(commitMS, commit)
		if _, err := e.Infer(); err != nil {
			return err
		}
	}
	if !t.Peer {
		if err := r.takeMemory(); err != nil {
			return err
		}
	}
	steady, err := steady(e)
	r.takeTime(steadyMS, steady)
	return err
}

// countCache takes what the cache did, if there is one.
func (r *run) countCache(path string, cache *xpwc.Cache) {
	if cache == nil {
		return
	}
	c := execution.ReportCache(path, cache.Stats())
	r.Reasons, r.Notes = c.Reasons, c.Notes
	for fig, n := range map[figure]int64{hits: c.Hits, packed: c.Packed, reused: c.Reused, private: c.Private,
		bytesWritten: c.BytesWritten, payloadBytes: c.PayloadBytes, fileBytes: c.FileBytes} {
		r.Figures[fig] = float64(n)
	}
}

// steady returns the median time of further inferences: at least 5, and up to 50 while they take less than a second
// together.
func steady(e *instance.Instance) (time.Duration, error) {
	const minRuns, maxRuns, enough = 5, 50, time.Second
	var times []time.Duration
	var sum time.Duration
	for len(times) < minRuns || len(times) < maxRuns && sum < enough {
		d, err := e.Infer()
		if err != nil {
			return 0, err
		}
		times = append(times, d)
		sum += d
	}
	slices.Sort(times)
	return times[len(times)/2], nil
}

// outputSum returns the SHA-256 of all outputs, one after the other.
func outputSum(e *instance.Instance) string {
	outputs := make([][]byte, len(e.Outputs))
	for i, b := range e.Outputs {
		outputs[i] = b.Bytes()
	}
	return sumOf(outputs...)
}

// A process is a program that has a model loaded. It prints what it measured, in JSON, and stays until it is stopped,
// so that its memory can be looked at.
type process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
	stderr bytes.Buffer

	started time.Time
}

// startProcess starts one, with more in its environment.
func startProcess(ctx context.Context, command []string, environment ...string) (*process, error) {
	p := &process{cmd: exec.CommandContext(ctx, command[0], command[1:]...)}
	p.cmd.Env, p.cmd.Stderr = append(p.cmd.Environ(), environment...), &p.stderr
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.stdout = bufio.NewReader(stdout)
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	p.started = time.Now()
	return p, p.cmd.Start()
}

// A report is what a process prints when it has answered.
type report struct {
	run // of this program's own processes
	// Of the hosts of others, whose methods are one.
	LoadMS    float64 `json:"load_ms"`
	LoadCPU   float64 `json:"load_processor_ms"`
	AnswerCPU float64 `json:"answer_processor_ms"`
	Methods   []struct {
		FirstMS  float64 `json:"first_inference_ms"`
		SteadyMS float64 `json:"steady_inference_ms"`
	} `json:"methods"`
}

// read waits for the report.
func (p *process) read() (*run, error) {
	var r report
	if err := json.NewDecoder(p.stdout).Decode(&r); err != nil {
		return nil, err
	}
	if r.Answer != "" {
		r.Output = sumOf([]byte(r.Answer))
	}
	if r.Figures != nil {
		return &r.run, nil
	}
	r.Figures = figures{totalMS: r.LoadMS}
	if r.AnswerCPU > 0 {
		r.Figures[loadCPU], r.Figures[answerCPU] = r.LoadCPU, r.AnswerCPU
	}
	if len(r.Methods) > 1 {
		return nil, fmt.Errorf("%d methods were run, not one", len(r.Methods))
	}
	for _, m := range r.Methods {
		r.Figures[firstMS], r.Figures[steadyMS], r.Figures[answerMS] = m.FirstMS, m.SteadyMS, r.LoadMS+m.FirstMS
	}
	return &r.run, nil
}

// memory is that of the process now.
func (p *process) memory() (figures, error) { return memoryOf(p.cmd.Process.Pid) }

// stop lets the process end. If it failed, the error has its output.
func (p *process) stop() error {
	_ = p.stdin.Close() // which may be closed
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w: %s", p.cmd.Path, err, bytes.TrimSpace(p.stderr.Bytes()))
	}
	return nil
}

// failure stops a process that gave no report, and returns the cause: what the process printed, if it ended by itself.
func (p *process) failure(err error) error {
	stopped := p.stop()
	if errors.Is(err, io.EOF) && stopped != nil {
		return stopped
	}
	return errors.Join(err, stopped)
}

// runProcess runs a process to its end.
func runProcess(ctx context.Context, command []string) (*run, error) {
	p, err := startProcess(ctx, command)
	if err != nil {
		return nil, err
	}
	r, err := p.read()
	if err != nil {
		return nil, p.failure(err)
	}
	return r, p.stop()
}

// startAll starts processes one after the other. What was started is returned with an error, too.
func startAll(n int, start func() (*process, error)) (procs []*process, err error) {
	for range n {
		p, err := start()
		if err != nil {
			return procs, err
		}
		procs = append(procs, p)
	}
	return procs, nil
}

func stopAll(procs []*process) (err error) {
	for _, p := range procs {
		err = errors.Join(err, p.stop())
	}
	return err
}

// MeasureCommand is the first argument of the processes that this package starts: the running program once more. A
// program that calls Run, Demo or RunPeers calls [Measure] with the other arguments when it is started so.
const MeasureCommand = "measure"

// command is that of a process which does the task.
func (t task) command() ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	content, err := json.Marshal(t)
	return []string{self, MeasureCommand, string(content)}, err
}

// run has a process do the task.
func (t task) run(ctx context.Context) (*run, error) {
	command, err := t.command()
	if err != nil {
		return nil, err
	}
	return runProcess(ctx, command)
}
