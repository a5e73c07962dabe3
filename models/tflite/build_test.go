package tflite

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	flatbuffers "github.com/google/flatbuffers/go"
	"github.com/stretchr/testify/require"

	"xpwc/internal/half"
)

// blueprint is a model that a test writes.
type blueprint struct {
	tensors         []blueTensor
	ops             []blueOp
	inputs, outputs []int
	bodies          []blueprint // the subgraphs that operators call: number 1 and those after it
}

type blueTensor struct {
	name       string
	shape      []int
	dtype      elementType
	data       []byte
	scales     []float32
	zeroPoints []int64
	channel    int
	block      int // of weights with a scale for each of their blocks, which tensor blockScale has
	blockScale int
	sparsity   *sparsity
	outside    bool // the data lies after the flatbuffer
	hole       int  // bytes of data outside that the test itself writes
	sharing    int  // the tensor whose bytes it has, if not 0
}

type blueOp struct {
	code          opcode
	custom        string
	inputs        []int
	outputs       []int
	options       fields
	customOptions []byte
}

// fields are a table's, by slot: byte, int32, int64, float32, bool, string, []int32 or []int64.
type fields map[int]any

// floats is a constant, or with no values a tensor that is computed.
func floats(name string, shape []int, values ...float32) blueTensor {
	t := blueTensor{name: name, shape: shape, dtype: typeFloat32}
	if len(values) > 0 {
		t.data = littleEndian(values)
	}
	return t
}

func int32Tensor(name string, shape []int, values ...int32) blueTensor {
	t := blueTensor{name: name, shape: shape, dtype: typeInt32}
	for _, v := range values {
		t.data = binary.LittleEndian.AppendUint32(t.data, uint32(v))
	}
	return t
}

// halves is a constant in half precision, of numbers that half precision has exactly: 0 and ±2^e·(1+m/1024).
func halves(name string, shape []int, values ...float32) blueTensor {
	t := blueTensor{name: name, shape: shape, dtype: typeFloat16}
	for _, v := range values {
		t.data = binary.LittleEndian.AppendUint16(t.data, half.Bits(float64(v)))
	}
	return t
}

func writeTable(b *flatbuffers.Builder, f fields) flatbuffers.UOffsetT {
	vectors := map[int]flatbuffers.UOffsetT{}
	slots := slices.Sorted(maps.Keys(f)) // a file's bytes must not depend on a map's order
	for _, slot := range slots {
		switch v := f[slot].(type) {
		case []int32:
			vectors[slot] = int32Vector(b, v)
		case []int64:
			b.StartVector(8, len(v), 8)
			for _, n := range slices.Backward(v) {
				b.PrependInt64(n)
			}
			vectors[slot] = b.EndVector(len(v))
		case string:
			vectors[slot] = b.CreateString(v)
		}
	}
	b.StartObject(16)
	for _, slot := range slots {
		switch v := f[slot].(type) {
		case byte:
			b.PrependByteSlot(slot, v, 0xff)
		case bool:
			b.PrependBoolSlot(slot, v, !v)
		case int32:
			b.PrependInt32Slot(slot, v, ^v)
		case int64:
			b.PrependInt64Slot(slot, v, ^v)
		case float32:
			b.PrependFloat32Slot(slot, v, v+1)
		case []int32, []int64, string:
			b.PrependUOffsetTSlot(slot, vectors[slot], 0)
		}
	}
	return b.EndObject()
}

func int32Vector(b *flatbuffers.Builder, values []int32) flatbuffers.UOffsetT {
	b.StartVector(4, len(values), 4)
	for i := len(values) - 1; i >= 0; i-- {
		b.PrependInt32(values[i])
	}
	return b.EndVector(len(values))
}

func tableVector(b *flatbuffers.Builder, tables []flatbuffers.UOffsetT) flatbuffers.UOffsetT {
	b.StartVector(4, len(tables), 4)
	for i := len(tables) - 1; i >= 0; i-- {
		b.PrependUOffsetT(tables[i])
	}
	return b.EndVector(len(tables))
}

func int32sOf(values []int) []int32 {
	out := make([]int32, len(values))
	for i, v := range values {
		out[i] = int32(v)
	}
	return out
}

