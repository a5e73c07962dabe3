package tflite

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"xpwc"
	"xpwc/internal/fault"
	"xpwc/internal/flatbuf"
	"xpwc/internal/flow"
	"xpwc/internal/mapped"
	"xpwc/internal/operators"
	"xpwc/internal/tensorfile"
	"xpwc/models"
	"xpwc/xnnpack"
)

// constant is a tensor of the file, and what must be done to its bytes before XNNPACK can use them: stored elements
// spread over a dense tensor, then half precision widened to single. A constant that needs neither is used where it
// lies.
type constant struct {
	name      string // in the data map
	source    flatbuf.Span
	parent    *constant   // of data: a constant that it was computed from, or nil
	stored    elementType // as in the file
	dtype     elementType // as XNNPACK sees it
	data      []byte      // of one that was computed when the model was opened, and is in no file
	scatter   *scatter
	sparse    *sparsity
	shape     []int
	fileShape []int // the shape in the file, if XNNPACK sees its dimensions in another order, given by order
	order     []int
	size      int // bytes as XNNPACK sees it
	quant     quantization
	use       flow.Use
	omitted   *xpwc.Digest // of the stored content, if a skeleton leaves it out; nil otherwise
}

// newConstant checks that a tensor has as many bytes as its shape and type need.
func newConstant(t *tensor) *constant {
	shape := ints(t.shape)
	count, err := constantElements(shape)
	if t.sparsity != nil {
		count, err = elements(shape) // the file has fewer
	}
	if err != nil {
		malformed("%v", err)
	}
	dtype, bits := t.dtype, 8*t.dtype.Size()
	if narrow := narrowBits[dtype]; narrow > 0 {
		dtype, bits = typeInt8, narrow
	}
	width := dtype.Size()
	if width == 0 {
		unsupported("a constant of type %v", t.dtype)
	}
	k := &constant{
		name: t.name, source: t.data, stored: t.dtype, dtype: dtype, shape: shape, size: count * width,
		quant: t.quantization, omitted: t.omitted,
	}
	stored := count
	if t.sparsity != nil {
		k.scatter = t.sparsity.scatter(shape)
		k.sparse, stored = t.sparsity, k.scatter.stored
	}
	if t.data.Size != (int64(stored)*int64(bits)+7)/8 {
		malformed("%d bytes for %d elements of %v", t.data.Size, stored, t.dtype)
	}
	return k
}

// widened reports whether the elements are stored in another type than single precision, which XNNPACK is given.
func (c *constant) widened() bool { return c.stored != c.dtype }

// derived is a constant that is computed from the same bytes.
func (c *constant) derived(name string, change func(*constant)) *constant {
	k := *c
	k.name, k.use = name, 0
	change(&k)
	return &k
}

// scaled checks that there is a scale for each element, so that the constant can be dequantized.
func (c *constant) scaled() {
	q := &c.quant
	switch n := len(q.scales); {
	case q.custom || n == 0:
		unsupported("values of type %v without a scale", c.stored)
	case q.block > 0:
		if total, _ := constantElements(c.shape); n != total/q.block {
			malformed("%d scales of blocks of %d of shape %v", n, q.block, c.shape)
		}
	case n > 1 && (q.dimension < 0 || q.dimension >= len(c.shape) || n != c.shape[q.dimension]):
		malformed("%d scales along dimension %d of shape %v", n, q.dimension, c.shape)
	}
}

// dequantized is the same constant in single precision.
func (c *constant) dequantized() *constant {
	elements := c.size / c.dtype.Size()
	return c.derived(c.name+", dequantized", func(k *constant) { k.dtype, k.size = typeFloat32, 4*elements })
}

// describe returns the description for XNNPACK, without the content.
func (c *constant) describe() xnnpack.Tensor {
	if c.inHalfBytes() {
		return c.fourBits()
	}
	return describe(c.name, c.dtype, c.quant, c.shape)
}

func (c *constant) place() tensorfile.Place {
	return tensorfile.Place{Offset: c.source.Offset, Size: c.source.Size, Alignment: int64(max(c.dtype.Size(), 1))}
}

// computed reports whether XNNPACK is given other memory than the file's: converted constants, and constants that it
// reads at inference.
func (c *constant) computed() bool {
	return !c.asStored() || c.use&flow.AtInference != 0
}

// asStored reports whether the file has the content as XNNPACK sees it.
func (c *constant) asStored() bool { return c.unchanged() && c.data == nil }

