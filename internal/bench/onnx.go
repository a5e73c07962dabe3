package bench

import (
	"encoding/binary"
	"fmt"
	"strconv"

	"xpwc/internal/generated"
)

// onnxModel describes a generated chain in float32 in the schema of onnx.proto3; the numbers are its fields and values.
// The weights stay where they are, in the chain's file of that name beside the model.
func onnxModel(chain generated.Model, file string) []byte {
	const float32Type, external, intAttribute = 1, 1, 2
	var nodes, weights message
	matrices := chain.Matrices()
	x := onnxInput
	for i, mat := range matrices {
		y := onnxOutput
		if i < len(matrices)-1 {
			y = fmt.Sprintf("layers.%d.output", i)
		}
		transposed := message{}.text(1, "transB").number(3, 1).number(20, intAttribute)
		nodes = nodes.part(1, message{}.text(1, x).text(1, mat.Name).text(2, y).text(4, "Gemm").part(5, transposed))
		weight := message{}.number(1, mat.Out).number(1, mat.In).number(2, float32Type).text(8, mat.Name)
		for _, entry := range [][2]string{
			{"location", file},
			{"offset", strconv.FormatInt(mat.Offset, 10)},
			{"length", strconv.Itoa(4 * mat.In * mat.Out)},
		} {
			weight = weight.part(13, message{}.text(1, entry[0]).text(2, entry[1]))
		}
		weights = weights.part(5, weight.number(14, external))
		x = y
	}
	row := message{}.part(1, message{}.number(1, 1)).part(1, message{}.number(1, generated.Width))
	rowType := message{}.part(1, message{}.number(1, float32Type).part(2, row))
	graph := append(nodes.text(2, Chain), weights...)
	graph = graph.part(11, message{}.text(1, onnxInput).part(2, rowType))
	graph = graph.part(12, message{}.text(1, onnxOutput).part(2, rowType))
	const irVersion, operators = 8, 13
	return message{}.number(1, irVersion).part(7, graph).part(8, message{}.text(1, "").number(2, operators))
}

// The values that an ONNX model of a chain takes and returns, float32 [1, generated.Width].
const (
	onnxInput  = "input"
	onnxOutput = "output"
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