// bytes writes the model as a .tflite file.
func (m *blueprint) bytes() []byte {
	out := m.write(nil)
	offsets := map[int]uint64{}
	end := uint64(len(out))
	for i, t := range m.tensors {
		if t.outside {
			end = (end + 15) &^ 15
			offsets[i] = end
			end += uint64(len(t.data))
		}
	}
	if len(offsets) == 0 {
		return out
	}
	out = append(m.write(offsets), make([]byte, end)...)[:end]
	for i, o := range offsets {
		copy(out[o:], m.tensors[i].data)
	}
	return out
}

func (m *blueprint) write(outside map[int]uint64) []byte {
	b := flatbuffers.NewBuilder(1024)
	b.StartObject(3)
	buffers := []flatbuffers.UOffsetT{b.EndObject()}
	var codes, subgraphs []flatbuffers.UOffsetT
	for _, m := range append([]blueprint{*m}, m.bodies...) {
		var tensors, ops []flatbuffers.UOffsetT
		first := len(buffers)
		for i, t := range m.tensors {
			var data flatbuffers.UOffsetT
			if len(t.data) > 0 && !t.outside {
				b.StartVector(1, len(t.data), 16)
				for i := len(t.data) - 1; i >= 0; i-- {
					b.PrependByte(t.data[i])
				}
				data = b.EndVector(len(t.data))
			}
			b.StartObject(3)
			b.PrependUOffsetTSlot(bufferData, data, 0)
			if t.outside {
				// A first pass without offsets finds the flatbuffer's length, which these must not change.
				b.PrependUint64Slot(bufferOffset, max(outside[i], 2), 0)
				b.PrependUint64Slot(bufferSize, uint64(max(len(t.data), t.hole)), 0)
			}
			buffers = append(buffers, b.EndObject())

			name, shape := b.CreateString(t.name), int32Vector(b, int32sOf(t.shape))
			var quant, sparse flatbuffers.UOffsetT
			if len(t.scales) > 0 || t.block > 0 {
				quant = writeQuantization(b, t)
			}
			if t.sparsity != nil {
				sparse = writeSparsity(b, t.sparsity)
			}
			b.StartObject(10)
			b.PrependUOffsetTSlot(tensorName, name, 0)
			b.PrependUOffsetTSlot(tensorShape, shape, 0)
			b.PrependByteSlot(tensorType, byte(t.dtype), 0)
			b.PrependUint32Slot(tensorBuffer, uint32(first+cmp.Or(t.sharing, i)), 0)
			b.PrependUOffsetTSlot(tensorQuantization, quant, 0)
			b.PrependUOffsetTSlot(tensorSparsity, sparse, 0)
			tensors = append(tensors, b.EndObject())
		}
		for _, op := range m.ops {
			var custom, options, bytes flatbuffers.UOffsetT
			if op.custom != "" {
				custom = b.CreateString(op.custom)
			}
			number := op.code.number()
			if number < 0 {
				_, _ = fmt.Sscanf(string(op.code), "BUILTIN_%d", &number)
			}
			b.StartObject(4)
			b.PrependByteSlot(codeDeprecatedBuiltin, byte(min(number, placeholderOpcode)), 0)
			b.PrependUOffsetTSlot(codeCustom, custom, 0)
			b.PrependInt32Slot(codeBuiltin, int32(number), 0)
			codes = append(codes, b.EndObject())

			if op.options != nil {
				options = writeTable(b, op.options)
			}
			if op.customOptions != nil {
				bytes = b.CreateByteVector(op.customOptions)
			}
			in, out := int32Vector(b, int32sOf(op.inputs)), int32Vector(b, int32sOf(op.outputs))
			b.StartObject(11)
			b.PrependUint32Slot(operatorCodeIndex, uint32(len(codes)-1), math.MaxUint32)
			b.PrependUOffsetTSlot(operatorInputs, in, 0)
			b.PrependUOffsetTSlot(operatorOutputs, out, 0)
			b.PrependUOffsetTSlot(operatorOptions, options, 0)
			b.PrependUOffsetTSlot(operatorCustomOptions, bytes, 0)
			ops = append(ops, b.EndObject())
		}
		tensorVec, opVec := tableVector(b, tensors), tableVector(b, ops)
		in, out := int32Vector(b, int32sOf(m.inputs)), int32Vector(b, int32sOf(m.outputs))
		b.StartObject(5)
		b.PrependUOffsetTSlot(subgraphTensors, tensorVec, 0)
		b.PrependUOffsetTSlot(subgraphInputs, in, 0)
		b.PrependUOffsetTSlot(subgraphOutputs, out, 0)
		b.PrependUOffsetTSlot(subgraphOperators, opVec, 0)
		subgraphs = append(subgraphs, b.EndObject())
	}
	subgraphVec, codeVec, bufferVec := tableVector(b, subgraphs), tableVector(b, codes), tableVector(b, buffers)
	b.StartObject(8)
	b.PrependUint32Slot(modelVersion, schemaVersion, 0)
	b.PrependUOffsetTSlot(modelOperatorCodes, codeVec, 0)
	b.PrependUOffsetTSlot(modelSubgraphs, subgraphVec, 0)
	b.PrependUOffsetTSlot(modelBuffers, bufferVec, 0)
	b.FinishWithFileIdentifier(b.EndObject(), []byte(fileIdentifier))
	return b.FinishedBytes()
}

