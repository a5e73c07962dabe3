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
	"xpwc/internal/instance"
	"xpwc/internal/modelfile"
	"xpwc/models"
	"xpwc/npy"
	"xpwc/safetensors"
	"xpwc/tflite"
)

// openFor opens a model for inputs of these files. Where a .tflite leaves shapes open, they are those of .npy files.
func openFor(file modelfile.File, paths []string) (models.Model, error) {
	shaped := file
	shaped.Shapes = make([][]int, len(paths))
	for i, path := range paths {
		if isNumPy(path) {
			a, err := readArray(path)
			if err != nil {
				return nil, err
			}
			shaped.Shapes[i] = a.Shape
		}
	}
	m, err := shaped.Open()
	if errors.Is(err, tflite.ErrShape) {
		return file.Open() // what reads the files says which does not fit
	}
	return m, err
}

func readArray(path string) (a safetensors.Tensor, err error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return a, err
	}
	if a, err = npy.Read(content); err != nil {
		return a, fmt.Errorf("%s: %w", path, err)
	}
	return a, nil
}

// readInputs fills the inputs, each from a file.
func readInputs(e *instance.Instance, paths []string) error {
	if len(paths) != len(e.Inputs) {
		var all []string
		for i := range e.Inputs {
			all = append(all, describe(e, i))
		}
		return usagef("--input is given %s for %s: %s", console.Plural(len(paths), "file"),
			console.Plural(len(all), "input"), strings.Join(all, "; "))
	}
	for i, path := range paths {
		read := readRaw
		if isNumPy(path) {
			read = readNumPy
		}
		if err := read(e, i, path); err != nil {
			return err
		}
	}
	return nil
}

func isNumPy(path string) bool { return strings.EqualFold(filepath.Ext(path), ".npy") }

// readNumPy fills input i from a .npy file of its type and shape; dimensions of 1 are ignored. A dynamic input takes
// its first dimension from the file.
func readNumPy(e *instance.Instance, i int, path string) error {
	a, err := readArray(path)
	if err != nil {
		return err
	}
	v := e.Model.Inputs()[i]
	element := execution.ElementOf(v)
	if a.Dtype != element.Dtype {
		return fmt.Errorf("%s: its elements are %s, but the model takes %s; save it as %s",
			path, a.Dtype, describe(e, i), saving(element))
	}
	switch {
	case v.Dynamic && smallerBatch(a.Shape, v.Shape):
		if err := e.ShapeInput(i, a.Shape); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	case !slices.Equal(squeezed(a.Shape), squeezed(v.Shape)):
		return fmt.Errorf("%s: its shape is %v, but the model takes %s", path, a.Shape, describe(e, i))
	}
	return e.Give(i, a.Data)
}

// saving says how an array becomes one of the elements.
func saving(e *execution.Element) string {
	if e.Element == models.BFloat16 {
		return "its bits, x.view(numpy.uint16)"
	}
	return "x.astype(numpy." + strings.Replace(e.String(), "bool", "bool_", 1) + ")"
}

// smallerBatch reports whether a shape is the largest one, but for a first dimension that is smaller.
func smallerBatch(shape, largest []int) bool {
	return len(shape) == len(largest) && len(shape) > 0 && 0 < shape[0] && shape[0] < largest[0] &&
		slices.Equal(shape[1:], largest[1:])
}

func squeezed(shape []int) []int {
	return slices.DeleteFunc(slices.Clone(shape), func(n int) bool { return n == 1 })
}

// readRaw fills input i from a file of little-endian numbers.
func readRaw(e *instance.Instance, i int, path string) error {
	size := e.InputBytes(i)
	// What has another size, which may be no file at all, is not read as a whole.
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, int64(size)+1))
	if err != nil {
		return err
	}
	if n := len(content); n < size {
		return fmt.Errorf("%s has %d bytes, but the model takes %d: %s", path, n, size, describe(e, i))
	} else if n > size {
		return fmt.Errorf("%s has more than the %d bytes that the model takes: %s", path, size, describe(e, i))
	}
	return e.Give(i, content)
}

// describe says what an input takes.
func describe(e *instance.Instance, i int) string {
	v := e.Model.Inputs()[i]
	text := fmt.Sprintf("%s %s %v", execution.ElementOf(v), v.Name, v.Shape)
	if q := v.Quantization; q.Scale != 0 {
		text += fmt.Sprintf(", scale %g, zero point %d", q.Scale, q.ZeroPoint)
	}
	if v.Dynamic {
		text += ", or in a .npy less in the first dimension"
	}
	return text
}
