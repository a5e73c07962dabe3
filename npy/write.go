package npy

import (
	"encoding/binary"
	"fmt"
)

// Header returns what a file of version 1.0 has before the bytes of an array: elements of a type, row by row, in a
// shape.
func Header(d Dtype, shape []int) []byte {
	var dimensions string
	for _, n := range shape {
		dimensions += fmt.Sprintf("%d, ", n)
	}
	const alignment, fixed = 64, len(magic) + 2 + 2
	text := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", string(d), dimensions)
	padding := (alignment - (fixed+len(text)+1)%alignment) % alignment
	text += fmt.Sprintf("%*s\n", padding, "")
	b := append([]byte(magic), 1, 0)
	return append(binary.LittleEndian.AppendUint16(b, uint16(len(text))), text...)
}
