package bench

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"xpwc"
	"xpwc/internal/bench/terminal"
	"xpwc/internal/console"
	"xpwc/internal/execution"
	"xpwc/internal/instance"
)

// Modes: the ways in which a model is run.
const (
	modeNone    = "none"    // without a cache
	modeXNNPACK = "xnnpack" // with XNNPACK's own cache
	modeWrite   = "write"   // packing into one buffer, and writing that to a new file
	modeIdeal   = "ideal"   // with a provider in C that knows every answer in advance
	modeCold    = "cold"    // packing into a new cache file
	modeWarm    = "warm"    // from the file that the cold run wrote
	modeDropped = "dropped" // warm, when the file is not in the page cache, with Options.Prefetch
	modeReread  = "reread"  // warm, when an earlier process has read the file from the disk

	modeRecord = "record" // not measured: writes the file of modeIdeal
	modeTwice  = "twice"  // two runtimes of one model in one process
	modeChurn  = "churn"  // not measured: uses small pages, and frees them
)

// A figure is the name of a number that was measured.
type figure string

// figures are what one process measured. What does not apply, or is not known on this system, is not there.
type figures map[figure]float64

const (
	openMS      figure = "open_ms"
	subgraphMS  figure = "subgraph_ms"
	createMS    figure = "create_runtime_ms"
	finalizeMS  figure = "finalize_ms"
	totalMS     figure = "total_load_ms"
	packMS      figure = "create_and_finalize_ms"
	firstMS     figure = "first_inference_ms"
	answerMS    figure = "first_answer_ms" // total load and first inference
	steadyMS    figure = "steady_ms"
	commitMS    figure = "commit_ms" // cold: from finalize until all is on the disk
	copiedBytes figure = "copied_bytes"
	// The bytes of the file that are not payload, divided by those that are.
	overhead figure = "file_overhead"

	// What the cache did.
	hits         figure = "hits"
	packed       figure = "packed"
	reused       figure = "reused"
	private      figure = "private"
	bytesWritten figure = "bytes_written"
	fileBytes    figure = "file_bytes"
	payloadBytes figure = "payload_bytes"

	// Memory of a process. In front of them stands when it was.
	rss       figure = "rss_bytes"
	rssAnon   figure = "rss_anon_bytes"
	rssFile   figure = "rss_file_bytes"
	dirty     figure = "private_dirty_bytes"
	pss       figure = "pss_bytes"
	peakBytes figure = "peak_rss_bytes" // of the process so far

	// Page faults. In front of them stands when it was.
	minorFaults figure = "minor_faults"
	majorFaults figure = "major_faults"
)

// The times of memory and page faults: while loading and at its end, and at the first inference. What stands alone is
// memory after the first answer, in mode cold when all is saved.
const (
	loading = "load_"
	first   = "first_"
)

// A run is what one process measured.
type run struct {
	Mode    string        `json:"mode,omitempty"`
	Figures figures       `json:"figures"`
	Output  string        `json:"output_sha256,omitempty"` // the sum of all outputs, one after the other
	Reasons []xpwc.Reason `json:"reasons,omitempty"`       // why entries are in private memory
	Notes   []string      `json:"notes,omitempty"`
}

func measure(t task, stderr io.Writer) (r *run, err error) {
	r = &run{Mode: t.Mode, Figures: figures{}}
	m, err := t.Model.Open()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	progress := terminal.NewProgress(stderr, "packing")
	var b instance.Backing
	switch t.Mode {
	case modeXNNPACK:
		b = instance.PackedInHeapCache
	case modeIdeal, modeWrite:
		provided, done, openErr := providedBy(t)
		if openErr != nil {
			return nil, openErr
		}
		defer func() { err = errors.Join(err, done()) }()
		b = provided
	default:
		o := &xpwc.Options{Progress: terminal.ShowPacking(progress), Prefetch: t.Mode == modeDropped}
		b = execution.PackedIn(t.Cache, o)
	}
	runtime.GC() // before the clock starts
	e, err := execution.Load(m, b, t.Threads)
	progress.Finish()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	r.takeTimes(e.Times)
	r.takeFaults(loading, e.Faults)
	var saved <-chan saving
	if t.Mode == modeCold {
		saved = save(e.Cache)
	}
	if t.Mode != modeDropped { // which measures the time to the first answer
		if err := r.takeMemory(loading); err != nil {
			return nil, err
		}
	}
	if err := r.infer(e); err != nil {
		return nil, err
	}
	if t.Mode == modeCold {
		s := <-saved
		r.Figures[commitMS] = console.Milliseconds(s.took)
		if err := errors.Join(s.err, touch(e)); err != nil {
			return nil, err
		}
	}
	if err := r.takeMemory(""); err != nil {
		return nil, err
	}
	r.Output = outputSum(e)
	steady, err := steady(e)
	if err != nil {
		return nil, err
	}
	r.Figures[steadyMS] = console.Milliseconds(steady)
	return r, r.countCache(t.Cache, e.Cache)
}

