package chain

import (
	"fmt"
	"maps"
	"slices"

	flatbuffers "github.com/google/flatbuffers/go"
)

// table is a flatbuffers table to be written: its fields by their slots. Scalars are written also where they are the
// default.
type table map[int]any

// union is a field of two slots, whose first one is given: the kind of table, and the table.
func union(slot int, kind byte, t table, others table) table {
	out := maps.Clone(others)
	if out == nil {
		out = table{}
	}
	out[slot], out[slot+1] = kind, t
	return out
}

// finish returns a whole flatbuffer.
func finish(root table, identifier string) []byte {
	b := flatbuffers.NewBuilder(dataOffset)
	b.FinishWithFileIdentifier(writeValue(b, root), []byte(identifier))
	return b.FinishedBytes()
}

// writeValue writes what a field refers to, and returns its offset.
func writeValue(b *flatbuffers.Builder, v any) flatbuffers.UOffsetT {
	vector := func(size, n int, put func(i int)) flatbuffers.UOffsetT {
		b.StartVector(size, n, size)
		for i := n - 1; i >= 0; i-- {
			put(i)
		}
		return b.EndVector(n)
	}
	switch v := v.(type) {
	case string:
		return b.CreateString(v)
	case []byte:
		return b.CreateByteVector(v)
	case []int32:
		return vector(4, len(v), func(i int) { b.PrependInt32(v[i]) })
	case []uint32:
		return vector(4, len(v), func(i int) { b.PrependUint32(v[i]) })
	case []int64:
		return vector(8, len(v), func(i int) { b.PrependInt64(v[i]) })
	case []table:
		offsets := make([]flatbuffers.UOffsetT, len(v))
		for i, t := range v {
			offsets[i] = writeValue(b, t)
		}
		return b.CreateVectorOfTables(offsets)
	case table:
		return writeTable(b, v)
	}
	panic(fmt.Sprintf("no flatbuffer has a %T", v))
}

func writeTable(b *flatbuffers.Builder, t table) flatbuffers.UOffsetT {
	slots := slices.Sorted(maps.Keys(t)) // the same table gives the same bytes
	offsets := map[int]flatbuffers.UOffsetT{}
	for _, slot := range slots {
		switch t[slot].(type) {
		case byte, int16, int32, uint32, uint64:
		default:
			offsets[slot] = writeValue(b, t[slot])
		}
	}
	fields := 0
	if len(slots) > 0 {
		fields = slots[len(slots)-1] + 1
	}
	b.StartObject(fields)
	for _, slot := range slots {
		switch v := t[slot].(type) {
		case byte:
			b.PrependByteSlot(slot, v, ^v)
		case int16:
			b.PrependInt16Slot(slot, v, ^v)
		case int32:
			b.PrependInt32Slot(slot, v, ^v)
		case uint32:
			b.PrependUint32Slot(slot, v, ^v)
		case uint64:
			b.PrependUint64Slot(slot, v, ^v)
		default:
			b.PrependUOffsetTSlot(slot, offsets[slot], 0)
		}
	}
	return b.EndObject()
}
