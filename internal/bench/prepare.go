package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"xpwc/internal/bench/terminal"
	"xpwc/internal/console"
	"xpwc/internal/llama"
	"xpwc/internal/modelfile"
)

// prepared is a task whose model is ready to be measured.
type prepared struct {
	task
	title string
	base  string      // the beginning of the names of its files
	stack llama.Stack // that was generated; without layers for another model
}

// prepare checks a model and reads its files into the page cache, so that the first mode does not wait longer for the
// disk than the others. If its path is Llama, it generates the stack in its directory, unless it is there.
func prepare(ctx context.Context, s Subject, stack llama.Stack, stderr io.Writer) (prepared, error) {
	name := s.Path
	if err := os.MkdirAll(s.Dir, 0o777); err != nil {
		return prepared{}, err
	}
	p := prepared{task: task{Model: s.File, Threads: s.Threads}, title: filepath.Base(name)}
	p.base = strings.TrimSuffix(p.title, filepath.Ext(name))
	if name == Llama {
		kind, description := "qc8w", "qd8-f32-qc8w"
		if stack.Float32 {
			kind, description = "f32", "f32"
		}
		p.base = fmt.Sprintf("llama-%s-%d", kind, stack.Layers)
		p.stack, p.Model = stack, modelfile.File{Path: filepath.Join(s.Dir, p.base+".safetensors")}
		p.title = fmt.Sprintf("llama, %s, %s", console.Plural(stack.Layers, "layer"), description)
		progress := terminal.NewProgress(stderr, "generating")
		err := stack.Generate(ctx, p.Model.Path, progress.Update)
		progress.Finish()
		if err != nil {
			return prepared{}, err
		}
	}
	m, err := p.Model.Open() // for its errors, which would otherwise come from a process
	if err != nil {
		if name == DemoModel && errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w; name a model, or fetch this one with make third_party", err)
		}
		return prepared{}, err
	}
	if err := m.Close(); err != nil {
		return prepared{}, err
	}
	total, err := readIn(p.modelFiles()...)
	if err != nil {
		return prepared{}, err
	}
	p.title += ", " + console.Mebibytes(total)
	return p, nil
}

// readIn has all of some files in the page cache, and returns how many bytes they have.
func readIn(paths ...string) (total int64, err error) {
	for _, path := range paths {
		n, err := readThrough(path)
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}

func readThrough(path string) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return io.Copy(struct{ io.Writer }{io.Discard}, f)
}
