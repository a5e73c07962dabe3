package tflite

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"

	"xpwc"
	"xpwc/internal/fault"
	"xpwc/internal/flatbuf"
	"xpwc/internal/half"
	"xpwc/internal/mapped"
	"xpwc/internal/output"
)

// ErrSkeleton is matched by the error of reading weights that a skeleton leaves out: see [Skeleton.Write]. LiteRT runs
// a skeleton with its file of packed weights, and xpwc with a cache file that has them. For anything else open the
// model that it was made of.
var ErrSkeleton = errors.New("a skeleton, without weights: it runs only with the packed weights of its model; " +
	"use the model that it was made of")

// ErrNoSkeleton is matched by the error of [NewSkeleton] if there is none.
var ErrNoSkeleton = errors.New("no skeleton can be made of it")

// A Skeleton is a model without the kernels that LiteRT finds in its file of packed weights, and with checks: before
// its first answer LiteRT computes with each packed kernel that it uses, and fails if the result differs from the
// model's. A kernel without a check stays in the skeleton under another buffer index, so that LiteRT packs it from
// there.
//
// A check multiplies each element of a kernel by pseudo-random numbers, in full windows and without an activation. It
// compares a digest of all results. Results in int8 are rounded: a check has as many inputs as it takes to see a change
// of any element by one quantum, or there is none.
//
// The checks are subgraphs that an operator CALL_ONCE runs. A division by 0, the only error that LiteRT makes of
// numbers, is how they fail.
//
// [Open] reads a skeleton, too. The content of what it leaves out cannot be read; the digest of it can. So a session
// finds the packed weights in a cache that has packed the model, and fails where it would pack.
type Skeleton struct {
	Kernels   []*Kernel // of all operators that LiteRT caches
	HoleBytes int64     // of the pages that take no space on the disk, after [Skeleton.Write]
	FileBytes int64     // of the file, with the holes, likewise

	minimum int64
	file    *mapped.File
	data    []byte
	flat    int64 // where the flatbuffer ends
	model   flatbuf.Table
	buffers []flatbuf.Span
	graphs  []*skeletonGraph
	moved   map[uint64]bool // buffers with another index in the skeleton: kernels, and biases
}

// A Kernel is weights of one operator.
type Kernel struct {
	Buffer, Bias uint64 // indices of the model's buffers; Bias is that of no buffer if there is none
	Bytes        int64
	// Last reports that the operator ends a part of the model that XNNPACK runs, for which LiteRT has another seed.
	Last bool
	// Shared is why the kernel stays in the file; "" if it need not.
	Shared string
	// Unchecked is why no check sees each element of the kernel; "" if a check does. Such a kernel stays in the file.
	Unchecked string

	graph         *skeletonGraph
	op            flatbuf.Table
	code          opcode
	inputs        []int32
	repeated      bool       // an operator before it has the same kernel and bias, and the check
	users         *[]*Kernel // those with the same bytes, this one among them
	steps         []float64
	input, output []int32 // shapes for its check; the first dimension counts its inputs
	window        int     // index, among the places of one output, of one whose window has no padding
	digest        int64
	factor        int32 // by which its inputs are to be multiplied, to see each element
}

// Stays reports whether the kernel stays in the file, and why. Operators of several signatures may have one kernel: it
// stays if one of them needs it.
func (k *Kernel) Stays() (reason string, stays bool) {
	reason = cmp.Or(k.Unchecked, k.Shared)
	for _, user := range *k.users {
		reason = cmp.Or(reason, user.Unchecked)
	}
	return reason, reason != ""
}

// kernelInput is which of an operator's inputs is its kernel.
const kernelInput = 1

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
	op     flatbuf.Table
	source int32
}

// SkeletonOptions are options of [NewSkeleton]; nil and the zero value mean the defaults.
type SkeletonOptions struct {
	// Minimum is the size of the least kernel that is left out, in bytes; 0 means a page: a smaller hole saves nothing
	// on the disk.
	Minimum int64
	// Offset and Size are where the model lies in its file, as of [Options].
	Offset, Size int64
}

