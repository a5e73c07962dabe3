//go:build cgo

package harness

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/xnnpack"
	"xpwc/xnnpack/packing"
)

// RunPacked runs a kernel of that identity with a cache, compares the output, and returns what the cache did.
func RunPacked(t *testing.T, path string, flags xnnpack.RuntimeFlags, id packing.Identity, use KernelUse,
	want []byte) xpwc.Stats {
	t.Helper()
	c, err := xpwc.Open(path, &xpwc.Options{Strict: true, Verify: xpwc.VerifyStructure})
	require.NoError(t, err)
	got, err := ComputeWith(flags, c, []xpwc.LoadOption{xpwc.PackedAs(id)}, use)
	require.NoError(t, err)
	require.NoError(t, c.Close())
	require.True(t, bytes.Equal(want, got))
	return c.Stats()
}

// PackingIdentity returns that of a kernel in a runtime without flags.
func PackingIdentity(t *testing.T, use KernelUse) (identity packing.Identity) {
	t.Helper()
	g, err := xnnpack.NewSubgraph(2)
	require.NoError(t, err)
	inShape, outShape := use.images()
	require.NoError(t, errors.Join(g.Input(0, Activation(use.Types.Input, inShape)),
		g.Output(1, Activation(use.Types.Output, outShape))))
	content := pattern(use.bytes()+xnnpack.ExtraBytes, use.Types.Kernel)
	require.NoError(t, use.define(g, 0, 1, func(id packing.Identity) ([]byte, error) {
		identity = id
		return content[:use.bytes()], nil
	}))
	require.NoError(t, g.Delete())
	return identity
}

// LacksFingerprintIDs reports whether the entries of a file were packed by an XNNPACK whose keys have none.
func LacksFingerprintIDs(t *testing.T, path string) bool {
	t.Helper()
	_, index := ReadIndex(t, path)
	return Record(t, index, 0).FingerprintID == 0
}

// A KernelUse is one way to use the bytes of a kernel: an operator with a shape, groups and datatypes.
type KernelUse struct {
	Op         packing.Operator
	Types      KernelTypes
	Shape      []int
	Groups     int // depth multiplier of a depthwise convolution
	Transposed bool
	Stride     xnnpack.Size
}

// KernelTypes are the datatypes of a node without a bias.
type KernelTypes struct {
	Name                  string
	Input, Kernel, Output xnnpack.Datatype
	dynamic               bool // the input is quantised at inference
}

var Datatypes = []KernelTypes{
	{Name: "f32", Input: xnnpack.Float32, Kernel: xnnpack.Float32, Output: xnnpack.Float32},
	{Name: "f16", Input: xnnpack.Float16, Kernel: xnnpack.Float16, Output: xnnpack.Float16},
	{Name: "f16-f32w", Input: xnnpack.Float16, Kernel: xnnpack.Float32, Output: xnnpack.Float16},
	{Name: "qs8", Input: xnnpack.QInt8, Kernel: xnnpack.QInt8, Output: xnnpack.QInt8},
	{Name: "qu8", Input: xnnpack.QUint8, Kernel: xnnpack.QUint8, Output: xnnpack.QUint8},
	{Name: "qs8-qc8w", Input: xnnpack.QInt8, Kernel: xnnpack.ChannelQInt8, Output: xnnpack.QInt8},
	{Name: "qd8-f32-qc8w", Input: xnnpack.Float32, Kernel: xnnpack.ChannelQInt8, Output: xnnpack.Float32,
		dynamic: true},
	{Name: "qd8-f16-qc8w", Input: xnnpack.Float16, Kernel: xnnpack.ChannelQInt8, Output: xnnpack.Float16,
		dynamic: true},
	{Name: "qd8-f32-qc4w", Input: xnnpack.Float32, Kernel: xnnpack.ChannelQInt4, Output: xnnpack.Float32,
		dynamic: true},
	{Name: "qd8-f16-qc4w", Input: xnnpack.Float16, Kernel: xnnpack.ChannelQInt4, Output: xnnpack.Float16,
		dynamic: true},
	{Name: "qd8-f32-qb4w", Input: xnnpack.Float32, Kernel: xnnpack.BlockQInt4, Output: xnnpack.Float32,
		dynamic: true},
	{Name: "qd8-f16-qb4w", Input: xnnpack.Float16, Kernel: xnnpack.BlockQInt4, Output: xnnpack.Float16,
		dynamic: true},
	{Name: "f32-qc8w", Input: xnnpack.Float32, Kernel: xnnpack.ChannelQInt8, Output: xnnpack.Float32},
	{Name: "f32-qc4w", Input: xnnpack.Float32, Kernel: xnnpack.ChannelQInt4, Output: xnnpack.Float32},
}

func (u KernelUse) String() string {
	s := fmt.Sprintf("%v %s %v", u.Op, u.Types.Name, u.Shape)
	if u.Transposed {
		s += " transposed"
	}
	if u.Groups > 1 {
		s += fmt.Sprintf(" groups %d", u.Groups)
	}
	if u.Stride != (xnnpack.Size{}) {
		s += fmt.Sprintf(" stride %v", u.Stride)
	}
	return s
}

