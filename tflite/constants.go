package tflite

import (
	"encoding/binary"
	"fmt"
	"math"

	"xpwc"
	"xpwc/internal/flatbuf"
	"xpwc/internal/tensorfile"
	"xpwc/packing"
	"xpwc/xnnpack"
)

// use says how XNNPACK reads a constant, which decides when its content must be there and how long it must stay.
type use uint8

const (
	// usePacked: packed by an operator that looks into the weights cache first, so read only if it misses there.
	usePacked use = 1 << iota
	// usePackedBlind: packed by an operator that does not look up first (depthwise convolution, deconvolution).
	usePackedBlind
	// useInference: read at every inference, where kernels may read up to tensorfile.Overread beyond the end.
	useInference
)

// constant is a tensor of the file with what must be done to its bytes before XNNPACK can use them: stored elements
// spread over a dense tensor, then half precision widened to single. A constant that needs neither is used where it
// lies.
type constant struct {
	name     string // in the data map
	source   flatbuf.Span
	stored   elementType // as in the file
	dtype    elementType // as XNNPACK sees it
	content  content
	first    float32 // of those that are sequence
	scatter  *scatter
	sparse   *sparsity
	shape    []int
	size     int // bytes as XNNPACK sees it
	quant    quantization
	use      use
	packings []packing.Identity // one for each operator that packs it
}

// content says how the elements follow from those that are stored.
type content uint8

const (
	asStored content = iota
	repeated         // each is the only one stored
	sequence         // a first one, and each 1 more than the one before; nothing is stored
)

// newConstant checks that a tensor's bytes are those of its shape and type.
func newConstant(t *tensor) (*constant, error) {
	shape := ints(t.shape)
	count, err := elements(shape)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	width := t.dtype.Size()
	if width == 0 {
		return nil, fmt.Errorf("%w: a constant of type %v", ErrUnsupported, t.dtype)
	}
	dtype, _ := t.computedAs()
	k := &constant{
		name: t.name, source: t.data, stored: t.dtype, dtype: dtype, shape: shape, size: count * dtype.Size(),
		quant: t.quantization,
	}
	stored := count
	if t.sparsity != nil {
		if k.scatter, err = t.sparsity.scatter(shape); err != nil {
			return nil, err
		}
		k.sparse, stored = t.sparsity, k.scatter.stored
	}
	if t.data.Size != int64(stored)*int64(width) {
		return nil, fmt.Errorf("%w: %d bytes for %d elements of %v", ErrMalformed, t.data.Size, stored, t.dtype)
	}
	return k, nil
}

// widened reports whether the elements are stored in another type than single precision, which XNNPACK is given.
func (c *constant) widened() bool { return c.stored != c.dtype }

// as is a constant that is computed from the same bytes.
func (c *constant) as(name string, change func(*constant)) *constant {
	k := *c
	k.name, k.use, k.packings = name, 0, nil
	change(&k)
	return &k
}

// dequantized is the same constant in single precision.
func (c *constant) dequantized() *constant {
	return c.as(c.name+", dequantized", func(k *constant) { k.dtype, k.size = typeFloat32, 4*c.size })
}

func (c *constant) datatype() (xnnpack.Datatype, xnnpack.Quantization, error) {
	return datatype(c.dtype, c.quant, c.shape)
}

// describe returns the description for XNNPACK, without the content.
func (c *constant) describe() (xnnpack.Tensor, error) {
	kind, q, err := c.datatype()
	if err != nil {
		return xnnpack.Tensor{}, fmt.Errorf("%q: %w", c.name, err)
	}
	return xnnpack.Tensor{Name: c.name, Type: kind, Shape: c.shape, Quantization: q}, nil
}

func (c *constant) place() tensorfile.Place {
	return tensorfile.Place{Offset: c.source.Offset, Size: c.source.Size, Alignment: int64(c.dtype.Size())}
}

// computed reports whether XNNPACK is given other memory than that of the file: for what is converted, and what it
// reads at inference.
func (c *constant) computed() bool {
	return c.widened() || c.scatter != nil || c.content != asStored || c.use&useInference != 0
}

