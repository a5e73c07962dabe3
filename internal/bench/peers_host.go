package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"xpwc"
	"xpwc/internal/console"
	"xpwc/internal/execution"
	"xpwc/internal/instance"
	"xpwc/internal/modelfile"
)

// peerRun is what one process took.
type peerRun struct {
	LoadMS       float64 `json:"load_ms"`
	LoadCPUMS    float64 `json:"load_cpu_ms,omitempty"` // of all threads; 0 if the host does not say
	FirstMS      float64 `json:"first_inference_ms"`
	SteadyMS     float64 `json:"steady_ms"`
	RSSAnonBytes int64   `json:"rss_anon_bytes"`
	written      int64
}

// hostReport is what a host prints when it has answered.
type hostReport struct {
	LoadMS    float64      `json:"load_ms"`
	LoadCPUMS float64      `json:"load_cpu_ms"`
	Methods   []hostMethod `json:"methods,omitempty"` // a .tflite file has one
}

type hostMethod struct {
	FirstMS  float64 `json:"first_inference_ms"`
	SteadyMS float64 `json:"steady_inference_ms"`
}

// host is a process that has loaded a model and answered, and stays until it is stopped.
type host struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stderr bytes.Buffer
	report hostReport
}

func startHost(ctx context.Context, command []string) (*host, error) {
	h := &host{cmd: exec.CommandContext(ctx, command[0], command[1:]...)}
	h.cmd.Stderr = &h.stderr
	stdin, err := h.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	h.stdin = stdin
	stdout, err := h.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := h.cmd.Start(); err != nil {
		return nil, err
	}
	err = json.NewDecoder(stdout).Decode(&h.report)
	if err == nil && len(h.report.Methods) != 1 {
		err = fmt.Errorf("%d methods were run, not one", len(h.report.Methods))
	}
	if err != nil {
		return nil, fmt.Errorf("%v: %w: %s", h.cmd, errors.Join(err, h.stop()), bytes.TrimSpace(h.stderr.Bytes()))
	}
	return h, nil
}

func (h *host) run() *peerRun {
	m := h.report.Methods[0]
	return &peerRun{LoadMS: h.report.LoadMS, LoadCPUMS: h.report.LoadCPUMS, FirstMS: m.FirstMS, SteadyMS: m.SteadyMS}
}

// memory is that of the process now.
func (h *host) memory() (memory, error) { return memoryOf(h.cmd.Process.Pid) }

func (h *host) stop() error {
	return errors.Join(h.stdin.Close(), h.cmd.Wait())
}

// HostCommand is the first argument of processes that RunPeers starts: the running program once more. A program that
// calls it calls [Host] when it is started so.
const HostCommand = "host"

// Host is a process that runs a model with xpwc, as the hosts of the peers do with theirs. Its arguments are the model,
// the cache file or "", and the file for the outputs of the first answer. A small model does without the cache file, as
// package inference has it.
func Host(args []string, stdin io.Reader, stdout io.Writer) (err error) {
	if len(args) != 3 {
		return errors.New("host: give a model, a cache file and a file for outputs")
	}
	together := os.Getenv(togetherVariable) != ""
	if together {
		fmt.Fprintln(stdout)
		if _, err := io.Copy(io.Discard, stdin); err != nil {
			return err
		}
	}
	start := time.Now()
	m, err := modelfile.File{Path: args[0]}.Open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	packed := execution.PackedIn(args[1], &xpwc.Options{})
	if args[1] != "" && doesWithoutFile(m) {
		packed = instance.PackedInOpened(func() (*xpwc.Cache, error) { return xpwc.Open("", nil) }, nil)
	}
	e, err := execution.Load(m, packed, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	report := hostReport{LoadMS: console.Milliseconds(time.Since(start))}
	if together {
		return json.NewEncoder(stdout).Encode(report)
	}
	if err := e.FillKnuth(); err != nil {
		return err
	}
	first, err := e.Infer()
	if err != nil {
		return err
	}
	var answer []byte
	for _, b := range e.Outputs {
		answer = append(answer, b.Bytes()...)
	}
	if err := os.WriteFile(args[2], answer, 0o666); err != nil {
		return err
	}
	steady, err := steady(e)
	if err != nil {
		return err
	}
	if e.Cache != nil {
		if err := e.Cache.Save(); err != nil { // so that the next process finds the file
			return err
		}
	}
	report.Methods = []hostMethod{{console.Milliseconds(first), console.Milliseconds(steady)}}
	if err := json.NewEncoder(stdout).Encode(report); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, stdin)
	return err
}
