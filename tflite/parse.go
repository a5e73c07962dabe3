package tflite

import (
	"strconv"

	flatbuffers "github.com/google/flatbuffers/go"
)

// maxRank is XNN_MAX_TENSOR_DIMS of xnnpack.h. A tensor of higher rank is an error only where it is used.
const maxRank = 6

// graph is what the file says, with every index and range checked, and nothing yet of what it means.
type graph struct {
	tensors   []tensor
	operators []operator
	inputs    []int // tensor indices
	outputs   []int
}

type tensor struct {
	name         string // unique in the graph
	shape        []int32
	dtype        TensorType
	data         span // of a constant's bytes; size 0: not a constant
	quantization quantization
	sparsity     *sparsity
}

type quantization struct {
	scales     []float32
	zeroPoints []int64
	dimension  int
	custom     bool // given in a form that the schema does not define
}

type operator struct {
	index   int
	code    opcode
	custom  string // name of a custom operator
	inputs  []int  // tensor indices; absent: an optional operand that is not given
	outputs []int
	options table
	bytes   span // a custom operator's options
}

const absent = -1

// name is what errors call the operator.
func (o *operator) name() string {
	if o.code == opCustom {
		return o.custom
	}
	return o.code.String()
}

// parse reads the first subgraph of a model, which is the main one.
func parse(file []byte) (*graph, error) {
	r := newReader(file)
	model := r.root(fileIdentifier)
	if version := model.uint32(modelVersion); r.err == nil && version != schemaVersion {
		r.fail("schema version %d, not %d", version, schemaVersion)
	}
	p := &parser{r: r, file: file}
	p.readBuffers(model)
	codes := model.tables(modelOperatorCodes)
	subgraphs := model.tables(modelSubgraphs)
	if r.err == nil && subgraphs.n == 0 {
		r.fail("it has no subgraph")
	}
	main := subgraphs.table(0)
	p.readTensors(main)
	p.g.inputs = p.indices(main.int32s(subgraphInputs), "the model's inputs", false)
	p.g.outputs = p.indices(main.int32s(subgraphOutputs), "the model's outputs", false)
	p.readOperators(main, codes)
	if r.err != nil {
		return nil, r.err
	}
	uniqueNames(p.g.tensors)
	return &p.g, nil
}

type parser struct {
	r       *reader
	file    []byte
	buffers []span
	g       graph
}

// external returns the range of the file, outside the flatbuffer, that an offset and a size give.
func (p *parser) external(offset, size uint64, what string) span {
	if offset > uint64(len(p.file)) || size > uint64(len(p.file))-offset {
		p.r.fail("%s at byte %d (%d bytes) lies outside the file's %d bytes", what, offset, size, len(p.file))
		return span{}
	}
	return span{offset: int64(offset), size: int64(size)}
}

func (p *parser) readBuffers(model table) {
	buffers := model.tables(modelBuffers)
	for i := 0; i < buffers.n && p.r.err == nil; i++ {
		t := buffers.table(i)
		s := t.span(bufferData)
		if offset := t.uint64(bufferOffset); offset > 1 {
			s = p.external(offset, t.uint64(bufferSize), "a buffer")
		}
		p.buffers = append(p.buffers, s)
	}
}

func (p *parser) readTensors(subgraph table) {
	tensors := subgraph.tables(subgraphTensors)
	for i := 0; i < tensors.n && p.r.err == nil; i++ {
		t := tensors.table(i)
		v := tensor{
			name:  t.string(tensorName),
			shape: t.int32s(tensorShape),
			dtype: TensorType(t.byte(tensorType)),
		}
		// Buffer 0 is by convention the empty one.
		if b := t.uint32(tensorBuffer); int64(b) < int64(len(p.buffers)) {
			v.data = p.buffers[b]
		} else if b != 0 {
			p.r.fail("tensor %d names buffer %d of %d", i, b, len(p.buffers))
		}
		q := t.table(tensorQuantization)
		v.quantization = quantization{
			scales:     q.float32s(quantizationScale),
			zeroPoints: q.int64s(quantizationZeroPoint),
			dimension:  int(q.int32(quantizationDimension, 0)),
			custom:     q.byte(quantizationDetailsType) != 0,
		}
		if s := t.table(tensorSparsity); s.ok {
			v.sparsity = p.readSparsity(s)
		}
		p.g.tensors = append(p.g.tensors, v)
	}
}

