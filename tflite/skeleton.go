package tflite

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"

	"xpwc/internal/fault"
	"xpwc/internal/flatbuf"
	"xpwc/internal/mapped"
	"xpwc/internal/output"
)

// ErrSkeleton is matched by the error of opening what [Skeleton.Write] wrote: only LiteRT runs that, with its file of
// packed weights. Open the model that it was made of.
var ErrSkeleton = errors.New("a skeleton, without weights: only LiteRT runs it, with its file of packed weights; " +
	"use the model that it was made of")

// ErrNoSkeleton is matched by the error of [NewSkeleton] that says why there is none.
var ErrNoSkeleton = errors.New("no skeleton can be made of it")

// A Skeleton is a model without the kernels that LiteRT finds in its file of packed weights, and with checks: before it
// first answers, LiteRT computes a little with each kernel that is left out, and fails if that is not what the model
// computes. So it answers only with its file.
//
// The checks are subgraphs that an operator CALL_ONCE runs. A division by 0, the only error that LiteRT makes of
// numbers, is how they fail.
type Skeleton struct {
	Kernels   []*Kernel // that nothing but packing reads, as far as the model shows that
	HoleBytes int64     // of the pages that take no space on the disk, after [Skeleton.Write]
	FileBytes int64     // of the file, with the holes, likewise

	least   int64
	file    *mapped.File
	data    []byte
	model   flatbuf.Table
	buffers []flatbuf.Span
	graphs  []*skeletonGraph
}

// A Kernel is weights of one operator.
type Kernel struct {
	Buffer, Bias uint64 // indices of the model's buffers; Bias is that of no buffer if there is none
	Bytes        int64
	// Last says that the operator ends a part of the model that XNNPACK runs, for which LiteRT has another seed.
	Last bool
	// Kept is why the kernel stays in the file; "" if it need not.
	Kept string

	graph         *skeletonGraph
	op            flatbuf.Table
	code          opcode
	inputs        []int32
	input, output []int32 // shapes for its check
	answer        []byte  // of the operator to that
}

// A page is the size of the least kernel that is worth a hole.
const page = 4096

// skeletonGraph is a subgraph of the model.
type skeletonGraph struct {
	table              flatbuf.Table
	tensors, operators flatbuf.Vector
	widened            map[int32]dequantizing // by the tensor that each makes
}

// A dequantizing is an operator that makes a tensor of a constant in half precision.
type dequantizing struct {
	op   flatbuf.Table
	from int32
}

// NewSkeleton finds the kernels, of at least that many bytes, that a model can be without. With 0 they are of at least
// a page: a smaller hole saves nothing on the disk. The error matches [ErrNoSkeleton] or [ErrSkeleton], or is
// that of opening the model. The caller closes the skeleton.
func NewSkeleton(path string, least int64) (s *Skeleton, err error) {
	s = &Skeleton{least: cmp.Or(least, page)}
	if s.file, err = mapped.Open(path); err != nil {
		return nil, fmt.Errorf("open model: %w", err)
	}
	if err := fault.Try(func() { s.read(s.file.Data()) }); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), s.Close())
	}
	return s, nil
}

// Close closes the model.
func (s *Skeleton) Close() error { return s.file.Close() }

func (s *Skeleton) read(data []byte) {
	s.data = data
	if output.IsSkeleton(data) {
		fault.Check(ErrSkeleton)
	}
	s.model = flatbuf.Root(data, fileIdentifier, ErrMalformed)
	s.buffers = readBuffers(data, s.model)
	far := slices.ContainsFunc(s.buffers, func(b flatbuf.Span) bool { return b.Size > 0 && b.End() > math.MaxInt32 })
	for _, x := range s.model.Tables(modelBuffers).All() {
		far = far || x.Uint64(bufferOffset) > 1
	}
	codes, subgraphs := s.model.Tables(modelOperatorCodes), s.model.Tables(modelSubgraphs)
	reads := map[uint64]int{}
	for _, t := range subgraphs.All() {
		g := &skeletonGraph{t, t.Tables(subgraphTensors), t.Tables(subgraphOperators), map[int32]dequantizing{}}
		s.graphs = append(s.graphs, g)
		var rest []*Kernel
		for _, op := range g.operators.All() {
			far = far || op.Uint64(operatorLargeOptionsOffset) > 1
			code, _ := readCode(codes.Table(int(op.Uint32(operatorCodeIndex))))
			inputs := op.Int32s(operatorInputs)
			outputs := op.Int32s(operatorOutputs)
			if code == "DEQUANTIZE" && len(inputs) == 1 && len(outputs) == 1 && s.buffer(g, inputs[0]) != 0 {
				g.widened[outputs[0]] = dequantizing{op, inputs[0]}
				continue
			}
			rest = append(rest, &Kernel{graph: g, op: op, code: code, inputs: inputs})
		}
		for _, k := range rest {
			for _, t := range k.inputs {
				reads[s.buffer(g, t)]++
			}
			if s.weighs(k) {
				s.Kernels = append(s.Kernels, k)
			}
		}
		for _, t := range t.Int32s(subgraphOutputs) {
			reads[s.buffer(g, t)] += 2
		}
	}
	if far {
		fault.Because(ErrNoSkeleton, "it has data outside the flatbuffer")
	}
	for _, k := range s.Kernels {
		if reads[k.Buffer] > 1 {
			k.Kept = "read by several operators"
		}
	}
}

