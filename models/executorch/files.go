package executorch

import (
	"errors"
	"fmt"

	"xpwc"
	"xpwc/internal/fault"
	"xpwc/models"
)

// files are a program and its external data.
type files struct {
	files []*File           // the program comes first
	named map[string]stored // the named data of all
}

// An opener opens one file of a program.
type opener func() (*File, error)

func paths(list ...string) (openers []opener) {
	for _, path := range list {
		openers = append(openers, func() (*File, error) { return OpenFile(path) })
	}
	return openers
}

func sources(list ...models.Source) (openers []opener) {
	for _, s := range list {
		openers = append(openers, func() (*File, error) { return openSource(s) })
	}
	return openers
}

// openFiles opens a .pte and any number of .ptd.
func openFiles(openers []opener) (*files, error) {
	f := &files{named: map[string]stored{}}
	for i, open := range openers {
		file, err := open()
		if err != nil {
			return nil, errors.Join(err, f.close())
		}
		f.files = append(f.files, file)
		want, kind := &program, "a .pte"
		if i > 0 {
			want, kind = &flatTensor, "a .ptd"
		}
		if file.contents.kind != want {
			return nil, errors.Join(fmt.Errorf("%s: %w: it is not %s", file.Path(), ErrMalformed, kind), f.close())
		}
		for _, e := range file.contents.named {
			if prev, twice := f.named[e.name]; twice { // as ExecuTorch refuses, too
				return nil, errors.Join(fmt.Errorf("%s: %w: %s has named data %q too", file.Path(), ErrMalformed,
					f.files[prev.file].Path(), e.name), f.close())
			}
			f.named[e.name] = stored{i, e.span}
		}
	}
	return f, nil
}

func (f *files) program() *File { return f.files[0] }

func (f *files) close() error {
	var errs []error
	for _, file := range f.files {
		errs = append(errs, file.Close())
	}
	return errors.Join(errs...)
}

// find returns where a content of that size is. What has a name may be longer.
func (f *files) find(c *content, size int64) stored {
	if c.name == "" {
		if c.span.Size < size {
			malformed("%d bytes for a content of %d", c.span.Size, size)
		}
		s := stored{at: c.span}
		s.at.Size = size
		return s
	}
	s, ok := f.named[c.name]
	if !ok {
		fault.Check(fmt.Errorf("%w: %q", ErrMissingData, c.name))
	}
	if s.at.Size < size {
		malformed("%d bytes of %q for a content of %d", s.at.Size, c.name, size)
	}
	return s
}

// inPlace returns the bytes at a place, which may be read until the files are closed.
func (f *files) inPlace(s stored) (b []byte) {
	fault.Check(f.files[s.file].read(func(file []byte) { b = s.at.In(file) }))
	return b
}

// dataMap gives the constants of a program's nodes by name. It is read-only once made.
type dataMap struct {
	files     *files
	constants map[string]*constant
}

// add adds the constants of a plan.
func (m *dataMap) add(p *plan) {
	for _, v := range p.values {
		if v.constant != nil && !v.host {
			m.constants[v.constant.name] = v.constant
		}
	}
}

// Tensor implements [xpwc.DataMap].
func (m *dataMap) Tensor(name string) (xpwc.Tensor, error) {
	c, ok := m.constants[name]
	if !ok {
		return xpwc.Tensor{}, fmt.Errorf("%s: tensor %q: %w", m.files.program().Path(), name, xpwc.ErrUnknownTensor)
	}
	return m.files.tensor(c)
}

// separateNames is a data map in which each name has memory of its own, also where names share a place in a file.
type separateNames struct {
	*dataMap
	mapped map[stored]string // name of the constant that has the file's memory
}

// Tensor implements [xpwc.DataMap].
func (m separateNames) Tensor(name string) (xpwc.Tensor, error) {
	t, err := m.dataMap.Tensor(name)
	if err != nil || t.Data == nil {
		return t, err
	}
	location := m.constants[name].stored
	if first, ok := m.mapped[location]; !ok || first == name {
		m.mapped[location] = name
		return t, nil
	}
	content := t.Data
	t.Data, t.Size, t.Evict = nil, len(content), nil
	t.Fill = func(dst []byte) error {
		copy(dst, content)
		return nil
	}
	return t, nil
}