// NewSkeleton finds the kernels that a model can be without. The error matches [ErrNoSkeleton] or [ErrSkeleton], or is
// that of opening the model. The caller closes the skeleton.
func NewSkeleton(path string, o *SkeletonOptions) (s *Skeleton, err error) {
	if o == nil {
		o = &SkeletonOptions{}
	}
	s = &Skeleton{minimum: cmp.Or(o.Minimum, page)}
	if s.file, err = (&Options{Offset: o.Offset, Size: o.Size}).open(path); err != nil {
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
	s.readEnd()
	far := false
	codes, subgraphs := s.model.Tables(modelOperatorCodes), s.model.Tables(modelSubgraphs)
	unpacked := map[flatbuf.Span]string{} // by what constants are read without being packed
	for _, m := range s.model.Tables(modelMetadata).All() {
		if b := uint64(m.Uint32(metadataBuffer)); b < s.Buffers() {
			unpacked[s.buffers[b]] = "the model's metadata"
		}
	}
	for _, t := range subgraphs.All() {
		g := &skeletonGraph{t, t.Tables(subgraphTensors), t.Tables(subgraphOperators), map[int32]dequantizing{}}
		s.graphs = append(s.graphs, g)
		var rest []*Kernel
		for _, op := range g.operators.All() {
			far = far || op.Uint64(operatorLargeOptionsOffset) > 1 // of a custom operator
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
			weighs := s.weighs(k)
			if weighs {
				s.Kernels = append(s.Kernels, k)
			}
			for i, t := range k.inputs {
				if b := s.buffer(g, t); b != 0 && (!weighs || i != kernelInput) {
					unpacked[s.span(b)] = string(k.code)
				}
			}
		}
		for _, t := range t.Int32s(subgraphOutputs) {
			if b := s.buffer(g, t); b != 0 {
				unpacked[s.span(b)] = "the model's outputs"
			}
		}
	}
	if far {
		fault.Because(ErrNoSkeleton, "it has options of operators outside the flatbuffer")
	}
	type packing struct {
		kernel, bias uint64
		code         opcode
	}
	checked := map[packing]bool{}
	users := map[flatbuf.Span]*[]*Kernel{}
	for _, k := range s.Kernels {
		span := s.span(k.Buffer)
		if reader, ok := unpacked[span]; ok {
			k.Shared = "also read unpacked, by " + reader
		}
		if users[span] == nil {
			users[span] = &[]*Kernel{}
		}
		k.users = users[span]
		*k.users = append(*k.users, k)
		p := packing{k.Buffer, k.Bias, k.code}
		k.repeated = checked[p]
		checked[p] = true
	}
}

// readEnd finds the end of the flatbuffer: the first buffer outside it, if there is one.
func (s *Skeleton) readEnd() {
	s.flat = int64(len(s.data))
	for i, x := range s.model.Tables(modelBuffers).All() {
		if x.Uint64(bufferOffset) > 1 {
			s.flat = min(s.flat, s.buffers[i].Offset)
		}
	}
	for i, x := range s.model.Tables(modelBuffers).All() {
		if b := s.buffers[i]; b.Size > 0 && x.Uint64(bufferOffset) <= 1 && b.End() > s.flat {
			fault.Because(ErrNoSkeleton, "its flatbuffer does not end before its other data")
		}
	}
}

// buffer returns the buffer that the constant is in that a tensor has, or is made of; 0 if it is no constant.
func (s *Skeleton) buffer(g *skeletonGraph, tensor int32) uint64 {
	if w, ok := g.widened[tensor]; ok {
		tensor = w.source
	}
	b := uint64(g.tensors.Table(int(tensor)).Uint32(tensorBuffer))
	if b >= uint64(len(s.buffers)) || s.buffers[b].Size == 0 {
		return 0
	}
	return b
}

// span returns where a buffer's bytes are.
func (s *Skeleton) span(buffer uint64) flatbuf.Span { return s.buffers[buffer] }

// weighs reports whether an operator has a constant kernel, which it looks at.
func (s *Skeleton) weighs(k *Kernel) bool {
	inputs := k.inputs
	if !slices.Contains([]opcode{"CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV"}, k.code) ||
		len(inputs) <= max(kernelInput, k.dataInput()) || s.buffer(k.graph, inputs[kernelInput]) == 0 {
		return false
	}
	k.Buffer, k.Bias = s.buffer(k.graph, inputs[kernelInput]), math.MaxUint64
	k.Bytes = s.buffers[k.Buffer].Size
	if bias := 2 + k.dataInput()/2; len(inputs) > bias && inputs[bias] != absent {
		k.Bias = s.buffer(k.graph, inputs[bias])
	}
	input, kernel := k.tensor(k.dataInput()), k.tensor(kernelInput)
	rank := 4
	if k.code == "FULLY_CONNECTED" {
		rank = 2
	}
	shape, data := kernel.Int32s(tensorShape), input.Int32s(tensorShape)
	switch typ := elementType(input.Byte(tensorType)); {
	case k.Bytes < s.minimum:
		k.Unchecked = "so small that a hole saves nothing"
	case typ != typeFloat32 && typ != typeInt8 || k.outputType() != typ:
		k.Unchecked = "of an operator on " + typ.String()
	case k.code == "TRANSPOSE_CONV":
		k.Unchecked = "of a transposed convolution"
	case !k.inBlocks() && kernel.Table(tensorQuantization).Byte(quantizationDetailsType) != 0:
		k.Unchecked = "quantised in a way that is not understood"
	case len(shape) != rank || len(data) == 0 || k.Bias == 0 || kernel.Table(tensorSparsity).Present():
		k.Unchecked = "sparse, or not understood"
	default:
		k.plan(shape, data[len(data)-1])
		if k.Unchecked == "" && (s.rounded(k) || k.inBlocks() && !s.seesBlocks(k)) {
			k.Unchecked = "with weights so large that a sum of floats loses the others"
		}
	}
	return true
}

// rounded reports whether an output of a kernel of floats has weights, or a bias, so large that its sum rounds off half
// of its other weights. A check does not see a change of these, and an input of 0 at the large ones shows them.
func (s *Skeleton) rounded(k *Kernel) bool {
	const precision = 1 << 20 // of a sum of float32, with a few bits for the change of a weight
	weights := s.floats(k.Buffer, k.elements())
	outputs := int(k.output[len(k.output)-1])
	if weights == nil || outputs == 0 {
		return false
	}
	biases := s.floats(k.Bias, int64(outputs))
	size, step := len(weights)/outputs, 1
	if k.code == "DEPTHWISE_CONV_2D" {
		step = outputs
	}
	var sizes []float64
	for o := range outputs {
		first, sum := o*size, 0.
		if step > 1 {
			first = o
		}
		sizes = sizes[:0]
		for i := range size {
			if w := math.Abs(weights[first+i*step]); w > 0 {
				sizes = append(sizes, w)
				sum += w
			}
		}
		if biases != nil {
			sum += math.Abs(biases[o]) / float64(slices.Max(magnitudes))
		}
		if slices.Sort(sizes); len(sizes) > 0 && sizes[len(sizes)/2]*precision < sum {
			return true
		}
	}
	return false
}

// inBlocks reports whether a kernel has a scale for each of the blocks that a row consists of.
func (k *Kernel) inBlocks() bool {
	return k.code == "FULLY_CONNECTED" && elementType(k.tensor(kernelInput).Byte(tensorType)) == typeInt4 &&
		k.quantization(kernelInput).Byte(quantizationDetailsType) == detailsBlocks
}

// seesBlocks reports whether an output of a kernel in blocks shows a change of any of its weights: the scale of one
// block may be so small that the sum over all blocks rounds its weights off. A weight with the scale 0 counts nothing,
// whatever it is.
func (s *Skeleton) seesBlocks(k *Kernel) bool {
	const precision = 1 << 20 // as in rounded
	t, blocks := k.tensor(kernelInput), k.quantization(kernelInput).Table(quantizationDetails)
	shape, size := t.Int32s(tensorShape), int(blocks.Int32(blocksSize, 0))
	scaleTensor := blocks.Int32(blocksScales, 0)
	if size < 2 || int(shape[1])%size != 0 || scaleTensor < 0 || int(scaleTensor) >= k.graph.tensors.Len() ||
		blocks.Int32(blocksZeroPoints, 0) != absent {
		fault.Because(ErrMalformed, "blocks of %d of shape %v", size, shape)
	}
	perRow := int(shape[1]) / size
	scales := s.floats(s.buffer(k.graph, scaleTensor), int64(shape[0])*int64(perRow))
	weights := s.buffers[k.Buffer].In(s.data)
	if scales == nil || int64(len(weights))*2 != k.elements() || size%2 != 0 {
		fault.Because(ErrMalformed, "blocks of shape %v with %d scales", shape, len(scales))
	}
	for row := range int(shape[0]) {
		sum, least := 0., math.Inf(1)
		for b := row * perRow; b < (row+1)*perRow; b++ {
			total := 0
			for _, two := range weights[b*size/2:][:size/2] {
				low, high := int(int8(two<<4)>>4), int(int8(two)>>4)
				total += max(low, -low) + max(high, -high)
			}
			scale := math.Abs(scales[b])
			if sum += scale * float64(total); scale > 0 {
				least = min(least, scale)
			}
		}
		if least*precision < sum {
			return false
		}
	}
	return true
}

// floats returns so many floats, or half floats, of a buffer; nil if it has other elements.
func (s *Skeleton) floats(buffer uint64, n int64) (floats []float64) {
	if buffer >= uint64(len(s.buffers)) {
		return nil
	}
	switch b := s.buffers[buffer].In(s.data); int64(len(b)) {
	case 4 * n:
		for ; len(b) > 0; b = b[4:] {
			floats = append(floats, float64(math.Float32frombits(binary.LittleEndian.Uint32(b))))
		}
	case 2 * n:
		for ; len(b) > 0; b = b[2:] {
			floats = append(floats, half.Float64(binary.LittleEndian.Uint16(b)))
		}
	}
	return floats
}

func (k *Kernel) tensor(input int) flatbuf.Table { return k.graph.tensors.Table(int(k.inputs[input])) }

// dataInput is which of the operator's inputs is not constant.
func (k *Kernel) dataInput() int {
	if k.code == "TRANSPOSE_CONV" {
		return 2
	}
	return 0
}

// omitted returns the kernels that are left out.
func (s *Skeleton) omitted() (omitted []*Kernel) {
	for _, k := range s.Kernels {
		if _, stays := k.Stays(); !stays {
			omitted = append(omitted, k)
		}
	}
	return omitted
}

// checked returns the kernels that have a check.
func (s *Skeleton) checked() (checked []*Kernel) {
	for _, k := range s.Kernels {
		if k.Unchecked == "" && !k.repeated {
			checked = append(checked, k)
		}
	}
	return checked
}

var (
	// magnitudes are the factors of float inputs: large ones, to which a bias adds little, and 0, which shows the
	// bias alone.
	magnitudes = []float32{1, 64, 4096, 0}
	// spans are the parts of int8 that inputs take: a small one where the results of a large one are at a clamp. Each
	// is of as many inputs.
	spans = []float32{1, 0.25}
)

const (
	mostInputs  = 4096    // of a check in int8
	mostNumbers = 1 << 20 // of a check's inputs and results in int8, and two for each element: some 10 ms
	misses      = 1e-3    // elements of a kernel whose change by one quantum a check may be expected not to see
)

// plan chooses the shapes of a check's inputs and outputs.
func (k *Kernel) plan(shape []int32, channels int32) {
	elements, outputs := k.elements(), shape[0]
	if k.code == "DEPTHWISE_CONV_2D" {
		outputs = shape[3]
	}
	n := int32(len(magnitudes))
	if k.outputType() == typeInt8 {
		if k.steps = k.outputSteps(int(outputs)); k.steps == nil {
			k.Unchecked = "not understood"
			return
		}
		inputs := surprise(elements) / -math.Log1p(-min(slices.Min(k.steps), 0.5))
		n = int32(len(spans)) * int32(min(max(inputs, 8), mostInputs/2))
		n = (n + 3) &^ 3 // the digest reads results in words of 4 bytes
	}
	defer func() {
		if k.steps != nil && k.numbers() > mostNumbers+2*elements {
			k.Unchecked = "with elements that no check of few inputs sees"
		}
	}()
	if k.code == "FULLY_CONNECTED" {
		k.input, k.output = []int32{n, shape[1]}, []int32{n, shape[0]}
		return
	}
	o, slots := k.op.Table(operatorOptions), conv2D
	if k.code == "DEPTHWISE_CONV_2D" {
		slots = depthwise2D
	}
	padSame := o.Byte(slots.padding) == paddingSame
	side := func(kernel, stride, dilation int32) (input, output, whole int32) {
		if kernel < 1 || stride < 1 || dilation < 1 {
			fault.Because(ErrMalformed, "a convolution with a window, stride or dilation of %d, %d, %d", kernel, stride,
				dilation)
		}
		input, output = (kernel-1)*dilation+1, 1
		if padSame { // places of windows are multiples of the stride less the padding: one of them has none
			window := input
			input += stride - 1
			output = (input + stride - 1) / stride
			padding := max((output-1)*stride+window-input, 0) / 2
			whole = (padding + stride - 1) / stride
		}
		return input, output, whole
	}
	height, down, y := side(shape[1], o.Int32(slots.strideH, 0), o.Int32(slots.dilationH, 1))
	width, across, x := side(shape[2], o.Int32(slots.strideW, 0), o.Int32(slots.dilationW, 1))
	k.input, k.output = []int32{n, height, width, channels}, []int32{n, down, across, outputs}
	k.window = int(y*across + x)
}

// outputSteps returns, for each output channel, by how much of the output's quantum the change of an element by one
// quantum moves it on average, for inputs that are all bytes alike.
func (k *Kernel) outputSteps(channels int) (steps []float64) {
	input, kernel := k.quantization(k.dataInput()), k.quantization(kernelInput)
	result := k.result().Table(tensorQuantization)
	in, weights := input.Float32s(quantizationScale), kernel.Float32s(quantizationScale)
	out, zeros := result.Float32s(quantizationScale), input.Int64s(quantizationZeroPoint)
	if len(in) != 1 || len(out) != 1 || len(zeros) != 1 || channels == 0 ||
		len(weights) != 1 && len(weights) != channels {
		return nil
	}
	below, above := float64(zeros[0]-math.MinInt8), float64(math.MaxInt8-zeros[0])
	mean := (below*below + above*above) / (2 * (below + above))
	for i := range channels {
		steps = append(steps, mean*float64(in[0])*float64(weights[i%len(weights)])/float64(out[0]))
	}
	return steps
}

func (k *Kernel) quantization(input int) flatbuf.Table {
	return k.tensor(input).Table(tensorQuantization)
}

// surprise is the logarithm of how often a check must see the change of an element, for one that it does not see to be
// unexpected among so many.
func surprise(elements int64) float64 { return math.Log(float64(elements) / misses) }

func count(shape []int32) int64 {
	n := int64(1)
	for _, d := range shape {
		n *= int64(d)
	}
	return n
}

func (k *Kernel) elements() int64 { return count(k.tensor(kernelInput).Int32s(tensorShape)) }

// windows returns the number of places of the window in one of a check's inputs.
func (k *Kernel) windows() int32 { return int32(count(k.output[1 : len(k.output)-1])) }

// numbers returns how many there are in a check's inputs and results.
func (k *Kernel) numbers() int64 { return count(k.input) + count(k.output) }

// WriteProbe writes a model into an empty file that answers the results of all checks and their digests, with the
// kernels or with holes in their place.
func (s *Skeleton) WriteProbe(w *os.File, holes bool) error {
	return fault.Try(func() {
		var absent []*Kernel
		if holes {
			absent = s.checked()
		}
		s.probe().write(w, s.unmoved(absent))
	})
}

func (s *Skeleton) probe() *rewriting {
	r := s.rewrite()
	g := r.graph()
	checked := s.checked()
	for i, k := range checked {
		out := g.compute(k, i == len(checked)-1)
		g.outputs = append(g.outputs, out, g.digest(k, out))
	}
	r.subgraphs = []any{g.fields()}
	return r
}

// SetAnswers takes what LiteRT answered to both probes. It reports whether some checks need more inputs than that, so
// that the probes are to be written again. A kernel has no check if no number of inputs shows each element.
func (s *Skeleton) SetAnswers(packed, without []byte) (retry bool, err error) {
	err = fault.Try(func() { retry = s.setAnswers(packed, without) })
	return retry, err
}

func (s *Skeleton) setAnswers(packed, without []byte) (retry bool) {
	for _, k := range s.checked() {
		n := k.outputType().Size() * int(count(k.output))
		const digest = 8
		if n < 0 || n+digest > len(packed) || n+digest > len(without) {
			fault.Because(ErrNoSkeleton, "LiteRT answers with less than it should")
		}
		k.digest = int64(binary.LittleEndian.Uint64(packed[n:]))
		seen := k.seen(packed[:n])
		factor := int32(min(math.Ceil(1.2/seen), mostInputs)) // times the inputs
		switch {
		case k.digest == int64(binary.LittleEndian.Uint64(without[n:])):
			k.Unchecked = "not distinguished from none"
		case seen >= 1:
		case factor*k.input[0] <= mostInputs && int64(factor)*k.numbers() <= mostNumbers+2*k.elements():
			k.factor, retry = factor, true
		default:
			k.Unchecked = "with elements that no check of few inputs sees"
		}
		packed, without = packed[n+digest:], without[n+digest:]
	}
	for _, k := range s.checked() {
		if k.factor > 0 {
			k.input[0], k.output[0], k.factor = k.factor*k.input[0], k.factor*k.output[0], 0
		}
	}
	for _, k := range s.Kernels { // whose check is that of another one
		if !k.repeated {
			continue
		}
		for _, c := range s.Kernels {
			if c.Buffer == k.Buffer && c.Bias == k.Bias && c.code == k.code && !c.repeated {
				k.Unchecked = c.Unchecked
			}
		}
	}
	return retry
}

// seen returns whether results show a change of any element: 1 or more, or the part of so many that would.
func (k *Kernel) seen(results []byte) float64 {
	if k.outputType() == typeFloat32 {
		for ; len(results) > 0; results = results[4:] {
			x := float64(math.Float32frombits(binary.LittleEndian.Uint32(results)))
			if math.IsNaN(x) || math.IsInf(x, 0) {
				return 0
			}
		}
		return 1
	}
	channels := len(k.steps)
	places := int(k.windows())
	elements := k.elements()
	// The chance that a change moves a result over the border between two quanta is a step, if results are spread over
	// more quanta than a few.
	const spread = 8
	inputs, minimum := int(k.output[0]), math.Inf(1)
	for c, step := range k.steps {
		seen := 0.
		for i, span := range spans {
			unclamped, quanta := 0., map[int8]bool{}
			for n := i * inputs / len(spans); n < (i+1)*inputs/len(spans); n++ {
				if y := int8(results[(n*places+k.window)*channels+c]); y != math.MinInt8 && y != math.MaxInt8 {
					unclamped++
					quanta[y] = true
				}
			}
			if len(quanta) >= spread {
				seen += unclamped * -math.Log1p(-min(step*float64(span), 0.5))
			}
		}
		minimum = min(minimum, seen/surprise(elements))
	}
	return minimum
}

func (k *Kernel) result() flatbuf.Table {
	return k.graph.tensors.Table(int(append(k.op.Int32s(operatorOutputs), absent)[0]))
}

func (k *Kernel) outputType() elementType { return elementType(k.result().Byte(tensorType)) }

// Packed sets the kernel buffers for which a file has entries without a check. In the skeleton they get another index,
// and so do their biases unless a checked kernel has the same: LiteRT finds no entry under these.
func (s *Skeleton) Packed(uncovered map[uint64]bool) {
	s.moved = maps.Clone(uncovered)
	for _, k := range s.Kernels {
		if !uncovered[k.Buffer] {
			continue
		}
		k.Unchecked = cmp.Or(k.Unchecked, "packed in a way that a check does not see")
		s.moved[k.Bias] = s.moved[k.Bias] || !slices.ContainsFunc(s.Kernels, func(c *Kernel) bool {
			return c.Bias == k.Bias && !uncovered[c.Buffer]
		})
	}
	delete(s.moved, 0) // the model's empty buffer
}

// Buffers returns how many buffers the model has. The indices of the skeleton's own buffers follow.
func (s *Skeleton) Buffers() uint64 { return uint64(len(s.buffers)) }

// Write writes the skeleton into an empty file, which gets holes where the file system has them.
func (s *Skeleton) Write(w *os.File) error {
	return fault.Try(func() { s.write(w) })
}

func (s *Skeleton) write(w *os.File) {
	r := s.rewrite()
	groups := [][]*Kernel{nil}
	for _, k := range s.checked() {
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
		f := fieldsThere(g.table, subgraphInputs, subgraphOutputs, subgraphName)
		f[subgraphDebug] = g.table.Int32(subgraphDebug, -1)
		f[subgraphTensors], f[subgraphOperators] = r.tensors(g), refs(g.operators)
		if slices.Contains(begins, i) {
			f[subgraphOperators] = append(slices.Clone(once), refs(g.operators)...)
		}
		old[i] = f
	}
	r.subgraphs = append(old, r.subgraphs...)
	l := s.cut(s.omitted())
	r.write(w, l)
	fault.Value(w.WriteAt(s.record(), fault.Value(w.Seek(0, io.SeekEnd))))
	fault.Check(output.MarkSkeleton(w))
	s.FileBytes, s.HoleBytes = fault.Value(w.Seek(0, io.SeekEnd)), l.holeBytes()
}

// record returns the record of what the skeleton leaves out.
func (s *Skeleton) record() []byte {
	o, order := omission{map[uint64]xpwc.Digest{}, len(s.graphs)}, []uint64{}
	for _, k := range s.omitted() {
		if _, seen := o.buffers[k.Buffer]; !seen {
			o.buffers[k.Buffer] = xpwc.DigestOf(s.span(k.Buffer).In(s.data))
			order = append(order, k.Buffer)
		}
	}
	return o.append(nil, order)
}
