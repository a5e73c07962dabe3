package generated

import (
	"strings"

	"xpwc/internal/flatbuf"
)

// tflite describes the model in TensorFlow Lite's schema.fbs; the numbers are its slots and values.
func (m Model) tflite() []byte {
	const version, fullyConnected, fullyConnectedOptions = uint32(3), byte(9), byte(8)
	buffers := []table{{}} // the one of tensors that are computed
	var tensors, operators []table
	add := func(t table) int32 {
		tensors = append(tensors, t)
		return int32(len(tensors) - 1)
	}
	computed := func(length int, name string) int32 {
		return add(table{0: []int32{1, int32(length)}, 1: byte(0), 2: uint32(0), 3: name})
	}
	var inputs, outputs []int32
	offset := uint64(m.headBytes())
	for i, mat := range m.matrices {
		layer := strings.TrimSuffix(mat.name, "weight")
		x := int32(len(tensors) - 1) // what the matrix before this one computes
		if i == 0 || !m.chain {
			x = computed(mat.in, layer+"input")
			inputs = append(inputs, x)
		}
		buffers = append(buffers, table{1: offset, 2: uint64(m.bytes(mat))})
		offset += uint64(m.bytes(mat))
		matrix := table{0: []int32{int32(mat.out), int32(mat.in)}, 1: byte(0), 2: uint32(i + 1), 3: mat.name}
		if m.Int8 {
			const int8 = byte(9)
			matrix[1], matrix[4] = int8, table{2: []float32{float32(bound(mat.in) / 127)}, 3: []int64{0}}
		}
		weight := add(matrix)
		y := computed(mat.out, layer+"output")
		if i == len(m.matrices)-1 || !m.chain {
			outputs = append(outputs, y)
		}
		const noBias = -1
		operators = append(operators, union(3, fullyConnectedOptions, table{},
			table{0: uint32(0), 1: []int32{x, weight, noBias}, 2: []int32{y}}))
	}
	return flatbuf.Build(table{
		0: version,
		1: []table{{0: fullyConnected, 2: int32(1), 3: int32(fullyConnected)}},
		2: []table{{0: tensors, 1: inputs, 2: outputs, 3: operators}},
		4: buffers,
	}, "TFL3")
}
