package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"xpwc"
	"xpwc/internal/llama"
	"xpwc/xnnpack"
)

// The ways in which demo runs a model.
const (
	modeNone = "none" // without a cache
	modeCold = "cold" // packing into a new cache file
	modeWarm = "warm" // from the file that the cold run wrote
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
	OpenMS      float64       `json:"open_ms"`
	LoadMS      float64       `json:"load_ms"`
	FinalizeMS  float64       `json:"finalize_ms"`
	SteadyMS    float64       `json:"steady_ms"`
	MemoryKnown bool          `json:"memory_known"` // the system tells the memory figures
	Reused      int64         `json:"reused"`
	Reasons     []xpwc.Reason `json:"reasons,omitempty"`
	Notes       []string      `json:"notes,omitempty"`
}

// target is a model that is measured, as the command line of a measuring process gives it.
type target struct {
	path    string
	layers  int // of the llama stack whose weights are at path; 0 for a .tflite file
	threads int
	cache   string // "" without one
}

func (t target) open() (model, error) {
	if t.layers > 0 {
		return openLlama(llama.Stack{Layers: t.layers}, t.path)
	}
	return openTflite(t.path)
}

// newMeasureCommand is what demo starts itself with, for each mode anew.
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
			if twice {
				result, err = measureTwice(t)
			} else {
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
	f.IntVar(&t.layers, "layers", 0, "")
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
	e, err := load(m, t.cache, t.threads, bar.packed)
	bar.finish()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	e.fillKnuth()
	first, err := e.infer()
	if err != nil {
		return nil, err
	}
	if mode == modeCold {
		if err := e.settle(); err != nil {
			return nil, err
		}
	}
	if err := r.takeMemory(); err != nil {
		return nil, err
	}
	r.OpenMS, r.LoadMS, r.FinalizeMS = milliseconds(e.times.open), milliseconds(e.times.load), milliseconds(e.times.finalize)
	r.CreateRuntimeMS, r.TotalLoadMS = milliseconds(e.times.create), milliseconds(e.times.total())
	r.FirstInferenceMS = milliseconds(first)
	r.OutputSHA256 = e.outputSum()
	steady, err := e.steady()
	if err != nil {
		return nil, err
	}
	r.SteadyMS = milliseconds(steady)
	if t.cache == "" {
		return r, nil
	}
	r.countCache(t.cache, e.cache.Stats())
	info, err := os.Stat(t.cache)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil // it could not be created; the notes say why
	}
	if err != nil {
		return nil, err
	}
	r.FileBytes = info.Size()
	return r, nil
}

func (r *measured) takeMemory() error {
	m, err := measureMemory()
	if errors.Is(err, errNoMemoryFigures) {
		return nil
	}
	r.MemoryKnown = err == nil
	r.RSSAnonBytes, r.RSSFileBytes, r.PrivateDirtyBytes = m.RSSAnon, m.RSSFile, m.PrivateDirty
	return err
}

func (r *measured) countCache(path string, s xpwc.Stats) {
	c := reportCache(path, s)
	r.Hits, r.Packed, r.Private, r.Reused = c.Hits, c.Packed, c.Private, c.Reused
	r.BytesWritten, r.PayloadBytes = c.BytesWritten, c.PayloadBytes
	r.Reasons, r.Notes = c.Reasons, c.Notes
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

// settle waits for the disk and touches all weights again: a commit takes their pages out of this process' memory for a while.
func (e *execution) settle() error {
	if err := e.cache.Save(); err != nil {
		return err
	}
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

// twice is what a process tells that ran two runtimes of one model.
type twice struct {
	Cache       bool   `json:"cache"`
	Before      int64  `json:"before_rss_bytes"`
	AfterFirst  int64  `json:"after_first_rss_bytes"`
	AfterSecond int64  `json:"after_second_rss_bytes"`
	Sum         string `json:"output_sha256"`
}

// measureTwice loads and runs a model two times in this process, as two methods that share all their weights. Where the system
// does not tell the memory, its figures are 0.
func measureTwice(t target) (r *twice, err error) {
	r = &twice{Cache: t.cache != ""}
	if err := xnnpack.Initialize(); err != nil {
		return nil, err
	}
	m, err := t.open()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	if err := r.takeRSS(&r.Before); err != nil {
		return nil, err
	}
	for _, after := range []*int64{&r.AfterFirst, &r.AfterSecond} {
		e, loadErr := load(m, t.cache, t.threads, nil)
		if loadErr != nil {
			return nil, loadErr
		}
		defer func() { err = errors.Join(err, e.Close()) }()
		if err := r.method(e, after); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// method runs one of the two, and measures.
func (r *twice) method(e *execution, after *int64) error {
	e.fillKnuth()
	if _, err := e.infer(); err != nil {
		return err
	}
	if e.cache != nil {
		if err := e.settle(); err != nil {
			return err
		}
	}
	sum := e.outputSum()
	if r.Sum != "" && r.Sum != sum {
		return errors.New("the outputs of the two runtimes differ")
	}
	r.Sum = sum
	return r.takeRSS(after)
}

func (r *twice) takeRSS(to *int64) error {
	m, err := measureMemory()
	if errors.Is(err, errNoMemoryFigures) {
		return nil
	}
	*to = m.RSS
	return err
}
