package tflite

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"slices"

	"xpwc/internal/fault"
	"xpwc/internal/flatbuf"
)

// A rewriting is what comes before the model, to be another one with it.
type rewriting struct {
	s                         *Skeleton
	codes, buffers, subgraphs []any
	codeOf                    map[opcode]uint32
	movedTo                   map[uint64]uint32 // index of a moved buffer, by the model's
	outside                   map[flatbuf.Span]flatbuf.Fields
}

func refs(v flatbuf.Vector) []any {
	values := make([]any, v.Len())
	for i := range values {
		values[i] = flatbuf.Ref(v.Table(i).Position())
	}
	return values
}

// fieldsThere are fields of a table, which refer to something.
func fieldsThere(t flatbuf.Table, slots ...int) flatbuf.Fields {
	f := flatbuf.Fields{}
	for _, slot := range slots {
		if ref, ok := t.Ref(slot); ok {
			f[slot] = ref
		}
	}
	return f
}

func (s *Skeleton) rewrite() *rewriting {
	r := &rewriting{s, refs(s.model.Tables(modelOperatorCodes)), refs(s.model.Tables(modelBuffers)), nil,
		map[opcode]uint32{}, map[uint64]uint32{}, map[flatbuf.Span]flatbuf.Fields{}}
	for _, span := range s.outside() {
		r.outside[span] = flatbuf.Fields{bufferSize: uint64(span.Size)}
	}
	for i, span := range s.buffers {
		if f, ok := r.outside[span]; ok {
			r.buffers[i] = f
		}
	}
	return r
}

// skipIndices adds empty buffers, up to 256, so that the indices of moved buffers depend on the model. At a fixed
// distance, the packed file of a similar model with appended buffers could have entries for them, which no check sees.
func (r *rewriting) skipIndices() {
	sum := sha256.Sum256(r.s.data)
	r.buffers = append(r.buffers, slices.Repeat(r.buffers[:1], 1+int(sum[0]))...)
}

// tensors returns a subgraph's tensors. A tensor of a moved buffer refers to the buffer's new index.
func (r *rewriting) tensors(g *skeletonGraph) []any {
	tensors := refs(g.tensors)
	for i, t := range g.tensors.All() {
		b := uint64(t.Uint32(tensorBuffer))
		if !r.s.moved[b] {
			continue
		}
		if len(r.movedTo) == 0 {
			r.skipIndices()
		}
		if _, moved := r.movedTo[b]; !moved {
			r.movedTo[b] = uint32(len(r.buffers))
			r.buffers = append(r.buffers, r.buffers[b])
		}
		f := fieldsThere(t, tensorShape, tensorName, tensorQuantization, tensorSparsity, tensorSignature)
		f[tensorType], f[tensorBuffer], f[tensorHasRank] = t.Byte(tensorType), r.movedTo[b], t.Byte(tensorHasRank)
		tensors[i] = f
	}
	return tensors
}

// metadata returns the bytes that make the model another one, if they come before this layout of it.
func (r *rewriting) metadata(l layout) []byte {
	root := flatbuf.Fields{modelVersion: uint32(schemaVersion), modelOperatorCodes: r.codes, modelBuffers: r.buffers,
		modelSubgraphs: r.subgraphs}
	if len(r.subgraphs) > 1 {
		for slot, ref := range fieldsThere(r.s.model, modelDescription, modelMetadataBuffer, modelMetadata,
			modelSignatures) {
			root[slot] = ref
		}
	}
	build := func(end int64) []byte {
		for span, f := range r.outside {
			f[bufferOffset] = uint64(end + l.places[span])
		}
		return flatbuf.BuildBefore(root, fileIdentifier, page)
	}
	head := build(int64(len(build(0)))) // an offset has as many bytes, whatever it is
	if int64(len(head))+r.s.flat > math.MaxInt32 {
		fault.Because(ErrNoSkeleton, "it is too large")
	}
	return head
}

func (r *rewriting) write(w *os.File, l layout) {
	head := r.metadata(l)
	fault.Value(w.WriteAt(head, 0))
	l.write(w, int64(len(head)), r.s)
}

func (r *rewriting) buffer(data []byte) uint32 {
	r.buffers = append(r.buffers, flatbuf.Fields{bufferData: data})
	return uint32(len(r.buffers) - 1)
}

// code returns the index of an operator's code.
func (r *rewriting) code(op opcode) uint32 {
	if i, ok := r.codeOf[op]; ok {
		return i
	}
	r.codeOf[op] = uint32(len(r.codes))
	r.codes = append(r.codes, flatbuf.Fields{codeDeprecatedBuiltin: byte(min(op.number(), placeholderOpcode)),
		codeVersion: int32(1), codeBuiltin: int32(op.number())})
	return r.codeOf[op]
}

