package tflite

import (
	"errors"
	"fmt"
	"io/fs"

	"xpwc"
	"xpwc/internal/mapped"
)

// dataMap gives the constants that nodes use, by unique name. It is read-only once made.
type dataMap struct {
	file      *mapped.File
	constants map[string]*constant
}

func newDataMap(f *mapped.File, p *plan) *dataMap {
	m := &dataMap{file: f, constants: make(map[string]*constant, len(p.constants))}
	for _, c := range p.constants {
		m.constants[p.graph.tensors[c.tensor].name] = c
	}
	return m
}

// read calls do with the file's bytes, which it must not keep.
func (m *dataMap) read(do func(data []byte) error) error {
	err := m.file.View(do)
	if errors.Is(err, fs.ErrClosed) {
		return fmt.Errorf("%s: %w", m.file.Path(), ErrClosed)
	}
	return err
}

// Tensor implements [xpwc.DataMap].
func (m *dataMap) Tensor(name string) (xpwc.Tensor, error) {
	c, ok := m.constants[name]
	if !ok {
		return xpwc.Tensor{}, fmt.Errorf("%s: tensor %q: %w", m.file.Path(), name, xpwc.ErrUnknownTensor)
	}
	t := xpwc.Tensor{
		Identity: xpwc.Identity{
			Source: m.file.Path(),
			Stamp:  m.file.StampOf(fmt.Sprintf("%d+%d:%s", c.source.Offset, c.source.Size, c.conversion())),
			Watch:  m.file,
			Digest: func() (d xpwc.Digest, err error) {
				err = m.read(func(data []byte) error { d = c.digest(data); return nil })
				return d, err
			},
		},
		Evict: func() {
			if data := m.file.Data(); data != nil {
				m.file.Drop(c.source.In(data))
			}
		},
	}
	err := m.read(func(data []byte) error {
		if c.inPlace(m.file.Readable()) {
			t.Data = c.source.In(data)
		}
		return nil
	})
	if err != nil {
		return xpwc.Tensor{}, err
	}
	if t.Data == nil {
		t.Size = c.size
		t.Fill = func(dst []byte) error {
			return m.read(func(data []byte) error { return c.fill(dst, data) })
		}
	}
	return t, nil
}
