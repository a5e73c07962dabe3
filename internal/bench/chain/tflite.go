package chain

import (
	"fmt"

	"xpwc/internal/flatbuf"
	"xpwc/internal/generated"
)

// tfliteModel describes the chain as TensorFlow Lite's schema.fbs says; the numbers are its slots and values.
func tfliteModel(all []matrix, matrixBytes int) []byte {
	const version, fullyConnected, fullyConnectedOptions = uint32(3), byte(9), byte(8)
	buffers := []table{{}} // the one of tensors that are computed
	tensors := []table{{0: []int32{1, Width}, 1: byte(0), 2: uint32(0), 3: "input"}}
	var operators []table
	x := int32(0)
	for i, m := range all {
		at := uint64(dataOffset + i*matrixBytes)
		buffers = append(buffers, table{1: at, 2: uint64(matrixBytes)})
		weight := int32(len(tensors))
		matrix := table{0: []int32{int32(m.out), int32(m.in)}, 1: byte(0), 2: uint32(i + 1), 3: m.name}
		if matrixBytes < MatrixBytes {
			const int8 = byte(9)
			matrix[1], matrix[4] = int8, table{2: []float32{scale(m)}, 3: []int64{0}}
		}
		tensors = append(tensors, matrix,
			table{0: []int32{1, int32(m.out)}, 1: byte(0), 2: uint32(0), 3: fmt.Sprintf("layers.%d.output", i)})
		const noBias = -1
		operators = append(operators, union(3, fullyConnectedOptions, table{},
			table{0: uint32(0), 1: []int32{x, weight, noBias}, 2: []int32{weight + 1}}))
		x = weight + 1
	}
	return flatbuf.Build(table{
		0: version,
		1: []table{{0: fullyConnected, 2: int32(1), 3: int32(fullyConnected)}},
		2: []table{{0: tensors, 1: []int32{0}, 2: []int32{x}, 3: operators}},
		4: buffers,
	}, "TFL3")
}

// scale is that of the integers of a matrix, whose variance is 1/in then.
func scale(m matrix) float32 { return float32(generated.Bound(m.in) / 128) }
