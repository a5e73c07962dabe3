package graph

import (
	"fmt"
	"sync"

	"xpwc"
	"xpwc/safetensors"
	"xpwc/xnnpack"
)

// Memory is a [Loader] for running a model without a cache: tensors that XNNPACK can use as they are in the file are used there, the
// others are copied into C memory. Its methods may be called from many goroutines.
type Memory struct {
	file *safetensors.File

	mu     sync.Mutex
	loaded map[string]*loaded
}

type loaded struct {
	bytes  []byte
	buffer *xnnpack.Buffer // nil if the bytes lie in the mapping
	drop   func()
}

// NewLoader returns a loader for [Model.Subgraph] that needs no cache. The caller calls its Finalize once the runtime is created, and its
// Close before the model is closed.
func (m *Model) NewLoader() *Memory { return &Memory{file: m.file, loaded: map[string]*loaded{}} }

// Load implements [Loader]; the options make no difference.
func (l *Memory) Load(name string, _ ...xpwc.LoadOption) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if got, ok := l.loaded[name]; ok {
		return got.bytes, nil
	}
	t, err := l.file.Tensor(name)
	if err != nil {
		return nil, err
	}
	got := &loaded{bytes: t.Data, drop: t.Evict}
	if got.bytes == nil {
		if got.buffer, err = xnnpack.NewBuffer(t.Size); err != nil {
			return nil, fmt.Errorf("load tensor %q: %w", name, err)
		}
		got.bytes = got.buffer.Bytes()
		if err := t.Fill(got.bytes); err != nil {
			got.buffer.Free()
			return nil, fmt.Errorf("load tensor %q: %w", name, err)
		}
	}
	l.loaded[name] = got
	return got.bytes, nil
}

// Finalize frees what the runtime has packed: all of it. What is loaded again is read anew.
func (l *Memory) Finalize() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, got := range l.loaded {
		if got.buffer != nil {
			got.buffer.Free()
		}
		if got.drop != nil {
			got.drop()
		}
	}
	clear(l.loaded)
}

// Close frees everything. It never fails; closing twice is harmless.
func (l *Memory) Close() error {
	l.Finalize()
	return nil
}
