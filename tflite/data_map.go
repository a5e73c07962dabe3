package tflite

import (
	"fmt"
	"sync"

	"xpwc"
)

// file is a mapped model file, shared by the Model and everything that reads its constants.
type file struct {
	path  string // absolute
	stamp string // device, inode, size and modification time when it was opened

	mu     sync.RWMutex // held for reading while the mapping is read
	data   []byte
	mapped int64 // length of the mapping, whole pages
	closed bool
}

// read calls f with the file's bytes, which it must not keep.
func (f *file) read(do func(data []byte) error) error {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.closed {
		return fmt.Errorf("%s: %w", f.path, ErrClosed)
	}
	return do(f.data)
}

func (f *file) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil
	}
	f.closed = true
	err := unmapFile(f.data)
	f.data = nil
	return err
}

// dataMap gives the constants that nodes use, by unique name. It is read-only once made.
type dataMap struct {
	file      *file
	constants map[string]*constant
}

func newDataMap(f *file, p *plan) *dataMap {
	m := &dataMap{file: f, constants: make(map[string]*constant, len(p.constants))}
	for _, c := range p.constants {
		m.constants[p.graph.tensors[c.tensor].name] = c
	}
	return m
}

// Tensor implements [xpwc.DataMap].
func (m *dataMap) Tensor(name string) (xpwc.Tensor, error) {
	c, ok := m.constants[name]
	if !ok {
		return xpwc.Tensor{}, fmt.Errorf("%s: tensor %q: %w", m.file.path, name, xpwc.ErrUnknownTensor)
	}
	t := xpwc.Tensor{
		Identity: xpwc.Identity{
			Source: m.file.path,
			Stamp:  fmt.Sprintf("%s:%d+%d:%s", m.file.stamp, c.source.offset, c.source.size, c.conversion()),
			Digest: func() (d xpwc.Digest, err error) {
				err = m.file.read(func(data []byte) error { d = c.digest(data); return nil })
				return d, err
			},
		},
		Release: func() {
			// Nothing is lost if this cannot be done: the pages are clean and the system takes them back when it needs them.
			_ = m.file.read(func(data []byte) error { dropPages(c.source.in(data)); return nil })
		},
	}
	err := m.file.read(func(data []byte) error {
		if c.inPlace(m.file.mapped) {
			t.Data = c.source.in(data)
		}
		return nil
	})
	if err != nil {
		return xpwc.Tensor{}, err
	}
	if t.Data == nil {
		t.Size = c.size
		t.Fill = func(dst []byte) error {
			return m.file.read(func(data []byte) error { return c.fill(dst, data) })
		}
	}
	return t, nil
}
