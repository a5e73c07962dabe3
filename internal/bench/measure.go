package bench

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"time"

	"xpwc"
	"xpwc/internal/bench/ideal"
	"xpwc/internal/bench/terminal"
	"xpwc/internal/bench/written"
	"xpwc/internal/console"
	"xpwc/internal/execution"
	"xpwc/internal/instance"
)

// Modes: the ways in which a model is run.
const (
	modeNone        = "none"         // without a cache
	modeXNNPACK     = "xnnpack"      // with XNNPACK's own cache
	modeWrite       = "write"        // packing into one buffer, and writing that to a new file
	modeIdeal       = "ideal"        // with a provider in C that knows every answer in advance
	modeCold        = "cold"         // packing into a new cache file
	modeWarm        = "warm"         // from the file that the cold run wrote
	modeDropped     = "dropped"      // warm, when the file is not in the page cache, with Options.Prefetch
	modeDroppedLazy = "dropped-lazy" // the same without it
	modeReread      = "reread"       // warm, when an earlier process has read the file from the disk

	modeRecord = "record" // not measured: writes the file of modeIdeal
	modeTwice  = "twice"  // two runtimes of one model in one process
	modeChurn  = "churn"  // not measured: uses small pages, and frees them
)

// measurement is what Demo returns for each mode.
type measurement struct {
	Mode              string  `json:"mode"`
	CreateRuntimeMS   float64 `json:"create_runtime_ms"`
	TotalLoadMS       float64 `json:"total_load_ms"`
	FirstInferenceMS  float64 `json:"first_inference_ms"`
	RSSAnonBytes      int64   `json:"rss_anon_bytes"`
	RSSFileBytes      int64   `json:"rss_file_bytes"`
	PrivateDirtyBytes int64   `json:"private_dirty_bytes"`
	Hits              int64   `json:"hits"`
	Packed            int64   `json:"packed"`
	Private           int64   `json:"private"`
	BytesWritten      int64   `json:"bytes_written"`
	FileBytes         int64   `json:"file_bytes"`
	PayloadBytes      int64   `json:"payload_bytes"`
	OutputSHA256      string  `json:"output_sha256"`
}

// measured is what the process of one mode reports.
type measured struct {
	measurement
	OpenMS          float64          `json:"open_ms"`
	LoadMS          float64          `json:"load_ms"`
	FinalizeMS      float64          `json:"finalize_ms"`
	SteadyMS        float64          `json:"steady_ms"`
	CommitMS        float64          `json:"commit_ms,omitempty"` // cold: from finalize until all is on the disk
	LoadFaults      execution.Faults `json:"load_faults"`
	InferenceFaults execution.Faults `json:"first_inference_faults"`
	MemoryKnown     bool             `json:"memory_known"`         // the system has the memory figures
	AfterLoad       *memory          `json:"after_load,omitempty"` // not if the first inference followed at once
	AfterInference  memory           `json:"after_first_inference"`
	PeakRSSBytes    int64            `json:"peak_rss_bytes"` // until the first answer; cold: until saved
	CopiedBytes     int64            `json:"copied_bytes"`
	Reused          int64            `json:"reused"`
	Reasons         []xpwc.Reason    `json:"reasons,omitempty"`
	Notes           []string         `json:"notes,omitempty"`
}

func measure(t task, stderr io.Writer) (r *measured, err error) {
	r = &measured{measurement: measurement{Mode: t.Mode}}
	m, err := t.open()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	progress := terminal.NewProgress(stderr, "packing")
	var b instance.Backing
	switch t.Mode {
	case modeXNNPACK:
		b = instance.PackedInHeapCache
	case modeIdeal:
		known, openErr := ideal.Open(t.Cache)
		if openErr != nil {
			return nil, openErr
		}
		defer func() { err = errors.Join(err, checkAnswers(known), known.Close()) }()
		b = instance.PackedInProvider(known, nil)
	case modeWrite:
		c, createErr := written.Create(t.Cache)
		if createErr != nil {
			return nil, createErr
		}
		defer func() { err = errors.Join(err, c.Close()) }()
		b = instance.PackedInProvider(c, c.Finalize)
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
	var saved <-chan saving
	if t.Mode == modeCold {
		saved = save(e.Cache)
	}
	if !fromDisk(t.Mode) { // which measure the time to the first answer
		if r.AfterLoad, err = r.memory(); err != nil {
			return nil, err
		}
	}
	if err := e.FillKnuth(); err != nil {
		return nil, err
	}
	if err := r.infer(e); err != nil {
		return nil, err
	}
	if t.Mode == modeCold {
		s := <-saved
		r.CommitMS = console.Milliseconds(s.took)
		if err := errors.Join(s.err, touch(e)); err != nil {
			return nil, err
		}
	}
	if err := r.takeMemory(); err != nil {
		return nil, err
	}
	r.takeTimes(e.Times)
	r.LoadFaults = e.Faults
	r.OutputSHA256 = outputSum(e)
	steady, err := steady(e)
	if err != nil {
		return nil, err
	}
	r.SteadyMS = console.Milliseconds(steady)
	return r, r.countCache(t.Cache, e.Cache)
}

func (r *measured) takeTimes(t instance.Times) {
	r.OpenMS, r.LoadMS = console.Milliseconds(t.Open), console.Milliseconds(t.Load)
	r.CreateRuntimeMS, r.FinalizeMS = console.Milliseconds(t.Create), console.Milliseconds(t.Finalize)
	r.TotalLoadMS = console.Milliseconds(t.Total())
}

// infer is the first inference.
func (r *measured) infer(e *execution.Execution) error {
	before := execution.PageFaults()
	first, err := e.Infer()
	if err != nil {
		return err
	}
	r.InferenceFaults = execution.PageFaults().Since(before)
	r.FirstInferenceMS = console.Milliseconds(first)
	m, err := r.memory()
	if m != nil {
		r.AfterInference = *m
	}
	return err
}

// memory returns nil where the system has no such figures.
func (r *measured) memory() (*memory, error) {
	m, err := measureMemory()
	if errors.Is(err, errNoMemoryFigures) {
		return nil, nil
	}
	r.MemoryKnown = err == nil
	return &m, err
}

// takeMemory takes the figures of the demo.
func (r *measured) takeMemory() error {
	m, err := r.memory()
	if m != nil {
		r.RSSAnonBytes, r.RSSFileBytes = m.RSSAnon, m.RSSFile
		r.PrivateDirtyBytes, r.PeakRSSBytes = m.PrivateDirty, m.Peak
	}
	return err
}

func (r *measured) countCache(path string, cache *xpwc.Cache) error {
	if cache == nil {
		return nil
	}
	s := cache.Stats()
	c := execution.ReportCache(path, s)
	r.Hits, r.Packed, r.Private, r.Reused = c.Hits, c.Packed, c.Private, c.Reused
	r.BytesWritten, r.PayloadBytes = c.BytesWritten, c.PayloadBytes
	r.Reasons, r.Notes = c.Reasons, c.Notes
	r.CopiedBytes = s.CopiedBytes
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it could not be created: see the notes
	}
	if err != nil {
		return err
	}
	r.FileBytes = info.Size()
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
