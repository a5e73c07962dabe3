package tflite

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"xpwc"
	"xpwc/internal/fault"
	"xpwc/internal/flow"
	"xpwc/internal/mapped"
	"xpwc/models"
	"xpwc/models/inference"
	"xpwc/xnnpack"
)

// Model is a .tflite file mapped into memory, checked and ready to be made into subgraphs. It is a [models.Model].
// Its methods may be called from many goroutines.
type Model struct {
	file   *mapped.File
	shared *File // whose mapping it reads and does not close; nil if it is the model's own
	plan   *plan
	data   *dataMap

	stages func() ([]models.Stage, []models.Buffer) // computed once, as of Stages
}

// Options of [Load] and [Open]; nil and the zero value mean the defaults. Open ignores inference.Options.
type Options struct {
	inference.Options
	// Signature is one of [Model.Signatures]. Its inputs and outputs have its names and
	// order then. Without one it is the first subgraph, the main one, with the names that its tensors have.
	Signature string
	// Shapes are the inputs' shapes, in the model's order: as many as there are inputs, or none. A nil one is the
	// file's. Other dimensions than the file's can be given where it leaves them open, which is mostly the batch or
	// the length. Some models can be opened only so. Weights are packed alike for all of them.
	Shapes [][]int
	// Offset and Size are where the model lies in a file that has more than the model, in bytes: see package bundle. A
	// Size of 0 is the whole file.
	Offset, Size int64
}

