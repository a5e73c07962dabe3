package tflite

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"

	flatbuffers "github.com/google/flatbuffers/go"

	"xpwc"
	"xpwc/internal/fault"
	"xpwc/internal/flatbuf"
	"xpwc/internal/half"
)

// maxRank is XNN_MAX_TENSOR_DIMS of xnnpack.h. A tensor of higher rank is an error only where it is used.
const maxRank = 6

// graph is the content of the file, with every index and range checked, without its meaning.
type graph struct {
	tensors   []tensor
	operators []operator
	inputs    []int // tensor indices
	outputs   []int
	called    [2][]string // what the chosen signature calls the inputs and outputs; nil without one

	bodies map[int]*body // what operators of the graph call, and operators of these, by the number of the subgraph

	signatures []string                // of the file
	buffers    map[flatbuf.Span]string // names of constants' bytes, see nameBuffers; nil in a file of one computation
}

// A body is a subgraph that an operator calls. Its tensors are among the graph's, after the main one's.
type body struct {
	first           int // tensor
	tensors         int
	operators       []operator
	inputs, outputs []int // tensor indices
}

type tensor struct {
	name         string // unique in the graph
	shape        []int32
	free         []int32 // as shape, with -1 for dimensions that a program may choose; empty if there are none
	dtype        elementType
	data         flatbuf.Span // of a constant's bytes; size 0: not a constant
	quantization quantization
	sparsity     *sparsity
	step         float32      // of an input or output of int16, see int16.go
	omitted      *xpwc.Digest // of the content, of a constant that a skeleton leaves out; nil of others
}

type quantization struct {
	scales     []float32
	zeroPoints []int64
	dimension  int
	block      int      // how many elements that follow each other have a scale, if it is not 0
	bfloats    []uint16 // the scales of blocks as XNNPACK has them, of weights in 4 bits
	custom     bool     // given in a form that the schema does not define
}

type operator struct {
	index   int
	caller  string // the operator that calls the subgraph that it is in, and ": ", or ""
	code    opcode
	custom  string // name of a custom operator
	inputs  []int  // tensor indices; absent: an optional operand that is not given
	outputs []int
	options flatbuf.Table
	bytes   flatbuf.Span // a custom operator's options
}

const absent = -1

// title is what errors call the operator, with its number.
func (o *operator) title() string { return fmt.Sprintf("operator %d, %s", o.index, o.name()) }

// name is its name, after the names of the operators around it.
func (o *operator) name() string {
	if o.code == "CUSTOM" {
		return o.caller + o.custom
	}
	return o.caller + string(o.code)
}

// A signature is what a model names to be computed: inputs and outputs of a subgraph.
type signature struct {
	name     string
	subgraph int
	tensors  [2][]int    // inputs and outputs
	called   [2][]string // their names
}

// readSignatures reads all signatures, without looking at the tensors that they name.
func readSignatures(model flatbuf.Table) (signatures []signature) {
	for _, t := range model.Tables(modelSignatures).All() {
		s := signature{name: t.String(signatureKey), subgraph: int(t.Uint32(signatureSubgraph))}
		for k, slot := range []int{signatureInputs, signatureOutputs} {
			for _, x := range t.Tables(slot).All() {
				s.tensors[k] = append(s.tensors[k], int(x.Uint32(mapTensor)))
				s.called[k] = append(s.called[k], x.String(mapName))
			}
		}
		signatures = append(signatures, s)
	}
	return signatures
}

// choose returns the signature of a name, or what stands for the first subgraph, the main one, if that is "".
func choose(signatures []signature, name string) signature {
	if name == "" {
		return signature{}
	}
	index := slices.IndexFunc(signatures, func(s signature) bool { return s.name == name })
	if index < 0 {
		fault.Check(fmt.Errorf("%q: %w; it has %q", name, ErrUnknownSignature, signatureNames(signatures)))
	}
	return signatures[index]
}

func signatureNames(signatures []signature) []string {
	names := make([]string, len(signatures))
	for i, s := range signatures {
		names[i] = s.name
	}
	return names
}

// readModel checks that the file is of the schema's version, and returns its root.
func readModel(file []byte) flatbuf.Table {
	model := flatbuf.Root(file, fileIdentifier, ErrMalformed)
	if version := model.Uint32(modelVersion); version != schemaVersion {
		malformed("schema version %d, not %d", version, schemaVersion)
	}
	return model
}

