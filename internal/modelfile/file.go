// Package modelfile opens the models that the tool is given.
package modelfile

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"xpwc/described"
	"xpwc/executorch"
	"xpwc/models"
	"xpwc/tflite"
)

// A File is where a model is: a .tflite file, a safetensors file with a description, or a program of ExecuTorch's.
type File struct {
	Path        string
	Description string   // of a safetensors file; "" for MODEL.json, or what the file has itself
	Data        []string // the .ptd files of a program
	Method      string   // of a program, to run; "" for its only one, or the one called forward
}

// Described reports whether the model is a safetensors file, or the index of one.
func (f File) Described() bool {
	ext := strings.ToLower(filepath.Ext(f.Path))
	return ext == ".safetensors" || ext == ".json"
}

// Program reports whether the model is a program of ExecuTorch's.
func (f File) Program() bool { return strings.EqualFold(filepath.Ext(f.Path), ".pte") }

// Files are all that the model is read from, as far as they were named.
func (f File) Files() []string {
	files := append([]string{f.Path}, f.Data...)
	if f.Described() {
		return append(files, f.Description, f.Path+".json")
	}
	return files
}

// Open opens the model to run it. Of a program that is one method; if it cannot be run here, the error says what it
// has that ExecuTorch alone runs. The caller closes the model.
func (f File) Open() (models.Model, error) {
	switch {
	case f.Described():
		m, err := f.openDescribed()
		if err != nil {
			return nil, err
		}
		return m, nil
	case f.Program():
		return f.openMethod()
	}
	m, err := tflite.Open(f.Path)
	if err != nil {
		return nil, err
	}
	return m, nil
}

func (f File) openDescribed() (*described.Model, error) {
	if f.Description != "" {
		return described.Open(f.Path, f.Description)
	}
	m, err := described.Open(f.Path, f.Path+".json")
	if !errors.Is(err, fs.ErrNotExist) {
		return m, err
	}
	if m, inside := described.Open(f.Path, ""); inside == nil {
		return m, nil
	}
	return nil, err
}

// openMethod opens one of a program's methods, which closes the program.
func (f File) openMethod() (models.Model, error) {
	p, err := f.OpenProgram()
	if err != nil {
		return nil, err
	}
	m, err := p.Method(f.Method)
	if err == nil {
		err = m.Runnable()
	}
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return m, nil
}

// OpenProgram opens a program with all its methods. The caller closes it.
func (f File) OpenProgram() (*executorch.Program, error) {
	p, err := executorch.Open(f.Path, f.Data...)
	if errors.Is(err, executorch.ErrMissingData) {
		err = fmt.Errorf("%w; give its .ptd files too", err)
	}
	return p, err
}
