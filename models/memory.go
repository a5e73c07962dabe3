package models

import (
	"fmt"
	"slices"
	"sync"

	"xpwc"
	"xpwc/xnnpack"
)

// Memory is a [Loader] for running a model without a cache. Tensors that XNNPACK can use where the data map has them
// are used there, the others are computed into C memory. Its methods may be called from many goroutines.
type Memory struct {
	data xpwc.DataMap

	mu     sync.Mutex
	loaded map[string]tensor
	closed bool
}

// tensor is a loaded tensor.
type tensor struct {
	bytes    []byte
	buffer   *xnnpack.Buffer // nil if the bytes lie where the data map has them
	tensor   xpwc.Tensor
	retained bool // a runtime reads it at inference
}

// NewMemory returns a loader of a data map's tensors. The caller calls Finalize when the runtimes are created, and
// Close when they are deleted and before what the data map reads is closed.
func NewMemory(data xpwc.DataMap) *Memory { return &Memory{data: data, loaded: map[string]tensor{}} }

// Load implements [Loader]. The content is there on return, and stays until Finalize or, with [xpwc.Retain], Close;
// other options make no difference. A name that was loaded before gives the same memory. The error names the tensor; it
// is the data map's, or matches [xnnpack.OutOfMemory] or, after Close, [xpwc.ErrClosed].
func (m *Memory) Load(name string, options ...xpwc.LoadOption) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, fmt.Errorf("load tensor %q: %w", name, xpwc.ErrClosed)
	}
	t, ok := m.loaded[name]
	if !ok {
		var err error
		if t, err = m.load(name); err != nil {
			return nil, fmt.Errorf("load tensor %q: %w", name, err)
		}
	}
	t.retained = t.retained || slices.Contains(options, xpwc.Retain())
	m.loaded[name] = t
	return t.bytes, nil
}

func (m *Memory) load(name string) (tensor, error) {
	source, err := m.data.Tensor(name)
	if err != nil {
		return tensor{}, err
	}
	t := tensor{bytes: source.Data, tensor: source}
	if t.bytes != nil {
		return t, nil
	}
	if t.buffer, err = xnnpack.NewBuffer(source.Size); err == nil {
		t.bytes = t.buffer.Bytes()
		err = source.Fill(t.bytes)
	}
	if err != nil {
		t.free()
	}
	return t, err
}

// free gives the memory back.
func (t tensor) free() {
	if t.buffer != nil {
		t.buffer.Free()
	}
	if t.tensor.Evict != nil {
		t.tensor.Evict()
	}
	if t.tensor.Release != nil {
		t.tensor.Release()
	}
}

// Finalize frees what runtimes only pack, and keeps what was loaded with [xpwc.Retain]. It is called when the last
// runtime is created: what was freed is computed anew when it is loaded again.
func (m *Memory) Finalize() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, t := range m.loaded {
		if !t.retained {
			t.free()
			delete(m.loaded, name)
		}
	}
}

// Close frees everything. Runtimes whose constants were loaded here must be deleted before. It never fails; closing
// twice is harmless.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range m.loaded {
		t.free()
	}
	m.loaded, m.closed = nil, true
	return nil
}
