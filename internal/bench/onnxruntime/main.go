//go:build cgo && linux

// Command onnxruntime is a host of ONNX Runtime, for make bench-peers: it loads a generated chain on the CPU with one
// thread and runs it.
//
//	onnxruntime LIBRARY MODEL CACHE OUTPUT
//
// CACHE is a model with packed weights in CACHE.data, or empty. If it is not there, MODEL is loaded, and ONNX Runtime
// writes both. The output of the first answer is written to OUTPUT. The figures are printed as JSON, as
// examples/executorch does. Then the program stays, so that its memory can be looked at, until standard input ends.
package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	ort "github.com/yalue/onnxruntime_go"
	"golang.org/x/sys/unix"

	"xpwc/internal/generated"
)

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "onnxruntime LIBRARY MODEL CACHE OUTPUT")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
		fmt.Fprintln(os.Stderr, "onnxruntime:", err)
		os.Exit(1)
	}
}

// figures are what the program prints.
type figures struct {
	LoadMS            float64   `json:"load_ms"`
	LoadProcessorMS   float64   `json:"load_processor_ms,omitempty"`
	AnswerProcessorMS float64   `json:"answer_processor_ms,omitempty"`
	Methods           []answers `json:"methods,omitempty"`
}

type answers struct {
	FirstMS  float64 `json:"first_inference_ms"`
	SteadyMS float64 `json:"steady_inference_ms"`
}

func run(library, model, cache, output string) error {
	ort.SetSharedLibraryPath(library)
	if err := ort.InitializeEnvironment(); err != nil {
		return err
	}
	together := os.Getenv("LOAD_TOGETHER") != ""
	if together {
		fmt.Println()
		if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
			return err
		}
	}
	start, processor := time.Now(), processorMS()
	session, err := load(model, cache)
	if err != nil {
		return err
	}
	f := figures{LoadMS: ms(time.Since(start)), LoadProcessorMS: processorMS() - processor}
	if together {
		return json.NewEncoder(os.Stdout).Encode(f)
	}
	if err := session.fill(); err != nil {
		return err
	}
	processor = processorMS()
	first, err := session.infer()
	if err != nil {
		return err
	}
	f.AnswerProcessorMS = f.LoadProcessorMS + processorMS() - processor
	if err := session.save(output); err != nil {
		return err
	}
	steady, err := session.steady()
	if err != nil {
		return err
	}
	f.Methods = []answers{{FirstMS: first, SteadyMS: steady}}
	if err := json.NewEncoder(os.Stdout).Encode(f); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

type session struct {
	*ort.DynamicAdvancedSession
	in, out *ort.Tensor[float32]
}

// load loads the cache, or the model and writes the cache, or the model alone.
func load(model, cache string) (*session, error) {
	options, err := ort.NewSessionOptions()
	if err != nil {
		return nil, err
	}
	defer func() { _ = options.Destroy() }() // it always succeeds
	if err := options.SetIntraOpNumThreads(1); err != nil {
		return nil, err
	}
	switch _, err := os.Stat(cache); {
	case cache == "":
	case err == nil:
		model = cache
	default:
		if err := keepPacked(options, cache); err != nil {
			return nil, err
		}
	}
	inputs, outputs := []string{generated.ONNXInput}, []string{generated.ONNXOutput}
	s, err := ort.NewDynamicAdvancedSession(model, inputs, outputs, options)
	return &session{DynamicAdvancedSession: s}, err
}

// keepPacked makes a session write its optimized model and its packed weights, all of them outside of the model's file.
func keepPacked(options *ort.SessionOptions, cache string) error {
	for key, value := range map[string]string{
		"session.optimized_model_external_initializers_file_name":         filepath.Base(cache) + ".data",
		"session.optimized_model_external_initializers_min_size_in_bytes": "0",
		"session.save_external_prepacked_constant_initializers":           "1",
	} {
		if err := options.AddSessionConfigEntry(key, value); err != nil {
			return err
		}
	}
	return options.SetOptimizedModelFilePath(cache)
}

// fill makes the input and the output.
func (s *session) fill() (err error) {
	shape := ort.NewShape(1, generated.Width)
	if s.in, err = ort.NewTensor(shape, generated.Input()); err != nil {
		return err
	}
	s.out, err = ort.NewEmptyTensor[float32](shape)
	return err
}

// infer returns how many milliseconds an inference took.
func (s *session) infer() (float64, error) {
	start := time.Now()
	err := s.Run([]ort.Value{s.in}, []ort.Value{s.out})
	return ms(time.Since(start)), err
}

// steady returns the median of as many inferences as the other hosts take it of.
func (s *session) steady() (float64, error) {
	var times []float64
	for sum := 0.0; len(times) < 5 || len(times) < 50 && sum < 1000; {
		t, err := s.infer()
		if err != nil {
			return 0, err
		}
		times = append(times, t)
		sum += t
	}
	slices.Sort(times)
	return times[len(times)/2], nil
}

func (s *session) save(path string) error {
	content, err := binary.Append(nil, binary.LittleEndian, s.out.GetData())
	if err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o666)
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// processorMS returns the processor time of the process in milliseconds, and 0 if the system does not count it.
func processorMS() float64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t); err != nil {
		return 0
	}
	return ms(time.Duration(t.Nano()))
}