// contents are what all signatures of a file are read from.
type contents struct {
	omission   omission
	buffers    []flatbuf.Span
	signatures []signature
	names      map[flatbuf.Span]string // of constants' bytes, see nameBuffers; nil in a file of one computation
}

func readContents(file []byte) *contents {
	model := readModel(file)
	omitted, err := readOmission(file)
	fault.Check(err)
	c := &contents{omission: omitted, buffers: readBuffers(file, model), signatures: readSignatures(model)}
	c.nameBuffers(model.Tables(modelSubgraphs))
	return c
}

// parse reads the subgraph of one of a model's signatures, or the first, which is the main one.
func parse(file []byte, name string) *graph { return readContents(file).parse(file, name) }

func (c *contents) parse(file []byte, name string) *graph {
	model := readModel(file)
	p := &parser{contents: c, file: file, codes: model.Tables(modelOperatorCodes),
		subgraphs: model.Tables(modelSubgraphs)}
	s := choose(c.signatures, name)
	p.g.signatures, p.g.buffers = signatureNames(c.signatures), c.names
	main := p.readSubgraph(p.number(s), "the model's")
	p.g.inputs, p.g.outputs, p.g.operators = main.inputs, main.outputs, main.operators
	p.readBodies(main)
	if name != "" {
		p.follow(s)
	}
	uniqueNames(p.g.tensors)
	return &p.g
}

// number returns the number of a signature's subgraph.
func (p *parser) number(s signature) int {
	if n := p.subgraphs.Len(); s.subgraph >= n {
		malformed("it has %d subgraphs, and no number %d", n, s.subgraph)
	}
	return s.subgraph
}

// nameBuffers names the bytes of constants after the first tensor of the file that has them. In a file whose signatures
// compute several subgraphs, each subgraph has tensors of its own over the same bytes, and a cache finds packed weights
// by name. So these names do not depend on the signature.
func (c *contents) nameBuffers(subgraphs flatbuf.Vector) {
	if !slices.ContainsFunc(c.signatures, func(s signature) bool { return s.subgraph != 0 }) {
		return
	}
	c.names = map[flatbuf.Span]string{}
	used := map[string]bool{}
	seen := make([]bool, len(c.buffers))
	for _, subgraph := range subgraphs.All() {
		for _, t := range subgraph.Tables(subgraphTensors).All() {
			b := t.Uint32(tensorBuffer)
			if int64(b) >= int64(len(seen)) || seen[b] {
				continue
			}
			if seen[b] = true; c.buffers[b].Size == 0 || c.names[c.buffers[b]] != "" {
				continue
			}
			name := t.String(tensorName)
			if name == "" || used[name] {
				name += "#" + strconv.Itoa(int(b))
			}
			for used[name] {
				name += "#"
			}
			used[name], c.names[c.buffers[b]] = true, name
		}
	}
}

// follow takes the inputs and outputs of a signature, in its order, as the subgraph's.
func (p *parser) follow(s signature) {
	if len(s.tensors[0]) != len(p.g.inputs) {
		malformed("signature %q names %d of the %d inputs", s.name, len(s.tensors[0]), len(p.g.inputs))
	}
	for k, tensors := range []*[]int{&p.g.inputs, &p.g.outputs} {
		for i, n := range s.tensors[k] {
			if !slices.Contains(*tensors, n) {
				malformed("signature %q: %q is no input or output of its subgraph", s.name, s.called[k][i])
			}
		}
		*tensors = s.tensors[k]
	}
	p.g.called = s.called
}

type parser struct {
	*contents
	file             []byte
	codes, subgraphs flatbuf.Vector
	g                graph
}

// external returns the range of a file, outside the flatbuffer, that an offset and a size give.
func external(file []byte, offset, size uint64, role string) flatbuf.Span {
	if offset > uint64(len(file)) || size > uint64(len(file))-offset {
		malformed("%s at byte %d (%d bytes) lies outside the file's %d bytes", role, offset, size, len(file))
	}
	return flatbuf.Span{Offset: int64(offset), Size: int64(size)}
}

func (p *parser) readSubgraph(number int, whose string) *body {
	t, b := p.subgraphs.Table(number), &body{first: len(p.g.tensors)}
	p.readTensors(t)
	b.tensors = len(p.g.tensors) - b.first
	p.readBlocks(b, t.Tables(subgraphTensors))
	b.inputs = p.indices(b, t.Int32s(subgraphInputs), whose+" inputs", false)
	b.outputs = p.indices(b, t.Int32s(subgraphOutputs), whose+" outputs", false)
	p.readOperators(b, t)
	return b
}

