package graph

import (
	"sync"

	"xpwc"
	"xpwc/internal/unpacked"
	"xpwc/safetensors"
)

// Memory is a [Loader] for running a model without a cache: tensors that XNNPACK can use as they are in the file are used there, the
// others are copied into C memory. Its methods may be called from many goroutines.
type Memory struct {
	file *safetensors.File

	mu     sync.Mutex
	loaded map[string]*unpacked.Tensor
}

// NewLoader returns a loader for [Model.Subgraph] that needs no cache. The caller calls its Finalize once the runtime is created, and its
// Close before the model is closed.
func (m *Model) NewLoader() *Memory {
	return &Memory{file: m.file, loaded: map[string]*unpacked.Tensor{}}
}

// Load implements [Loader]; the options make no difference.
func (l *Memory) Load(name string, _ ...xpwc.LoadOption) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if got, ok := l.loaded[name]; ok {
		return got.Bytes, nil
	}
	t, err := l.file.Tensor(name)
	if err != nil {
		return nil, err
	}
	got, err := unpacked.Load(name, t)
	if err != nil {
		return nil, err
	}
	l.loaded[name] = got
	return got.Bytes, nil
}

// Finalize frees what the runtime has packed: all of it. What is loaded again is read anew.
func (l *Memory) Finalize() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, got := range l.loaded {
		got.Free()
	}
	clear(l.loaded)
}

// Close frees everything. It never fails; closing twice is harmless.
func (l *Memory) Close() error {
	l.Finalize()
	return nil
}
