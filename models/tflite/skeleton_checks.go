package tflite

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"slices"

	"xpwc/internal/fault"
	"xpwc/internal/flatbuf"
	"xpwc/internal/output"
)

// A rewriting is what comes before the model, to be another one with it.
type rewriting struct {
	s                         *Skeleton
	codes, buffers, subgraphs []any
	codeOf                    map[opcode]uint32
	movedTo                   map[uint64]uint32 // index of a moved buffer, by the model's
}

func there(v flatbuf.Vector) []any {
	all := make([]any, v.Len())
	for i := range all {
		all[i] = flatbuf.There(v.Table(i).Position())
	}
	return all
}

// fieldsThere are fields of a table, which refer to something.
func fieldsThere(t flatbuf.Table, slots ...int) flatbuf.Fields {
	f := flatbuf.Fields{}
	for _, slot := range slots {
		if at, ok := t.There(slot); ok {
			f[slot] = at
		}
	}
	return f
}

func (s *Skeleton) rewrite() *rewriting {
	return &rewriting{s, there(s.model.Tables(modelOperatorCodes)), there(s.model.Tables(modelBuffers)), nil,
		map[opcode]uint32{}, map[uint64]uint32{}}
}

// tensors are those of a subgraph. A tensor of a buffer that is moved refers to its other index.
func (r *rewriting) tensors(g *skeletonGraph) []any {
	tensors := there(g.tensors)
	for i, t := range g.tensors.All() {
		b := uint64(t.Uint32(tensorBuffer))
		if !r.s.moved[b] {
			continue
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

// before returns the bytes that make the model another one.
func (r *rewriting) before() []byte {
	root := flatbuf.Fields{modelVersion: uint32(schemaVersion), modelOperatorCodes: r.codes, modelBuffers: r.buffers,
		modelSubgraphs: r.subgraphs}
	if len(r.subgraphs) > 1 {
		for slot, at := range fieldsThere(r.s.model, modelDescription, modelMetadataBuffer, modelMetadata,
			modelSignatures) {
			root[slot] = at
		}
	}
	before := flatbuf.BuildBefore(root, fileIdentifier, page)
	if int64(len(before)+len(r.s.data)) > math.MaxInt32 {
		fault.Because(ErrNoSkeleton, "it is too large")
	}
	return before
}

func (r *rewriting) write(to *os.File, holes bool, kernels []*Kernel) {
	before := r.before()
	var left []output.Hole
	for _, k := range kernels {
		if holes {
			left = append(left, output.Hole(r.s.buffers[k.Buffer]))
		}
	}
	fault.Value(to.WriteAt(before, 0))
	fault.Check(output.WriteWithHoles(to, int64(len(before)), r.s.data, left))
}

func (r *rewriting) buffer(data []byte) uint32 {
	r.buffers = append(r.buffers, flatbuf.Fields{bufferData: data})
	return uint32(len(r.buffers) - 1)
}

// code returns the index of an operator's code.
func (r *rewriting) code(of opcode) uint32 {
	if i, known := r.codeOf[of]; known {
		return i
	}
	r.codeOf[of] = uint32(len(r.codes))
	r.codes = append(r.codes, flatbuf.Fields{codeDeprecatedBuiltin: byte(min(of.number(), placeholderOpcode)),
		codeVersion: int32(1), codeBuiltin: int32(of.number())})
	return r.codeOf[of]
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
	before, middle, after []any
	known                 map[any]int32 // tensors, by what they are
}

func (r *rewriting) graph() *checkGraph { return &checkGraph{r: r, known: map[any]int32{}} }

func (g *checkGraph) fields() flatbuf.Fields {
	return flatbuf.Fields{subgraphTensors: g.tensors, subgraphInputs: []int32{}, subgraphOutputs: g.outputs,
		subgraphOperators: slices.Concat(g.before, g.middle, g.after)}
}

// tensor adds one with these bytes, or that is computed. It has the quantization of a tensor of the model, if that is
// given.
func (g *checkGraph) tensor(of elementType, shape []int32, data []byte, like flatbuf.Table) int32 {
	f := fieldsThere(like, tensorQuantization)
	f[tensorShape], f[tensorType], f[tensorHasRank] = shape, byte(of), byte(1)
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
func (g *checkGraph) constant(of *skeletonGraph, tensor int32) int32 {
	if tensor == absent {
		return absent
	}
	at := flatbuf.There(of.tensors.Table(int(tensor)).Position())
	if n, known := g.known[at]; known {
		return n
	}
	g.tensors = append(g.tensors, at)
	n := int32(len(g.tensors) - 1)
	g.known[at] = n
	if w, is := of.widened[tensor]; is {
		from := g.constant(of, w.from)
		g.before = append(g.before, same(w.op, []int32{from}, []int32{n}))
	}
	return n
}

// same makes an operator of the model's kind with other tensors.
func same(op flatbuf.Table, inputs, outputs []int32) flatbuf.Fields {
	var options any
	if at, ok := op.There(operatorOptions); ok {
		options = at
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

// compute adds the operator of a kernel on its check's input, and returns its output. Followed says that another
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
		from := output
		output = result()
		g.middle = append(g.middle, operatorOf(g.r.code("RESHAPE"), []int32{from, g.numbers(k.output...)},
			[]int32{output}, 0, nil))
	}
	return output
}

// random adds a tensor of pseudo-random numbers of 0 to 1, the same everywhere, and their bits.
func (g *checkGraph) random(shape []int32) (numbers, bits int32) {
	type made struct{ shape string }
	type bitsOf made
	name := made{fmt.Sprint(shape)}
	if n, known := g.known[name]; known {
		return n, g.known[bitsOf(name)]
	}
	none := flatbuf.Table{}
	numbers, bits = g.tensor(typeFloat32, shape, nil, none), g.tensor(typeInt32, shape, nil, none)
	const seed1, seed2 = 20, 26
	g.before = append(g.before,
		operatorOf(g.r.code("RANDOM_UNIFORM"), []int32{g.numbers(shape...)}, []int32{numbers}, optionsRandom,
			flatbuf.Fields{randomSeed: uint64(seed1), randomSeed2: uint64(seed2)}),
		operatorOf(g.r.code("BITCAST"), []int32{numbers}, []int32{bits}, 0, nil))
	g.known[name], g.known[bitsOf(name)] = numbers, bits
	return numbers, bits
}

// input adds the input of a kernel's check: floats of several magnitudes, or bytes of several spans around zero.
func (g *checkGraph) input(k *Kernel) int32 {
	like, none := k.tensor(k.dataInput()), flatbuf.Table{}
	of := elementType(like.Byte(tensorType))
	name := fmt.Sprint(of, k.input, like.Table(tensorQuantization).Position())
	if n, known := g.known[name]; known {
		return n
	}
	out := g.tensor(of, k.input, nil, like)
	g.known[name] = out
	add := func(to *[]any, code opcode, kind byte, a, b, out int32) {
		*to = append(*to, operatorOf(g.r.code(code), []int32{a, b}, []int32{out}, kind, flatbuf.Fields{}))
	}
	if of == typeFloat32 {
		numbers, _ := g.random(k.input)
		scales := g.tensor(of, first(len(magnitudes), k.input), littleEndianBytes(magnitudes), none)
		add(&g.middle, "MUL", optionsMul, numbers, scales, out)
		return out
	}
	shape := append([]int32{int32(len(spans)), k.input[0] / int32(len(spans))}, k.input[1:]...)
	numbers, _ := g.random(shape)
	var scales, begins []float32
	for _, span := range spans {
		zero := float32(like.Table(tensorQuantization).Int64s(quantizationZeroPoint)[0])
		scales, begins = append(scales, 255*span), append(begins, zero-(128+zero)*span)
	}
	scaled, moved := g.tensor(typeFloat32, shape, nil, none), g.tensor(typeFloat32, shape, nil, none)
	each := first(len(spans), shape)
	add(&g.before, "MUL", optionsMul, numbers, g.tensor(typeFloat32, each, littleEndianBytes(scales), none), scaled)
	add(&g.before, "ADD", optionsAdd, scaled, g.tensor(typeFloat32, each, littleEndianBytes(begins), none), moved)
	whole := g.tensor(of, shape, nil, like)
	g.before = append(g.before, operatorOf(g.r.code("CAST"), []int32{moved}, []int32{whole}, 0, nil))
	g.middle = append(g.middle, operatorOf(g.r.code("RESHAPE"), []int32{whole, g.numbers(k.input...)}, []int32{out}, 0,
		nil))
	return out
}

// first returns the shape of numbers for the first dimension of another shape, which are the same along all others.
func first(n int, like []int32) []int32 {
	shape := slices.Repeat([]int32{1}, len(like))
	shape[0] = int32(n)
	return shape
}

// digest adds a digest of a check's results: the sum of their bits, each multiplied by a pseudo-random number. It has
// 64 bits, so that the highest of a result's 32 counts, too.
func (g *checkGraph) digest(k *Kernel, results int32) int32 {
	none := flatbuf.Table{}
	if k.outputType() == typeFloat32 {
		bits := g.tensor(typeInt32, k.output, nil, none)
		g.then("BITCAST", 0, nil, []int32{results}, bits)
		results = bits
	}
	wide := func(from int32) int32 {
		n := g.tensor(typeInt64, k.output, nil, none)
		g.then("CAST", 0, nil, []int32{from}, n)
		return n
	}
	_, bits := g.random(k.output)
	products, sum := g.tensor(typeInt64, k.output, nil, none), g.tensor(typeInt64, []int32{}, nil, none)
	g.then("MUL", optionsMul, flatbuf.Fields{}, []int32{wide(results), wide(bits)}, products)
	g.then("SUM", optionsReducer, flatbuf.Fields{}, []int32{products, g.axes(len(k.output))}, sum)
	return sum
}

// check is a subgraph that fails if kernels are not what the model has.
func (r *rewriting) check(group []*Kernel) flatbuf.Fields {
	g := r.graph()
	none := flatbuf.Table{}
	var digests, ones []int32
	var want []int64
	for i, k := range group {
		digests = append(digests, g.digest(k, g.compute(k, !k.Last && i == len(group)-1)))
		want, ones = append(want, k.digest), append(ones, 1)
	}
	n := []int32{int32(len(group))}
	together, equal := g.tensor(typeInt64, n, nil, none), g.tensor(typeBool, n, nil, none)
	right, quotient := g.tensor(typeInt32, n, nil, none), g.tensor(typeInt32, n, nil, none)
	g.then("PACK", optionsPack, flatbuf.Fields{packCount: n[0]}, digests, together)
	g.then("EQUAL", 0, nil, []int32{together, g.tensor(typeInt64, n, littleEndianBytes(want), none)}, equal)
	g.then("CAST", 0, nil, []int32{equal}, right)
	g.then("DIV", optionsDiv, flatbuf.Fields{}, []int32{g.numbers(ones...), right}, quotient)
	return g.fields()
}

func (g *checkGraph) then(code opcode, kind byte, options any, inputs []int32, output int32) {
	g.after = append(g.after, operatorOf(g.r.code(code), inputs, []int32{output}, kind, options))
}

// axes adds a tensor of the numbers of all dimensions.
func (g *checkGraph) axes(rank int) int32 {
	if n, known := g.known[rank]; known {
		return n
	}
	all := make([]int32, rank)
	for i := range all {
		all[i] = int32(i)
	}
	g.known[rank] = g.numbers(all...)
	return g.known[rank]
}
