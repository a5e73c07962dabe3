package described

import (
	"errors"
	"fmt"
	"os"

	"xpwc"
	"xpwc/internal/flow"
	"xpwc/models"
	"xpwc/models/safetensors"
	"xpwc/xnnpack"
)

// Model is tensors with a description that fits them, ready to be made into subgraphs. It is a [models.Model]. Its
// methods may be called from many goroutines.
type Model struct {
	values      *values
	part        flow.Part
	description string
}

// MetadataName is the name of the description in the metadata of a safetensors file that has its own.
const MetadataName = "xpwc.description"

// Open opens tensors as [OpenTensors] does, and a description of them, and checks both. Without a description's path it
// is the one in the safetensors file. The error matches [ErrInvalid] or [ErrNone], or is one of OpenTensors', and names
// the file. The caller closes the model when everything made of it is closed.
func Open(weights, description string) (*Model, error) {
	tensors, err := OpenTensors(weights)
	if err != nil {
		return nil, err
	}
	m, err := open(tensors, weights, description)
	if err != nil {
		return nil, errors.Join(err, tensors.Close())
	}
	return m, nil
}

func open(tensors Tensors, weights, description string) (*Model, error) {
	var text []byte
	name, absent := weights, ErrNone
	if file, ok := tensors.(*safetensors.File); ok {
		text = []byte(file.Metadata()[MetadataName])
		absent = fmt.Errorf("%w in its metadata (%s)", ErrNone, MetadataName)
	}
	switch {
	case description != "":
		var err error
		if text, err = os.ReadFile(description); err != nil {
			return nil, fmt.Errorf("open description: %w", err)
		}
		name = description
	case len(text) == 0:
		return nil, fmt.Errorf("%s: %w", weights, absent)
	}
	operators, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	m, err := New(tensors, operators)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	m.description = string(text)
	return m, nil
}

// New makes a model of tensors. The error matches [ErrInvalid] and names the operator. Close of the model closes the
// tensors.
func New(tensors Tensors, operators []Operator) (*Model, error) {
	m := newModel(tensors)
	for i, o := range operators {
		if o.Op == LeftOut {
			continue
		}
		if err := m.add(o); err != nil {
			return nil, fmt.Errorf("%s: %w", o.title(i), err)
		}
	}
	if len(m.part.Steps) == 0 {
		return nil, invalid("it has no operators")
	}
	return m, nil
}

func newModel(tensors Tensors) *Model {
	v := &values{tensors: tensors}
	return &Model{values: v, part: flow.Part{Values: v}}
}

// Close closes the tensors. Subgraphs, loaders and sessions made of the model must be gone before. Closing twice is
// harmless.
func (m *Model) Close() error { return m.values.tensors.Close() }

// File returns the safetensors file, and nil for tensors of another kind. The model closes it.
func (m *Model) File() *safetensors.File {
	f, _ := m.values.tensors.(*safetensors.File)
	return f
}

// Description returns the text of the description that Open read.
func (m *Model) Description() string { return m.description }

// DataMap returns the tensors, for [xpwc.Cache.NewSession].
func (m *Model) DataMap() xpwc.DataMap { return m.values.tensors }

// Subgraph makes a new subgraph of all operators, and asks l for their weights and biases. The external values are
// the IDs of Inputs and Outputs. The caller deletes the subgraph, as soon as a runtime is made of it.
func (m *Model) Subgraph(l models.Loader) (*xnnpack.Subgraph, error) { return m.part.Subgraph(l) }

// Inputs returns the operators' inputs in the description's order, named after the weights with " input". They are
// float32, whatever the operators' own types are. A shape is one row [1, channels], or an image [1, height, width,
// channels] that is as large as the operator's window.
func (m *Model) Inputs() []models.Value { return m.external(m.part.Inputs, 0) }

// Outputs returns the operators' outputs in the same order and form, named with " output".
func (m *Model) Outputs() []models.Value { return m.external(m.part.Outputs, len(m.part.Inputs)) }

// external returns values with IDs from first.
func (m *Model) external(ids flow.IDs, first int) (values []models.Value) {
	for i, id := range ids {
		t := m.values.list[id]
		values = append(values, models.Value{ID: flow.ID(first + i), Name: t.Name, Type: t.Type, Shape: t.Shape})
	}
	return values
}

// WeightBytes returns the bytes of the operators' weights and biases, as XNNPACK is given them.
func (m *Model) WeightBytes() (n int64) {
	for _, v := range m.values.list {
		if v.constant {
			size, _ := v.Type.ByteSize(v.Shape) // which was checked
			n += int64(size)
		}
	}
	return n
}
