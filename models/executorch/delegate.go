package executorch

import (
	"encoding/binary"
	"math"
	"slices"

	"xpwc/internal/flatbuf"
	"xpwc/xnnpack"
)

// graph is the flatbuffer of an XNNPACK delegate, and where its constants lie.
type graph struct {
	table     flatbuf.Table
	flat      int64        // where the flatbuffer begins in the file
	constants flatbuf.Span // of the delegate's own, in the file
	buffers   []flatbuf.Span
	data      flatbuf.Vector
}

// readGraph reads the blob of a delegate, which lies in the file.
func readGraph(file []byte, blob flatbuf.Span) *graph {
	b := blob.In(file)
	g := &graph{flat: blob.Offset}
	flat := b
	if len(b) >= graphMagicOffset+len(graphMagic) && string(b[graphMagicOffset:][:len(graphMagic)]) == graphMagic {
		if len(b) < graphHeaderSize {
			malformed("%d bytes are no header of a graph", len(b))
		}
		u32 := func(offset int) uint64 { return uint64(binary.LittleEndian.Uint32(b[offset:])) }
		length, offset, size := binary.LittleEndian.Uint16(b[8:]), u32(10), u32(14)
		segment, constants := u32(18), binary.LittleEndian.Uint64(b[22:])
		whole := uint64(len(b))
		switch {
		case length < graphHeaderSize:
			malformed("a graph's header of %d bytes, not %d", length, graphHeaderSize)
		case offset > whole || size > whole-offset:
			malformed("a graph of %d bytes at byte %d of %d", size, offset, whole)
		case constants > 0 && (segment > whole || constants > whole-segment):
			malformed("%d bytes of constants at byte %d of %d", constants, segment, whole)
		}
		flat, g.flat = b[offset:][:size], blob.Offset+int64(offset)
		if constants > 0 {
			g.constants = flatbuf.Span{Offset: blob.Offset + int64(segment), Size: int64(constants)}
		}
	}
	const identifierOffset = 4 // of the identifier in a flatbuffer
	identifier := graphIdentifiers[0]
	if len(flat) >= identifierOffset+len(identifier) {
		identifier = string(flat[identifierOffset:][:len(identifier)])
	}
	if !slices.Contains(graphIdentifiers, identifier) {
		unsupported("a graph of the format %q, not %q", identifier, graphIdentifiers)
	}
	g.table = flatbuf.Root(flat, identifier, ErrMalformed)
	for _, x := range g.table.Tables(graphConstantBuffer).All() {
		span := x.Span(inlineData)
		g.buffers = append(g.buffers, flatbuf.Span{Offset: g.flat + span.Offset, Size: span.Size})
	}
	g.data = g.table.Tables(graphConstantData)
	return g
}

// content returns where the constant of that number is.
func (g *graph) content(index uint32) *content {
	if g.data.Len() == 0 {
		if int64(index) >= int64(len(g.buffers)) {
			malformed("constant %d of %d", index, len(g.buffers))
		}
		return &content{span: g.buffers[index]}
	}
	if int64(index) >= int64(g.data.Len()) {
		malformed("constant %d of %d", index, g.data.Len())
	}
	t := g.data.Table(int(index))
	offset, size, name := t.Uint64(constantOffset), t.Uint64(constantSize), t.String(constantKey)
	if name != "" {
		return &content{name: name}
	}
	whole := uint64(g.constants.Size)
	if offset > whole || size > whole-offset {
		malformed("constant %d, %d bytes at byte %d of %d", index, size, offset, whole)
	}
	return &content{span: flatbuf.Span{Offset: g.constants.Offset + int64(offset), Size: int64(size)}}
}

// xvalue is a value of a graph.
type xvalue struct {
	id       uint32
	tensor   xnnpack.Tensor // without data, and without the scales that are not in the flatbuffer
	constant *content
	scales   *content // of the channels or blocks, where they are not in the flatbuffer
	external uint32   // argument of the delegate, if input or output is set
	input    bool
	output   bool
	dynamic  bool // the value is quantised as it comes in: an old way to write a conversion
}