// bytes is how many the kernel has.
func (u KernelUse) bytes() int {
	n, err := u.Types.Kernel.ByteSize(u.Shape)
	if err != nil {
		panic(err)
	}
	return n
}

// Kernel describes the kernel, without its content.
func (u KernelUse) Kernel() xnnpack.Tensor {
	t := xnnpack.Tensor{Name: "kernel", Type: u.Types.Kernel, Shape: u.Shape}
	q := &t.Quantization
	switch u.Op {
	case packing.FullyConnected:
		if u.Transposed {
			q.ChannelDim = 1
		}
	case packing.DepthwiseConvolution2D:
		q.ChannelDim = 3
	case packing.BatchMatrixMultiply:
		q.ChannelDim = 2
		if u.Transposed {
			q.ChannelDim = 1
		}
	}
	const blockSize = 32
	switch u.Types.Kernel {
	case xnnpack.QInt8:
		q.Scale = 0.5
	case xnnpack.QUint8:
		q.Scale, q.ZeroPoint = 0.5, 127
	case xnnpack.ChannelQInt8, xnnpack.ChannelQInt4:
		for i := range u.Shape[q.ChannelDim] {
			q.Scales = append(q.Scales, float32(1+i%7)/16)
		}
		if u.Op == packing.BatchMatrixMultiply {
			q.Scales = slices.Repeat(q.Scales, u.Shape[0])
		}
	case xnnpack.BlockQInt4:
		q.BlockSize = blockSize
		for i := range u.Shape[0] * u.Shape[1] / blockSize {
			q.BlockScales = append(q.BlockScales, uint16(math.Float32bits(float32(1+i%7)/16)>>16))
		}
	}
	if u.Types.Kernel == xnnpack.ChannelQInt4 || u.Types.Kernel == xnnpack.BlockQInt4 {
		q.ZeroPoint = 8
	}
	return t
}

// images returns the shapes of input and output: an image two pixels larger than the kernel.
func (u KernelUse) images() (in, out []int) {
	s := u.Shape
	groups := max(u.Groups, 1)
	switch u.Op {
	case packing.FullyConnected:
		if u.Transposed {
			return []int{5, s[0]}, []int{5, s[1]}
		}
		return []int{5, s[1]}, []int{5, s[0]}
	case packing.BatchMatrixMultiply:
		if u.Transposed {
			return []int{s[0], 5, s[2]}, []int{s[0], 5, s[1]}
		}
		return []int{s[0], 5, s[1]}, []int{s[0], 5, s[2]}
	}
	height, width := max(u.Stride.Height, 1), max(u.Stride.Width, 1)
	in = []int{1, s[1] + 2, s[2] + 2, s[3] * groups}
	out = []int{1, 2/height + 1, 2/width + 1, s[0]}
	switch u.Op {
	case packing.DepthwiseConvolution2D:
		in[3], out[3] = s[3]/groups, s[3]
	case packing.Deconvolution2D:
		out[1], out[2] = height*(in[1]-1)+s[1], width*(in[2]-1)+s[2]
	}
	return in, out
}

func Activation(kind xnnpack.Datatype, shape []int) xnnpack.Tensor {
	t := xnnpack.Tensor{Type: kind, Shape: shape}
	switch kind {
	case xnnpack.QInt8:
		t.Quantization.Scale = 0.5
	case xnnpack.QUint8:
		t.Quantization = xnnpack.Quantization{Scale: 0.5, ZeroPoint: 127}
	}
	return t
}

// define adds the node to a subgraph. fill is given its packing and returns the kernel's content.
func (u KernelUse) define(g *xnnpack.Subgraph, in, out xnnpack.ValueID,
	fill func(packing.Identity) ([]byte, error)) error {
	inShape, outShape := u.images()
	input, output := Activation(u.Types.Input, inShape), Activation(u.Types.Output, outShape)
	if u.Types.dynamic {
		input = xnnpack.Tensor{Type: xnnpack.DynamicQInt8, Shape: inShape,
			Quantization: xnnpack.Quantization{NonBatchDims: 1}}
		if len(inShape) == 4 {
			input.Quantization.NonBatchDims = 3
		}
		converted, err := g.Tensor(input)
		if err != nil {
			return err
		}
		if err := g.Add(xnnpack.Unary{Op: xnnpack.ConvertElements, Input: in, Output: converted}); err != nil {
			return err
		}
		in = converted
	}
	kernel, uncached := u.Kernel(), xnnpack.Tensor{}
	content := func(id packing.Identity) (xnnpack.ValueID, error) {
		data, err := fill(id)
		if err != nil {
			return 0, err
		}
		t := kernel
		t.Data = data
		return g.Tensor(t)
	}
	var err error
	switch u.Op {
	case packing.FullyConnected:
		n := xnnpack.FullyConnected{Input: in, Bias: xnnpack.InvalidValue, Output: out, TransposeWeights: u.Transposed}
		if n.Filter, err = content(n.Packing(kernel, uncached, input, output)); err == nil {
			err = g.Add(n)
		}
	case packing.Convolution2D:
		n := xnnpack.Convolution2D{Input: in, Bias: xnnpack.InvalidValue, Output: out,
			Groups: u.Groups, Stride: u.Stride}
		if n.Filter, err = content(n.Packing(kernel, uncached, input, output)); err == nil {
			err = g.Add(n)
		}
	case packing.DepthwiseConvolution2D:
		n := xnnpack.DepthwiseConvolution2D{Input: in, Bias: xnnpack.InvalidValue, Output: out,
			DepthMultiplier: u.Groups, Stride: u.Stride}
		if n.Filter, err = content(n.Packing(kernel, uncached, input, output)); err == nil {
			err = g.Add(n)
		}
	case packing.Deconvolution2D:
		n := xnnpack.Deconvolution2D{Input: in, Bias: xnnpack.InvalidValue, Output: out,
			Groups: u.Groups, Stride: u.Stride}
		if n.Filter, err = content(n.Packing(kernel, uncached, input, output)); err == nil {
			err = g.Add(n)
		}
	default:
		n := xnnpack.BatchMatrixMultiply{A: in, Output: out, TransposeB: u.Transposed}
		if n.B, err = content(n.Packing(kernel, uncached, input, output)); err == nil {
			err = g.Add(n)
		}
	}
	return err
}

