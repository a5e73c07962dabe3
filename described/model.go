package described

import (
	"errors"
	"fmt"
	"os"

	"xpwc"
	"xpwc/models"
	"xpwc/safetensors"
	"xpwc/xnnpack"
)

// Model is tensors with a description that fits them, ready to be made into subgraphs. It is a [models.Model]. Its
// methods may be called from many goroutines.
type Model struct {
	tensors     Tensors
	steps       []*step
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
	name, none := weights, ErrNone
	if file, ok := tensors.(*safetensors.File); ok {
		text = []byte(file.Metadata()[MetadataName])
		none = fmt.Errorf("%w in its metadata (%s)", ErrNone, MetadataName)
	}
	switch {
	case description != "":
		var err error
		if text, err = os.ReadFile(description); err != nil {
			return nil, fmt.Errorf("open description: %w", err)
		}
		name = description
	case len(text) == 0:
		return nil, fmt.Errorf("%s: %w", weights, none)
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
	m := &Model{tensors: tensors}
	for i, o := range operators {
		if o.Op == LeftOut {
			continue
		}
		s, err := newStep(o, tensors)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.title(i), err)
		}
		m.steps = append(m.steps, s)
	}
	if len(m.steps) == 0 {
		return nil, invalid("it has no operators")
	}
	return m, nil
}

// Close closes the tensors. Subgraphs, loaders and sessions made of the model must be gone before. Closing twice is
// harmless.
func (m *Model) Close() error { return m.tensors.Close() }

// File returns the safetensors file, and nil for tensors of another kind. The model closes it.
func (m *Model) File() *safetensors.File {
	f, _ := m.tensors.(*safetensors.File)
	return f
}

// Description returns the text of the description that Open read.
func (m *Model) Description() string { return m.description }

// DataMap returns the tensors, for [xpwc.Cache.NewSession].
func (m *Model) DataMap() xpwc.DataMap { return m.tensors }

// NewLoader returns a loader that needs no cache.
func (m *Model) NewLoader() *models.Memory { return models.NewMemory(m.tensors, nil) }

// Inputs returns the operators' inputs in the description's order, named after the weights with " input". They are
// float32, whatever the operators' own types are. A shape is one row [1, channels], or the smallest image [1, height,
// width, channels] that the operator's window fits.
func (m *Model) Inputs() []models.Value {
	return m.values(0, " input", func(s *step) []int { return s.input.Shape })
}

// Outputs returns the operators' outputs in the same order and form, named with " output".
func (m *Model) Outputs() []models.Value {
	return m.values(len(m.steps), " output", func(s *step) []int { return s.output.Shape })
}

// values returns values with IDs from first.
func (m *Model) values(first int, role string, shape func(*step) []int) (all []models.Value) {
	for i, s := range m.steps {
		all = append(all, models.Value{ID: xnnpack.ValueID(first + i), Name: s.Weights + role, Type: xnnpack.Float32,
			Shape: shape(s)})
	}
	return all
}

// WeightBytes returns the bytes of the operators' weights and biases, as XNNPACK is given them.
func (m *Model) WeightBytes() (n int64) {
	for _, s := range m.steps {
		n += s.size
	}
	return n
}