// value reads a value of the graph.
func (g *graph) value(t flatbuf.Table) xvalue {
	x := t.Table(xvalueVal)
	v, params, kind := x, flatbuf.Table{}, byte(0)
	switch union := t.Byte(xvalueType); union {
	case xvalueTensor:
	case xvalueQuantized:
		v, params, kind = x.Table(quantizedTensor), x.Table(quantizedParams), x.Byte(quantizedParamsType)
	default:
		malformed("a value of type %d", union)
	}
	if !v.Present() {
		malformed("a value without a tensor")
	}
	flags := v.Uint32(xtensorFlags)
	out := xvalue{id: v.Uint32(xtensorID), external: v.Uint32(xtensorExternal)}
	out.input, out.output = flags&externalInput != 0, flags&externalOutput != 0
	if flags&^(externalInput|externalOutput) != 0 || out.input && out.output {
		malformed("the value has the flags %#x", flags)
	}
	out.tensor.Type = xdatatype(v.Int16(xtensorDatatype))
	dims := v.Uint32s(xtensorDims)
	out.tensor.Shape = make([]int, 0, len(dims))
	for _, d := range dims {
		if d > math.MaxInt32 {
			malformed("a dimension of %d", d)
		}
		out.tensor.Shape = append(out.tensor.Shape, int(d))
	}
	if len(dims) == 0 {
		out.tensor.Shape = scalar()
	}
	if index := v.Uint32(xtensorConstant); index != 0 {
		out.constant = g.content(index)
	}
	if dq := v.Int16(xtensorDQDatatype); dq != 0 {
		if xdatatype(dq) != xnnpack.QInt8 || !out.input || out.constant != nil {
			unsupported("a value quantised at inference to datatype %d", dq)
		}
		out.dynamic = true
	}
	if params.Present() || kind != 0 {
		g.quantization(&out, params, kind)
	}
	return out
}

// The zero point of channels and blocks of 4-bit elements, which the schema leaves out.
const zeroPoint4Bit = 8

func (g *graph) quantization(v *xvalue, t flatbuf.Table, kind byte) {
	q := &v.tensor.Quantization
	buffer := func(slot int) {
		if index := t.Uint32(slot); index != 0 {
			v.scales = g.content(index)
		}
	}
	switch kind {
	case perTensor:
		q.Scale, q.ZeroPoint = t.Float32(perTensorScale, 0), t.Int32(perTensorZeroPoint, 0)
	case perChannel:
		q.Scales, q.ChannelDim = t.Float32s(perChannelScale), int(t.Int32(perChannelDim, 0))
		buffer(perChannelBuffer)
		if v.tensor.Type == xnnpack.ChannelQInt4 {
			q.ZeroPoint = zeroPoint4Bit
		}
	case perToken:
		q.NonBatchDims = int(t.Int32(perTokenNonBatchDims, 0))
	case perGroup:
		q.ChannelDim, q.BlockSize = int(t.Int32(perGroupDim, 0)), int(t.Int32(perGroupSize, 0))
		q.ZeroPoint = zeroPoint4Bit
		buffer(perGroupBuffer)
		if v.scales == nil {
			for _, s := range t.Float32s(perGroupScale) {
				q.BlockScales = append(q.BlockScales, bfloat16(s))
			}
		}
	default:
		unsupported("quantization of type %d", kind)
	}
}

// bfloat16 rounds as ExecuTorch does where it finds scales of blocks in single precision: up by a little over half of
// the last place, and down.
func bfloat16(f float32) uint16 {
	return uint16(math.Float32bits(f*1.00389105) >> 16)
}

// scaleCount returns how many scales a value has, and how many bytes each takes in a file; none if the value has no
// list of them.
func scaleCount(t *xnnpack.Tensor) (count, size int) {
	q := &t.Quantization
	switch t.Type {
	case xnnpack.ChannelQInt8, xnnpack.ChannelQInt32, xnnpack.ChannelQInt4:
		if q.ChannelDim < 0 || q.ChannelDim >= len(t.Shape) {
			malformed("channels along dimension %d of %v", q.ChannelDim, t.Shape)
		}
		return t.Shape[q.ChannelDim], 4
	case xnnpack.BlockQInt4:
		if len(t.Shape) != 2 || q.ChannelDim < 0 || q.ChannelDim > 1 || q.BlockSize <= 0 ||
			t.Shape[1-q.ChannelDim]%q.BlockSize != 0 {
			malformed("blocks of %d of channels along dimension %d of %v", q.BlockSize, q.ChannelDim, t.Shape)
		}
		blocks := int64(t.Shape[q.ChannelDim]) * int64(t.Shape[1-q.ChannelDim]/q.BlockSize)
		if blocks > math.MaxInt32 {
			malformed("%d blocks", blocks)
		}
		return int(blocks), 2
	}
	return 0, 0
}
