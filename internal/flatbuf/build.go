package flatbuf

import (
	"fmt"
	"maps"
	"slices"

	flatbuffers "github.com/google/flatbuffers/go"
)

// Fields is a table to be written: its fields by their slots. A field is a byte, int16, int32, uint32, uint64, float32,
// a string, a vector of such numbers, Fields, a vector of Fields, or, for BuildBefore, There or an []any of
// Fields and There. Numbers are written also where they are the default.
type Fields map[int]any

// Ref is where a table, vector or string begins in the flatbuffer that another is built before.
type Ref int64

// Build returns the flatbuffer of a root table. The same fields give the same bytes. It panics if a field is of another
// type than Fields lists.
func Build(root Fields, identifier string) []byte {
	b := flatbuffers.NewBuilder(1024)
	b.FinishWithFileIdentifier(write(b, root), []byte(identifier))
	return b.FinishedBytes()
}

// BuildBefore returns the bytes that give a flatbuffer another root if they are put before it: as Build, but parts of
// the root may be There. They are a multiple of align, itself a power of two, so that what follows stays aligned.
func BuildBefore(root Fields, identifier string, align int) []byte {
	build := func(gap int) []byte {
		b := flatbuffers.NewBuilder(1024 + gap)
		b.Pad(gap)
		b.FinishWithFileIdentifier(write(b, root), []byte(identifier))
		return b.FinishedBytes()
	}
	return build(-len(build(0)) & (align - 1))
}

// refer writes the distance to an existing object.
func refer(b *flatbuffers.Builder, target Ref) {
	b.Prep(flatbuffers.SizeUOffsetT, 0)
	b.PlaceUint32(uint32(b.Offset()) + flatbuffers.SizeUOffsetT + uint32(target))
}

// write writes what a field refers to, and returns its offset.
func write(b *flatbuffers.Builder, v any) flatbuffers.UOffsetT {
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
	case []float32:
		return vector(4, len(v), func(i int) { b.PrependFloat32(v[i]) })
	case []int64:
		return vector(8, len(v), func(i int) { b.PrependInt64(v[i]) })
	case []uint64:
		return vector(8, len(v), func(i int) { b.PrependUint64(v[i]) })
	case []Fields:
		offsets := make([]flatbuffers.UOffsetT, len(v))
		for i, t := range v {
			offsets[i] = write(b, t)
		}
		return b.CreateVectorOfTables(offsets)
	case []any:
		offsets := make([]flatbuffers.UOffsetT, len(v))
		for i, t := range v {
			if _, ok := t.(Ref); !ok {
				offsets[i] = write(b, t)
			}
		}
		return vector(flatbuffers.SizeUOffsetT, len(v), func(i int) {
			if ref, ok := v[i].(Ref); ok {
				refer(b, ref)
			} else {
				b.PrependUOffsetT(offsets[i])
			}
		})
	case Fields:
		return writeTable(b, v)
	}
	panic(fmt.Sprintf("no flatbuffer has a %T", v))
}

func writeTable(b *flatbuffers.Builder, t Fields) flatbuffers.UOffsetT {
	slots := slices.Sorted(maps.Keys(t))
	offsets := map[int]flatbuffers.UOffsetT{}
	for _, slot := range slots {
		switch t[slot].(type) {
		case byte, int16, int32, uint32, uint64, float32, Ref:
		default:
			offsets[slot] = write(b, t[slot])
		}
	}
	fields := 0
	if len(slots) > 0 {
		fields = slots[len(slots)-1] + 1
	}
	b.StartObject(fields)
	for _, slot := range slots {
		switch v := t[slot].(type) { // none of them is equal to the default that is given
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
		case float32:
			b.PrependFloat32Slot(slot, v, v+1)
		case Ref:
			refer(b, v)
			b.Slot(slot)
		default:
			b.PrependUOffsetTSlot(slot, offsets[slot], 0)
		}
	}
	return b.EndObject()
}