func (r *run) takeTimes(t instance.Times) {
	r.takeTime(subgraphMS, t.Load)
	r.takeTime(createMS, t.Create)
	r.takeTime(totalMS, t.Total())
	r.takeTime(packMS, t.Create+t.Finalize)
	if r.Mode != modeNone && r.Mode != modeIdeal {
		r.takeTime(finalizeMS, t.Finalize)
	}
	if r.Mode != modeNone && r.Mode != modeIdeal && r.Mode != modeWrite {
		r.takeTime(openMS, t.Open)
	}
}

func (r *run) takeTime(of figure, d time.Duration) { r.Figures[of] = console.Milliseconds(d) }

func (r *run) takeFaults(when figure, f execution.Faults) {
	if runtime.GOOS == "linux" { // elsewhere nobody counts them
		r.Figures[when+minorFaults], r.Figures[when+majorFaults] = float64(f.Minor), float64(f.Major)
	}
}

// takeMemory takes this process' memory, after giving the free pages of the Go heap back to the system.
func (r *run) takeMemory(when figure) error {
	debug.FreeOSMemory()
	m, err := memoryOf(os.Getpid())
	for name, bytes := range m {
		r.Figures[when+name] = bytes
	}
	return err
}

// infer is the first inference.
func (r *run) infer(e *execution.Execution) error {
	if err := e.FillKnuth(); err != nil {
		return err
	}
	before := execution.PageFaults()
	took, err := e.Infer()
	if err != nil {
		return err
	}
	r.takeFaults(first, execution.PageFaults().Since(before))
	r.takeTime(firstMS, took)
	r.Figures[answerMS] = r.Figures[totalMS] + r.Figures[firstMS]
	return r.takeMemory(first)
}

func (r *run) countCache(path string, cache *xpwc.Cache) error {
	if cache == nil {
		return nil
	}
	s := cache.Stats()
	c := execution.ReportCache(path, s)
	r.Reasons, r.Notes = c.Reasons, c.Notes
	for of, n := range map[figure]int64{hits: c.Hits, packed: c.Packed, reused: c.Reused, private: c.Private,
		bytesWritten: c.BytesWritten, payloadBytes: c.PayloadBytes, copiedBytes: s.CopiedBytes} {
		r.Figures[of] = float64(n)
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it could not be created: see the notes
	}
	if err != nil {
		return err
	}
	r.Figures[fileBytes] = float64(info.Size())
	if c.PayloadBytes > 0 {
		r.Figures[overhead] = float64(info.Size()-c.PayloadBytes) / float64(c.PayloadBytes)
	}
	return nil
}

// steady returns the median time of further inferences: at least 5, and up to 50 while they take less than a second
// together.
func steady(e *execution.Execution) (time.Duration, error) {
	const least, most, enough = 5, 50, time.Second
	var times []time.Duration
	var sum time.Duration
	for len(times) < least || len(times) < most && sum < enough {
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

// A saving is how long waiting for the disk took.
type saving struct {
	took time.Duration
	err  error
}

// save waits for the disk in the background.
func save(c *xpwc.Cache) <-chan saving {
	done := make(chan saving, 1)
	start := time.Now()
	go func() {
		err := c.Save()
		done <- saving{time.Since(start), err}
	}()
	return done
}

// touch has all weights in this process' memory: a commit may have taken pages out of it.
func touch(e *execution.Execution) error {
	_, err := e.Infer()
	return err
}

// outputSum returns the SHA-256 of all outputs, one after the other.
func outputSum(e *execution.Execution) string {
	h := sha256.New()
	for _, b := range e.Outputs {
		h.Write(b.Bytes())
	}
	return hex.EncodeToString(h.Sum(nil))
}
