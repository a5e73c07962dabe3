package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"xpwc/internal/console"
	"xpwc/internal/execution"
	"xpwc/models"
	"xpwc/npy"
	"xpwc/xnnpack"
)

// readInputs fills the inputs from files: from one of raw numbers for all of them, or from one for each.
func readInputs(e *execution.Execution, paths []string) error {
	if len(paths) == 1 && !isNumPy(paths[0]) {
		return readRaw(paths[0], e.Inputs, e.Model.Inputs())
	}
	if len(paths) != len(e.Inputs) {
		return usagef("--input is given %s for %s: %s", console.Plural(len(paths), "file"),
			console.Plural(len(e.Inputs), "input"), describe(e.Model.Inputs()))
	}
	for i, path := range paths {
		var err error
		if isNumPy(path) {
			err = readNumPy(e, i, path)
		} else {
			err = readRaw(path, e.Inputs[i:i+1], e.Model.Inputs()[i:i+1])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func isNumPy(path string) bool { return strings.EqualFold(filepath.Ext(path), ".npy") }

// readNumPy fills input i from a .npy file of its shape; dimensions of 1 are ignored. A dynamic input takes its first
// dimension from the file.
func readNumPy(e *execution.Execution, i int, path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	a, err := npy.Read(content)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if a.Dtype != npy.Float32 {
		return fmt.Errorf("%s: its elements are %s, not float32 (%s); save it as x.astype(numpy.float32)",
			path, a.Dtype, npy.Float32)
	}
	v := e.Model.Inputs()[i]
	switch {
	case v.Dynamic && smallerBatch(a.Shape, v.Shape):
		if err := e.ShapeInput(i, a.Shape); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	case !slices.Equal(squeezed(a.Shape), squeezed(v.Shape)):
		return fmt.Errorf("%s: its shape is %v, but the model takes %s", path, a.Shape, describe([]models.Value{v}))
	}
	copy(e.Inputs[i].Bytes(), a.Data)
	return nil
}

// smallerBatch reports whether a shape is the largest one, but for a first dimension that is smaller.
func smallerBatch(shape, largest []int) bool {
	return len(shape) == len(largest) && len(shape) > 0 && 0 < shape[0] && shape[0] < largest[0] &&
		slices.Equal(shape[1:], largest[1:])
}

func squeezed(shape []int) []int {
	return slices.DeleteFunc(slices.Clone(shape), func(n int) bool { return n == 1 })
}

// readRaw fills inputs, one after the other, from a file of little-endian floats that holds just them.
func readRaw(path string, inputs []*xnnpack.Buffer, values []models.Value) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	var total, done int
	for _, b := range inputs {
		total += len(b.Bytes())
	}
	for _, b := range inputs {
		n, err := io.ReadFull(f, b.Bytes())
		done += n
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Errorf("%s has %d bytes, but the inputs of the model are %d: %s",
				path, done, total, describe(values))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	if n, _ := f.Read(make([]byte, 1)); n > 0 {
		return fmt.Errorf("%s has more than the %d bytes of the model's inputs: %s", path, total, describe(values))
	}
	return nil
}

func describe(vs []models.Value) string {
	text := "float32"
	for i, v := range vs {
		if i > 0 {
			text += ","
		}
		text += fmt.Sprintf(" %s %v", v.Name, v.Shape)
		if v.Dynamic {
			text += ", or in a .npy less in the first dimension"
		}
	}
	return text
}