// open maps the file, or the model's section of it.
func (o *Options) open(path string) (*mapped.File, error) {
	f, err := mapped.OpenSection(path, mapped.Section{Offset: o.Offset, Size: o.Size})
	if errors.Is(err, mapped.ErrOutside) {
		err = fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return f, err
}

// Open maps a model read-only and checks all of it. The error matches [ErrMalformed], [ErrUnsupportedOp],
// [ErrUnsupported], [ErrUnknownSignature], [ErrShape] or what the operating system returned, and names the file. The
// file must not be changed in place while the model is open, as for any mapping; replacing it by another is harmless.
// The caller closes the model when everything made of it is closed.
func Open(path string, o *Options) (*Model, error) {
	if o == nil {
		o = &Options{}
	}
	f, err := o.open(path)
	if err != nil {
		return nil, fmt.Errorf("open model: %w", err)
	}
	return newModel(f, path, *o)
}

// OpenSource opens a model that is not in a file of its own, as Open does. Of the options it ignores Offset and Size.
func OpenSource(s models.Source, o *Options) (*Model, error) {
	if o == nil {
		o = &Options{}
	}
	f, err := s.Open()
	if errors.Is(err, mapped.ErrOutside) {
		err = fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if err != nil {
		return nil, fmt.Errorf("open model: %w", err)
	}
	return newModel(f, s.Name(), *o)
}

// newModel checks a model. It takes the file over.
func newModel(f *mapped.File, name string, o Options) (*Model, error) {
	p, err := load(f.Data(), o)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open model %s: %w", name, err), f.Close())
	}
	return p.model(f), nil
}

func (p *plan) model(f *mapped.File) *Model {
	p.mapped, p.whole.Name = f, f.Path()
	return &Model{file: f, plan: p, data: &dataMap{f, p.byName}, stages: sync.OnceValues(p.whole.Stages)}
}

// load does everything that needs only the file's bytes.
func load(data []byte, o Options) (p *plan, err error) {
	err = fault.Try(func() { p = readContents(data).load(data, o) })
	return p, err
}

func (c *contents) load(data []byte, o Options) (p *plan) {
	g := c.parse(data, o.Signature)
	g.reshape(o.Shapes)
	if len(g.inputs) == 0 && len(g.signatures) > 1 {
		unsupported("the signature has no inputs, and there is nothing to run; the others are of %q", g.signatures)
	}
	err := fault.Try(func() { p = newPlan(g, data) })
	if open := g.openInput(); err != nil && o.Shapes == nil && open != nil {
		err = fmt.Errorf("%w; the file leaves the shape of input %q open, %v: give another", err, open.name,
			open.free)
	}
	fault.Check(err)
	return p
}

// openInput returns an input with dimensions that a program may choose, or nil.
func (g *graph) openInput() *tensor {
	for _, i := range g.inputs {
		if t := &g.tensors[i]; slices.Contains(t.free, -1) {
			return t
		}
	}
	return nil
}

// reshape gives inputs other shapes, in the dimensions that the file leaves open.
func (g *graph) reshape(shapes [][]int) {
	if len(shapes) > 0 && len(shapes) != len(g.inputs) {
		fault.Check(fmt.Errorf("%d shapes for %d inputs: %w", len(shapes), len(g.inputs), ErrShape))
	}
	for i, shape := range shapes {
		if shape == nil {
			continue
		}
		t := &g.tensors[g.inputs[i]]
		dims := make([]int32, len(shape))
		for d, n := range shape {
			if dims[d] = int32(n); n < 1 || n > maxElements {
				fault.Check(fmt.Errorf("input %q: shape %v: %w", t.name, shape, ErrShape))
			}
		}
		open := func(d int) bool { return len(t.free) == len(t.shape) && t.free[d] == -1 }
		for d := range dims {
			if len(dims) != len(t.shape) || dims[d] != t.shape[d] && !open(d) {
				fault.Check(fmt.Errorf("input %q: shape %v, and the file has %v: %w", t.name, shape, t.shape, ErrShape))
			}
		}
		t.shape = dims
	}
}

// Close unmaps the file. Subgraphs, runtimes that read constants at inference, loaders and sessions made of the model
// must be gone before; what is asked of the model or its data map afterwards is an error that matches [xpwc.ErrClosed].
// Closing twice is harmless. A model of a [File] is closed with that, and its own Close does nothing.
func (m *Model) Close() error {
	if m.shared != nil {
		return nil
	}
	return m.file.Close()
}

// Signatures returns the names of the signatures of a .tflite file, in its order, whether or not they can be run. Of
// the options it uses Offset and Size. Errors: as of Open.
func Signatures(path string, o *Options) (names []string, err error) {
	if o == nil {
		o = &Options{}
	}
	file, err := o.open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	err = fault.Try(func() { names = signatureNames(readSignatures(readModel(file.Data()))) })
	return names, err
}

// Signatures returns the names of the file's signatures, in its order. Most files have one, "serving_default".
func (m *Model) Signatures() []string { return slices.Clone(m.plan.graph.signatures) }

// Inputs returns the model's inputs, in the order of the signature or of the model. They can be asked for after Close
// too.
func (m *Model) Inputs() []models.Value {
	return m.external(m.plan.graph.inputs, 0, m.plan.graph.called[0])
}

// Outputs returns the model's outputs, in the order of the signature or of the model.
func (m *Model) Outputs() []models.Value {
	return m.external(m.plan.graph.outputs, len(m.plan.graph.inputs), m.plan.graph.called[1])
}

func (m *Model) external(tensors []int, first int, called []string) []models.Value {
	out := make([]models.Value, len(tensors))
	for i, n := range tensors {
		t := &m.plan.graph.tensors[n]
		out[i] = t.external(xnnpack.ValueID(first+i), m.plan.values[n].shape, func() xnnpack.Tensor {
			return m.plan.describe(n) // planning has seen that there is a description
		})
		if called != nil {
			out[i].Name = called[i]
		}
	}
	return out
}

// external describes an input or output. describe does it for XNNPACK.
func (t *tensor) external(id xnnpack.ValueID, shape []int, describe func() xnnpack.Tensor) models.Value {
	v := models.Value{ID: id, Name: t.name, Shape: append([]int{}, shape...)}
	if t.inGo() {
		v.Declared, v.Quantization.Scale = elementTypes[t.dtype], t.step
	} else {
		x := describe()
		v.Type, v.Quantization = x.Type, x.Quantization
	}
	return v
}

// DataMap returns the constants that the model's nodes use, by name, for [xpwc.Cache.NewSession]. A name that several
// tensors of the file have, and an empty one, is made unique by '#' and the tensor's index. In a file whose signatures
// compute several subgraphs the names are the same for all signatures: a constant has the name of the first tensor over
// the same buffer, followed by a digest if it is converted. In other files constants in half precision that the model
// widens by DEQUANTIZE, and sparse ones that it makes dense by DENSIFY, come under the name of the result.
//
// What is converted is computed when its content is asked for. So is what XNNPACK cannot read where it lies: after it
// XNNPACK may read past the end of the mapping, or its address is not a multiple of an element's size. The others lie
// in the mapping. The data map may be used until the model is closed.
func (m *Model) DataMap() xpwc.DataMap { return m.data }

// WeightBytes returns the bytes of the constants that are packed, those in half precision widened.
func (m *Model) WeightBytes() (n int64) {
	for _, c := range m.plan.constants {
		if c.use&(flow.Packed|flow.PackedBlind) != 0 {
			n += int64(c.size)
		}
	}
	return n
}

// Stages returns what the model computes where XNNPACK does not have all of it. See [models.Staged].
func (m *Model) Stages() (stages []models.Stage, between []models.Buffer) {
	return m.stages()
}

// Subgraph makes a new subgraph of the model, and asks l once for each constant that a node uses. The options tell how
// XNNPACK uses it: packed ones are loaded with [xpwc.PackOnly], and with [xpwc.Eager] if an operator packs
// them without a look-up (depthwise convolution, deconvolution); those read at inference (operands of elementwise
// operators) with [xpwc.Eager] and [xpwc.Retain]; kernels with an [xpwc.PackedAs] for each operator that packs them.
//
// The caller deletes the subgraph, as soon as a runtime is made of it. A runtime must not be created with
// HintSparseInference or the flags for half precision unless the loader loads everything eagerly: with these XNNPACK
// reads weights without a look-up.
//
// A model that Go computes parts of has no Subgraph: the error matches [models.ErrStaged], see [Model.Stages].
func (m *Model) Subgraph(l models.Loader) (*xnnpack.Subgraph, error) {
	return m.plan.whole.Subgraph(l)
}

// Load opens a model and makes it ready to run, with its packed weights in the cache file, or in memory if that is
// empty or the model small (inference.Options.CacheFrom). Other signatures of the file are loaded by further calls;
// with the same cache file they share packed weights. The caller closes the Runner. Errors: as of [Open] and
// [inference.Load].
func Load(path, cacheFile string, o *Options) (*inference.Runner, error) {
	xnnpack.InitializeSoon()
	if o == nil {
		o = &Options{}
	}
	m, err := Open(path, o)
	if err != nil {
		return nil, err
	}
	return inference.Load(m, cacheFile, &o.Options)
}

// LoadSource loads a model that is not in a file of its own, as Load does.
func LoadSource(s models.Source, cacheFile string, o *Options) (*inference.Runner, error) {
	xnnpack.InitializeSoon()
	if o == nil {
		o = &Options{}
	}
	m, err := OpenSource(s, o)
	if err != nil {
		return nil, err
	}
	return inference.Load(m, cacheFile, &o.Options)
}
