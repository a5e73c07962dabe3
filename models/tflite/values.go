package tflite

import (
	"fmt"

	"xpwc"
	"xpwc/internal/fault"
	"xpwc/internal/flow"
	"xpwc/internal/operators"
	"xpwc/models"
	"xpwc/xnnpack"
)

// Tensor implements [flow.Values].
func (p *plan) Tensor(id flow.ID) xnnpack.Tensor { return p.Bare(id) }

// Bare implements [flow.Values]. That there is a description planning has seen.
func (p *plan) Bare(id flow.ID) xnnpack.Tensor {
	switch v := p.of(id); {
	case v.inside != nil:
		return *v.inside
	case v.constant != nil:
		return v.constant.describe()
	}
	return p.describe(int(id))
}

// Array implements [flow.Values].
func (p *plan) Array(id flow.ID) operators.Array {
	v := p.of(id)
	if v.inside != nil {
		return operators.Array{Element: models.Value{Type: v.inside.Type}.Element(), Shape: v.inside.Shape}
	}
	return operators.Array{Element: elementTypes[v.dtype], Shape: v.shape}
}

// InGo implements [flow.Values].
func (p *plan) InGo(id flow.ID) bool { return id < firstInside && p.graph.tensors[id].inGo() }

// Constant implements [flow.Values].
func (p *plan) Constant(id flow.ID) (name string, is bool) {
	if c := p.of(id).constant; c != nil {
		return c.name, true
	}
	return "", false
}

// Content implements [flow.Values].
func (p *plan) Content(id flow.ID) []byte { return p.of(id).constant.bytes(p.file) }

// View implements [flow.Values].
func (p *plan) View(do func()) {
	if err := p.mapped.View(func([]byte) error { do(); return nil }); err != nil {
		fault.Check(fmt.Errorf("%s: %w", p.mapped.Path(), xpwc.ErrClosed))
	}
}
