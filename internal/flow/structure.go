package flow

import (
	"fmt"
	"reflect"
	"strings"

	"xpwc/xnnpack"
)

// Structure describes the subgraph of a part apart from the shapes that XNNPACK computes: its nodes with their
// attributes, and how they are connected. Two parts of one model with equal structures differ in shapes only.
func (p Part) Structure() string {
	var b strings.Builder
	numbers := map[ID]int{}
	operand := func(id ID) {
		n, ok := numbers[id]
		if !ok {
			n = len(numbers)
			numbers[id] = n
			t := p.Bare(id)
			fmt.Fprintf(&b, "%v/%d", t.Type, len(t.Shape))
			if name, ok := p.Constant(id); ok {
				fmt.Fprintf(&b, "%q%v", name, t.Shape)
			}
		}
		fmt.Fprintf(&b, "#%d ", n)
	}
	for _, id := range p.Inputs {
		operand(id)
	}
	for _, s := range p.Steps {
		n, ok := s.Operation.(Node)
		if !ok {
			continue
		}
		attributes(&b, n.N)
		inputs, outputs := n.Operands()
		for _, id := range inputs {
			operand(id)
		}
		for _, id := range outputs {
			operand(id)
		}
	}
	for _, id := range p.Outputs {
		operand(id)
	}
	return b.String()
}

// attributes writes the type of a node, and its fields that are no operands.
func attributes(b *strings.Builder, n xnnpack.Node) {
	v := reflect.ValueOf(n)
	b.WriteString(v.Type().Name())
	for i := range v.NumField() {
		switch field := v.Field(i).Interface().(type) {
		case ID, IDs:
		default:
			fmt.Fprintf(b, " %v", field)
		}
	}
	b.WriteByte(' ')
}
