package executorch

import (
	"encoding/binary"

	flatbuffers "github.com/google/flatbuffers/go"
)

// blueprint is a file to be written as the schemas have it, right or wrong.
type blueprint struct {
	program  bool // a .pte
	version  uint32
	segments []segment
	named    []named
	data     []byte // of all segments

	headerless bool
	change     func(header []byte) // of the header when it is written
}

type segment struct{ offset, size uint64 }

type named struct {
	keyless bool
	key     string
	segment uint32
	meta    *TensorMeta
}

// sound is a file without fault, of three segments, two of which have names.
func sound(program bool) blueprint {
	data := make([]byte, 300)
	for i := range data {
		data[i] = byte(i)
	}
	b := blueprint{
		program: program, data: data, segments: []segment{{0, 24}, {128, 0}, {128, 172}},
		named: []named{{key: "a", segment: 0}, {key: "b", segment: 2}, {key: "again", segment: 0}},
	}
	if !program {
		b.named[0].meta = &TensorMeta{Type: Float, Sizes: []int{3, 2}, DimOrder: []int{1, 0}}
	}
	return b
}

func (p blueprint) bytes() []byte {
	kind, length := flatTensor, 48 // ExecuTorch's header length in whole 16 bytes
	if p.program {
		kind, length = program, 32
	}
	flat := p.flatbuffer(kind)
	if p.headerless {
		return append(flat, p.data...)
	}
	base := (len(flat) + length + 127) &^ 127
	header := make([]byte, length)
	fields := []uint64{uint64(length), uint64(len(flat)), uint64(base), uint64(len(p.data))}
	copy(header, flatTensor.magic)
	binary.LittleEndian.PutUint32(header[4:], flatTensor.header)
	if p.program {
		fields = []uint64{uint64(length + len(flat)), uint64(base), uint64(len(p.data))}
		copy(header, program.magic)
		binary.LittleEndian.PutUint32(header[4:], programHeaderWithSize)
	}
	for i, f := range fields {
		binary.LittleEndian.PutUint64(header[8+8*i:], f)
	}
	if p.change != nil {
		p.change(header)
	}
	binary.LittleEndian.PutUint32(flat, binary.LittleEndian.Uint32(flat)+uint32(length))
	out := append(append(append([]byte{}, flat[:headerOffset]...), header...), flat[headerOffset:]...)
	return append(append(out, make([]byte, base-len(out))...), p.data...)
}

// flatbuffer writes every number, also where it is the default: for tables that differ only in the size of one field,
// which lies at the same place, the builder uses one virtual table, with the size of the first.
func (p blueprint) flatbuffer(kind root) []byte {
	b := flatbuffers.NewBuilder(1024)
	var names, segments []flatbuffers.UOffsetT
	for _, n := range p.named {
		key, meta := b.CreateString(n.key), flatbuffers.UOffsetT(0)
		if n.meta != nil {
			meta = writeMeta(b, n.meta)
		}
		b.StartObject(3)
		if !n.keyless {
			b.PrependUOffsetTSlot(namedKey, key, 0)
		}
		b.PrependUint32Slot(namedSegment, n.segment, ^n.segment)
		if n.meta != nil {
			b.PrependUOffsetTSlot(namedTensor, meta, 0)
		}
		names = append(names, b.EndObject())
	}
	for _, s := range p.segments {
		b.StartObject(2)
		b.PrependUint64Slot(segmentOffset, s.offset, ^s.offset)
		b.PrependUint64Slot(segmentSize, s.size, ^s.size)
		segments = append(segments, b.EndObject())
	}
	n, s := b.CreateVectorOfTables(names), b.CreateVectorOfTables(segments)
	b.StartObject(kind.namedData + 1)
	b.PrependUint32Slot(kind.version, p.version, 0)
	b.PrependUOffsetTSlot(kind.segments, s, 0)
	b.PrependUOffsetTSlot(kind.namedData, n, 0)
	b.FinishWithFileIdentifier(b.EndObject(), []byte(kind.identifier))
	return b.FinishedBytes()
}

func writeMeta(b *flatbuffers.Builder, m *TensorMeta) flatbuffers.UOffsetT {
	order := make([]byte, len(m.DimOrder))
	for i, d := range m.DimOrder {
		order[i] = byte(d)
	}
	o := b.CreateByteVector(order)
	b.StartVector(4, len(m.Sizes), 4)
	for i := len(m.Sizes) - 1; i >= 0; i-- {
		b.PrependInt32(int32(m.Sizes[i]))
	}
	sizes := b.EndVector(len(m.Sizes))
	b.StartObject(3)
	b.PrependInt8Slot(tensorType, int8(m.Type), 0)
	b.PrependUOffsetTSlot(tensorSizes, sizes, 0)
	b.PrependUOffsetTSlot(tensorDimOrder, o, 0)
	return b.EndObject()
}
