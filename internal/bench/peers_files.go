package bench

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"xpwc/internal/execution"
	"xpwc/internal/modelfile"
	"xpwc/npy"
	"xpwc/xnnpack"
)

// peerFiles are what hosts read and write, beside cache files.
type peerFiles struct{ base string }

func (f peerFiles) outputDir() string { return f.base + ".output" }

// answer is where a host writes its outputs one after the other, if it does not write them as .npy files.
func (f peerFiles) answer() string { return filepath.Join(f.outputDir(), "answer.f32") }

func (f peerFiles) clearOutputs() error {
	return errors.Join(os.RemoveAll(f.outputDir()), os.Mkdir(f.outputDir(), 0o777))
}

func (f peerFiles) remove() error {
	inputs, err := filepath.Glob(f.base + ".input*.npy")
	for _, path := range inputs {
		err = errors.Join(err, os.Remove(path))
	}
	return errors.Join(err, os.RemoveAll(f.outputDir()))
}

// outputs are the numbers of all outputs, in their order.
func (f peerFiles) outputs() ([]float32, error) {
	content, err := os.ReadFile(f.answer())
	if errors.Is(err, fs.ErrNotExist) {
		content, err = f.arrays()
	}
	if err != nil {
		return nil, err
	}
	values := make([]float32, len(content)/4)
	_, err = binary.Decode(content, binary.LittleEndian, values)
	return values, err
}

// arrays are the contents of the files that examples/executorch writes.
func (f peerFiles) arrays() ([]byte, error) {
	var all []byte
	for i := 0; ; i++ {
		content, err := os.ReadFile(filepath.Join(f.outputDir(), fmt.Sprintf("forward.out%d.npy", i)))
		if errors.Is(err, fs.ErrNotExist) && i > 0 {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		a, err := npy.Read(content)
		if err != nil {
			return nil, err
		}
		all = append(all, a.Data...)
	}
}

// writeInputs writes the numbers that models are measured with as .npy files, one for each of the program's inputs.
func (f peerFiles) writeInputs(program string) (paths []string, err error) {
	m, err := modelfile.File{Path: program}.Open()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	for i, v := range m.Inputs() {
		size, err := v.ByteSize()
		if err == nil && v.Type != xnnpack.Float32 {
			err = fmt.Errorf("%s: input %q is %v, not float32", program, v.Name, v.Type)
		}
		if err != nil {
			return nil, err
		}
		values := make([]float32, size/4)
		for j := range values {
			values[j] = execution.Knuth(j)
		}
		path := fmt.Sprintf("%s.input%d.npy", f.base, i)
		content, err := binary.Append(npy.Header(npy.Float32, v.Shape), binary.LittleEndian, values)
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(path, content, 0o666); err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	return paths, nil
}
