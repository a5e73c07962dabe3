// Package modelfile opens the models that the tool is given.
package modelfile

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"xpwc/described"
	"xpwc/models"
	"xpwc/tflite"
)

// A File is where a model is: a .tflite file, or a safetensors file with a description.
type File struct {
	Path        string
	Description string // of a safetensors file; "" for MODEL.json, or what the file has itself
}

// Described reports whether the model is a safetensors file, or the index of one.
func (f File) Described() bool {
	ext := strings.ToLower(filepath.Ext(f.Path))
	return ext == ".safetensors" || ext == ".json"
}

// Files are all that the model is read from, as far as they were named.
func (f File) Files() []string {
	if f.Described() {
		return []string{f.Path, f.Description, f.Path + ".json"}
	}
	return []string{f.Path}
}

// Open opens the model. The caller closes it.
func (f File) Open() (models.Model, error) {
	if f.Described() {
		m, err := f.openDescribed()
		if err != nil {
			return nil, err
		}
		return m, nil
	}
	m, err := tflite.Open(f.Path)
	if err != nil {
		return nil, err
	}
	return m, nil
}

// OpenFloat32 opens the model to run it: its inputs and outputs must be float32, or the error matches
// [models.ErrNotFloat32]. The caller closes it.
func (f File) OpenFloat32() (models.Model, error) {
	m, err := f.Open()
	if err != nil {
		return nil, err
	}
	if err := models.CheckFloat32(m); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", f.Path, err), m.Close())
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