func operatorOf(code uint32, inputs, outputs []int32, kind byte, options any) flatbuf.Fields {
	f := flatbuf.Fields{operatorCodeIndex: code, operatorInputs: inputs, operatorOutputs: outputs}
	if options != nil {
		f[operatorOptionsType], f[operatorOptions] = kind, options
	}
	return f
}

// A checkGraph is a subgraph that computes with kernels.
type checkGraph struct {
	r       *rewriting
	tensors []any
	outputs []int32
	// XNNPACK runs what is in the middle, as one part.
	prologue, middle, epilogue []any
	cached                     map[any]int32 // tensors, by what they are
}

func (r *rewriting) graph() *checkGraph { return &checkGraph{r: r, cached: map[any]int32{}} }

func (g *checkGraph) fields() flatbuf.Fields {
	return flatbuf.Fields{subgraphTensors: g.tensors, subgraphInputs: []int32{}, subgraphOutputs: g.outputs,
		subgraphOperators: slices.Concat(g.prologue, g.middle, g.epilogue)}
}

// tensor adds one with these bytes, or that is computed. It has the quantization of a tensor of the model, if that is
// given.
func (g *checkGraph) tensor(dtype elementType, shape []int32, data []byte, template flatbuf.Table) int32 {
	f := fieldsThere(template, tensorQuantization)
	f[tensorShape], f[tensorType], f[tensorHasRank] = shape, byte(dtype), byte(1)
	if data != nil {
		f[tensorBuffer] = g.r.buffer(data)
	}
	g.tensors = append(g.tensors, f)
	return int32(len(g.tensors) - 1)
}

func (g *checkGraph) numbers(n ...int32) int32 {
	return g.tensor(typeInt32, []int32{int32(len(n))}, littleEndianBytes(n), flatbuf.Table{})
}

func littleEndianBytes(v any) []byte {
	b, _ := binary.Append(nil, binary.LittleEndian, v)
	return b
}

// constant adds a constant tensor of the model, and what makes it of one in half precision.
func (g *checkGraph) constant(src *skeletonGraph, tensor int32) int32 {
	if tensor == absent {
		return absent
	}
	t := src.tensors.Table(int(tensor))
	ref := flatbuf.Ref(t.Position())
	if n, ok := g.cached[ref]; ok {
		return n
	}
	var entry any = ref
	if q := t.Table(tensorQuantization); q.Byte(quantizationDetailsType) == detailsBlocks {
		blocks := q.Table(quantizationDetails)
		entry = renumbered(t, blocks, g.constant(src, blocks.Int32(blocksScales, 0)))
	}
	g.tensors = append(g.tensors, entry)
	n := int32(len(g.tensors) - 1)
	g.cached[ref] = n
	if w, ok := src.widened[tensor]; ok {
		stored := g.constant(src, w.source)
		g.prologue = append(g.prologue, clone(w.op, []int32{stored}, []int32{n}))
	}
	return n
}

// renumbered makes a tensor in blocks for another subgraph, in which the tensor of its scales has another number.
func renumbered(t, blocks flatbuf.Table, scales int32) flatbuf.Fields {
	f := fieldsThere(t, tensorShape, tensorName)
	f[tensorType], f[tensorBuffer], f[tensorHasRank] = t.Byte(tensorType), t.Uint32(tensorBuffer), t.Byte(tensorHasRank)
	f[tensorQuantization] = flatbuf.Fields{
		quantizationDetailsType: byte(detailsBlocks),
		quantizationDetails: flatbuf.Fields{blocksScales: scales, blocksZeroPoints: int32(absent),
			blocksSize: blocks.Int32(blocksSize, 0)},
		quantizationDimension: t.Table(tensorQuantization).Int32(quantizationDimension, 0),
	}
	return f
}

// clone makes an operator of the model's kind with other tensors.
func clone(op flatbuf.Table, inputs, outputs []int32) flatbuf.Fields {
	var options any
	if ref, ok := op.Ref(operatorOptions); ok {
		options = ref
	}
	return operatorOf(op.Uint32(operatorCodeIndex), inputs, outputs, op.Byte(operatorOptionsType), options)
}

// linear returns the options of a kernel's operator without an activation, which would hide results.
func (k *Kernel) linear() flatbuf.Fields {
	o := k.op.Table(operatorOptions)
	if k.code == "FULLY_CONNECTED" {
		return flatbuf.Fields{fullyConnectedWeightsFormat: o.Byte(fullyConnectedWeightsFormat),
			fullyConnectedKeepNumDims:      o.Byte(fullyConnectedKeepNumDims),
			fullyConnectedAsymmetricInputs: o.Byte(fullyConnectedAsymmetricInputs)}
	}
	slots, f := conv2D, flatbuf.Fields{}
	if k.code == "DEPTHWISE_CONV_2D" {
		slots = depthwise2D
		f[depthwiseMultiplier] = o.Int32(depthwiseMultiplier, 0)
	}
	f[slots.padding] = o.Byte(slots.padding)
	for _, slot := range []int{slots.strideW, slots.strideH} {
		f[slot] = o.Int32(slot, 0)
	}
	for _, slot := range []int{slots.dilationW, slots.dilationH} {
		f[slot] = o.Int32(slot, 1)
	}
	return f
}

