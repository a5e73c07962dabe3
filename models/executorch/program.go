package executorch

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"xpwc"
	"xpwc/internal/fault"
	"xpwc/internal/flow"
	"xpwc/models"
	"xpwc/xnnpack"
)

// Program is a .pte with its external data, mapped into memory and checked. Its methods, in ExecuTorch's sense, are
// models; they have one data map. The methods of a Program may be called from many goroutines.
type Program struct {
	files   *files
	plan    *plan
	methods []*Method
	data    *dataMap
}

// Open maps a program and the .ptd files that have constants of it read-only, and checks what it computes. Tensors'
// bytes are not read. The error matches [ErrMalformed], [ErrUnsupported], [ErrMissingData] or what the operating system
// returned, and names the file, the method, the delegate and the node. What packs no weights is no reason to refuse a
// program: [Method.Runnable] returns why a method cannot be run here. The files must not be changed in place while the
// program is open, as for any mapping; replacing them by others is harmless. The caller closes the program when
// everything made of it is closed.
func Open(pte string, ptd ...string) (*Program, error) {
	return openAll(pte, append(paths(pte), paths(ptd...)...))
}

// OpenSource opens a program that is not in a file of its own, with its external data, as Open does.
func OpenSource(pte models.Source, ptd ...models.Source) (*Program, error) {
	return openAll(pte.Name(), append(sources(pte), sources(ptd...)...))
}

// openAll opens a program; the first of the openers is for the .pte.
func openAll(name string, openers []opener) (*Program, error) {
	f, err := openFiles(openers)
	if err != nil {
		return nil, err
	}
	var p *Program
	if err := fault.Try(func() { p = newProgram(f) }); err != nil {
		return nil, errors.Join(fmt.Errorf("open program %s: %w", name, err), f.close())
	}
	return p, nil
}

func newProgram(f *files) *Program {
	methods := readMethods(f.program().contents)
	p := &Program{files: f, plan: &plan{files: f}, data: &dataMap{files: f, constants: map[string]*constant{}}}
	for i := range methods {
		s := &source{files: f, method: &methods[i], varying: map[int][]bool{}}
		fault.Wrap(func() {
			method, _ := planned(s, p, p.plan, nil)
			method.data = p.data
			p.methods = append(p.methods, method)
		}, "method %q", methods[i].name)
	}
	p.data.add(p.plan)
	if len(p.methods) == 0 {
		malformed("the program has no methods")
	}
	return p
}

// planned plans a method for inputs of these shapes, or of the largest ones if there are none. It reports whether
// dimensions differ from the largest ones that were not known to vary.
func planned(s *source, program *Program, target *plan, shapes [][]int) (method *Method, varied bool) {
	s.mu.Lock()
	varying := maps.Clone(s.varying)
	s.mu.Unlock()
	m := &planner{source: s, method: s.method.clone(), varying: varying, symbolic: map[int]bool{}, files: s.files,
		plan: target, counts: map[Operator]int{}, last: map[memory]xnnpack.ValueID{},
		retained: map[xnnpack.ValueID]bool{}, updated: map[int]xnnpack.ValueID{}}
	part := m.planMethod(shapes)
	method = &Method{
		source: s, program: program, plan: target, name: m.method.name, part: part, whole: part,
		stock: m.stock, counts: m.counts, fault: m.runnable(),
	}
	for _, i := range m.method.inputs {
		if t := m.method.values[i].tensor; t != nil {
			method.types = append(method.types, inputType{t.dtype, m.asFloat[i]})
		}
	}
	if method.fault != nil {
		return method, false
	}
	method.whole = part.Pruned()
	return method, m.vary()
}

// Methods returns the program's methods in the file's order. There is at least one.
func (p *Program) Methods() []*Method { return slices.Clone(p.methods) }

// Method returns the method of that name. An empty name is that of the only method or, of several, "forward", which
// ExecuTorch's export calls the one of a module. The error matches [ErrUnknownMethod].
func (p *Program) Method(name string) (*Method, error) {
	if name == "" && len(p.methods) == 1 {
		return p.methods[0], nil
	}
	name = cmp.Or(name, "forward")
	var names []string
	for _, m := range p.methods {
		if m.name == name {
			return m, nil
		}
		names = append(names, fmt.Sprintf("%q", m.name))
	}
	return nil, fmt.Errorf("%s: method %q: %w: it has %s", p.Path(), name, ErrUnknownMethod, strings.Join(names, ", "))
}

// Path returns the absolute path of the .pte.
func (p *Program) Path() string { return p.files.program().Path() }

// DataMap returns the constants of all methods by the names that the files give them, for [xpwc.Cache.NewSession].
// One without a name, as older programs have them, is called by its place in the .pte: "@" offset "+" size. It may be
// used until Close.
func (p *Program) DataMap() xpwc.DataMap { return p.data }

// Close closes the files. Subgraphs, runtimes, loaders and sessions made of the program must be gone before; what is
// asked of it afterwards, as far as it takes the files' bytes, is an error that matches [xpwc.ErrClosed]. Closing twice
// is harmless.
func (p *Program) Close() error { return p.files.close() }

