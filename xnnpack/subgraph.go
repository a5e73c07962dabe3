package xnnpack

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
)

// Subgraph is a model under construction: values and the nodes between them. Nodes are added in the order in which
// they are to compute. Once a runtime is made of it, it can be deleted.
type Subgraph struct {
	mu        sync.Mutex
	g         cSubgraph
	deleted   bool
	externals int
	values    []*value // by ID; nil where none is defined
	scales    pinned   // that XNNPACK points to in place
	pins      *shared  // of the scales
	tabulates bool     // it has a row of elementwise nodes of the length tabulated
}

// Flags of an external value (XNN_VALUE_FLAG_*).
const (
	flagExternalInput  = 0x1
	flagExternalOutput = 0x2
)

// NewSubgraph makes an empty subgraph. The IDs from 0 to externalValues-1 are for Input and Output; IDs that Tensor
// gives out come after them. The caller deletes the subgraph.
func NewSubgraph(externalValues int) (*Subgraph, error) {
	op, subject := "create subgraph", fmt.Sprint(externalValues, " external values")
	if externalValues < 0 || externalValues > 1<<24 {
		return nil, reject(InvalidParameter, op, subject, "the number must be from 0 to %d", 1<<24)
	}
	if err := Initialize(); err != nil {
		return nil, err
	}
	g, s := cNewSubgraph(externalValues)
	if s != Success {
		return nil, check(s, op, subject)
	}
	scales := newPinned()
	return &Subgraph{g: g, externals: externalValues, values: make([]*value, externalValues),
		scales: scales, pins: &shared{destroy: scales.release}}, nil
}

// Delete frees the subgraph. Runtimes made of it go on working. Deleting twice is harmless.
func (s *Subgraph) Delete() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.deleted {
		return nil
	}
	s.deleted = true
	s.g.delete()
	s.pins.Close()
	return nil
}

// Tensor defines an internal value, static if t.Data is given, and returns its ID. The error matches InvalidParameter
// or UnsupportedParameter if t contradicts itself, for instance if Data is shorter than Type and Shape require.
func (s *Subgraph) Tensor(t Tensor) (ValueID, error) {
	return s.define("define tensor", InvalidValue, t, 0)
}

// Input defines the external value id, below NewSubgraph's number, as an input: its content is given to
// Runtime.Setup. It returns the same errors as Tensor; t.Data must be nil.
func (s *Subgraph) Input(id ValueID, t Tensor) error {
	_, err := s.define("define input", id, t, flagExternalInput)
	return err
}

// Output defines the external value id, below NewSubgraph's number, as an output: its memory is given to
// Runtime.Setup. It returns the same errors as Tensor; t.Data must be nil.
func (s *Subgraph) Output(id ValueID, t Tensor) error {
	_, err := s.define("define output", id, t, flagExternalOutput)
	return err
}

func (s *Subgraph) define(op string, id ValueID, t Tensor, flags uint32) (ValueID, error) {
	external := flags != 0
	subject := func() string { return describe(id, t.Name) }
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.deleted {
		return InvalidValue, reject(InvalidState, op, subject(), "the subgraph is deleted")
	}
	if external && uint64(id) >= uint64(s.externals) {
		return InvalidValue, reject(InvalidParameter, op, subject(), "external IDs run from 0 to %d", s.externals-1)
	}
	if s.value(id) != nil {
		return InvalidValue, reject(InvalidParameter, op, subject(), "the value is defined already")
	}
	if err := t.validate(external); err != nil {
		return InvalidValue, wrap(op, subject(), err)
	}
	t.pinScales(s.scales)
	got, status := s.g.define(&t, id, flags)
	if status != Success {
		if err := t.validateScales(); err != nil && status == InvalidParameter {
			return InvalidValue, wrap(op, subject(), err)
		}
		return InvalidValue, check(status, op, subject())
	}
	for int(got) >= len(s.values) {
		s.values = append(s.values, nil)
	}
	s.values[got] = t.remember(external)
	return got, nil
}

