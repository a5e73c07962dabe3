// Package modelfile opens the models that the tool is given.
package modelfile

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"xpwc"
	"xpwc/graph"
	"xpwc/tflite"
	"xpwc/xnnpack"
)

// A Model is what can be run: a .tflite file, a safetensors file with a description, or a generated one. All its inputs and outputs are
// float32.
type Model interface {
	Inputs() []Value
	Outputs() []Value
	DataMap() xpwc.DataMap
	// NewLoader returns a loader for running without a cache.
	NewLoader() Memory
	Subgraph(Loader) (*xnnpack.Subgraph, error)
	Close() error
}

// A Value is an input or output of a model.
type Value struct {
	ID    xnnpack.ValueID
	Name  string
	Shape []int
}

// Size is the value's size in bytes.
func (v Value) Size() (int, error) { return xnnpack.Float32.ByteSize(v.Shape) }

// A Loader gives the tensors of a model.
type Loader interface {
	Load(name string, options ...xpwc.LoadOption) ([]byte, error)
}

// A Memory is a loader for running a model without a cache.
type Memory interface {
	Loader
	Finalize() // when the runtime is created
	Close() error
}

// A File is where a model is.
type File struct {
	Path  string
	Graph string // a safetensors file's description; "" for MODEL.json, or what the file has itself
}

// Described reports whether the model is a safetensors file.
func (f File) Described() bool {
	ext := strings.ToLower(filepath.Ext(f.Path))
	return ext == ".safetensors" || ext == ".json"
}

// OpenGraph opens a safetensors file with its description.
func (f File) OpenGraph() (*graph.Model, error) {
	if f.Graph != "" {
		return graph.Open(f.Path, f.Graph)
	}
	beside := f.Path + ".json"
	m, err := graph.Open(f.Path, beside)
	if !errors.Is(err, fs.ErrNotExist) {
		return m, err
	}
	if m, inside := graph.Open(f.Path, ""); inside == nil {
		return m, nil
	}
	return nil, err
}

// Files are all that the model is read from, as far as they were named.
func (f File) Files() []string {
	if f.Described() {
		return []string{f.Path, f.Graph, f.Path + ".json"}
	}
	return []string{f.Path}
}

// Open opens the model to run it. The caller closes it.
func (f File) Open() (Model, error) {
	if f.Described() {
		m, err := f.OpenGraph()
		if err != nil {
			return nil, err
		}
		return graphModel{m}, nil
	}
	return OpenTflite(f.Path)
}

type tfliteModel struct{ *tflite.Model }

// OpenTflite opens a .tflite file to run it, whatever its name is.
func OpenTflite(path string) (Model, error) {
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

func (m tfliteModel) Inputs() []Value                              { return values(m.Model.Inputs()) }
func (m tfliteModel) Outputs() []Value                             { return values(m.Model.Outputs()) }
func (m tfliteModel) DataMap() xpwc.DataMap                        { return m.Model.DataMap() }
func (m tfliteModel) NewLoader() Memory                            { return m.Model.NewLoader() }
func (m tfliteModel) Subgraph(l Loader) (*xnnpack.Subgraph, error) { return m.Model.Subgraph(l) }

func values(vs []tflite.Value) []Value {
	out := make([]Value, len(vs))
	for i, v := range vs {
		out[i] = Value{ID: v.ID, Name: v.Name, Shape: v.Shape}
	}
	return out
}

type graphModel struct{ *graph.Model }

func (m graphModel) Inputs() []Value                              { return described(m.Model.Inputs()) }
func (m graphModel) Outputs() []Value                             { return described(m.Model.Outputs()) }
func (m graphModel) DataMap() xpwc.DataMap                        { return m.Model.DataMap() }
func (m graphModel) NewLoader() Memory                            { return m.Model.NewLoader() }
func (m graphModel) Subgraph(l Loader) (*xnnpack.Subgraph, error) { return m.Model.Subgraph(l) }

func described(vs []graph.Value) []Value {
	out := make([]Value, len(vs))
	for i, v := range vs {
		out[i] = Value{ID: v.ID, Name: v.Name, Shape: v.Shape}
	}
	return out
}
