package bench

import (
	"bufio"
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

// hostReport is what a host prints when it has answered.
type hostReport struct {
	LoadMS  float64      `json:"load_ms"`
	Methods []hostMethod `json:"methods,omitempty"` // a .tflite file has one
}

type hostMethod struct {
	FirstMS  float64 `json:"first_inference_ms"`
	SteadyMS float64 `json:"steady_inference_ms"`
}

// host is a process that has a model loaded. It stays until it is stopped.
type host struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
	stderr bytes.Buffer
	report hostReport
}

// startHost starts a host, with more in its environment.
func startHost(ctx context.Context, command []string, environment ...string) (*host, error) {
	h := &host{cmd: exec.CommandContext(ctx, command[0], command[1:]...)}
	h.cmd.Env, h.cmd.Stderr = append(h.cmd.Environ(), environment...), &h.stderr
	stdout, err := h.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	h.stdout = bufio.NewReader(stdout)
	if h.stdin, err = h.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	return h, h.cmd.Start()
}

// answeringHost starts a host and waits until it has answered.
func answeringHost(ctx context.Context, command []string) (*host, error) {
	h, err := startHost(ctx, command)
	if err != nil {
		return nil, err
	}
	err = h.read()
	if err == nil && len(h.report.Methods) != 1 {
		err = fmt.Errorf("%d methods were run, not one", len(h.report.Methods))
	}
	if err != nil {
		return nil, errors.Join(err, h.stop())
	}
	return h, nil
}

// read waits for the host's report.
func (h *host) read() error { return json.NewDecoder(h.stdout).Decode(&h.report) }

func (h *host) run() *run {
	m := h.report.Methods[0]
	return &run{Figures: figures{totalMS: h.report.LoadMS, firstMS: m.FirstMS, answerMS: h.report.LoadMS + m.FirstMS,
		steadyMS: m.SteadyMS}}
}

// memory is that of the process now.
func (h *host) memory() (figures, error) { return memoryOf(h.cmd.Process.Pid) }

// stop lets the host end. If it failed, the error has what it said.
func (h *host) stop() error {
	_ = h.stdin.Close() // which may be closed
	if err := h.cmd.Wait(); err != nil {
		return fmt.Errorf("%v: %w: %s", h.cmd, err, bytes.TrimSpace(h.stderr.Bytes()))
	}
	return nil
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
