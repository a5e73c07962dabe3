package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"

	"xpwc"
	"xpwc/internal/modelfile"
)

// MeasureCommand is the only argument of the processes that Run, Demo and RunPeers start: the running program once
// more. A program that calls them calls [Measure] when it is started so.
const MeasureCommand = "measure"

// A task is what a measuring process does.
type task struct {
	Mode    string
	Model   modelfile.File
	Threads int
	Cache   string // file, "" without one
	Churn   int64  // bytes that modeChurn uses
	recording
}

// recording is what the process of modeRecord reports, and that of modeIdeal is given.
type recording struct {
	Places [][2]int64 // offset and size of each payload in the file
}

// Measure is a measuring process: it reads its task from standard input, and writes what it measured to standard
// output, both as JSON.
func Measure(stdin io.Reader, stdout, stderr io.Writer) error {
	var t task
	if err := json.NewDecoder(stdin).Decode(&t); err != nil {
		return fmt.Errorf("read what to measure from standard input: %w", err)
	}
	var result any
	var err error
	switch t.Mode {
	case modeTwice:
		result, err = measureTwice(t)
	case modeChurn:
		err = churn(t.Churn)
	case modeRecord:
		result, err = record(t)
	default:
		result, err = measure(t, stderr)
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(stdout).Encode(result)
}

// start has a process do the task in a mode, and decodes what it measured.
func (t task) start(ctx context.Context, mode string, result any, stderr io.Writer) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	t.Mode = mode
	stdin, err := json.Marshal(t)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, self, MeasureCommand)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(stdin), stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("the process that measures: %w", err)
	}
	return json.Unmarshal(out, result)
}

// startQuietly is start without output: what the process prints is part of the error if it fails.
func (t task) startQuietly(ctx context.Context, mode string, result any) error {
	var stderr bytes.Buffer
	if err := t.start(ctx, mode, result, &stderr); err != nil {
		return fmt.Errorf("mode %s: %w: %s", mode, err, bytes.TrimSpace(stderr.Bytes()))
	}
	return nil
}

// startChurning has a process use and free memory: so a process that is measured next finds the machine's memory in the
// same state, whatever ran before.
func startChurning(ctx context.Context, size int64) error {
	return task{Churn: size}.startQuietly(ctx, modeChurn, &struct{}{})
}

// modelFiles are the files that the model is in.
func (t task) modelFiles() []string { return append([]string{t.Model.Path}, t.Model.Data...) }

func (t task) withCache(path string) task {
	t.Cache = path
	return t
}

// removeCache removes the cache file of an earlier run. A file that is not a cache stays, and is an error.
func (t task) removeCache() error {
	c, err := xpwc.Open(t.Cache, &xpwc.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	if err := c.Close(); err != nil {
		return err
	}
	return remove(t.Cache)
}

// remove removes a file, if there is one.
func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
