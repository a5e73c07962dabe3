package main

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
	"path/filepath"
	"strconv"
	"strings"

	"xpwc"
	"xpwc/internal/bench/llama"
)

const (
	defaultModel = "third_party/models/pose_landmark_heavy.tflite"
	llamaModelID = "llama"
)

// target is a model that is measured, as the command line of a measuring process gives it.
type target struct {
	path    string
	stack   llama.Stack // whose weights are at path; without layers for a .tflite file
	threads int
	cache   string // "" without one
	back    int64  // bytes of memory to touch before the clock starts
}

func (t target) open() (model, error) {
	if t.stack.Layers > 0 {
		return openLlama(t.stack, t.path)
	}
	return modelFile{path: t.path}.open()
}

// prepared is a target that is ready to be measured.
type prepared struct {
	target
	title string
	base  string // what files in dir are called after
}

// prepare makes the file of a model ready, and has it in the page cache, so that no mode has to wait for the disk on behalf of the
// others. The stack matters only if name is llama: then its weights are generated into dir, unless they are there.
func prepare(ctx context.Context, name, dir string, stack llama.Stack, threads int, stderr io.Writer) (prepared, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return prepared{}, err
	}
	p := prepared{target: target{path: name, threads: threads}, title: filepath.Base(name)}
	p.base = strings.TrimSuffix(p.title, filepath.Ext(name))
	if name == llamaModelID {
		kind, description := "qc8w", "qd8-f32-qc8w"
		if stack.Float32 {
			kind, description = "f32", "f32"
		}
		p.base = fmt.Sprintf("llama-%s-%d", kind, stack.Layers)
		p.stack, p.path = stack, filepath.Join(dir, p.base+".weights")
		p.title = fmt.Sprintf("llama, %s, %s", plural(stack.Layers, "layer"), description)
		bar := newProgress(stderr, "generating")
		err := stack.Generate(ctx, p.path, bar.update)
		bar.finish()
		if err != nil {
			return prepared{}, err
		}
	}
	m, err := p.open() // its errors are better told once than by a process for each mode
	if err != nil {
		if name == defaultModel && errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w; name a model, or fetch this one with make third_party", err)
		}
		return prepared{}, err
	}
	if err := m.Close(); err != nil {
		return prepared{}, err
	}
	n, err := readThrough(p.path)
	p.title += ", " + mebibytes(n)
	return p, err
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if stem, y := strings.CutSuffix(what, "y"); y {
		return fmt.Sprintf("%d %sies", n, stem)
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func readThrough(path string) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return io.Copy(struct{ io.Writer }{io.Discard}, f)
}

// start runs this program with the hidden command that measures, and decodes what it tells.
func (t target) start(ctx context.Context, result any, stderr io.Writer, flags ...string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	args := append([]string{"measure", "--layers", strconv.Itoa(t.stack.Layers), "--threads", strconv.Itoa(t.threads)}, flags...)
	if t.stack.Float32 {
		args = append(args, "--float32")
	}
	if t.back > 0 {
		args = append(args, "--back", strconv.FormatInt(t.back, 10))
	}
	if t.cache != "" {
		args = append(args, "--cache", t.cache)
	}
	cmd := exec.CommandContext(ctx, self, append(args, "--", t.path)...)
	cmd.Stderr = stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("the process that measures: %w", err)
	}
	return json.Unmarshal(out, result)
}

// startQuietly is start without a bar: what the process prints is told only if it fails.
func (t target) startQuietly(ctx context.Context, result any, mode string) error {
	var stderr bytes.Buffer
	if err := t.start(ctx, result, &stderr, "--mode", mode); err != nil {
		return fmt.Errorf("mode %s: %w: %s", mode, err, bytes.TrimSpace(stderr.Bytes()))
	}
	return nil
}

func (t target) withCache(path string) target {
	t.cache = path
	return t
}

// removeCache removes what an earlier run left; anything that is not a cache stays, and is an error.
func (t target) removeCache() error {
	c, err := xpwc.Open(t.cache, &xpwc.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	if err := c.Close(); err != nil {
		return err
	}
	return remove(t.cache)
}

// remove removes a file that need not be there.
func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
