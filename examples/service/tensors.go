package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
)

// A request in JSON: {"inputs": [[0.5, …], …]}, the elements of each input row by row.
type request struct {
	Inputs [][]float32 `json:"inputs"`
}

// A response in JSON.
type response struct {
	Outputs []output `json:"outputs"`
}

type output struct {
	value
	Data []float32 `json:"data"`
}

// decode turns a request in JSON into raw inputs.
func (m *model) decode(body []byte) ([]byte, error) {
	var r request
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, err
	}
	if len(r.Inputs) != len(m.inputs) {
		return nil, fmt.Errorf("%d inputs; the model has %d", len(r.Inputs), len(m.inputs))
	}
	var inputs []byte
	for i, v := range m.inputs {
		if want := len(v.buffer.Float32s()); len(r.Inputs[i]) != want {
			return nil, fmt.Errorf("input %d has %d elements; %s %v has %d", i, len(r.Inputs[i]), v.Name, v.Shape, want)
		}
		inputs = append(inputs, raw(r.Inputs[i])...)
	}
	return inputs, nil
}

func (m *model) named(outputs [][]float32) (r response) {
	for i, v := range m.outputs {
		r.Outputs = append(r.Outputs, output{v, outputs[i]})
	}
	return r
}

// raw writes floats as little-endian float32, which is how XNNPACK's machines have them in memory.
func raw(floats []float32) []byte {
	b := make([]byte, 0, 4*len(floats))
	for _, f := range floats {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
	}
	return b
}
