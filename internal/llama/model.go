package llama

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"xpwc"
	"xpwc/xnnpack"
)

// ErrNotWeights is matched by the error of opening a file that is not a complete file of the stack's weights.
var ErrNotWeights = errors.New("not the weights of this stack")

// Model is a stack with its weights, which lie in a read-only mapping of their file. Its methods may be called from many goroutines.
type Model struct {
	stack   Stack
	path    string // absolute
	stamp   string
	mapping *mapping
	places  map[string]place
	// quantized tells the matrices' scales apart, for xpwc.Quantized. They are summed up when the file is opened, not for each subgraph.
	quantized map[string]xpwc.Digest
}

// Open maps the weights that Generate wrote. The error matches ErrLayers, ErrNotWeights or what the operating system returned, and
// names the file. The caller closes the model when all sessions, loaders and subgraphs made of it are closed.
func (s Stack) Open(path string) (*Model, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(absolute)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := s.checkFile(f); err != nil {
		return nil, fmt.Errorf("open weights %s: %w", path, err)
	}
	m := &Model{stack: s, path: absolute, places: map[string]place{}}
	places, end := s.places()
	for i, p := range places {
		m.places[weightName(i/len(kinds), i%len(kinds))] = p
	}
	if m.stamp, err = fileStamp(f); err != nil {
		return nil, fmt.Errorf("open weights %s: %w", path, err)
	}
	if m.mapping, err = mapFile(f, end+trailerSize); err != nil {
		return nil, fmt.Errorf("open weights %s: %w", path, err)
	}
	m.sumScales()
	return m, nil
}

func (m *Model) sumScales() {
	m.quantized = map[string]xpwc.Digest{}
	if m.stack.Float32 {
		return
	}
	for layer := range m.stack.Layers {
		for kind, k := range kinds {
			t := m.filter(layer, kind)
			m.quantized[t.Name] = xpwc.DigestOf(xnnpack.QuantizationKey(t, xnnpack.Tensor{}, dynamic(k.in), xnnpack.Tensor{Type: xnnpack.Float32}))
		}
	}
}

// filter describes a matrix, without its data.
func (m *Model) filter(layer, kind int) xnnpack.Tensor {
	k := kinds[kind]
	t := xnnpack.Tensor{Name: weightName(layer, kind), Type: xnnpack.Float32, Shape: []int{k.out, k.in}}
	if !m.stack.Float32 {
		p := m.places[t.Name]
		t.Type = xnnpack.ChannelQInt8
		t.Quantization.Scales = float32s(m.mapping.data[p.scales : p.scales+4*k.out])
	}
	return t
}

// Close unmaps the weights. Closing twice is harmless.
func (m *Model) Close() error { return m.mapping.close() }

// DataMap returns the matrices by name. Their bytes lie in the mapping, whose pages are given back when a session needs them no more.
func (m *Model) DataMap() xpwc.DataMap { return dataMap{m} }

type dataMap struct{ m *Model }

// Tensor implements [xpwc.DataMap].
func (d dataMap) Tensor(name string) (xpwc.Tensor, error) {
	p, ok := d.m.places[name]
	if !ok {
		return xpwc.Tensor{}, fmt.Errorf("%s: tensor %q: %w", d.m.path, name, xpwc.ErrUnknownTensor)
	}
	b := d.m.mapping.data[p.offset : p.offset+p.size]
	return xpwc.Tensor{
		Data: b,
		Identity: xpwc.Identity{
			Source: d.m.path,
			Stamp:  fmt.Sprintf("%s:%d+%d", d.m.stamp, p.offset, p.size),
		},
		Release: func() { d.m.mapping.drop(b) },
	}, nil
}

// Memory is a [Loader] for running a model without a cache: it gives out the mapping itself.
type Memory struct{ m *Model }

// NewLoader returns a loader without a cache.
func (m *Model) NewLoader() *Memory { return &Memory{m} }

// Load implements [Loader]; the options make no difference.
func (l *Memory) Load(name string, _ ...xpwc.LoadOption) ([]byte, error) {
	p, ok := l.m.places[name]
	if !ok {
		return nil, fmt.Errorf("load tensor %q: %w", name, xpwc.ErrUnknownTensor)
	}
	return l.m.mapping.data[p.offset : p.offset+p.size], nil
}

// Finalize gives back the pages of the weights, which packing has consumed. It is called when the runtime is created; loading anew reads
// the file again.
func (l *Memory) Finalize() { l.m.mapping.drop(l.m.mapping.data) }
