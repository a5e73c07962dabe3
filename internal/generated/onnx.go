package generated

import (
	"encoding/binary"
	"fmt"
	"strconv"
)

// ONNX describes a chain in float32 in the schema of onnx.proto3; the numbers are its fields and values. The model
// reads the matrices from the chain's .tflite file, which has this name and is in the same directory.
func (m Model) ONNX(file string) []byte {
	const float32Type, external, intAttribute = 1, 1, 2
	var nodes, weights message
	offset, x := m.headBytes(), ONNXInput
	for i, mat := range m.matrices {
		y := ONNXOutput
		if i < len(m.matrices)-1 {
			y = fmt.Sprintf("layers.%d.output", i)
		}
		transposed := message{}.text(1, "transB").number(3, 1).number(20, intAttribute)
		nodes = nodes.part(1, message{}.text(1, x).text(1, mat.name).text(2, y).text(4, "Gemm").part(5, transposed))
		weight := message{}.number(1, mat.out).number(1, mat.in).number(2, float32Type).text(8, mat.name)
		for _, entry := range [][2]string{
			{"location", file},
			{"offset", strconv.Itoa(offset)},
			{"length", strconv.Itoa(m.bytes(mat))},
		} {
			weight = weight.part(13, message{}.text(1, entry[0]).text(2, entry[1]))
		}
		weights = weights.part(5, weight.number(14, external))
		offset += m.bytes(mat)
		x = y
	}
	row := message{}.part(1, message{}.number(1, 1)).part(1, message{}.number(1, Width))
	rowType := message{}.part(1, message{}.number(1, float32Type).part(2, row))
	graph := append(nodes.text(2, "chain"), weights...)
	graph = graph.part(11, message{}.text(1, ONNXInput).part(2, rowType))
	graph = graph.part(12, message{}.text(1, ONNXOutput).part(2, rowType))
	const irVersion, operators = 8, 13
	return message{}.number(1, irVersion).part(7, graph).part(8, message{}.text(1, "").number(2, operators))
}

// The names of the input and the output of a chain in ONNX, float32 [1, Width].
const (
	ONNXInput  = "input"
	ONNXOutput = "output"
)

// A message is an encoded one of protocol buffers, to which fields are appended. The library for it is not used: each
// program with it reads itself when it starts, and the tool is one.
type message []byte

// The ways in which a field's value is encoded.
const (
	varint = 0
	sized  = 2
)

func (m message) number(field, value int) message {
	return binary.AppendUvarint(binary.AppendUvarint(m, uint64(field<<3|varint)), uint64(value))
}

func (m message) part(field int, value message) message {
	m = binary.AppendUvarint(binary.AppendUvarint(m, uint64(field<<3|sized)), uint64(len(value)))
	return append(m, value...)
}

func (m message) text(field int, value string) message { return m.part(field, message(value)) }