// readBodies reads the subgraphs that operators call.
func (p *parser) readBodies(main *body) {
	p.g.bodies = map[int]*body{}
	for waiting := []*body{main}; len(waiting) > 0; waiting = waiting[1:] {
		for i := range waiting[0].operators {
			for _, n := range waiting[0].operators[i].calls() {
				switch {
				case p.g.bodies[n] != nil:
				case n < 0 || n >= p.subgraphs.Len():
					malformed("an operator calls subgraph %d of %d", n, p.subgraphs.Len())
				default:
					p.g.bodies[n] = p.readSubgraph(n, "a subgraph's")
					waiting = append(waiting, p.g.bodies[n])
				}
			}
		}
	}
}

func readBuffers(file []byte, model flatbuf.Table) (buffers []flatbuf.Span) {
	for _, t := range model.Tables(modelBuffers).All() {
		s := t.Span(bufferData)
		if offset := t.Uint64(bufferOffset); offset > 1 {
			s = external(file, offset, t.Uint64(bufferSize), "a buffer")
		}
		buffers = append(buffers, s)
	}
	return buffers
}

// These bound the memory that a subgraph's tensors and operators get before they are read.
const (
	usualTensors   = 1 << 13
	usualOperators = 1 << 12
)

func (p *parser) readTensors(subgraph flatbuf.Table) {
	tables := subgraph.Tables(subgraphTensors)
	p.g.tensors = slices.Grow(p.g.tensors, min(tables.Len(), usualTensors))
	for i, t := range tables.All() {
		p.g.tensors = append(p.g.tensors, p.readTensor(i, t))
	}
}

func (c *contents) readTensor(number int, t flatbuf.Table) tensor {
	v := tensor{
		name:  t.String(tensorName),
		shape: t.Int32s(tensorShape),
		free:  t.Int32s(tensorSignature),
		dtype: elementType(t.Byte(tensorType)),
	}
	// Buffer 0 is by convention the empty one.
	if b := t.Uint32(tensorBuffer); int64(b) < int64(len(c.buffers)) {
		v.data = c.buffers[b]
		if digest, ok := c.omission.buffers[uint64(b)]; ok {
			v.omitted = &digest
		}
	} else if b != 0 {
		malformed("tensor %d names buffer %d of %d", number, b, len(c.buffers))
	}
	if t.Uint32(tensorExternal) != 0 {
		unsupported("tensor %q lies in another file, or another section of a bundle", v.name)
	}
	q := t.Table(tensorQuantization)
	v.quantization = quantization{
		scales:     q.Float32s(quantizationScale),
		zeroPoints: q.Int64s(quantizationZeroPoint),
		dimension:  int(q.Int32(quantizationDimension, 0)),
		custom:     q.Byte(quantizationDetailsType) != 0,
	}
	if s := t.Table(tensorSparsity); s.Present() {
		v.sparsity = readSparsity(s)
	}
	return v
}

// readBlocks reads the scales of tensors that have one for each of the blocks that a row consists of. Another tensor
// has them.
func (p *parser) readBlocks(b *body, tensors flatbuf.Vector) {
	for i, x := range tensors.All() {
		q := x.Table(tensorQuantization)
		if q.Byte(quantizationDetailsType) != detailsBlocks {
			continue
		}
		t, blocks := &p.g.tensors[b.first+i], q.Table(quantizationDetails)
		size := int(blocks.Int32(blocksSize, 0))
		blockScales := p.indices(b, []int32{blocks.Int32(blocksScales, 0)}, "blocks", false)
		if blocks.Int32(blocksZeroPoints, 0) != absent {
			continue
		}
		scales := &p.g.tensors[blockScales[0]]
		row := 0
		if n := len(t.shape); n > 0 {
			row = int(t.shape[n-1])
		}
		if size < 1 || row%size != 0 || scales.dtype != typeFloat16 || scales.data.Size%2 != 0 {
			malformed("blocks of %d of shape %v with scales of type %v", size, t.shape, scales.dtype)
		}
		t.quantization = quantization{block: size}
		for b := scales.data.In(p.file); len(b) > 0; b = b[2:] {
			scale := float32(half.Float64(binary.LittleEndian.Uint16(b)))
			t.quantization.scales = append(t.quantization.scales, scale)
		}
	}
}

