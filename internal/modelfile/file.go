// Package modelfile opens the models that the tool is given.
package modelfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"xpwc/models"
	"xpwc/models/described"
	"xpwc/models/executorch"
	"xpwc/models/tflite"
)

// A File is where a model is: a .tflite file, tensors with a description, or an ExecuTorch program.
type File struct {
	Path        string
	Description string   // of tensors; "" for MODEL.json, or what a safetensors file has itself
	Data        []string // the .ptd files of a program
	Method      string   // to run, of a program, or a signature of a .tflite; "" for its only one, forward or main
	Shapes      [][]int  // of the inputs of a .tflite, where it leaves them open; nil for the file's
}

// Described reports whether the model is tensors, with a description of the operators that use them.
func (f File) Described() bool { return described.KindOf(f.Path) != described.NoTensors }

// Program reports whether the model is an ExecuTorch program.
func (f File) Program() bool { return strings.EqualFold(filepath.Ext(f.Path), ".pte") }

// Files returns the files that the model is read from, except the shards that an index names.
func (f File) Files() []string {
	files := append([]string{f.Path}, f.Data...)
	if !f.Described() {
		return files
	}
	return append(files, f.Description, f.besideIt())
}

// besideIt is where a description is that was not named.
func (f File) besideIt() string { return filepath.Clean(f.Path) + ".json" }

// Open opens the model to run it. Of a program that is one method; if it cannot be run here, the error names what it
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
	m, err := tflite.Open(f.Path, &tflite.Options{Signature: f.Method, Shapes: f.Shapes})
	if err != nil {
		return nil, err
	}
	return m, nil
}

func (f File) openDescribed() (*described.Model, error) {
	if f.Description != "" {
		return described.Open(f.Path, f.Description)
	}
	if _, err := os.Stat(f.besideIt()); !errors.Is(err, fs.ErrNotExist) {
		return described.Open(f.Path, f.besideIt())
	}
	m, err := described.Open(f.Path, "")
	if errors.Is(err, described.ErrNone) {
		return nil, fmt.Errorf("%w; give one with --description, or as %s; "+
			"xpwc pack --describe writes one to start from", err, f.besideIt())
	}
	return m, err
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
