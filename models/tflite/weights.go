package tflite

import (
	"fmt"
	"reflect"
	"slices"

	"xpwc/internal/flatbuf"
	"xpwc/internal/flow"
	"xpwc/xnnpack"
)

// weights are what a node packs: the file's, or computed from them.
type weights struct {
	kernel *constant
	bias   *constant // nil if there is none
	// dynamic is of how many of the input's last dimensions each has a scale of its own, where the input is quantized
	// at inference; otherwise it is 0.
	dynamic int
}

// weights chooses how XNNPACK multiplies operand inputAt by operand kernelAt, the filter, and adds operand biasAt, of a
// number for each output. Types are as TensorFlow Lite has them: single precision throughout; int8 or uint8 with a bias
// of int32; or an input in single precision with a filter of int8, its dynamic range. For that XNNPACK quantizes the
// input, over as many dimensions as dynamic has, and where it has no such kernel the filter is dequantized. So is all
// of an operator that is tooCoarse, and of one with an input of int16.
func (c *call) weights(inputAt, kernelAt, biasAt int, filter *value, outputs, dynamic int) (w weights) {
	in := c.resolve(inputAt)
	c.sameTypes(in)
	if len(c.op.outputs) != 1 {
		malformed("%d outputs", len(c.op.outputs))
	}
	hasBias := c.bias(biasAt, outputs)
	w.kernel = filter.constant
	if c.declared(inputAt) == typeInt16 {
		if hasBias {
			w.bias = c.accumulated(c.resolve(biasAt).constant, inputAt, w.kernel)
		}
		c.dequantize(&w)
		return w
	}
	biasType := typeInt32
	if in.dtype == typeFloat32 {
		biasType = typeFloat32
	}
	if hasBias {
		v := c.resolve(biasAt)
		w.bias = v.constant
		if v.dtype != biasType {
			unsupported("a bias of type %v for an input of type %v", c.declared(biasAt), in.dtype)
		}
	}
	switch {
	case filter.dtype != in.dtype && (in.dtype != typeFloat32 || !filter.dtype.isBytes()):
		unsupported("weights of type %v for an input of type %v", c.declared(kernelAt), in.dtype)
	case filter.dtype != in.dtype:
		filter.constant.scaled()
		if dynamic > 0 && c.channelwise(&w, filter, outputs) {
			w.dynamic = dynamic
		} else {
			w.kernel = c.plan.derive(filter.constant.dequantized())
		}
	case filter.dtype == typeInt8:
		if z := filter.constant.quant.zeroPoints; len(z) == 1 && z[0] != 0 && len(filter.constant.quant.scales) == 1 {
			unsupported("int8 weights with the zero point %d", z[0])
		}
	}
	w.kernel.describe()
	if in.dtype.isBytes() && c.tooCoarse(inputAt, w.kernel) {
		c.dequantize(&w)
	}
	if w.bias != nil {
		w.bias.describe()
	}
	return w
}

// tooCoarse reports whether a step of the products is too many steps of the output for XNNPACK's kernels of bytes.
// Converters give an output that was always 0 while they looked a scale of nearly 0.
func (c *call) tooCoarse(inputAt int, kernel *constant) bool {
	const limit = 256
	input := c.plan.graph.tensors[c.op.inputs[inputAt]].quantization
	output := c.plan.graph.tensors[c.op.outputs[0]].quantization
	if len(input.scales) != 1 || len(output.scales) != 1 {
		return false
	}
	return input.scales[0]*slices.Max(kernel.quant.scales)/output.scales[0] >= limit
}

// dequantize has the operator compute in single precision, with these weights.
func (c *call) dequantize(w *weights) {
	c.wide = true
	for _, k := range []**constant{&w.kernel, &w.bias} {
		stored := *k
		if stored == nil || stored.dtype == typeFloat32 {
			continue
		}
		stored.scaled()
		*k = c.plan.derive(stored.dequantized())
	}
}

// declared is an operand's type in the file.
func (c *call) declared(i int) elementType { return c.plan.graph.tensors[c.required(i)].dtype }