func readSparsity(t flatbuf.Table) *sparsity {
	s := &sparsity{
		traversalOrder: t.Int32s(sparsityTraversalOrder),
		blockMap:       t.Int32s(sparsityBlockMap),
	}
	dims := t.Tables(sparsityDimMetadata)
	if dims.Len() > 4*maxRank {
		malformed("a sparse tensor of %d dimensions", dims.Len())
	}
	for _, d := range dims.All() {
		s.dims = append(s.dims, sparseDim{
			format:   d.Byte(dimensionFormat),
			size:     d.Int32(dimensionDenseSize, 0),
			segments: indexVector(d, dimensionSegmentsType, dimensionSegments),
			indices:  indexVector(d, dimensionIndicesType, dimensionIndices),
		})
	}
	return s
}

// indexVector reads a union whose members are tables with one vector of unsigned numbers.
func indexVector(t flatbuf.Table, typeSlot, slot int) []int32 {
	v := t.Table(slot)
	switch kind := t.Byte(typeSlot); kind {
	case 0:
	case indexVectorInt32:
		return v.Int32s(indexVectorValues)
	case indexVectorUint16:
		return flatbuf.Copied(v.Vector(indexVectorValues, flatbuffers.SizeUint16), flatbuffers.SizeUint16,
			func(b []byte) int32 { return int32(flatbuffers.GetUint16(b)) })
	case indexVectorUint8:
		return flatbuf.Copied(v.Vector(indexVectorValues, flatbuffers.SizeUint8), flatbuffers.SizeUint8,
			func(b []byte) int32 { return int32(flatbuffers.GetUint8(b)) })
	default:
		malformed("a sparse tensor's indices are of unknown kind %d", kind)
	}
	return nil
}

// indices checks indices of tensors of a subgraph, and returns their indices in the graph.
func (p *parser) indices(b *body, raw []int32, role string, optional bool) []int {
	out := make([]int, len(raw))
	for i, n := range raw {
		switch {
		case n >= 0 && int(n) < b.tensors:
			out[i] = b.first + int(n)
		case n == absent && optional:
			out[i] = absent
		default:
			malformed("%s name tensor %d of %d", role, n, b.tensors)
		}
	}
	return out
}

func (p *parser) readOperators(b *body, subgraph flatbuf.Table) {
	tables := subgraph.Tables(subgraphOperators)
	b.operators = make([]operator, 0, min(tables.Len(), usualOperators))
	for i, t := range tables.All() {
		op := operator{index: i, options: t.Table(operatorOptions), bytes: t.Span(operatorCustomOptions)}
		if newer := t.Table(operatorOptions2); newer.Present() {
			op.options = newer
		}
		code := t.Uint32(operatorCodeIndex)
		if n := p.codes.Len(); int64(code) >= int64(n) {
			malformed("operator %d names operator code %d of %d", i, code, n)
		}
		op.code, op.custom = readCode(p.codes.Table(int(code)))
		if p.omission.checks(&op) {
			continue
		}
		if offset := t.Uint64(operatorLargeOptionsOffset); offset > 1 {
			op.bytes = external(p.file, offset, t.Uint64(operatorLargeOptionsSize), "an operator's options")
		}
		op.inputs = p.indices(b, t.Int32s(operatorInputs), "an operator's inputs", true)
		op.outputs = p.indices(b, t.Int32s(operatorOutputs), "an operator's outputs", false)
		b.operators = append(b.operators, op)
	}
}

// readCode returns which operator a code stands for. Files older than schema 3a have only the one-byte field, newer
// ones have both, so the greater is the right one.
func readCode(t flatbuf.Table) (opcode, string) {
	code := numbered(max(int(int8(t.Byte(codeDeprecatedBuiltin))), int(t.Int32(codeBuiltin, 0))))
	if code == "CUSTOM" {
		return code, t.String(codeCustom)
	}
	return code, ""
}

// uniqueNames makes the tensors' names unique, as a DataMap needs: a name that an earlier tensor has, or an empty
// one, is followed by '#' and the tensor's index, and by further '#' while some tensor has that name too.
func uniqueNames(tensors []tensor) {
	first := make(map[string]int, len(tensors)) // tensor of each name
	for i := range slices.Backward(tensors) {
		first[tensors[i].name] = i
	}
	used := func(name string) bool { _, ok := first[name]; return ok }
	for i := range tensors {
		name := tensors[i].name
		if name != "" && first[name] == i {
			continue
		}
		for name += "#" + strconv.Itoa(i); used(name); {
			name += "#"
		}
		first[name] = i
		tensors[i].name = name
	}
}