// conversion is how content is computed. Its name has the types: the same bytes converted otherwise are another
// content.
func (c *constant) conversion() tensorfile.Conversion {
	name := c.dtype.String()
	if c.widened() {
		name += "<-" + c.stored.String()
	}
	if c.scatter != nil {
		name += fmt.Sprint("<-sparse", c.shape)
	}
	if c.content != asStored {
		name += fmt.Sprintf("<-content%d,%v of %d bytes", c.content, c.first, c.size)
	}
	quantized := c.widened() && len(c.quant.scales) > 0
	return tensorfile.Conversion{
		Name: name,
		Size: c.size,
		Fill: c.fill,
		Digest: func(stored []byte) xpwc.Digest {
			d := xpwc.DigestOf(stored) // of fewer bytes than those that fill computes, and no computing
			if !c.widened() && c.scatter == nil && c.content == asStored {
				return d
			}
			b := append(append([]byte(name), 0), d[:]...)
			if c.sparse != nil {
				b = fmt.Appendf(b, "%v", *c.sparse)
			}
			if quantized {
				b = fmt.Appendf(b, "%v%v", c.quant, c.shape)
			}
			return xpwc.DigestOf(b)
		},
	}
}

// fill computes the content that XNNPACK sees from the bytes of the file.
func (c *constant) fill(dst, stored []byte) error {
	switch {
	case c.content == sequence:
		for i := range len(dst) / 4 {
			binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(c.first+float32(i)))
		}
		return nil
	case c.content == repeated:
		one := c.as("", func(k *constant) { k.content, k.size = asStored, k.dtype.Size() })
		if err := one.fill(dst[:one.size], stored); err != nil {
			return err
		}
		for n := one.size; n < len(dst); n *= 2 {
			copy(dst[n:], dst[:n])
		}
		return nil
	case c.widened() && c.stored != typeFloat16:
		return c.toFloats(dst, stored)
	}
	if !c.widened() {
		c.spread(dst, stored)
		return nil
	}
	if c.scatter != nil || c.source.Offset%2 != 0 {
		dense := make([]byte, c.size/2)
		c.spread(dense, stored)
		stored = dense
	}
	return xnnpack.WidenF16(dst, stored)
}

// toFloats computes single precision from integers, with the scales and zero points of those that are quantized.
func (c *constant) toFloats(dst, stored []byte) error {
	width := c.stored.Size()
	if c.scatter != nil {
		dense := make([]byte, c.scatter.dense*width)
		c.spread(dense, stored)
		stored = dense
	}
	scales, inner := c.quant.scales, 1
	if len(scales) > 1 {
		for _, d := range c.shape[c.quant.dimension+1:] {
			inner *= d
		}
	}
	for i := range len(dst) / 4 {
		b := stored[i*width:]
		var n int64
		switch c.stored {
		case typeInt8:
			n = int64(int8(b[0]))
		case typeUint8, typeBool:
			n = int64(b[0])
		case typeInt32:
			n = int64(int32(binary.LittleEndian.Uint32(b)))
		case typeInt64:
			n = int64(binary.LittleEndian.Uint64(b))
		}
		f := float32(n)
		if len(scales) > 0 {
			at := i / inner % len(scales)
			var zero int64
			if at < len(c.quant.zeroPoints) {
				zero = c.quant.zeroPoints[at]
			}
			f = scales[at] * float32(n-zero)
		}
		binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(f))
	}
	return nil
}

func (c *constant) spread(dst, src []byte) {
	if c.scatter == nil {
		copy(dst, src)
		return
	}
	c.scatter.place(dst, src, c.stored.Size())
}

// loadOptions says how the constant is used.
func (c *constant) loadOptions() []xpwc.LoadOption {
	var opts []xpwc.LoadOption
	if c.use&(usePackedBlind|useInference) != 0 {
		opts = append(opts, xpwc.Eager())
	}
	if c.use&useInference != 0 {
		opts = append(opts, xpwc.Retain())
	} else {
		opts = append(opts, xpwc.PackOnly())
	}
	for _, id := range c.packings {
		opts = append(opts, xpwc.PackedAs(id))
	}
	return opts
}
