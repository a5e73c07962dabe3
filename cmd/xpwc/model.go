package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"xpwc"
	"xpwc/described"
	"xpwc/internal/bench/llama"
	"xpwc/models"
	"xpwc/tflite"
	"xpwc/xnnpack"
)

// model is what the commands run: a .tflite file, a safetensors file with a description, or the generated llama stack. All its inputs and outputs are float32.
type model interface {
	inputs() []value
	outputs() []value
	dataMap() xpwc.DataMap
	// uncached returns a loader for running without a cache.
	uncached() uncachedLoader
	subgraph(loader) (*xnnpack.Subgraph, error)
	Close() error
}

type value struct {
	id    xnnpack.ValueID
	name  string
	shape []int
}

// size is the value's size in bytes.
func (v value) size() (int, error) { return xnnpack.Float32.ByteSize(v.shape) }

type loader interface {
	Load(name string, options ...xpwc.LoadOption) ([]byte, error)
}

type uncachedLoader interface {
	loader
	Finalize() // when the runtime is created
	Close() error
}

// modelFile is where a model is.
type modelFile struct {
	path        string
	description string // a safetensors file's description; "" for MODEL.json, or what the file has itself
}

// described reports whether the model is a safetensors file.
func (f modelFile) described() bool {
	ext := strings.ToLower(filepath.Ext(f.path))
	return ext == ".safetensors" || ext == ".json"
}

// openDescribed opens a safetensors file with its description.
func (f modelFile) openDescribed() (*described.Model, error) {
	if f.description != "" {
		return described.Open(f.path, f.description)
	}
	beside := f.path + ".json"
	m, err := described.Open(f.path, beside)
	if !errors.Is(err, fs.ErrNotExist) {
		return m, err
	}
	if m, inside := described.Open(f.path, ""); inside == nil {
		return m, nil
	}
	return nil, err
}

// files are all that the model is read from, as far as they were named.
func (f modelFile) files() []string {
	if f.described() {
		return []string{f.path, f.description, f.path + ".json"}
	}
	return []string{f.path}
}

func (f modelFile) check() error {
	if f.description != "" && !f.described() {
		return usagef("--description is for .safetensors files and their index, not for %s", f.path)
	}
	return nil
}

func (f modelFile) open() (model, error) {
	if f.described() {
		m, err := f.openDescribed()
		if err != nil {
			return nil, err
		}
		return adapted{m}, nil
	}
	return openTflite(f.path)
}

// adapted is a model as the commands use it.
type adapted struct{ models.Model }

func (m adapted) inputs() []value                              { return values(m.Inputs()) }
func (m adapted) outputs() []value                             { return values(m.Outputs()) }
func (m adapted) dataMap() xpwc.DataMap                        { return m.DataMap() }
func (m adapted) uncached() uncachedLoader                     { return m.NewLoader() }
func (m adapted) subgraph(l loader) (*xnnpack.Subgraph, error) { return m.Subgraph(l) }

func describedOf(m model) (*described.Model, bool) {
	a, _ := m.(adapted)
	g, ok := a.Model.(*described.Model)
	return g, ok
}

func values(vs []models.Value) []value {
	out := make([]value, len(vs))
	for i, v := range vs {
		out[i] = value{id: v.ID, name: v.Name, shape: v.Shape}
	}
	return out
}

func openTflite(path string) (model, error) {
	m, err := tflite.Open(path)
	if err != nil {
		return nil, err
	}
	if err := models.CheckFloat32(m); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), m.Close())
	}
	return adapted{m}, nil
}

func openLlama(stack llama.Stack, path string) (model, error) {
	m, err := stack.Open(path)
	if err != nil {
		return nil, err
	}
	return adapted{m}, nil
}
