package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"xpwc"
	"xpwc/graph"
	"xpwc/internal/bench/llama"
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
	path  string
	graph string // a safetensors file's description; "" for MODEL.json, or what the file has itself
}

// described reports whether the model is a safetensors file.
func (f modelFile) described() bool {
	ext := strings.ToLower(filepath.Ext(f.path))
	return ext == ".safetensors" || ext == ".json"
}

// openGraph opens a safetensors file with its description.
func (f modelFile) openGraph() (*graph.Model, error) {
	if f.graph != "" {
		return graph.Open(f.path, f.graph)
	}
	beside := f.path + ".json"
	m, err := graph.Open(f.path, beside)
	if !errors.Is(err, fs.ErrNotExist) {
		return m, err
	}
	if m, inside := graph.Open(f.path, ""); inside == nil {
		return m, nil
	}
	return nil, err
}

// files are all that the model is read from, as far as they were named.
func (f modelFile) files() []string {
	if f.described() {
		return []string{f.path, f.graph, f.path + ".json"}
	}
	return []string{f.path}
}

func (f modelFile) check() error {
	if f.graph != "" && !f.described() {
		return usagef("--graph is for .safetensors files and their index, not for %s", f.path)
	}
	return nil
}

func (f modelFile) open() (model, error) {
	if f.described() {
		m, err := f.openGraph()
		if err != nil {
			return nil, err
		}
		return graphModel{m}, nil
	}
	return openTflite(f.path)
}

type tfliteModel struct{ *tflite.Model }

func openTflite(path string) (model, error) {
	m, err := tflite.Open(path)
	if err != nil {
		return nil, err
	}
	for _, v := range slices.Concat(m.Inputs(), m.Outputs()) {
		if v.Type != tflite.Float32 {
			m.Close()
			return nil, fmt.Errorf("%s: %q is %v; this command runs models whose inputs and outputs are all float32", path, v.Name, v.Type)
		}
	}
	return tfliteModel{m}, nil
}

func (m tfliteModel) inputs() []value                              { return values(m.Inputs()) }
func (m tfliteModel) outputs() []value                             { return values(m.Outputs()) }
func (m tfliteModel) dataMap() xpwc.DataMap                        { return m.DataMap() }
func (m tfliteModel) uncached() uncachedLoader                     { return m.NewLoader() }
func (m tfliteModel) subgraph(l loader) (*xnnpack.Subgraph, error) { return m.Subgraph(l) }

func values(vs []tflite.Value) []value {
	out := make([]value, len(vs))
	for i, v := range vs {
		out[i] = value{id: v.ID, name: v.Name, shape: v.Shape}
	}
	return out
}

type graphModel struct{ *graph.Model }

func (m graphModel) inputs() []value                              { return described(m.Inputs()) }
func (m graphModel) outputs() []value                             { return described(m.Outputs()) }
func (m graphModel) dataMap() xpwc.DataMap                        { return m.DataMap() }
func (m graphModel) uncached() uncachedLoader                     { return m.NewLoader() }
func (m graphModel) subgraph(l loader) (*xnnpack.Subgraph, error) { return m.Subgraph(l) }

func described(vs []graph.Value) []value {
	out := make([]value, len(vs))
	for i, v := range vs {
		out[i] = value{id: v.ID, name: v.Name, shape: v.Shape}
	}
	return out
}

type llamaModel struct{ *llama.Model }

func openLlama(stack llama.Stack, path string) (model, error) {
	m, err := stack.Open(path)
	if err != nil {
		return nil, err
	}
	return llamaModel{m}, nil
}

func (m llamaModel) inputs() []value {
	return []value{{id: llama.Input, name: "input", shape: []int{1, llama.Width}}}
}

func (m llamaModel) outputs() []value {
	return []value{{id: llama.Output, name: "output", shape: []int{1, llama.Width}}}
}

func (m llamaModel) dataMap() xpwc.DataMap                        { return m.DataMap() }
func (m llamaModel) uncached() uncachedLoader                     { return uncachedLlama{m.NewLoader()} }
func (m llamaModel) subgraph(l loader) (*xnnpack.Subgraph, error) { return m.Subgraph(l) }

type uncachedLlama struct{ *llama.Memory }

func (uncachedLlama) Close() error { return nil }
