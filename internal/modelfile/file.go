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
	"xpwc/models/bundle"
	"xpwc/models/described"
	"xpwc/models/executorch"
	"xpwc/models/tflite"
)

// A File is where a model is: a .tflite file, tensors with a description, an ExecuTorch program, or a bundle with
// several models.
type File struct {
	Path         string
	Section      string   // of the bundle at Path; "" for all of its models
	Description  string   // of tensors; "" for MODEL.json, or what a safetensors file has itself
	Data         []string // the .ptd files of a program
	Method       string   // to run, of a program, or a signature of a .tflite; "" for its only one, forward or main
	Shapes       [][]int  // of the inputs of a .tflite, where it leaves them open; nil for the file's
	Offset, Size int64    // of the section in the file, in bytes, if Models returned the File
}

// Split returns what an argument names: a path, or the path of a bundle, '#' and a section of it.
func Split(argument string) (path, section string) {
	i := strings.LastIndexByte(argument, '#')
	if _, err := os.Stat(argument); i < 0 || err == nil {
		return argument, ""
	}
	return argument[:i], argument[i+1:]
}

// Parse returns the file that an argument names. See [Split].
func Parse(argument string) File {
	path, section := Split(argument)
	return File{Path: path, Section: section}
}

// Set makes a File the value of a flag. See [Split].
func (f *File) Set(argument string) error {
	f.Path, f.Section = Split(argument)
	return nil
}

// Type names the kind of value in the help of a flag.
func (f *File) Type() string { return "model" }

// Base is the model's name without directory and extension, for files that are made of it.
func (f File) Base() string {
	base := strings.TrimSuffix(filepath.Base(f.Path), filepath.Ext(f.Path))
	if f.Section != "" {
		base += "-" + f.Section
	}
	return base
}

// String is the argument that names the file.
func (f File) String() string {
	if f.Section == "" {
		return f.Path
	}
	return f.Path + "#" + f.Section
}

// Bundle reports whether the model is in a bundle.
func (f File) Bundle() bool { return f.Section != "" || bundle.Recognized(f.Path) }

// Models returns the models of a bundle, or the one in the section, each as a File; of any other file the file itself.
// The error matches [bundle.ErrUnknownSection] if there is none.
func (f File) Models() ([]File, error) {
	if !f.Bundle() {
		return []File{f}, nil
	}
	b, err := bundle.Open(f.Path)
	if err != nil {
		return nil, err
	}
	sections := b.Models()
	if f.Section != "" {
		s, err := b.Section(f.Section)
		if err == nil && s.Kind != bundle.Model {
			err = fmt.Errorf("%w: %q is %s (%s), and no model", bundle.ErrUnknownSection, s.Name, s.Kind, s.Type)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Path, err)
		}
		sections = []bundle.Section{s}
	}
	if len(sections) == 0 {
		return nil, fmt.Errorf("%s: %w: it has no model", f.Path, bundle.ErrUnknownSection)
	}
	var models []File
	for _, s := range sections {
		f.Section, f.Offset, f.Size = s.Name, s.Offset, s.Size
		models = append(models, f)
	}
	return models, nil
}

// Model returns the only model of a bundle as a File; of any other file the file itself.
func (f File) Model() (File, error) {
	models, err := f.Models()
	if err != nil {
		return f, err
	}
	if len(models) > 1 {
		var names []string
		for _, m := range models {
			names = append(names, m.String())
		}
		return f, fmt.Errorf("%s has %d models; give one: %s", f.Path, len(models), strings.Join(names, ", "))
	}
	return models[0], nil
}

// TFLite returns the options that open a model of Models.
func (f File) TFLite() *tflite.Options {
	return &tflite.Options{Signature: f.Method, Shapes: f.Shapes, Offset: f.Offset, Size: f.Size}
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
// has that ExecuTorch alone runs. A bundle must have one model, or a section be given. The caller closes the model.
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
	f, err := f.Model()
	if err != nil {
		return nil, err
	}
	m, err := tflite.Open(f.Path, f.TFLite())
	if err != nil {
		return nil, f.named(err)
	}
	return m, nil
}

// named adds the section to an error that names the bundle.
func (f File) named(err error) error {
	if f.Section == "" {
		return err
	}
	return fmt.Errorf("section %s: %w", f.Section, err)
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