// buffer returns the buffer that the constant is in that a tensor has, or is made of; 0 if it is no constant.
func (s *Skeleton) buffer(g *skeletonGraph, tensor int32) uint64 {
	if w, is := g.widened[tensor]; is {
		tensor = w.from
	}
	b := uint64(g.tensors.Table(int(tensor)).Uint32(tensorBuffer))
	if b >= uint64(len(s.buffers)) || s.buffers[b].Size == 0 {
		return 0
	}
	return b
}

// weighs reports whether an operator has a constant kernel, which it looks at.
func (s *Skeleton) weighs(k *Kernel) bool {
	inputs := k.inputs
	if !slices.Contains([]opcode{"CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV"}, k.code) ||
		len(inputs) <= max(1, k.dataInput()) || s.buffer(k.graph, inputs[1]) == 0 {
		return false
	}
	k.Buffer, k.Bias = s.buffer(k.graph, inputs[1]), math.MaxUint64
	k.Bytes = s.buffers[k.Buffer].Size
	if bias := 2 + k.dataInput()/2; len(inputs) > bias && inputs[bias] != absent {
		k.Bias = s.buffer(k.graph, inputs[bias])
	}
	input, kernel := k.graph.tensors.Table(int(inputs[k.dataInput()])), k.graph.tensors.Table(int(inputs[1]))
	rank := 4
	if k.code == "FULLY_CONNECTED" {
		rank = 2
	}
	shape, of := kernel.Int32s(tensorShape), input.Int32s(tensorShape)
	switch typ := elementType(input.Byte(tensorType)); {
	case k.Bytes < s.least:
		k.Kept = "so small that a hole saves nothing"
	case typ != typeFloat32 && typ != typeInt8 || k.outputType() != typ:
		k.Kept = "of an operator on " + typ.String()
	case len(shape) != rank || len(of) == 0 || k.Bias == 0 || kernel.Table(tensorSparsity).Present():
		k.Kept = "sparse, or not understood"
	default:
		k.input, k.output = k.shapes(shape, of[len(of)-1])
	}
	return true
}

// dataInput is which of the operator's inputs is not constant.
func (k *Kernel) dataInput() int {
	if k.code == "TRANSPOSE_CONV" {
		return 2
	}
	return 0
}

// left returns the kernels that are left out.
func (s *Skeleton) left() (left []*Kernel) {
	for _, k := range s.Kernels {
		if k.Kept == "" {
			left = append(left, k)
		}
	}
	return left
}

// shapes returns those of an input and an output, as small as they can be, for a kernel of a shape. Convolutions with
// padding are of one element then.
func (k *Kernel) shapes(shape []int32, channels int32) (input, output []int32) {
	o := k.op.Table(operatorOptions)
	same := o.Byte(conv2D.padding) == paddingSame
	slots := conv2D
	switch k.code {
	case "FULLY_CONNECTED":
		return []int32{1, shape[1]}, []int32{1, shape[0]}
	case "TRANSPOSE_CONV":
		size := [2]int32{o.Int32(transposeConvStrideH, 0), o.Int32(transposeConvStrideW, 0)}
		if !same {
			size = [2]int32{max(size[0], shape[1]), max(size[1], shape[2])}
		}
		return []int32{1, 1, 1, channels}, []int32{1, size[0], size[1], shape[0]}
	case "CONV_2D":
		output = []int32{1, 1, 1, shape[0]}
	case "DEPTHWISE_CONV_2D":
		slots, output = depthwise2D, []int32{1, 1, 1, shape[3]}
	}
	if same {
		return []int32{1, 1, 1, channels}, output
	}
	height, width := (shape[1]-1)*o.Int32(slots.dilationH, 1)+1, (shape[2]-1)*o.Int32(slots.dilationW, 1)+1
	return []int32{1, height, width, channels}, output
}

