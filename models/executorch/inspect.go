package executorch

import (
	"cmp"
	"slices"
	"strings"

	"xpwc/xnnpack"
)

// Operator counts a method's uses of an operator.
type Operator struct {
	// Name is that of a delegate's node as ExecuTorch's schema has it, such as Conv2d, or of an operator of the
	// method with its overload, such as aten::mean.out. What is no operator is called what it is: "a jump".
	Name  string
	Place Where
	Count int
}

// Where is what computes an operator.
type Where int

const (
	InDelegate Where = iota // a node in one of the delegates for XNNPACK
	Between                 // outside of delegates, and computed here
	Outside                 // what only ExecuTorch runs
)

// Delegates returns how many parts of the method XNNPACK computes.
func (m *Method) Delegates() int { return len(m.stock) }

// Metadata returns what the method returns if it only returns numbers, such as get_eos_ids of a language model: an
// int64, a float64 or a bool each. It returns nil of any other method.
func (m *Method) Metadata() (numbers []any) {
	plan := m.source.method
	if len(plan.inputs)+len(plan.instructions) > 0 {
		return nil
	}
	for _, i := range plan.outputs {
		switch v := &plan.values[i]; v.kind {
		case evalueInt:
			numbers = append(numbers, v.whole)
		case evalueBool:
			numbers = append(numbers, v.whole != 0)
		case evalueDouble:
			numbers = append(numbers, v.number)
		default:
			return nil
		}
	}
	return numbers
}

// Operators returns the operators of the method, those in delegates first and each of these groups by name. Constants
// that are converted or copied are none.
func (m *Method) Operators() []Operator {
	var out []Operator
	for o, n := range m.counts {
		o.Count = n
		out = append(out, o)
	}
	slices.SortFunc(out, func(a, b Operator) int {
		return cmp.Or(cmp.Compare(a.Place, b.Place), strings.Compare(a.Name, b.Name))
	})
	return out
}

// Constant is a tensor of a program with a content.
type Constant struct {
	Name  string // in [Program.DataMap]
	Path  string // of the file that has it
	Type  xnnpack.Datatype
	Shape []int
	Bytes int64 // in the file; scales are not counted
}

// Constants returns what nodes use, once for each name, the largest first.
func (p *Program) Constants() []Constant {
	var out []Constant
	seen := map[string]bool{}
	for i := range p.plan.values {
		v := &p.plan.values[i]
		if v.constant == nil || v.host || seen[v.constant.name] {
			continue
		}
		seen[v.constant.name] = true
		out = append(out, Constant{
			Name: v.constant.name, Path: p.files.files[v.constant.file].Path(),
			Type: v.tensor.Type, Shape: slices.Clone(v.tensor.Shape), Bytes: v.constant.at.Size,
		})
	}
	slices.SortStableFunc(out, func(a, b Constant) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return out
}