func writeQuantization(b *flatbuffers.Builder, t blueTensor) flatbuffers.UOffsetT {
	b.StartVector(4, len(t.scales), 4)
	for i := len(t.scales) - 1; i >= 0; i-- {
		b.PrependFloat32(t.scales[i])
	}
	scales := b.EndVector(len(t.scales))
	b.StartVector(8, len(t.zeroPoints), 8)
	for i := len(t.zeroPoints) - 1; i >= 0; i-- {
		b.PrependInt64(t.zeroPoints[i])
	}
	zeroPoints := b.EndVector(len(t.zeroPoints))
	var blocks flatbuffers.UOffsetT
	if t.block > 0 {
		blocks = writeTable(b, fields{blocksScales: int32(t.blockScale), blocksZeroPoints: int32(absent),
			blocksSize: int32(t.block)})
	}
	b.StartObject(7)
	if t.block > 0 {
		b.PrependByteSlot(quantizationDetailsType, detailsBlocks, 0)
		b.PrependUOffsetTSlot(quantizationDetails, blocks, 0)
	}
	b.PrependUOffsetTSlot(quantizationScale, scales, 0)
	b.PrependUOffsetTSlot(quantizationZeroPoint, zeroPoints, 0)
	b.PrependInt32Slot(quantizationDimension, int32(t.channel), 0)
	return b.EndObject()
}

func writeSparsity(b *flatbuffers.Builder, s *sparsity) flatbuffers.UOffsetT {
	var dims []flatbuffers.UOffsetT
	for _, d := range s.dims {
		segments := writeTable(b, fields{indexVectorValues: d.segments})
		indices := writeTable(b, fields{indexVectorValues: d.indices})
		b.StartObject(6)
		b.PrependByteSlot(dimensionFormat, d.format, 0)
		b.PrependInt32Slot(dimensionDenseSize, d.size, 0)
		if d.format == dimensionSparseCSR {
			b.PrependByteSlot(dimensionSegmentsType, indexVectorInt32, 0)
			b.PrependUOffsetTSlot(dimensionSegments, segments, 0)
			b.PrependByteSlot(dimensionIndicesType, indexVectorInt32, 0)
			b.PrependUOffsetTSlot(dimensionIndices, indices, 0)
		}
		dims = append(dims, b.EndObject())
	}
	order, blocks, dimVec := int32Vector(b, s.traversalOrder), int32Vector(b, s.blockMap), tableVector(b, dims)
	b.StartObject(3)
	b.PrependUOffsetTSlot(sparsityTraversalOrder, order, 0)
	b.PrependUOffsetTSlot(sparsityBlockMap, blocks, 0)
	b.PrependUOffsetTSlot(sparsityDimMetadata, dimVec, 0)
	return b.EndObject()
}

// save writes a file and returns its path.
func save(t testing.TB, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.tflite")
	require.NoError(t, os.WriteFile(path, b, 0o644))
	return path
}
