package described

import (
	"fmt"

	"xpwc"
	"xpwc/internal/fault"
	"xpwc/internal/flow"
	"xpwc/models"
	"xpwc/xnnpack"
)

// values are a model's: [flow.Values].
type values struct {
	tensors Tensors
	list    []value
}

// value is a tensor of XNNPACK's, without data.
type value struct {
	xnnpack.Tensor
	constant bool // its name is that of the tensor that has the content
}

// value adds a value.
func (v *values) value(t xnnpack.Tensor, constant bool) flow.ID {
	v.list = append(v.list, value{t, constant})
	return flow.ID(len(v.list) - 1)
}

// Tensor implements [flow.Values].
func (v *values) Tensor(id flow.ID) xnnpack.Tensor { return v.list[id].Tensor }

// Bare implements [flow.Values].
func (v *values) Bare(id flow.ID) xnnpack.Tensor { return v.list[id].Tensor }

// Array implements [flow.Values].
func (v *values) Array(id flow.ID) flow.Array {
	t := v.list[id]
	return flow.Array{Element: models.Value{Type: t.Type}.Element(), Shape: t.Shape}
}

// InGo implements [flow.Values].
func (v *values) InGo(flow.ID) bool { return false }

// Constant implements [flow.Values].
func (v *values) Constant(id flow.ID) (name string, ok bool) {
	return v.list[id].Name, v.list[id].constant
}

// Content implements [flow.Values].
func (v *values) Content(id flow.ID) []byte {
	t, _ := v.tensors.Lookup(v.list[id].Name)
	if t.Data == nil {
		fault.Check(fmt.Errorf("tensor %q: %w", v.list[id].Name, xpwc.ErrClosed))
	}
	return t.Data
}

// View implements [flow.Values]. Tensors stay open until nothing of the model is used.
func (v *values) View(do func()) { do() }
