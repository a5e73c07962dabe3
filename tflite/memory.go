package tflite

import (
	"fmt"
	"sync"

	"xpwc"
	"xpwc/internal/unpacked"
)

// Memory is a [Loader] for running a model without a cache: constants that XNNPACK can use as they are in the file are used there, the
// others are computed into C memory at once. Its methods may be called from many goroutines.
type Memory struct {
	data *dataMap

	mu     sync.Mutex
	loaded map[string]loaded
	closed bool
}

type loaded struct {
	*unpacked.Tensor
	retain bool // it is read at inference
}

// NewLoader returns a loader for [Model.Subgraph] that needs no cache. The caller calls its Finalize once the runtime is created, and
// its Close when the runtime is deleted and before the model is closed.
func (m *Model) NewLoader() *Memory {
	return &Memory{data: m.data, loaded: map[string]loaded{}}
}

// Load implements [Loader]. Options make no difference: everything is there on return, and stays until Finalize or Close. A name
// that was loaded before gives the same memory. The error matches [xpwc.ErrUnknownTensor], [ErrClosed] or [xnnpack.OutOfMemory].
func (l *Memory) Load(name string, _ ...xpwc.LoadOption) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, fmt.Errorf("load tensor %q: %w", name, ErrClosed)
	}
	if got, ok := l.loaded[name]; ok {
		return got.Bytes, nil
	}
	t, err := l.data.Tensor(name)
	if err != nil {
		return nil, err
	}
	got, err := unpacked.Load(name, t)
	if err != nil {
		return nil, err
	}
	l.loaded[name] = loaded{got, l.data.constants[name].use&useInference != 0}
	return got.Bytes, nil
}

// Finalize frees what the runtime has packed, which it reads no more, and keeps what it reads at inference. It is called when the
// last runtime is created: what was freed is computed anew when it is loaded again.
func (l *Memory) Finalize() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, got := range l.loaded {
		if !got.retain {
			got.Free()
			delete(l.loaded, name)
		}
	}
}

// Close frees everything. Runtimes whose constants were loaded here must be deleted before. It never fails; closing twice is harmless.
func (l *Memory) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, got := range l.loaded {
		got.Free()
	}
	l.loaded, l.closed = nil, true
	return nil
}
