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
)

// A process is a program that has a model loaded. It prints what it measured, in JSON, and stays until it is stopped,
// so that its memory can be looked at.
type process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
	stderr bytes.Buffer
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
	return p, p.cmd.Start()
}

// A report is what a process prints when it has answered.
type report struct {
	run // of this program's own processes
	// Of the hosts of others, whose methods are one.
	LoadMS  float64 `json:"load_ms"`
	Methods []struct {
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
	if r.Figures != nil {
		return &r.run, nil
	}
	r.Figures = figures{totalMS: r.LoadMS}
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

// stop lets the process end. If it failed, the error has what it said.
func (p *process) stop() error {
	_ = p.stdin.Close() // which may be closed
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w: %s", p.cmd.Path, err, bytes.TrimSpace(p.stderr.Bytes()))
	}
	return nil
}

// runProcess runs a process to its end.
func runProcess(ctx context.Context, command []string) (*run, error) {
	p, err := startProcess(ctx, command)
	if err != nil {
		return nil, err
	}
	r, err := p.read()
	return r, errors.Join(err, p.stop())
}

// startAll starts processes one after the other. What was started is returned with an error, too.
func startAll(n int, start func() (*process, error)) (all []*process, err error) {
	for range n {
		p, err := start()
		if err != nil {
			return all, err
		}
		all = append(all, p)
	}
	return all, nil
}

func stopAll(all []*process) (err error) {
	for _, p := range all {
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
