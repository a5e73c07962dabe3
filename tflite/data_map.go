package tflite

import (
	"fmt"

	"xpwc"
	"xpwc/internal/mapped"
	"xpwc/internal/tensorfile"
)

// dataMap gives the constants that nodes use, by unique name. It is read-only once made.
type dataMap struct {
	file      *mapped.File
	constants map[string]*constant
}

// Tensor implements [xpwc.DataMap].
func (m *dataMap) Tensor(name string) (xpwc.Tensor, error) {
	c, ok := m.constants[name]
	if !ok {
		return xpwc.Tensor{}, fmt.Errorf("%s: tensor %q: %w", m.file.Path(), name, xpwc.ErrUnknownTensor)
	}
	if c.computed() {
		return tensorfile.Converted(m.file, c.place(), c.conversion())
	}
	return tensorfile.Tensor(m.file, c.place())
}