// WriteProbe writes a model into an empty file that answers what the operators of the kernels that are left out answer
// to their checks, with these kernels or with holes in their place.
func (s *Skeleton) WriteProbe(to *os.File, holes bool) error {
	return fault.Try(func() { s.probe().write(to, holes) })
}

func (s *Skeleton) probe() *rewriting {
	r := s.rewrite()
	g := r.graph()
	left := s.left()
	for i, k := range left {
		g.outputs = append(g.outputs, g.compute(k, i == len(left)-1))
	}
	r.subgraphs = []any{g.fields()}
	return r
}

// SetAnswers takes what LiteRT answered to both probes. Kernels whose absence makes no difference then, are kept.
func (s *Skeleton) SetAnswers(with, without []byte) error {
	return fault.Try(func() { s.setAnswers(with, without) })
}

func (s *Skeleton) setAnswers(with, without []byte) {
	for _, k := range s.left() {
		n := k.outputType().Size()
		for _, d := range k.output {
			n *= int(d)
		}
		if n < 0 || n > len(with) || n > len(without) {
			fault.Because(ErrNoSkeleton, "LiteRT answers with less than it should")
		}
		of := k.outputType()
		if k.answer = with[:n]; !differ(of, k.answer, without[:n]) || differ(of, k.answer, k.answer) {
			k.Kept = "not distinguished from none"
		}
		with, without = with[n:], without[n:]
	}
}

// differ reports whether LiteRT takes answers for different: NaN is, also from itself, and negative zero is not.
func differ(of elementType, a, b []byte) bool {
	if of == typeInt8 {
		return !bytes.Equal(a, b)
	}
	for ; len(a) > 0; a, b = a[4:], b[4:] {
		if float32At(a) != float32At(b) {
			return true
		}
	}
	return false
}

func float32At(b []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b)) }

func (k *Kernel) result() flatbuf.Table {
	return k.graph.tensors.Table(int(append(k.op.Int32s(operatorOutputs), absent)[0]))
}

func (k *Kernel) outputType() elementType { return elementType(k.result().Byte(tensorType)) }

// Write writes the skeleton into an empty file, which gets holes where the file system has them.
func (s *Skeleton) Write(to *os.File) error {
	return fault.Try(func() { s.write(to) })
}

func (s *Skeleton) write(to *os.File) {
	r := s.rewrite()
	groups := [][]*Kernel{nil}
	for _, k := range s.left() {
		if k.Last {
			groups = append(groups, []*Kernel{k})
		} else {
			groups[0] = append(groups[0], k)
		}
	}
	var once []any
	for _, group := range groups {
		if len(group) > 0 {
			once = append(once, operatorOf(r.code("CALL_ONCE"), nil, nil, optionsCallOnce,
				flatbuf.Fields{callOnceInit: int32(len(s.graphs) + len(once))}))
			r.subgraphs = append(r.subgraphs, r.check(group))
		}
	}
	begins := []int{0}
	for _, signature := range readSignatures(s.model) {
		begins = append(begins, signature.subgraph)
	}
	old := make([]any, len(s.graphs))
	for i, g := range s.graphs {
		old[i] = flatbuf.There(g.table.Position())
		if slices.Contains(begins, i) {
			f := fieldsThere(g.table, subgraphTensors, subgraphInputs, subgraphOutputs, subgraphName)
			f[subgraphDebug] = g.table.Int32(subgraphDebug, -1)
			f[subgraphOperators] = append(slices.Clone(once), there(g.operators)...)
			old[i] = f
		}
	}
	r.subgraphs = append(old, r.subgraphs...)
	r.write(to, true)
	fault.Check(output.MarkSkeleton(to))
	s.FileBytes, s.HoleBytes = fault.Value(to.Seek(0, io.SeekEnd)), 0
	for _, k := range s.left() {
		at := s.buffers[k.Buffer]
		s.HoleBytes += max(0, at.End()/page-(at.Offset+page-1)/page) * page
	}
}