func (c *constant) unchanged() bool { return !c.widened() && c.scatter == nil && c.order == nil }

// bytes returns the content that XNNPACK sees: where the file has it, or else computed anew.
func (c *constant) bytes(file []byte) []byte {
	return c.bytesOf(c.storedIn(file))
}

// storedIn returns the stored bytes, of a model's file. It panics as package fault does if a skeleton leaves them out.
func (c *constant) storedIn(file []byte) []byte {
	switch {
	case c.data != nil:
		return c.data
	case c.omitted != nil:
		fault.Check(fmt.Errorf("%q: %w", c.name, ErrSkeleton))
	}
	return c.source.In(file)
}

// bytesOf is bytes, of the file's bytes.
func (c *constant) bytesOf(stored []byte) []byte {
	if c.unchanged() {
		return stored
	}
	out := make([]byte, c.size)
	c.fill(out, stored)
	return out
}

// conversion is how content is computed. Its name has the types: the same bytes converted otherwise are another
// content.
func (c *constant) conversion() tensorfile.Conversion {
	name := c.conversionName()
	if c.asStored() {
		name = "" // a copy is the same content, also where another signature packs it from the file
	}
	return tensorfile.Conversion{
		Name: name,
		Size: c.size,
		Fill: func(dst, stored []byte) error { return fault.Try(func() { c.fill(dst, stored) }) },
		// Of fewer bytes than fill computes, and no computing.
		Digest: func(stored []byte) xpwc.Digest { return c.convertedDigest(name, xpwc.DigestOf(stored)) },
	}
}

// convertedDigest returns the digest of what a conversion computes from content with this digest.
func (c *constant) convertedDigest(conversion string, stored xpwc.Digest) xpwc.Digest {
	if c.asStored() {
		return stored
	}
	b := append(append([]byte(conversion), 0), stored[:]...)
	if c.sparse != nil {
		b = fmt.Appendf(b, "%v", *c.sparse)
	}
	if c.quantized() && !c.inHalfBytes() { // those have the same bytes with any scales
		b = fmt.Appendf(b, "%v%v", c.quant, c.shape)
	}
	return xpwc.DigestOf(b)
}

// leftOut is a tensor of which a skeleton has the digest alone.
func (c *constant) leftOut(path string) xpwc.Tensor {
	return xpwc.Tensor{
		Size: c.size,
		Fill: func([]byte) error { return fmt.Errorf("%s: %w", path, ErrSkeleton) },
		Identity: xpwc.Identity{
			Source: path,
			Digest: func() (xpwc.Digest, error) {
				return c.convertedDigest(c.conversion().Name, *c.omitted), nil
			},
			DigestReadsNothing: true,
		},
	}
}

func (c *constant) conversionName() string {
	name := c.dtype.String()
	if c.widened() {
		name += "<-" + c.stored.String()
	}
	if c.scatter != nil {
		name += fmt.Sprint("<-sparse", c.shape)
	}
	if c.order != nil {
		name += fmt.Sprint("<-", c.fileShape, c.order)
	}
	if c.data != nil {
		name += fmt.Sprint("<-", xpwc.DigestOf(c.data))
	}
	return name
}

// conversionDigest is equal for conversions that compute the same content of the same stored bytes. It is computed each
// time that a file of several computations is opened, so scales and indices are not printed.
func (c *constant) conversionDigest() xpwc.Digest {
	b := []byte(c.conversionName())
	number := func(vectors ...any) {
		for _, v := range vectors {
			start := len(b)
			b, _ = binary.Append(b, binary.LittleEndian, v) // fails for other types only
			b = binary.LittleEndian.AppendUint64(b, uint64(len(b)-start))
		}
	}
	if s := c.sparse; s != nil {
		number(s.traversalOrder, s.blockMap)
		for _, d := range s.dims {
			number(d.format, d.size, d.segments, d.indices)
		}
	}
	if q := &c.quant; c.quantized() {
		b = fmt.Append(b, q.dimension, q.block, c.shape)
		number(q.scales, q.zeroPoints)
	}
	return xpwc.DigestOf(b)
}

// quantized reports whether scales decide the content.
func (c *constant) quantized() bool { return c.widened() && len(c.quant.scales) > 0 }

