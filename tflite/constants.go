package tflite

import (
	"fmt"

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
	tensor   int // index of the tensor that operators name
	source   flatbuf.Span
	stored   elementType // as in the file
	dtype    elementType // as XNNPACK sees it
	scatter  *scatter
	sparse   *sparsity
	shape    []int
	size     int // bytes as XNNPACK sees it
	quant    quantization
	use      use
	packings []packing.Identity // one for each operator that packs it
}

// newConstant checks that a tensor's bytes are those of its shape and type.
func newConstant(n int, t *tensor) (*constant, error) {
	shape := ints(t.shape)
	count, err := elements(shape)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	width := t.dtype.Size()
	if width == 0 {
		return nil, fmt.Errorf("%w: a constant of type %v", ErrUnsupported, t.dtype)
	}
	k := &constant{
		tensor: n, source: t.data, stored: t.dtype, dtype: t.dtype, shape: shape, size: count * width,
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

func (c *constant) widened() bool { return c.stored == typeFloat16 && c.dtype == typeFloat32 }

func (c *constant) place() tensorfile.Place {
	return tensorfile.Place{Offset: c.source.Offset, Size: c.source.Size, Alignment: int64(c.dtype.Size())}
}

// computed reports whether XNNPACK is given other memory than that of the file: for what is converted, and what it
// reads at inference.
func (c *constant) computed() bool {
	return c.widened() || c.scatter != nil || c.use&useInference != 0
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
	return tensorfile.Conversion{
		Name: name,
		Size: c.size,
		Fill: c.fill,
		Digest: func(stored []byte) xpwc.Digest {
			d := xpwc.DigestOf(stored) // of fewer bytes than those that fill computes, and no computing
			if !c.widened() && c.scatter == nil {
				return d
			}
			b := append(append([]byte(name), 0), d[:]...)
			if c.sparse != nil {
				b = fmt.Appendf(b, "%v", *c.sparse)
			}
			return xpwc.DigestOf(b)
		},
	}
}

// fill computes the content that XNNPACK sees from the bytes of the file.
func (c *constant) fill(dst, stored []byte) error {
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