// Method is one of a program's methods. It is a [models.Model] whose subgraph is that of all delegates and of the
// operators between them.
type Method struct {
	source  *source
	program *Program
	plan    *plan
	data    *dataMap
	name    string
	part    flow.Part        // everything that the file has of it
	whole   flow.Part        // what its outputs need, if it can be run
	stock   []delegatePart   // calls of XNNPACK's delegates
	counts  map[Operator]int // how often it has each operator
	types   []inputType      // of the inputs, if it can be run
	fault   error            // why it cannot be run, or nil
}

// inputType is the type that the file declares of an input, and whether it is given in single precision instead.
type inputType struct {
	declared ScalarType
	asFloat  bool
}

var _ models.Staged = (*Method)(nil)

// Name returns the method's name.
func (m *Method) Name() string { return m.name }

// Runnable returns nil if Subgraph or Stages can make all that the method computes: if all of it is in XNNPACK's
// delegates and in operators between them that XNNPACK or Go has. Otherwise the error has all reasons, a line for each.
// It matches
// [ErrUnsupportedOp], and lists the operators outside of delegates and names the nodes that package xnnpack does not
// have; [ErrUnsupported]; or [ErrMalformed], where shapes contradict each other. Of many reasons it counts the last.
// The weights of any method can be packed, see [Program.Weights].
func (m *Method) Runnable() error {
	if m.fault != nil {
		return fmt.Errorf("%s: method %q: %w", m.program.Path(), m.name, m.fault)
	}
	return nil
}

// Inputs returns the method's inputs, called "input 0" and so on. A shape has the dimensions in the order of memory,
// the outermost first: [batch, height, width, channels] for a tensor in the memory format that PyTorch calls channels
// last, whatever its sizes there. There are none if the method is not runnable.
func (m *Method) Inputs() []models.Value {
	inputs := m.external(m.whole.Inputs, "input", 0)
	for i := range inputs {
		if m.types[i].asFloat {
			inputs[i].Declared = declared[m.types[i].declared]
		}
	}
	return inputs
}

// declared are the elements of inputs that are convertible.
var declared = map[ScalarType]models.Element{
	Byte: models.Uint8, Char: models.Int8, Short: models.Int16, Int: models.Int32, Long: models.Int64,
	Double: models.Float64, Bool: models.Bool,
}

// Outputs returns the method's outputs likewise.
func (m *Method) Outputs() []models.Value {
	return m.external(m.whole.Outputs, "output", len(m.whole.Inputs))
}

func (m *Method) external(values ids, name string, first int) []models.Value {
	if m.fault != nil {
		return nil
	}
	out := make([]models.Value, len(values))
	for i, n := range values {
		v := &m.plan.values[n]
		out[i] = models.Value{
			ID: xnnpack.ValueID(first + i), Name: fmt.Sprint(name, " ", i), Type: v.tensor.Type,
			Shape: slices.Clone(v.tensor.Shape), Dynamic: v.dynamic, Quantization: v.tensor.Quantization,
		}
		if v.host {
			out[i].Declared = v.element()
		}
		if v.bare {
			out[i].Shape = []int{}
		}
	}
	return out
}

// DataMap returns [Program.DataMap] or, of a method that was resized, the constants that it uses.
func (m *Method) DataMap() xpwc.DataMap { return m.data }

// Stages returns what the method computes where XNNPACK does not have all of its operators: subgraphs, and what Go
// computes between them. See [models.Staged].
func (m *Method) Stages() (stages []models.Stage, between []models.Buffer) {
	if m.fault != nil {
		return nil, nil
	}
	if m.resizable() && !m.whole.Staged() {
		return []models.Stage{m.whole.Whole()}, nil
	}
	return m.whole.Stages()
}

// Subgraph makes a new subgraph of the method, if it is one, and asks l once for each constant that a node uses. If it
// is several, see Stages, the error matches [models.ErrStaged]. The options tell
// how XNNPACK uses it: packed ones are loaded with [xpwc.PackOnly], and with [xpwc.Eager] if they are
// packed without a look-up that names them; those read at inference with [xpwc.Eager] and [xpwc.Retain]; kernels with
// an [xpwc.PackedAs] for each node that packs them. Scales are read from the files, where they are, until the runtime
// is deleted; only what is not aligned is copied. The error is that of Runnable, or names the node.
//
// The caller deletes the subgraph, as soon as a runtime is made of it. A runtime must not be created with
// HintSparseInference or the flags for half precision unless the loader loads everything eagerly: with these XNNPACK
// reads weights without a look-up.
func (m *Method) Subgraph(l models.Loader) (*xnnpack.Subgraph, error) {
	if err := m.Runnable(); err != nil {
		return nil, err
	}
	return m.whole.Subgraph(l)
}

// resizable reports whether an input has several shapes.
func (m *Method) resizable() bool {
	return slices.ContainsFunc(m.whole.Inputs, func(id xnnpack.ValueID) bool { return m.plan.values[id].dynamic })
}

// Close closes the program that the method is of.
func (m *Method) Close() error { return m.program.Close() }