// compute adds the operator of a kernel on its check's input, and returns its output. Followed reports that another
// operator of XNNPACK's follows, which changes nothing.
func (g *checkGraph) compute(k *Kernel, followed bool) (output int32) {
	inputs := slices.Clone(k.inputs)
	for i, t := range inputs {
		if i == k.dataInput() {
			inputs[i] = g.input(k)
		} else {
			inputs[i] = g.constant(k.graph, t)
		}
	}
	result := func() int32 {
		n := g.tensor(k.outputType(), k.output, nil, flatbuf.Table{})
		if k.outputType() == typeInt8 { // with a zero point in the middle, which packing does not see
			g.tensors[n].(flatbuf.Fields)[tensorQuantization] = flatbuf.Fields{quantizationScale: k.result().
				Table(tensorQuantization).Float32s(quantizationScale), quantizationZeroPoint: []int64{0}}
		}
		return n
	}
	output = result()
	g.middle = append(g.middle, operatorOf(k.op.Uint32(operatorCodeIndex), inputs, []int32{output},
		k.op.Byte(operatorOptionsType), k.linear()))
	if followed {
		src := output
		output = result()
		g.middle = append(g.middle, operatorOf(g.r.code("RESHAPE"), []int32{src, g.numbers(k.output...)},
			[]int32{output}, 0, nil))
	}
	return output
}

// random adds a tensor of pseudo-random numbers of 0 to 1, the same everywhere.
func (g *checkGraph) random(shape []int32) int32 {
	type key struct{ shape string }
	return g.once(key{fmt.Sprint(shape)}, typeFloat32, shape, func(numbers int32) flatbuf.Fields {
		const seed1, seed2 = 20, 26
		return operatorOf(g.r.code("RANDOM_UNIFORM"), []int32{g.numbers(shape...)}, []int32{numbers}, optionsRandom,
			flatbuf.Fields{randomSeed: uint64(seed1), randomSeed2: uint64(seed2)})
	})
}

// factors adds a tensor of 64 bits of the bits of random numbers.
func (g *checkGraph) factors(shape []int32) int32 {
	type bitsKey struct{ numbers int32 }
	type wideKey struct{ bits int32 }
	numbers := g.random(shape)
	bits := g.once(bitsKey{numbers}, typeInt32, shape, func(out int32) flatbuf.Fields {
		return operatorOf(g.r.code("BITCAST"), []int32{numbers}, []int32{out}, 0, nil)
	})
	return g.once(wideKey{bits}, typeInt64, shape, func(out int32) flatbuf.Fields {
		return operatorOf(g.r.code("CAST"), []int32{bits}, []int32{out}, 0, nil)
	})
}

// once adds a tensor, and the operator that computes it before all checks, unless it is there.
func (g *checkGraph) once(key any, dtype elementType, shape []int32, operator func(out int32) flatbuf.Fields) int32 {
	if n, ok := g.cached[key]; ok {
		return n
	}
	n := g.tensor(dtype, shape, nil, flatbuf.Table{})
	g.prologue, g.cached[key] = append(g.prologue, operator(n)), n
	return n
}

// input adds the input of a kernel's check: floats of several magnitudes, or bytes of several spans around zero.
func (g *checkGraph) input(k *Kernel) int32 {
	data, blank := k.tensor(k.dataInput()), flatbuf.Table{}
	dtype := elementType(data.Byte(tensorType))
	name := fmt.Sprint(dtype, k.input, data.Table(tensorQuantization).Position())
	if n, ok := g.cached[name]; ok {
		return n
	}
	out := g.tensor(dtype, k.input, nil, data)
	g.cached[name] = out
	then := func(code opcode, kind byte, options any, inputs []int32, out int32) int32 {
		g.middle = append(g.middle, operatorOf(g.r.code(code), inputs, []int32{out}, kind, options))
		return out
	}
	factors := func(f []float32, shape []int32) int32 {
		return g.tensor(typeFloat32, first(len(f), shape), littleEndianBytes(f), blank)
	}
	if dtype == typeFloat32 {
		numbers := g.random(k.input)
		return then("MUL", optionsMul, flatbuf.Fields{}, []int32{numbers, factors(magnitudes, k.input)}, out)
	}
	shape := []int32{int32(len(spans)), int32(count(k.input)) / int32(len(spans))}
	quantization := data.Table(tensorQuantization)
	scale, zero := quantization.Float32s(quantizationScale)[0], quantization.Int64s(quantizationZeroPoint)[0]
	var scales, begins []float32
	for _, span := range spans {
		scales, begins = append(scales, 255*span*scale), append(begins, -float32(128+zero)*span*scale)
	}
	numbers := g.random(shape)
	scaled := then("MUL", optionsMul, flatbuf.Fields{}, []int32{numbers, factors(scales, shape)},
		g.tensor(typeFloat32, shape, nil, blank))
	moved := then("ADD", optionsAdd, flatbuf.Fields{}, []int32{scaled, factors(begins, shape)},
		g.tensor(typeFloat32, shape, nil, blank))
	whole := then("QUANTIZE", 0, nil, []int32{moved}, g.tensor(dtype, shape, nil, data))
	return then("RESHAPE", 0, nil, []int32{whole, g.numbers(k.input...)}, out)
}