// pattern is content that every datatype can have, all parts of which differ.
func pattern(n int, kind xnnpack.Datatype) []byte {
	switch kind {
	case xnnpack.Float32:
		return Floats(n/4, 3)
	case xnnpack.Float16:
		var b []byte
		for i := range n / 2 {
			b = binary.LittleEndian.AppendUint16(b, uint16(0x3000+i*7919%0xc00)) // 0.125 to 1
		}
		return b
	}
	b := Floats(n/4+1, 3)
	return b[:n]
}

// Compute runs nodes that use the kernel one after the other, with a session of the cache, or without one. It returns
// the last output. The kernel is loaded with given, or if that is nil with the identity of each node.
func Compute(c *xpwc.Cache, opts []xpwc.LoadOption, uses ...KernelUse) (output []byte, err error) {
	return ComputeWith(0, c, opts, uses...)
}

// ComputeWith does so with flags of the runtime.
func ComputeWith(flags xnnpack.RuntimeFlags, c *xpwc.Cache, opts []xpwc.LoadOption, uses ...KernelUse) (
	output []byte, err error) {
	content := pattern(uses[0].bytes(), uses[0].Types.Kernel)
	memory, err := xnnpack.NewBuffer(len(content))
	if err != nil {
		return nil, err
	}
	defer memory.Free()
	copy(memory.Bytes(), content)
	load := func(packing.Identity) ([]byte, error) { return memory.Bytes(), nil }
	options := &xnnpack.RuntimeOptions{Flags: flags}
	var session *xpwc.Session
	if c != nil {
		if session, err = c.NewSession(xpwc.MapOf(map[string][]byte{"kernel": content})); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, session.Close()) }()
		options.WeightsCache = session
		load = func(id packing.Identity) ([]byte, error) {
			// Some operators pack without a look-up.
			if opts != nil {
				return session.Load("kernel", append(opts, xpwc.Eager())...)
			}
			return session.Load("kernel", xpwc.PackedAs(id), xpwc.Eager())
		}
	}
	g, err := xnnpack.NewSubgraph(2)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.Delete()) }()
	first, _ := uses[0].images()
	_, last := uses[len(uses)-1].images()
	in, out := Activation(uses[0].Types.Input, first), Activation(uses[len(uses)-1].Types.Output, last)
	if err := errors.Join(g.Input(0, in), g.Output(1, out)); err != nil {
		return nil, err
	}
	value := xnnpack.ValueID(0)
	for i, u := range uses {
		next := xnnpack.ValueID(1)
		if i < len(uses)-1 {
			_, shape := u.images()
			if next, err = g.Tensor(Activation(u.Types.Output, shape)); err != nil {
				return nil, err
			}
		}
		if err := u.define(g, value, next, load); err != nil {
			return nil, err
		}
		value = next
	}
	r, err := xnnpack.NewRuntime(g, options)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Delete()) }()
	if session != nil {
		if err := session.Finalize(); err != nil {
			return nil, err
		}
	}
	x, err := bufferFor(in)
	if err != nil {
		return nil, err
	}
	defer x.Free()
	y, err := bufferFor(out)
	if err != nil {
		return nil, err
	}
	defer y.Free()
	copy(x.Bytes(), pattern(len(x.Bytes()), in.Type))
	err = errors.Join(r.Reshape(), r.Setup(map[xnnpack.ValueID][]byte{0: x.Bytes(), 1: y.Bytes()}), r.Invoke())
	return slices.Clone(y.Bytes()), err
}

func bufferFor(t xnnpack.Tensor) (*xnnpack.Buffer, error) {
	n, err := t.Type.ByteSize(t.Shape)
	if err != nil {
		return nil, err
	}
	return xnnpack.NewBuffer(n)
}
