package tflite

import (
	"fmt"

	"xpwc"
	"xpwc/internal/flatbuf"
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
	// useInference: read at every inference, where kernels may read up to XNN_EXTRA_BYTES beyond the end.
	useInference
)

// overread is how far beyond the end of a tensor kernels may read: XNN_EXTRA_BYTES of xnnpack.h, the greatest over all targets.
const overread = 128

// constant is a tensor of the file with what must be done to its bytes before XNNPACK can use them: stored elements
// spread over a dense tensor, then half precision widened to single. A constant that needs neither is used where it lies.
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
		tensor: n, source: t.data, stored: t.dtype, dtype: t.dtype, shape: shape, size: count * width, quant: t.quantization,
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

// inPlace reports whether C code can read the constant in a mapping of the given length.
func (c *constant) inPlace(mapped int64) bool {
	return !c.widened() && c.scatter == nil && c.use&useInference == 0 &&
		c.source.Offset%int64(max(c.dtype.Size(), 1)) == 0 && c.source.End()+overread <= mapped
}

// fill computes the content that XNNPACK sees from the bytes of the file.
func (c *constant) fill(dst, file []byte) error {
	if len(dst) != c.size {
		return fmt.Errorf("%d bytes of memory for a constant of %d", len(dst), c.size)
	}
	src := c.source.In(file)
	if !c.widened() {
		c.spread(dst, src)
		return nil
	}
	// XNNPACK's converter may read beyond the end of its source, which at the end of the mapping would be a fault.
	dense := make([]byte, c.size/2, c.size/2+overread)
	c.spread(dense, src)
	return xnnpack.WidenF16(dst, dense)
}

func (c *constant) spread(dst, src []byte) {
	if c.scatter == nil {
		copy(dst, src)
		return
	}
	c.scatter.place(dst, src, c.stored.Size())
}

// conversion names what fill does, for identities: the same bytes converted otherwise are another content.
func (c *constant) conversion() string {
	s := c.dtype.String()
	if c.widened() {
		s += "<-" + c.stored.String()
	}
	if c.scatter != nil {
		s += fmt.Sprint("<-sparse", c.shape)
	}
	return s
}

// digest is taken over the bytes in the file, which are fewer than those that fill computes and need no computing.
func (c *constant) digest(file []byte) xpwc.Digest {
	src := xpwc.DigestOf(c.source.In(file))
	if !c.widened() && c.scatter == nil {
		return src
	}
	b := append([]byte(c.conversion()), 0)
	b = append(b, src[:]...)
	if c.sparse != nil {
		b = fmt.Appendf(b, "%v", *c.sparse)
	}
	return xpwc.DigestOf(b)
}

// loadOptions tells a cache what the use asks of it.
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