// fill computes the content that XNNPACK sees from the bytes of the file.
func (c *constant) fill(dst, stored []byte) {
	if c.data != nil {
		stored = c.data
	}
	if c.order != nil {
		c.reorder(dst, stored)
		return
	}
	switch bits := narrowBits[c.stored]; {
	case bits == 0 || c.dtype == c.stored:
	case c.dtype == typeUint4:
		for i, b := range stored[:c.size] {
			dst[i] = b ^ 0x88
		}
		return
	default:
		stored = unpacked(stored, bits)
	}
	if c.scatter != nil {
		width := max(c.stored.Size(), 1)
		dense := make([]byte, c.scatter.dense*width)
		c.scatter.place(dense, stored, width)
		stored = dense
	}
	switch {
	case c.dtype.isBytes() || !c.widened():
		copy(dst, stored)
	case c.stored != typeFloat16:
		c.dequantize(dst, stored, 0)
	case c.scatter == nil && c.source.Offset%2 != 0:
		fault.Check(xnnpack.WidenF16(dst, slices.Clone(stored))) // the copy is aligned
	default:
		fault.Check(xnnpack.WidenF16(dst, stored))
	}
}

// narrowBits has the bits of elements that share bytes, the first in the lowest bits.
var narrowBits = map[elementType]int{typeInt4: 4, typeInt2: 2}

// unpacked returns integers of so many bits as int8.
func unpacked(narrow []byte, bits int) []byte {
	out := make([]byte, 0, len(narrow)*8/bits)
	for _, b := range narrow {
		for high := 8 - bits; high >= 0; high -= bits {
			out = append(out, byte(int8(b<<high)>>(8-bits)))
		}
	}
	return out
}

// dequantize computes single precision from bytes of which the first is element number first.
func (c *constant) dequantize(dst, stored []byte, first int) {
	inner := max(c.quant.block, 1)
	if c.quant.block == 0 && len(c.quant.scales) > 1 {
		for _, d := range c.shape[c.quant.dimension+1:] {
			inner *= d
		}
	}
	numbers := operators.Array{Element: elementTypes[c.stored], Data: stored}
	if narrowBits[c.stored] > 0 {
		numbers.Element = models.Int8
	}
	if numbers.Element.Size() == 1 && len(c.quant.scales) == 1 {
		c.dequantizeBytes(dst, stored, numbers.Element == models.Int8)
		return
	}
	for i := range len(dst) / 4 {
		n := numbers.Whole(i)
		channel := (first + i) / inner % len(c.quant.scales)
		if channel < len(c.quant.zeroPoints) {
			n -= c.quant.zeroPoints[channel]
		}
		binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(c.quant.scales[channel]*float32(n)))
	}
}

// dequantizeBytes computes single precision from bytes of one scale.
func (c *constant) dequantizeBytes(dst, stored []byte, signed bool) {
	scale, zeroPoint := c.quant.scales[0], int64(0)
	if len(c.quant.zeroPoints) > 0 {
		zeroPoint = c.quant.zeroPoints[0]
	}
	flip := byte(0)
	if signed { // b ^ 0x80 is the number, and 128 more
		flip, zeroPoint = 0x80, zeroPoint+0x80
	}
	for i, b := range stored[:len(dst)/4] {
		binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(scale*float32(int64(b^flip)-zeroPoint)))
	}
}

// dataMap gives the constants that nodes use, by unique name. It is read-only once made.
type dataMap struct {
	file      *mapped.File
	constants map[string]*constant
}

// Tensor implements [xpwc.DataMap].
func (m *dataMap) Tensor(name string) (xpwc.Tensor, error) {
	c, ok := m.constants[name]
	if !ok {
		return xpwc.Tensor{}, fmt.Errorf("%s: tensor %q: %w", m.file.Path(), name, xpwc.ErrUnknownTensor)
	}
	if c.omitted != nil && c.data == nil {
		return c.leftOut(m.file.Path()), nil
	}
	if c.computed() {
		return tensorfile.Converted(m.file, c.place(), c.conversion())
	}
	return tensorfile.Tensor(m.file, c.place())
}

// reorder computes single precision with its dimensions in another order.
func (c *constant) reorder(dst, stored []byte) {
	plain := *c
	plain.order, plain.shape = nil, c.fileShape
	var shape, strides []int
	for _, d := range c.order {
		stride, _ := constantElements(c.fileShape[d+1:])
		shape, strides = append(shape, c.fileShape[d]), append(strides, stride)
	}
	operators.Strided(operators.Array{Element: models.Float32, Shape: shape, Data: dst},
		operators.Array{Element: models.Float32, Shape: c.fileShape, Data: plain.bytesOf(stored)}, 0, strides)
}
