package generated

import (
	"encoding/binary"

	"xpwc/internal/flatbuf"
)

type table = flatbuf.Fields

// union adds a field of two slots, whose first one is given: the kind of table, and the table.
func union(slot int, kind byte, t, others table) table {
	if others == nil {
		others = table{}
	}
	others[slot], others[slot+1] = kind, t
	return others
}

// matrixBytes is the size of each matrix of a chain in float32.
const matrixBytes = 4 * 4 * Width * Width

// program describes the chain in ExecuTorch's program.fbs, with one method that calls one XNNPACK delegate. The
// matrices are named data, which ExecuTorch's cache of packed weights needs. The numbers are the schema's slots and
// values.
func (m Model) program() []byte {
	const alignment = 128
	graph := m.delegate()
	dataOffset := m.headBytes()
	blobs := dataOffset - (len(graph)+alignment-1)/alignment*alignment
	segments := []table{{0: uint64(0), 1: uint64(len(graph))}}
	var named []table
	for i, mat := range m.matrices {
		segments = append(segments, table{0: uint64(dataOffset - blobs + i*matrixBytes), 1: uint64(matrixBytes)})
		named = append(named, table{0: mat.name, 1: uint32(i + 1)})
	}
	const float, tensorValue, delegateCall, inSegment = byte(6), byte(5), byte(2), byte(1)
	const planned = uint32(1) // the number of the memory that the runtime allocates for the method
	tensor := func(offset uint32) table {
		return union(0, tensorValue, table{0: float, 1: int32(0), 2: []int32{1, Width}, 3: []byte{0, 1}, 5: uint32(0),
			6: table{0: planned, 1: offset}}, nil)
	}
	flat := flatbuf.Build(table{
		0: uint32(0),
		1: []table{{
			0: "forward", 2: []table{tensor(0), tensor(4 * Width)}, 3: []int32{0}, 4: []int32{1},
			5: []table{{2: []table{union(0, delegateCall, table{0: int32(0), 1: []int32{0, 1}}, nil)}}},
			6: []table{},
			7: []table{{0: "XnnpackBackend", 1: table{0: inSegment, 1: uint32(0)}, 2: []table{}}},
			8: []int64{0, 8 * Width},
		}},
		2: []table{}, 3: []table{}, 4: segments, 5: table{0: uint32(0), 1: []int64{0}} /* no constants */, 7: named,
	}, "ET12")
	// Between the flatbuffer's first 8 bytes and the rest is a header.
	const header, prefix = 32, 8
	end := dataOffset + len(m.matrices)*matrixBytes
	h := append([]byte("eh00"), make([]byte, header-4)...)
	binary.LittleEndian.PutUint32(h[4:], header)
	binary.LittleEndian.PutUint64(h[8:], uint64(header+len(flat)))
	binary.LittleEndian.PutUint64(h[16:], uint64(blobs))
	binary.LittleEndian.PutUint64(h[24:], uint64(end-blobs))
	binary.LittleEndian.PutUint32(flat, binary.LittleEndian.Uint32(flat)+header)
	out := append(append(append([]byte{}, flat[:prefix]...), h...), flat[prefix:]...)
	return append(append(out, make([]byte, max(blobs-len(out), 0))...), graph...)
}

// delegate describes the chain in runtime_schema.fbs of ExecuTorch's XNNPACK backend.
func (m Model) delegate() []byte {
	const float32Type, tensorValue, fullyConnected = int16(1), byte(1), byte(2)
	const absent = uint32(1<<32 - 1)
	const input, output = uint32(1), uint32(2)
	value := func(id, constant, external, flags uint32, dims ...uint32) table {
		return union(0, tensorValue, table{0: float32Type, 1: uint32(len(dims)), 2: dims, 3: constant, 4: external,
			5: flags, 6: id}, nil)
	}
	values := []table{value(0, 0, 0, input, 1, Width)}
	constants := []table{{0: uint64(0), 1: uint64(0)}}
	var nodes []table
	x := uint32(0)
	for i, mat := range m.matrices {
		weight := uint32(len(values))
		values = append(values, value(weight, uint32(i+1), absent, 0, uint32(mat.out), uint32(mat.in)))
		if i == len(m.matrices)-1 {
			values = append(values, value(weight+1, 0, 1, output, 1, uint32(mat.out)))
		} else {
			values = append(values, value(weight+1, 0, absent, 0, 1, uint32(mat.out)))
		}
		const elsewhere = ^uint64(0) // found by its name
		constants = append(constants, table{0: elsewhere, 1: uint64(matrixBytes), 2: mat.name})
		nodes = append(nodes, union(0, fullyConnected,
			table{0: x, 1: weight, 2: absent, 3: weight + 1, 4: uint32(0)}, table{2: uint32(i)}))
		x = weight + 1
	}
	flat := flatbuf.Build(table{
		0: "1", 1: nodes, 2: values, 3: uint32(2), 4: []uint32{0}, 5: []uint32{x}, 8: constants,
	}, "XN01")
	const header, length = 32, 30
	h := make([]byte, header)
	copy(h[4:], "XH00")
	binary.LittleEndian.PutUint16(h[8:], length)
	binary.LittleEndian.PutUint32(h[10:], header)
	binary.LittleEndian.PutUint32(h[14:], uint32(len(flat)))
	binary.LittleEndian.PutUint32(h[18:], uint32(header+len(flat)+15)&^15)
	return append(append(h, flat...), make([]byte, 16)...)
}
