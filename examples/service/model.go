package main

import (
	"errors"
	"sync"

	"xpwc"
	"xpwc/models"
	"xpwc/tflite"
	"xpwc/xnnpack"
)

// A model is a .tflite file that can be executed. Its packed weights lie in the cache.
type model struct {
	inputs, outputs []value
	inputBytes      int

	mu      sync.Mutex // a runtime executes one request after the other
	runtime *xnnpack.Runtime

	closers []func() error // in the order in which things were opened
}

// A value is an input or an output, of float32, with the memory that the runtime reads it from or writes it to.
type value struct {
	Name  string `json:"name"`
	Shape []int  `json:"shape"`

	id     xnnpack.ValueID
	buffer *xnnpack.Buffer
}

// openModel loads a model; what the cache does not have of it is packed.
func openModel(path string, cache *xpwc.Cache) (m *model, err error) {
	m = &model{}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.close())
			m = nil
		}
	}()
	file, err := tflite.Open(path, nil)
	if err != nil {
		return m, err
	}
	m.closers = append(m.closers, file.Close)
	if err := models.CheckFloat32(file); err != nil {
		return m, err
	}
	if m.inputs, err = m.allocate(file.Inputs()); err != nil {
		return m, err
	}
	if m.outputs, err = m.allocate(file.Outputs()); err != nil {
		return m, err
	}
	for _, v := range m.inputs {
		m.inputBytes += len(v.buffer.Bytes())
	}
	if err := m.create(file, cache); err != nil {
		return m, err
	}
	return m, m.setup()
}

func (m *model) allocate(described []models.Value) (values []value, err error) {
	for _, v := range described {
		size, err := v.ByteSize()
		if err != nil {
			return nil, err
		}
		buffer, err := xnnpack.NewBuffer(size)
		if err != nil {
			return nil, err
		}
		m.closers = append(m.closers, func() error { buffer.Free(); return nil })
		values = append(values, value{v.Name, v.Shape, v.ID, buffer})
	}
	return values, nil
}

// create makes the runtime. Its session stays open as long as the runtime, which uses the packed weights that the
// session keeps.
func (m *model) create(file *tflite.Model, cache *xpwc.Cache) error {
	session, err := cache.NewSession(file.DataMap())
	if err != nil {
		return err
	}
	m.closers = append(m.closers, session.Close)
	subgraph, err := file.Subgraph(session)
	if err != nil {
		return err
	}
	runtime, err := xnnpack.NewRuntime(subgraph, &xnnpack.RuntimeOptions{WeightsCache: session})
	if err == nil {
		m.runtime = runtime
		m.closers = append(m.closers, runtime.Delete)
	}
	finalizeErr := session.Finalize() // why XNNPACK failed may be what the session knows
	return errors.Join(err, finalizeErr, subgraph.Delete())
}

func (m *model) setup() error {
	if err := m.runtime.Reshape(); err != nil {
		return err
	}
	memory := map[xnnpack.ValueID][]byte{}
	for _, values := range [][]value{m.inputs, m.outputs} {
		for _, v := range values {
			memory[v.id] = v.buffer.Bytes()
		}
	}
	return m.runtime.Setup(memory)
}

// infer executes the model on its inputs, inputBytes of float32 one after the other, and returns a copy of each output.
func (m *model) infer(inputs []byte) ([][]float32, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closers == nil {
		return nil, errClosing
	}
	for _, v := range m.inputs {
		n := copy(v.buffer.Bytes(), inputs)
		inputs = inputs[n:]
	}
	if err := m.runtime.Invoke(); err != nil {
		return nil, err
	}
	outputs := make([][]float32, len(m.outputs))
	for i, v := range m.outputs {
		outputs[i] = append([]float32(nil), v.buffer.Float32s()...)
	}
	return outputs, nil
}

// close deletes the runtime, then closes its session, then frees what they used. It waits for a request under way.
func (m *model) close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var errs []error
	for i := len(m.closers) - 1; i >= 0; i-- {
		errs = append(errs, m.closers[i]())
	}
	m.closers = nil
	return errors.Join(errs...)
}