// channelwise gives the weights a scale for each output, if they can have them as XNNPACK needs them for an input that
// is quantized at inference. The bias is packed, too, and must be as it is stored.
func (c *call) channelwise(w *weights, filter *value, outputs int) bool {
	k := filter.constant
	q := &k.quant
	nonzero := func(z int64) bool { return z != 0 }
	if filter.dtype != typeInt8 || slices.ContainsFunc(q.zeroPoints, nonzero) || w.bias != nil && !w.bias.asStored() {
		return false
	}
	packed := c.op.code == "FULLY_CONNECTED" && k.packs4Bits() && (q.block == 0 || k.packsBlocks())
	if packed {
		n, _ := elements(c.resolve(0).shape)
		packed = k.packsRows(n / filter.shape[1])
	}
	switch {
	case q.block > 0:
		if !packed {
			return false
		}
	case len(q.scales) == 1 && outputs != 1:
		k = c.plan.derive(k.derived(k.name+", by channel", func(k *constant) {
			k.quant = quantization{scales: slices.Repeat(q.scales, outputs)}
		}))
	case len(q.scales) != outputs, q.dimension != 0, outputs == 1 && !packed:
		return false
	}
	if packed {
		k = c.plan.derive(k.inFourBits())
	}
	w.kernel = k
	return true
}

// derive returns a constant that is computed: the same for every operator, with a name that no tensor has.
func (p *plan) derive(k *constant) *constant {
	for {
		got := p.derived[k.name]
		if got != nil && reflect.DeepEqual(got.quant, k.quant) && slices.Equal(got.shape, k.shape) {
			return got
		}
		if got == nil && !p.taken(k.name) {
			break
		}
		k.name += "#" // equal bytes can have two scales
	}
	p.derived[k.name] = k
	return k
}

// stored is what a tensor's bytes are, and where.
type stored struct {
	data  flatbuf.Span
	dtype elementType
}

// firstName returns the name of the first tensor that has a tensor's bytes: converters store equal ones once. A kernel
// or bias must have one name, whichever of its users is loaded first.
func (p *plan) firstName(t *tensor) string {
	if t.sparsity != nil {
		return t.name
	}
	return p.first[stored{t.data, t.dtype}]
}

// taken reports whether a tensor has this name.
func (p *plan) taken(name string) bool {
	if p.names == nil {
		p.names = make(map[string]bool, len(p.graph.tensors))
		for i := range p.graph.tensors {
			p.names[p.graph.tensors[i].name] = true
		}
	}
	return p.names[name]
}

// readNames notes the name of the first tensor that has its bytes.
func (p *plan) readNames() {
	for i := range p.graph.tensors {
		t := &p.graph.tensors[i]
		key := stored{t.data, t.dtype}
		if _, ok := p.first[key]; !ok && t.data.Size > 0 && t.sparsity == nil {
			p.first[key] = t.name
		}
	}
}

// nameConstants names constants by their content, so that a cache packs each content once. In a file of several
// computations the name is that of the stored bytes, followed by a digest of the conversion where there is one: it is
// the same in each signature. In a file of one computation constants keep the names of their tensors, under which
// existing caches have them. Only half precision that several operators widen gets one name, the first.
func (p *plan) nameConstants() {
	if p.graph.buffers == nil {
		p.nameWidened()
		return
	}
	for _, values := range [][]value{p.values, p.inside} {
		for i := range values {
			if c := values[i].constant; c != nil {
				c.name = p.contentName(c)
			}
		}
	}
}

// nameWidened gives half precision that several operators widen one name.
func (p *plan) nameWidened() {
	first := map[flatbuf.Span]string{}
	for i := range p.values {
		c := p.values[i].constant
		if c == nil || c.stored != typeFloat16 || !c.widened() || c.sparse != nil || c.data != nil {
			continue
		}
		if _, named := first[c.source]; !named {
			first[c.source] = c.name
		}
		c.name = first[c.source]
	}
}

// contentName returns the name of a constant in a file of several computations.
func (p *plan) contentName(c *constant) string {
	origin := c
	for origin.data != nil && origin.parent != nil {
		origin = origin.parent
	}
	name := p.graph.buffers[origin.source]
	if c.asStored() {
		return name
	}
	if origin.data != nil {
		name = "computed"
	}
	return fmt.Sprintf("%s, as %v %.16s", name, c.dtype, c.conversionDigest())
}

// inFloats describes the same in single precision.
func inFloats(t xnnpack.Tensor) xnnpack.Tensor {
	t.Type, t.Quantization = xnnpack.Float32, xnnpack.Quantization{}
	return t
}

// operands returns the values of a node's input, filter and bias.
func (c *call) operands(w weights, input flow.ID) (in, filter, bias flow.ID) {
	if w.dynamic > 0 {
		quantized := c.addInside(xnnpack.Tensor{Name: c.plan.graph.tensors[c.exampleOf(input)].name + ", quantized",
			Type: xnnpack.DynamicQInt8, Quantization: xnnpack.Quantization{NonBatchDims: w.dynamic}})
		c.Add(flow.Convert(input, quantized))
		input = quantized
	}
	bias = xnnpack.InvalidValue
	if w.bias != nil {
		bias = c.constant(w.bias)
	}
	return input, c.constant(w.kernel), bias
}
