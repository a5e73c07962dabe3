package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"xpwc"
	"xpwc/internal/bench/ideal"
)

// The ways in which a model is run.
const (
	modeNone        = "none"         // without a cache
	modeXNNPACK     = "xnnpack"      // with XNNPACK's own cache
	modeIdeal       = "ideal"        // with a cache that knows everything in advance
	modeCold        = "cold"         // packing into a new cache file
	modeWarm        = "warm"         // from the file that the cold run wrote
	modeDropped     = "dropped"      // warm, when the file is not in the page cache, with Options.Prefetch
	modeDroppedLazy = "dropped-lazy" // the same without it

	modeRecord = "record" // not measured: writes the file of modeIdeal
)

// measurement is what demo --json writes for each mode.
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

// measured is what the process of one mode tells the one that started it.
type measured struct {
	measurement
	OpenMS          float64       `json:"open_ms"`
	LoadMS          float64       `json:"load_ms"`
	FinalizeMS      float64       `json:"finalize_ms"`
	SteadyMS        float64       `json:"steady_ms"`
	CommitMS        float64       `json:"commit_ms,omitempty"` // cold: from the end of finalize to what was packed being on the disk
	LoadFaults      faults        `json:"load_faults"`
	InferenceFaults faults        `json:"first_inference_faults"`
	MemoryKnown     bool          `json:"memory_known"`         // the system tells the memory figures
	AfterLoad       *memory       `json:"after_load,omitempty"` // not if the first inference followed at once
	AfterInference  memory        `json:"after_first_inference"`
	PeakRSSBytes    int64         `json:"peak_rss_bytes"` // until the first inference; cold: until the cache is saved
	CopiedBytes     int64         `json:"copied_bytes"`
	Reused          int64         `json:"reused"`
	Reasons         []xpwc.Reason `json:"reasons,omitempty"`
	Notes           []string      `json:"notes,omitempty"`
}

// newMeasureCommand is what demo and bench start this program with, for each mode anew.
func newMeasureCommand() *cobra.Command {
	var t target
	var mode string
	var twice bool
	cmd := &cobra.Command{
		Use:    "measure MODEL",
		Hidden: true,
		Args:   usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			t.path = args[0]
			var result any
			var err error
			switch {
			case twice:
				result, err = measureTwice(t)
			case mode == modeRecord:
				result, err = record(t)
			default:
				result, err = measure(t, mode, cmd.ErrOrStderr())
			}
			if err != nil {
				return err
			}
			return json.NewEncoder(cmd.OutOrStdout()).Encode(result)
		},
	}
	f := cmd.Flags()
	f.StringVar(&mode, "mode", modeNone, "")
	f.StringVar(&t.cache, "cache", "", "")
	f.IntVar(&t.stack.Layers, "layers", 0, "")
	f.BoolVar(&t.stack.Float32, "float32", false, "")
	f.Int64Var(&t.back, "back", 0, "")
	f.IntVar(&t.threads, "threads", 1, "")
	f.BoolVar(&twice, "twice", false, "")
	return cmd
}

func measure(t target, mode string, stderr io.Writer) (r *measured, err error) {
	r = &measured{measurement: measurement{Mode: mode}}
	m, err := t.open()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	bar := newProgress(stderr, "packing")
	var b backing
	switch mode {
	case modeXNNPACK:
		b = packedInHeapCache
	case modeIdeal:
		known, err := ideal.Open(t.cache)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, checkAnswers(known), known.Close()) }()
		b = packedInIdeal(known)
	default:
		b = packedIn(t.cache, &xpwc.Options{Progress: bar.packed, Prefetch: mode == modeDropped})
	}
	if err := backMemory(t.back); err != nil {
		return nil, err
	}
	runtime.GC() // what came before shall not be collected on the clock
	e, err := load(m, b, t.threads)
	bar.finish()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	var saved <-chan saving
	if mode == modeCold {
		saved = save(e.cache)
	}
	if mode != modeDropped && mode != modeDroppedLazy { // there the first answer is waited for
		if r.AfterLoad, err = r.memory(); err != nil {
			return nil, err
		}
	}
	e.fillKnuth()
	if err := r.infer(e); err != nil {
		return nil, err
	}
	if mode == modeCold {
		s := <-saved
		r.CommitMS = milliseconds(s.took)
		if err := errors.Join(s.err, e.touch()); err != nil {
			return nil, err
		}
	}
	if err := r.takeMemory(); err != nil {
		return nil, err
	}
	r.OpenMS, r.LoadMS, r.FinalizeMS = milliseconds(e.times.open), milliseconds(e.times.load), milliseconds(e.times.finalize)
	r.CreateRuntimeMS, r.TotalLoadMS = milliseconds(e.times.create), milliseconds(e.times.total())
	r.LoadFaults = e.faults
	r.OutputSHA256 = e.outputSum()
	steady, err := e.steady()
	if err != nil {
		return nil, err
	}
	r.SteadyMS = milliseconds(steady)
	return r, r.countCache(t.cache, e.cache)
}

// infer is the first inference.
func (r *measured) infer(e *execution) error {
	before := pageFaults()
	first, err := e.infer()
	if err != nil {
		return err
	}
	r.InferenceFaults = pageFaults().since(before)
	r.FirstInferenceMS = milliseconds(first)
	m, err := r.memory()
	if m != nil {
		r.AfterInference = *m
	}
	return err
}

// memory returns nil where the system does not tell.
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
		r.RSSAnonBytes, r.RSSFileBytes, r.PrivateDirtyBytes, r.PeakRSSBytes = m.RSSAnon, m.RSSFile, m.PrivateDirty, m.Peak
	}
	return err
}

func (r *measured) countCache(path string, cache *xpwc.Cache) error {
	if cache == nil {
		return nil
	}
	s := cache.Stats()
	c := reportCache(path, s)
	r.Hits, r.Packed, r.Private, r.Reused = c.Hits, c.Packed, c.Private, c.Reused
	r.BytesWritten, r.PayloadBytes = c.BytesWritten, c.PayloadBytes
	r.Reasons, r.Notes = c.Reasons, c.Notes
	r.CopiedBytes = s.CopiedBytes
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it could not be created; the notes say why
	}
	if err != nil {
		return err
	}
	r.FileBytes = info.Size()
	return nil
}

// steady returns the median of further inferences: at least 5, and more while they take less than a second together.
func (e *execution) steady() (time.Duration, error) {
	const least, most, enough = 5, 50, time.Second
	var times []time.Duration
	var sum time.Duration
	for len(times) < least || len(times) < most && sum < enough {
		d, err := e.infer()
		if err != nil {
			return 0, err
		}
		times = append(times, d)
		sum += d
	}
	slices.Sort(times)
	return times[len(times)/2], nil
}

// saving is what waiting for the disk took.
type saving struct {
	took time.Duration
	err  error
}

// save waits for the disk, beside what goes on meanwhile.
func save(c *xpwc.Cache) <-chan saving {
	done := make(chan saving, 1)
	start := time.Now()
	go func() {
		err := c.Save()
		done <- saving{time.Since(start), err}
	}()
	return done
}

// touch has all weights in this process' memory: a commit takes their pages out of it for a while.
func (e *execution) touch() error {
	_, err := e.infer()
	return err
}

// outputSum returns the SHA-256 of all outputs, one after the other.
func (e *execution) outputSum() string {
	h := sha256.New()
	for _, b := range e.outputs {
		h.Write(b.Bytes())
	}
	return hex.EncodeToString(h.Sum(nil))
}
