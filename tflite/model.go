package tflite

import (
	"errors"
	"fmt"

	"xpwc"
	"xpwc/internal/mapped"
	"xpwc/models"
	"xpwc/xnnpack"
)

// Model is a .tflite file mapped into memory, checked and ready to be made into subgraphs. It is a [models.Model].
// Its methods may be called from many goroutines.
type Model struct {
	file *mapped.File
	plan *plan
	data *dataMap
}

// Open maps a model read-only and checks all of it. The error matches [ErrMalformed], [ErrUnsupportedOp],
// [ErrUnsupported] or what the operating system returned, and names the file. The file must not be changed in place
// while the model is open, as for any mapping; replacing it by another is harmless. The caller closes the model when
// everything made of it is closed.
//
// Only the first subgraph of a file is read, which is the main one.
func Open(path string) (*Model, error) {
	f, err := mapped.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open model: %w", err)
	}
	p, err := load(f.Data())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open model %s: %w", path, err), f.Close())
	}
	return &Model{file: f, plan: p, data: newDataMap(f, p)}, nil
}

// load does everything that needs only the file's bytes.
func load(data []byte) (*plan, error) {
	g, err := parse(data)
	if err != nil {
		return nil, err
	}
	return newPlan(g, data)
}

// Close unmaps the file. Subgraphs, runtimes that read constants at inference, loaders and sessions made of the model
// must be gone before; what is asked of the model or its data map afterwards is an error that matches [ErrClosed].
// Closing twice is harmless.
func (m *Model) Close() error { return m.file.Close() }

// Inputs returns the model's inputs, in the model's own order. They can be asked for after Close too.
func (m *Model) Inputs() []models.Value { return m.external(m.plan.graph.inputs, 0) }

// Outputs returns the model's outputs, in the model's own order.
func (m *Model) Outputs() []models.Value {
	return m.external(m.plan.graph.outputs, len(m.plan.graph.inputs))
}

func (m *Model) external(tensors []int, first int) []models.Value {
	out := make([]models.Value, len(tensors))
	for i, n := range tensors {
		t := &m.plan.graph.tensors[n]
		out[i] = models.Value{
			ID: xnnpack.ValueID(first + i), Name: t.name, Shape: append([]int{}, m.plan.values[n].shape...),
		}
		if t.inGo() {
			out[i].Declared = elementTypes[t.dtype]
		} else {
			out[i].Type, out[i].Quantization, _ = m.plan.datatype(n) // planning has seen that there is one
		}
	}
	return out
}

// DataMap returns the constants that the model's nodes use, by name, for [xpwc.Cache.NewSession]. A name that several
// tensors of the file have, and an empty one, is made unique by '#' and the tensor's index. Constants in half
// precision that the model widens by DEQUANTIZE, and sparse ones that it makes dense by DENSIFY, come under the name
// of the result, and are computed when their content is asked for. So are those that XNNPACK cannot read where they
// lie: after them it may read past the end of the mapping, or their address is not a multiple of an element's size.
// The others lie in the mapping. The data map may be used until the model is closed.
func (m *Model) DataMap() xpwc.DataMap { return m.data }

// NewLoader returns a loader that needs no cache.
func (m *Model) NewLoader() *models.Memory {
	return models.NewMemory(m.data, func(name string) bool {
		c := m.data.constants[name]
		return c != nil && c.use&useInference != 0
	})
}

// Subgraph makes a new subgraph of the model, and asks l once for each constant that a node uses. The options say how
// XNNPACK uses it: those that are packed are loaded with [xpwc.PackOnly], and with [xpwc.Eager] if an operator packs
// them without a look-up (depthwise convolution, deconvolution); those read at inference (operands of elementwise
// operators) with [xpwc.Eager] and [xpwc.Retain]; kernels with an [xpwc.PackedAs] for each operator that packs them.
//
// The caller deletes the subgraph, as soon as a runtime is made of it. A runtime must not be created with
// HintSparseInference or the flags for half precision unless the loader loads everything eagerly: with these XNNPACK
// reads weights without a look-up.
//
// A model that Go computes parts of has no Subgraph: the error matches [models.ErrStaged], see [Model.Stages].
func (m *Model) Subgraph(l models.Loader) (*xnnpack.Subgraph, error) {
	if m.plan.staged() {
		return nil, fmt.Errorf("%s: %w", m.file.Path(), models.ErrStaged)
	}
	return m.subgraph(m.plan, l)
}

func (m *Model) subgraph(p *plan, l models.Loader) (*xnnpack.Subgraph, error) {
	if m.file.Data() == nil {
		return nil, fmt.Errorf("%s: %w", m.file.Path(), ErrClosed)
	}
	s, err := p.emit(func(name string, c *constant) ([]byte, error) {
		b, err := l.Load(name, c.loadOptions()...)
		if err != nil {
			return nil, err
		}
		if len(b) < c.size {
			return nil, fmt.Errorf("load tensor %q: %d bytes, not %d", name, len(b), c.size)
		}
		return b, nil
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.file.Path(), err)
	}
	return s, nil
}
