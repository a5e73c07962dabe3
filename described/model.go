package described

import (
	"errors"
	"fmt"
	"os"

	"xpwc"
	"xpwc/internal/divide"
	"xpwc/models"
	"xpwc/safetensors"
	"xpwc/xnnpack"
)

// Model is a safetensors file with a description that fits it, ready to be made into subgraphs. It is a
// [models.Model]. Its methods may be called from many goroutines.
type Model struct {
	file        *safetensors.File
	steps       []*step
	description string
}

// MetadataName is the name of the description in the metadata of a safetensors file that has its own.
const MetadataName = "xpwc.description"

// Open opens a safetensors file, or the index of a sharded one, and a description of it, and checks both. Without a
// description's path it is the one in the file. The error matches [ErrInvalid], [safetensors.ErrMalformed] or what
// the operating system returned, and names the file. The caller closes the model when everything made of it is
// closed.
func Open(weights, description string) (*Model, error) {
	file, err := safetensors.Open(weights)
	if err != nil {
		return nil, err
	}
	m, err := open(file, weights, description)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return m, nil
}

func open(file *safetensors.File, weights, description string) (*Model, error) {
	text, name := []byte(file.Metadata()[MetadataName]), weights
	switch {
	case description != "":
		var err error
		if text, err = os.ReadFile(description); err != nil {
			return nil, fmt.Errorf("open description: %w", err)
		}
		name = description
	case len(text) == 0:
		return nil, fmt.Errorf("%s: %w", weights, invalid("there is none in its metadata (%s)", MetadataName))
	}
	operators, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	m, err := New(file, operators)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	m.description = string(text)
	return m, nil
}

// New makes a model of an open file. The error matches [ErrInvalid] and names the operator. Close of the model closes
// the file.
func New(file *safetensors.File, operators []Operator) (*Model, error) {
	m := &Model{file: file}
	for i, o := range operators {
		s, err := newStep(o, file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.title(i), err)
		}
		m.steps = append(m.steps, s)
	}
	return m, nil
}

// Close closes the file. Subgraphs, loaders and sessions made of the model must be gone before. Closing twice is
// harmless.
func (m *Model) Close() error { return m.file.Close() }

// File returns the file. The model closes it.
func (m *Model) File() *safetensors.File { return m.file }

// Description returns the text of the description that Open read.
func (m *Model) Description() string { return m.description }

// DataMap returns the file's tensors, for [xpwc.Cache.NewSession].
func (m *Model) DataMap() xpwc.DataMap { return m.file }

// NewLoader returns a loader that needs no cache.
func (m *Model) NewLoader() *models.Memory { return models.NewMemory(m.file, nil) }

// Inputs returns the operators' inputs in the description's order, named after the weights with " input". They are
// float32, whatever the operators' own types are. A shape is one row [1, channels], or the smallest image [1, height,
// width, channels] that the operator's window fits.
func (m *Model) Inputs() []models.Value {
	out := make([]models.Value, len(m.steps))
	for i, s := range m.steps {
		out[i] = models.Value{ID: xnnpack.ValueID(i), Name: s.Weights + " input", Type: xnnpack.Float32,
			Shape: s.input.Shape}
	}
	return out
}

// Outputs returns the operators' outputs in the same order and form, named with " output".
func (m *Model) Outputs() []models.Value {
	out := make([]models.Value, len(m.steps))
	for i, s := range m.steps {
		id := xnnpack.ValueID(len(m.steps) + i)
		out[i] = models.Value{ID: id, Name: s.Weights + " output", Type: xnnpack.Float32, Shape: s.output.Shape}
	}
	return out
}

// Shares divides the operators as [models.Model] says. Operators of the same weights come into one share, so that its
// runtime sees, as that of the whole model would, whether they pack them alike.
func (m *Model) Shares(n int) []models.Share {
	of := map[string]*divide.Group{}
	var groups []*divide.Group
	for i, s := range m.steps {
		g := of[s.Weights]
		if g == nil {
			g = &divide.Group{}
			of[s.Weights], groups = g, append(groups, g)
		}
		g.Steps = append(g.Steps, i)
		g.Bytes += s.size
	}
	return divide.Shares(groups, n, func(chosen []int) func(models.Loader) (*xnnpack.Subgraph, error) {
		var steps []*step
		for _, i := range chosen {
			steps = append(steps, m.steps[i])
		}
		return func(l models.Loader) (*xnnpack.Subgraph, error) { return emit(steps, l) }
	})
}