// value returns a value that is defined, or nil.
func (s *Subgraph) value(id ValueID) *value {
	if uint64(id) >= uint64(len(s.values)) {
		return nil
	}
	return s.values[id]
}

// wrap makes an Error of an error, which is of an invalid parameter if it has no other Status inside.
func wrap(op, subject string, err error) error {
	status := InvalidParameter
	errors.As(err, &status)
	detail := strings.TrimSuffix(err.Error(), ": "+status.Error())
	return &Error{Op: op, Subject: subject, Detail: detail, Status: status, defect: errors.Is(err, ErrKnownDefect)}
}

func describe(id ValueID, name string) string {
	switch {
	case id == InvalidValue && name == "":
		return "value"
	case id == InvalidValue:
		return fmt.Sprintf("value %q", name)
	case name == "":
		return fmt.Sprintf("value %d", id)
	}
	return fmt.Sprintf("value %d %q", id, name)
}

// A Node is an operator between values of a subgraph: FullyConnected, Unary and the others of this package, and types
// that embed one of them.
type Node interface{ node() node }

// node is what there is to know of a Node.
type node struct {
	self        Node // without what it is embedded in
	op          string
	operands    []operand              // the one output, or all of several, last
	check       func(v []*value) error // what XNNPACK does not check, once the operands are found; nil for nothing
	elementwise bool
}

// operand is a value in its role in a node.
type operand struct {
	role     string
	id       ValueID
	optional bool
}

func (o operand) absent() bool { return o.optional && o.id == InvalidValue }

// Operands returns the values that a node reads, weights among them, and the values that it computes. An absent bias is
// not among them.
func Operands(n Node) (inputs, outputs []ValueID) {
	for _, o := range n.node().operands {
		switch {
		case o.absent():
		case strings.HasPrefix(o.role, "output"):
			outputs = append(outputs, o.id)
		default:
			inputs = append(inputs, o.id)
		}
	}
	return inputs, outputs
}

// Add adds a node. The error names all operands.
func (s *Subgraph) Add(n Node) error { return s.AddRenamed(n, func(id ValueID) ValueID { return id }) }

// AddRenamed adds a node with other operands: id returns one for each of the node's own.
func (s *Subgraph) AddRenamed(n Node, id func(ValueID) ValueID) error {
	def := n.node()
	op := "define " + def.op
	for i := range def.operands {
		if o := &def.operands[i]; !o.absent() {
			o.id = id(o.id)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.deleted {
		return reject(InvalidState, op, "", "the subgraph is deleted")
	}
	ids, values := make([]ValueID, len(def.operands)), make([]*value, len(def.operands))
	for i, o := range def.operands {
		if ids[i] = o.id; o.absent() {
			continue
		}
		if values[i] = s.value(o.id); values[i] == nil {
			return reject(InvalidParameter, op, fmt.Sprintf("%s value %d", o.role, o.id),
				"no such value is defined in the subgraph")
		}
	}
	if def.check != nil {
		if err := def.check(values); err != nil {
			return wrap(op, s.subject(def.operands), err)
		}
	}
	if status := s.g.add(def.self, ids, values); status != Success {
		return check(status, op, s.subject(def.operands))
	}
	if last := len(values) - 1; def.elementwise {
		for _, in := range values[:last] {
			s.follows(in, values[last])
		}
	}
	return nil
}

// subject lists operands with their types: what a mismatch is about.
func (s *Subgraph) subject(operands []operand) string {
	var b strings.Builder
	for _, o := range operands {
		v := s.value(o.id)
		if v == nil {
			continue
		}
		if b.Len() > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s %s %v %v", o.role, describe(o.id, v.Name), v.Type, v.Shape)
	}
	return b.String()
}

// Range is what the real (not the stored) values that a node puts out are limited to, e.g. {0, 6} for a fused ReLU6.
// The zero Range does not limit them; where there is only one bound, the other is an infinity.
type Range struct{ Min, Max float32 }

// bounded replaces the zero Range by the infinite one.
func (r Range) bounded() Range {
	if r == (Range{}) {
		return Range{float32(math.Inf(-1)), float32(math.Inf(1))}
	}
	return r
}