func (p *parser) readSparsity(t table) *sparsity {
	s := &sparsity{
		traversalOrder: t.int32s(sparsityTraversalOrder),
		blockMap:       t.int32s(sparsityBlockMap),
	}
	dims := t.tables(sparsityDimMetadata)
	if dims.n > 4*maxRank {
		p.r.fail("a sparse tensor of %d dimensions", dims.n)
	}
	for i := 0; i < dims.n && p.r.err == nil; i++ {
		d := dims.table(i)
		s.dims = append(s.dims, sparseDim{
			format:   d.byte(dimensionFormat),
			size:     d.int32(dimensionDenseSize, 0),
			segments: indexVector(d, dimensionSegmentsType, dimensionSegments),
			indices:  indexVector(d, dimensionIndicesType, dimensionIndices),
		})
	}
	return s
}

// indexVector reads a union whose members are tables with one vector of unsigned numbers.
func indexVector(t table, typeSlot, slot int) []int32 {
	v := t.table(slot)
	switch kind := t.byte(typeSlot); kind {
	case 0:
		return nil
	case indexVectorInt32:
		return v.int32s(indexVectorValues)
	case indexVectorUint16:
		return copied(v.vector(indexVectorValues, flatbuffers.SizeUint16), flatbuffers.SizeUint16,
			func(b []byte) int32 { return int32(flatbuffers.GetUint16(b)) })
	case indexVectorUint8:
		return copied(v.vector(indexVectorValues, flatbuffers.SizeUint8), flatbuffers.SizeUint8,
			func(b []byte) int32 { return int32(flatbuffers.GetUint8(b)) })
	default:
		t.r.fail("a sparse tensor's indices are of unknown kind %d", kind)
		return nil
	}
}

// indices checks indices of tensors.
func (p *parser) indices(raw []int32, what string, optional bool) []int {
	out := make([]int, len(raw))
	for i, n := range raw {
		switch {
		case n >= 0 && int(n) < len(p.g.tensors):
			out[i] = int(n)
		case n == absent && optional:
			out[i] = absent
		default:
			p.r.fail("%s name tensor %d of %d", what, n, len(p.g.tensors))
		}
	}
	return out
}

func (p *parser) readOperators(subgraph table, codes vector) {
	operators := subgraph.tables(subgraphOperators)
	for i := 0; i < operators.n && p.r.err == nil; i++ {
		t := operators.table(i)
		op := operator{index: i, options: t.table(operatorOptions), bytes: t.span(operatorCustomOptions)}
		code := t.uint32(operatorCodeIndex)
		if int64(code) >= int64(codes.n) {
			p.r.fail("operator %d names operator code %d of %d", i, code, codes.n)
			return
		}
		op.code, op.custom = readCode(codes.table(int(code)))
		if offset := t.uint64(operatorLargeOptionsOffset); offset > 1 {
			op.bytes = p.external(offset, t.uint64(operatorLargeOptionsSize), "an operator's options")
		}
		op.inputs = p.indices(t.int32s(operatorInputs), "an operator's inputs", true)
		op.outputs = p.indices(t.int32s(operatorOutputs), "an operator's outputs", false)
		p.g.operators = append(p.g.operators, op)
	}
}

// readCode returns which operator a code stands for. Files older than schema 3a have only the one-byte field, newer ones have
// both, so the greater is the right one.
func readCode(t table) (opcode, string) {
	code := max(opcode(int8(t.byte(codeDeprecatedBuiltin))), opcode(t.int32(codeBuiltin, 0)))
	if code == opCustom {
		return code, t.string(codeCustom)
	}
	return code, ""
}

// uniqueNames makes the tensors' names unique, as a DataMap needs: a name that an earlier tensor has, or an empty one, is followed
// by '#' and the tensor's index, and by further '#' while some tensor has that name too.
func uniqueNames(tensors []tensor) {
	taken := make(map[string]bool, len(tensors))
	for i := range tensors {
		taken[tensors[i].name] = true
	}
	seen := make(map[string]bool, len(tensors))
	for i := range tensors {
		name := tensors[i].name
		if name == "" || seen[name] {
			for name += "#" + strconv.Itoa(i); taken[name]; {
				name += "#"
			}
			taken[name] = true
			tensors[i].name = name
		}
		seen[name] = true
	}
}
