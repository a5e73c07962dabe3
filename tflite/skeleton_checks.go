package tflite

import (
	"cmp"
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
		map[opcode]uint32{}}
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

func (r *rewriting) write(to *os.File, holes bool) {
	before := r.before()
	var left []output.Hole
	for _, k := range r.s.left() {
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

// compute adds what the operator of a kernel computes of an input of equal numbers. Followed says that another operator
// of XNNPACK's follows, which changes nothing.
func (g *checkGraph) compute(k *Kernel, followed bool) (output int32) {
	inputs := slices.Clone(k.inputs)
	for i, t := range inputs {
		switch {
		case i == k.dataInput():
			inputs[i] = g.filled(k.graph.tensors.Table(int(t)), k.input)
		case i == 0: // the output's shape
			inputs[i] = g.numbers(k.output...)
		default:
			inputs[i] = g.constant(k.graph, t)
		}
	}
	output = g.tensor(k.outputType(), k.output, nil, k.result())
	g.middle = append(g.middle, same(k.op, inputs, []int32{output}))
	if followed {
		from := output
		output = g.tensor(k.outputType(), k.output, nil, k.result())
		g.middle = append(g.middle, operatorOf(g.r.code("RESHAPE"), []int32{from, g.numbers(k.output...)},
			[]int32{output}, 0, nil))
	}
	return output
}

// filled adds a tensor like one of the model, of another shape, whose elements are all the same.
func (g *checkGraph) filled(like flatbuf.Table, shape []int32) int32 {
	of := elementType(like.Byte(tensorType))
	name := fmt.Sprint(of, shape, like.Table(tensorQuantization).Position())
	if n, known := g.known[name]; known {
		return n
	}
	value := littleEndianBytes(float32(1))
	if of == typeInt8 {
		zero := append(like.Table(tensorQuantization).Int64s(quantizationZeroPoint), 0)[0]
		value = littleEndianBytes(int8(cmp.Compare(0.5, float64(zero)) * 64))
	}
	out := g.tensor(of, shape, nil, like)
	g.known[name] = out
	inputs := []int32{g.numbers(shape...), g.tensor(of, []int32{}, value, like)}
	g.before = append(g.before, operatorOf(g.r.code("FILL"), inputs, []int32{out}, 0, nil))
	return out
}

// check is a subgraph that fails if kernels are not what the model has.
func (r *rewriting) check(group []*Kernel) flatbuf.Fields {
	g := r.graph()
	none := flatbuf.Table{}
	var right []int32
	for i, k := range group {
		out, shape := g.compute(k, !k.Last && i == len(group)-1), k.output
		of, want := k.outputType(), k.answer
		if of == typeInt8 {
			from := out
			of, out = typeInt32, g.tensor(typeInt32, shape, nil, none)
			g.then("CAST", 0, nil, []int32{from}, out)
			wide := make([]int32, len(want))
			for i, b := range want {
				wide[i] = int32(int8(b))
			}
			want = littleEndianBytes(wide)
		}
		equal, all := g.tensor(typeBool, shape, nil, none), g.tensor(typeBool, []int32{}, nil, none)
		g.then("EQUAL", 0, nil, []int32{out, g.tensor(of, shape, want, none)}, equal)
		g.then("REDUCE_ALL", optionsReducer, flatbuf.Fields{}, []int32{equal, g.axes(len(shape))}, all)
		right = append(right, g.tensor(typeInt32, []int32{}, nil, none))
		g.then("CAST", 0, nil, []int32{all}, right[i])
	}
	n := []int32{int32(len(right))}
	together, ones := g.tensor(typeInt32, n, nil, none), make([]int32, len(right))
	for i := range ones {
		ones[i] = 1
	}
	g.then("PACK", optionsPack, flatbuf.Fields{packCount: n[0]}, right, together)
	quotient := g.tensor(typeInt32, n, nil, none)
	g.then("DIV", optionsDiv, flatbuf.Fields{}, []int32{g.numbers(ones...), together}, quotient)
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
