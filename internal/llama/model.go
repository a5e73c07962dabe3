package llama

import (
	"encoding/binary"
	"errors"
	"fmt"

	"xpwc"
	"xpwc/internal/mapped"
	"xpwc/internal/tensorfile"
	"xpwc/models"
	"xpwc/xnnpack"
)

// ErrNotWeights is matched by the error of opening a file that is not a complete file of the stack's weights.
var ErrNotWeights = errors.New("not the weights of this stack")

// Model is a stack with its weights, which lie in a read-only mapping of their file. It is a [models.Model] and its
// data map. Its methods may be called from many goroutines; what is asked of it after Close is an error that matches
// [xpwc.ErrClosed].
type Model struct {
	stack    Stack
	file     *mapped.File
	matrices map[string]weights
}

// weights is a matrix in the file, with what is read and summed up once, when the file is opened, and not for each
// subgraph.
type weights struct {
	place  tensorfile.Place
	filter xnnpack.Tensor // without its data
	packed xpwc.LoadOption
}

// Open maps the weights that Generate wrote. The error matches ErrNotWeights or what the operating system returned, and
// names the file. The caller closes the model when all sessions, loaders and runtimes made of it are closed.
func (s Stack) Open(path string) (*Model, error) {
	f, err := mapped.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open weights: %w", err)
	}
	m := &Model{stack: s, file: f, matrices: map[string]weights{}}
	if err := m.read(f.Data()); err != nil {
		return nil, errors.Join(fmt.Errorf("open weights %s: %w", path, err), f.Close())
	}
	return m, nil
}

func (m *Model) read(data []byte) error {
	places, scales, size := m.stack.places()
	if int64(len(data)) != size {
		return fmt.Errorf("%w: %d bytes, not %d", ErrNotWeights, len(data), size)
	}
	for i, p := range places {
		k := kinds[i%len(kinds)]
		filter := xnnpack.Tensor{Name: weightName(i/len(kinds), i%len(kinds)), Type: xnnpack.Float32,
			Shape: []int{k.out, k.in}}
		row := xnnpack.Tensor{Type: xnnpack.Float32}
		input := row
		if !m.stack.Float32 {
			input, filter.Type = dynamic(k.in), xnnpack.ChannelQInt8
			filter.Quantization.Scales = make([]float32, k.out)
			if _, err := binary.Decode(data[scales[i]:], binary.LittleEndian, filter.Quantization.Scales); err != nil {
				return err
			}
		}
		packed := xpwc.PackedAs(xnnpack.FullyConnected{}.Packing(filter, xnnpack.Tensor{}, input, row))
		m.matrices[filter.Name] = weights{p, filter, packed}
	}
	return nil
}

// Close unmaps the weights. Closing twice is harmless.
func (m *Model) Close() error { return m.file.Close() }

// DataMap returns the matrices by name. Their bytes lie in the mapping, whose pages are given back when a session
// needs them no more.
func (m *Model) DataMap() xpwc.DataMap { return m }

// Tensor implements [xpwc.DataMap].
func (m *Model) Tensor(name string) (xpwc.Tensor, error) {
	w, ok := m.matrices[name]
	if !ok {
		return xpwc.Tensor{}, fmt.Errorf("%s: tensor %q: %w", m.file.Path(), name, xpwc.ErrUnknownTensor)
	}
	return tensorfile.Tensor(m.file, w.place)
}

// NewLoader returns a loader without a cache: it gives out the mapping itself.
func (m *Model) NewLoader() *models.Memory { return models.NewMemory(m.DataMap(), nil) }

// Inputs returns the stack's only input, float32 [1, Width].
func (m *Model) Inputs() []models.Value { return []models.Value{external(Input, "input")} }

// Outputs returns the stack's only output, float32 [1, Width].
func (m *Model) Outputs() []models.Value { return []models.Value{external(Output, "output")} }

func external(id xnnpack.ValueID, name string) models.Value {
	return models.Value{ID: id, Name: name, Type: xnnpack.Float32, Shape: []int{1, Width}}
}

// WeightBytes returns the bytes of the unpacked matrices, without scales.
func (m *Model) WeightBytes() int64 { return m.stack.WeightBytes() }