// first returns the shape of numbers for the first dimension of another shape, which are the same along all others.
func first(n int, dims []int32) []int32 {
	shape := slices.Repeat([]int32{1}, len(dims))
	shape[0] = int32(n)
	return shape
}

// digest adds a digest of a check's results: the sum of their words of 32 bits, each multiplied by a pseudo-random
// number. It has 64 bits, so that a word's highest bits count, too.
func (g *checkGraph) digest(k *Kernel, results int32) int32 {
	then := func(code opcode, kind byte, options any, dtype elementType, shape []int32, inputs ...int32) int32 {
		out := g.tensor(dtype, shape, nil, flatbuf.Table{})
		g.then(code, kind, options, inputs, out)
		return out
	}
	words, shape := results, k.output
	if k.outputType() == typeInt8 {
		// Of uint8: XNNPACK would run what follows on int8, and use another seed for the kernel's operator.
		words = then("BITCAST", 0, nil, typeUint8, shape, words)
		n, channels := shape[0], shape[len(shape)-1]
		if k.windows() > 1 { // only one is full
			shape = []int32{n, k.windows(), channels}
			words = then("RESHAPE", 0, nil, typeUint8, shape, words, g.numbers(shape...))
			words = then("GATHER", optionsGather, flatbuf.Fields{gatherAxis: int32(1)}, typeUint8,
				[]int32{n, 1, channels}, words, g.numbers(int32(k.window)))
		}
		shape = []int32{n * channels / 4}
		words = then("RESHAPE", 0, nil, typeUint8, []int32{shape[0], 4}, words, g.numbers(shape[0], 4))
	}
	words = then("BITCAST", 0, nil, typeInt32, shape, words)
	product := then("MUL", optionsMul, flatbuf.Fields{}, typeInt64, shape,
		then("CAST", 0, nil, typeInt64, shape, words), g.factors(shape))
	return then("SUM", optionsReducer, flatbuf.Fields{}, typeInt64, []int32{}, product, g.axes(len(shape)))
}

// check is a subgraph that fails if kernels are not what the model has.
func (r *rewriting) check(group []*Kernel) flatbuf.Fields {
	g := r.graph()
	blank := flatbuf.Table{}
	var digests, ones []int32
	var want []int64
	for i, k := range group {
		digests = append(digests, g.digest(k, g.compute(k, !k.Last && i == len(group)-1)))
		want, ones = append(want, k.digest), append(ones, 1)
	}
	n := []int32{int32(len(group))}
	together, matches := g.tensor(typeInt64, n, nil, blank), g.tensor(typeBool, n, nil, blank)
	right, quotient := g.tensor(typeInt32, n, nil, blank), g.tensor(typeInt32, n, nil, blank)
	g.then("PACK", optionsPack, flatbuf.Fields{packCount: n[0]}, digests, together)
	g.then("EQUAL", 0, nil, []int32{together, g.tensor(typeInt64, n, littleEndianBytes(want), blank)}, matches)
	g.then("CAST", 0, nil, []int32{matches}, right)
	g.then("DIV", optionsDiv, flatbuf.Fields{}, []int32{g.numbers(ones...), right}, quotient)
	return g.fields()
}

func (g *checkGraph) then(code opcode, kind byte, options any, inputs []int32, output int32) {
	g.epilogue = append(g.epilogue, operatorOf(g.r.code(code), inputs, []int32{output}, kind, options))
}

// axes adds a tensor of the numbers of all dimensions.
func (g *checkGraph) axes(rank int) int32 {
	if n, ok := g.cached[rank]; ok {
		return n
	}
	axes := make([]int32, rank)
	for i := range axes {
		axes[i] = int32(i)
	}
	g.cached[rank] = g.numbers(axes...)
	return g.cached[rank]
}
