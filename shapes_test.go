//go:build cgo

package xpwc_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/xnnpack"
	"xpwc/xnnpack/packing"
)

// A kernelUse is one way to use the bytes of a kernel: an operator with a shape, groups and datatypes.
type kernelUse struct {
	op         packing.Operator
	types      datatypes
	shape      []int
	groups     int // depth multiplier of a depthwise convolution
	transposed bool
	stride     xnnpack.Size
}

// datatypes are those of a node without a bias.
type datatypes struct {
	name                  string
	input, kernel, output xnnpack.Datatype
	dynamic               bool // the input is quantised at inference
}

var everyDatatype = []datatypes{
	{name: "f32", input: xnnpack.Float32, kernel: xnnpack.Float32, output: xnnpack.Float32},
	{name: "f16", input: xnnpack.Float16, kernel: xnnpack.Float16, output: xnnpack.Float16},
	{name: "f16-f32w", input: xnnpack.Float16, kernel: xnnpack.Float32, output: xnnpack.Float16},
	{name: "qs8", input: xnnpack.QInt8, kernel: xnnpack.QInt8, output: xnnpack.QInt8},
	{name: "qu8", input: xnnpack.QUint8, kernel: xnnpack.QUint8, output: xnnpack.QUint8},
	{name: "qs8-qc8w", input: xnnpack.QInt8, kernel: xnnpack.ChannelQInt8, output: xnnpack.QInt8},
	{name: "qd8-f32-qc8w", input: xnnpack.Float32, kernel: xnnpack.ChannelQInt8, output: xnnpack.Float32,
		dynamic: true},
	{name: "qd8-f16-qc8w", input: xnnpack.Float16, kernel: xnnpack.ChannelQInt8, output: xnnpack.Float16,
		dynamic: true},
	{name: "qd8-f32-qc4w", input: xnnpack.Float32, kernel: xnnpack.ChannelQInt4, output: xnnpack.Float32,
		dynamic: true},
	{name: "qd8-f16-qc4w", input: xnnpack.Float16, kernel: xnnpack.ChannelQInt4, output: xnnpack.Float16,
		dynamic: true},
	{name: "qd8-f32-qb4w", input: xnnpack.Float32, kernel: xnnpack.BlockQInt4, output: xnnpack.Float32,
		dynamic: true},
	{name: "qd8-f16-qb4w", input: xnnpack.Float16, kernel: xnnpack.BlockQInt4, output: xnnpack.Float16,
		dynamic: true},
	{name: "f32-qc8w", input: xnnpack.Float32, kernel: xnnpack.ChannelQInt8, output: xnnpack.Float32},
	{name: "f32-qc4w", input: xnnpack.Float32, kernel: xnnpack.ChannelQInt4, output: xnnpack.Float32},
}

func (u kernelUse) String() string {
	s := fmt.Sprintf("%v %s %v", u.op, u.types.name, u.shape)
	if u.transposed {
		s += " transposed"
	}
	if u.groups > 1 {
		s += fmt.Sprintf(" groups %d", u.groups)
	}
	if u.stride != (xnnpack.Size{}) {
		s += fmt.Sprintf(" stride %v", u.stride)
	}
	return s
}

// bytes is how many the kernel has.
func (u kernelUse) bytes() int {
	n, err := u.types.kernel.ByteSize(u.shape)
	if err != nil {
		panic(err)
	}
	return n
}

// kernel describes the kernel, without its content.
func (u kernelUse) kernel() xnnpack.Tensor {
	t := xnnpack.Tensor{Name: "kernel", Type: u.types.kernel, Shape: u.shape}
	q := &t.Quantization
	switch u.op {
	case packing.FullyConnected:
		if u.transposed {
			q.ChannelDim = 1
		}
	case packing.DepthwiseConvolution2D:
		q.ChannelDim = 3
	case packing.BatchMatrixMultiply:
		q.ChannelDim = 2
		if u.transposed {
			q.ChannelDim = 1
		}
	}
	const blockSize = 32
	switch u.types.kernel {
	case xnnpack.QInt8:
		q.Scale = 0.5
	case xnnpack.QUint8:
		q.Scale, q.ZeroPoint = 0.5, 127
	case xnnpack.ChannelQInt8, xnnpack.ChannelQInt4:
		for i := range u.shape[q.ChannelDim] {
			q.Scales = append(q.Scales, float32(1+i%7)/16)
		}
		if u.op == packing.BatchMatrixMultiply {
			q.Scales = slices.Repeat(q.Scales, u.shape[0])
		}
	case xnnpack.BlockQInt4:
		q.BlockSize = blockSize
		for i := range u.shape[0] * u.shape[1] / blockSize {
			q.BlockScales = append(q.BlockScales, uint16(math.Float32bits(float32(1+i%7)/16)>>16))
		}
	}
	if u.types.kernel == xnnpack.ChannelQInt4 || u.types.kernel == xnnpack.BlockQInt4 {
		q.ZeroPoint = 8
	}
	return t
}

// images returns the shapes of input and output: an image two pixels larger than the kernel.
func (u kernelUse) images() (in, out []int) {
	s := u.shape
	groups := max(u.groups, 1)
	switch u.op {
	case packing.FullyConnected:
		if u.transposed {
			return []int{5, s[0]}, []int{5, s[1]}
		}
		return []int{5, s[1]}, []int{5, s[0]}
	case packing.BatchMatrixMultiply:
		if u.transposed {
			return []int{s[0], 5, s[2]}, []int{s[0], 5, s[1]}
		}
		return []int{s[0], 5, s[1]}, []int{s[0], 5, s[2]}
	}
	height, width := max(u.stride.Height, 1), max(u.stride.Width, 1)
	in = []int{1, s[1] + 2, s[2] + 2, s[3] * groups}
	out = []int{1, 2/height + 1, 2/width + 1, s[0]}
	switch u.op {
	case packing.DepthwiseConvolution2D:
		in[3], out[3] = s[3]/groups, s[3]
	case packing.Deconvolution2D:
		out[1], out[2] = height*(in[1]-1)+s[1], width*(in[2]-1)+s[2]
	}
	return in, out
}

func activation(kind xnnpack.Datatype, shape []int) xnnpack.Tensor {
	t := xnnpack.Tensor{Type: kind, Shape: shape}
	switch kind {
	case xnnpack.QInt8:
		t.Quantization.Scale = 0.5
	case xnnpack.QUint8:
		t.Quantization = xnnpack.Quantization{Scale: 0.5, ZeroPoint: 127}
	}
	return t
}

// define adds the node to a subgraph. say is given its packing and returns the kernel's content.
func (u kernelUse) define(g *xnnpack.Subgraph, in, out xnnpack.ValueID,
	say func(packing.Identity) ([]byte, error)) error {
	from, to := u.images()
	input, output := activation(u.types.input, from), activation(u.types.output, to)
	if u.types.dynamic {
		input = xnnpack.Tensor{Type: xnnpack.DynamicQInt8, Shape: from,
			Quantization: xnnpack.Quantization{NonBatchDims: 1}}
		if len(from) == 4 {
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
	kernel, none := u.kernel(), xnnpack.Tensor{}
	content := func(id packing.Identity) (xnnpack.ValueID, error) {
		data, err := say(id)
		if err != nil {
			return 0, err
		}
		t := kernel
		t.Data = data
		return g.Tensor(t)
	}
	var err error
	switch u.op {
	case packing.FullyConnected:
		n := xnnpack.FullyConnected{Input: in, Bias: xnnpack.InvalidValue, Output: out, TransposeWeights: u.transposed}
		if n.Filter, err = content(n.Packing(kernel, none, input, output)); err == nil {
			err = g.Add(n)
		}
	case packing.Convolution2D:
		n := xnnpack.Convolution2D{Input: in, Bias: xnnpack.InvalidValue, Output: out,
			Groups: u.groups, Stride: u.stride}
		if n.Filter, err = content(n.Packing(kernel, none, input, output)); err == nil {
			err = g.Add(n)
		}
	case packing.DepthwiseConvolution2D:
		n := xnnpack.DepthwiseConvolution2D{Input: in, Bias: xnnpack.InvalidValue, Output: out,
			DepthMultiplier: u.groups, Stride: u.stride}
		if n.Filter, err = content(n.Packing(kernel, none, input, output)); err == nil {
			err = g.Add(n)
		}
	case packing.Deconvolution2D:
		n := xnnpack.Deconvolution2D{Input: in, Bias: xnnpack.InvalidValue, Output: out,
			Groups: u.groups, Stride: u.stride}
		if n.Filter, err = content(n.Packing(kernel, none, input, output)); err == nil {
			err = g.Add(n)
		}
	default:
		n := xnnpack.BatchMatrixMultiply{A: in, Output: out, TransposeB: u.transposed}
		if n.B, err = content(n.Packing(kernel, none, input, output)); err == nil {
			err = g.Add(n)
		}
	}
	return err
}

// pattern is content that every datatype can have, all parts of which differ.
func pattern(n int, kind xnnpack.Datatype) []byte {
	switch kind {
	case xnnpack.Float32:
		return floats(n/4, 3)
	case xnnpack.Float16:
		var b []byte
		for i := range n / 2 {
			b = binary.LittleEndian.AppendUint16(b, uint16(0x3000+i*7919%0xc00)) // 0.125 to 1
		}
		return b
	}
	b := floats(n/4+1, 3)
	return b[:n]
}

// compute runs nodes that use the kernel one after the other, with a session of the cache, or without one. It returns
// the last output. The kernel is loaded with given, or if that is nil with the identity of each node.
func compute(c *xpwc.Cache, given []xpwc.LoadOption, uses ...kernelUse) (output []byte, err error) {
	return computeWith(0, c, given, uses...)
}

// computeWith does so with flags of the runtime.
func computeWith(flags xnnpack.RuntimeFlags, c *xpwc.Cache, given []xpwc.LoadOption, uses ...kernelUse) (
	output []byte, err error) {
	content := pattern(uses[0].bytes(), uses[0].types.kernel)
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
			if given != nil {
				return session.Load("kernel", append(given, xpwc.Eager())...)
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
	in, out := activation(uses[0].types.input, first), activation(uses[len(uses)-1].types.output, last)
	if err := errors.Join(g.Input(0, in), g.Output(1, out)); err != nil {
		return nil, err
	}
	at := xnnpack.ValueID(0)
	for i, u := range uses {
		next := xnnpack.ValueID(1)
		if i < len(uses)-1 {
			_, shape := u.images()
			if next, err = g.Tensor(activation(u.types.output, shape)); err != nil {
				return nil, err
			}
		}
		if err := u.define(g, at, next, load); err != nil {
			return nil, err
		}
		at = next
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

// inOrder creates the runtimes of the uses one after the other with one cache file, each as another process would, and
// compares what they compute with what they do without a cache. The kernel is loaded with given: see compute.
func inOrder(t *testing.T, path string, given []xpwc.LoadOption, uses []kernelUse, plain map[string][]byte) {
	t.Helper()
	for _, u := range uses {
		c, err := xpwc.Open(path, &xpwc.Options{Strict: true})
		require.NoError(t, err)
		got, err := compute(c, given, u)
		require.NoError(t, err, u)
		require.Equal(t, plain[u.String()], got, "%v", u)
		require.Zero(t, c.Stats().DamagedPayloads, "%v", u)
		require.NoError(t, c.Close())
	}
}

// without returns what each use computes without a cache, and the uses that this CPU has kernels for.
func without(t *testing.T, uses []kernelUse) (supported []kernelUse, plain map[string][]byte) {
	t.Helper()
	plain = map[string][]byte{}
	for _, u := range uses {
		out, err := compute(nil, nil, u)
		if errors.Is(err, xnnpack.UnsupportedHardware) || errors.Is(err, xnnpack.UnsupportedParameter) ||
			errors.Is(err, xnnpack.InvalidParameter) {
			continue
		}
		require.NoError(t, err, u)
		supported, plain[u.String()] = append(supported, u), out
	}
	return supported, plain
}

// XNNPACK's seed is the same for each of these pairs, and so are name and content. With the other's packed weights the
// second computes something else, reads out of bounds, or crashes.
func TestOneKernelInTwoShapesIsTwoWeights(t *testing.T) {
	f32, qc8 := everyDatatype[0], everyDatatype[6]
	require.Equal(t, "qd8-f32-qc8w", qc8.name)
	conv := func(types datatypes, groups int, shape ...int) kernelUse {
		return kernelUse{op: packing.Convolution2D, types: types, shape: shape, groups: groups}
	}
	for name, pair := range map[string][]kernelUse{
		"transposed": {
			{op: packing.FullyConnected, types: f32, shape: []int{32, 512}},
			{op: packing.FullyConnected, types: f32, shape: []int{512, 32}},
		},
		"groups":            {conv(f32, 2, 12, 3, 3, 8), conv(f32, 6, 12, 3, 3, 8)},
		"groups, large":     {conv(f32, 2, 12, 3, 3, 4096), conv(f32, 6, 12, 3, 3, 4096)},
		"groups, quantised": {conv(qc8, 2, 12, 3, 3, 8), conv(qc8, 6, 12, 3, 3, 8)},
		"shape, quantised":  {conv(qc8, 1, 12, 3, 1, 24), conv(qc8, 1, 12, 1, 3, 24)},
	} {
		t.Run(name, func(t *testing.T) {
			uses, plain := without(t, pair)
			require.Len(t, uses, 2)
			first, _ := seedOf(t, uses[0])
			second, _ := seedOf(t, uses[1])
			require.Equal(t, first, second)
			for _, given := range describedBy {
				inOrder(t, filepath.Join(t.TempDir(), "cache"), given, append(uses, uses...), plain)
				slices.Reverse(uses)
				inOrder(t, filepath.Join(t.TempDir(), "reverse"), given, append(uses, uses...), plain)
			}
		})
	}
}

// describedBy are the options of hosts that know all of a kernel, part of it or nothing.
var describedBy = map[string][]xpwc.LoadOption{
	"identity": nil,
	"opaque":   {xpwc.PackedAs(packing.Opaque([]byte("a layer")))},
	"nothing":  {},
}

func TestAKernelThatIsDescribedInPartIsPackedAtEachStartAndWrittenOnce(t *testing.T) {
	tall := kernelUse{op: packing.FullyConnected, types: everyDatatype[0], shape: []int{512, 32}}
	for name, given := range describedBy {
		t.Run(name, func(t *testing.T) {
			path := cachePath(t)
			want := map[string][]byte{tall.String(): mustCompute(t, nil, given, tall)}
			inOrder(t, path, given, []kernelUse{tall}, want)
			c := openCache(t, path, nil)
			mustCompute(t, c, given, tall)
			s := c.Stats()
			require.Zero(t, s.Packed.Entries)
			require.Zero(t, s.WrittenBytes)
			if given == nil {
				require.EqualValues(t, 1, s.Hits.Entries)
			} else {
				require.EqualValues(t, 1, s.Misses)
				require.EqualValues(t, 1, s.Reused.Entries)
			}
		})
	}
}

// mustCompute is compute for a test that expects no error.
func mustCompute(t *testing.T, c *xpwc.Cache, given []xpwc.LoadOption, uses ...kernelUse) []byte {
	t.Helper()
	out, err := compute(c, given, uses...)
	require.NoError(t, err)
	return out
}

func TestAHostThatVouchesIsServedWhatAnotherHasPacked(t *testing.T) {
	tall := kernelUse{op: packing.FullyConnected, types: everyDatatype[0], shape: []int{512, 32}}
	for name, given := range describedBy {
		if given == nil {
			continue
		}
		t.Run(name, func(t *testing.T) {
			path := cachePath(t)
			start := func(given []xpwc.LoadOption) xpwc.Stats {
				c := openCache(t, path, nil)
				mustCompute(t, c, given, tall)
				require.NoError(t, c.Close())
				return c.Stats()
			}
			believes := append(slices.Clone(given), xpwc.Believe())
			require.EqualValues(t, 1, start(given).Packed.Entries)
			require.EqualValues(t, 1, start(believes).Hits.Entries)
			require.EqualValues(t, 1, start(given).Reused.Entries)
			require.EqualValues(t, 1, start(append(believes, xpwc.Compare())).Reused.Entries)
		})
	}
}

func TestAHostThatVouchesIsNotServedOneOfSeveralPackings(t *testing.T) {
	f32 := everyDatatype[0]
	uses, plain := without(t, []kernelUse{
		{op: packing.FullyConnected, types: f32, shape: []int{512, 32}},
		{op: packing.FullyConnected, types: f32, shape: []int{32, 512}},
	})
	require.Len(t, uses, 2)
	for name, given := range describedBy {
		if given == nil {
			continue
		}
		t.Run(name, func(t *testing.T) {
			path := cachePath(t)
			inOrder(t, path, given, uses, plain)
			inOrder(t, path, append(slices.Clone(given), xpwc.Believe()), append(uses, uses...), plain)
		})
	}
}

// smallShapes returns uses of kernels of one size.
func smallShapes(op packing.Operator, types datatypes) (uses []kernelUse) {
	add := func(u kernelUse) {
		u.op, u.types = op, types
		uses = append(uses, u)
	}
	fourBit := types.kernel == xnnpack.ChannelQInt4 || types.kernel == xnnpack.BlockQInt4
	switch op {
	case packing.FullyConnected:
		const elements = 8192
		for in := 8; in <= 1024; in *= 2 {
			if types.kernel == xnnpack.BlockQInt4 && in < 64 { // its blocks
				continue
			}
			add(kernelUse{shape: []int{elements / in, in}})
			if !fourBit {
				add(kernelUse{shape: []int{in, elements / in}, transposed: true})
			}
		}
	case packing.BatchMatrixMultiply:
		const elements = 1536
		for _, batch := range []int{1, 2, 3} {
			for _, k := range []int{8, 16, 32, 64} {
				n := elements / batch / k
				add(kernelUse{shape: []int{batch, k, n}})
				add(kernelUse{shape: []int{batch, n, k}, transposed: true})
			}
		}
	case packing.DepthwiseConvolution2D:
		for _, size := range [][2]int{{1, 1}, {1, 3}, {3, 1}, {3, 3}, {1, 9}, {9, 1}} {
			for _, multiplier := range []int{1, 2, 4} {
				add(kernelUse{shape: []int{1, size[0], size[1], 288 / (size[0] * size[1])}, groups: multiplier})
			}
		}
	default:
		const elements = 864
		for _, size := range [][2]int{{1, 3}, {3, 1}, {3, 3}} {
			pixels := size[0] * size[1]
			for _, channels := range []int{6, 8, 12, 24} {
				if elements%(pixels*channels) != 0 {
					continue
				}
				out := elements / (pixels * channels)
				for _, groups := range []int{1, 2, 4, 6} {
					if out%groups != 0 {
						continue
					}
					add(kernelUse{shape: []int{out, size[0], size[1], channels}, groups: groups})
					if size == [2]int{3, 3} {
						for _, stride := range []xnnpack.Size{{Height: 1, Width: 2}, {Height: 2, Width: 1}} {
							add(kernelUse{shape: []int{out, 3, 3, channels}, groups: groups, stride: stride})
						}
					}
				}
			}
		}
	}
	return uses
}

// Every pair of small shapes that have one content and one seed, of every operator in every datatype.
func TestShapesThatShareASeedArePackedApart(t *testing.T) {
	for _, op := range []packing.Operator{packing.FullyConnected, packing.Convolution2D, packing.DepthwiseConvolution2D,
		packing.Deconvolution2D, packing.BatchMatrixMultiply} {
		for _, types := range everyDatatype {
			t.Run(fmt.Sprint(op, " ", types.name), func(t *testing.T) {
				t.Parallel()
				uses, plain := without(t, smallShapes(op, types))
				if len(uses) == 0 {
					t.Skip("XNNPACK has no kernel for it here")
				}
				groups := map[uint32][]kernelUse{}
				packed := 0
				for _, u := range uses {
					if seed, is := seedOf(t, u); is {
						groups[seed] = append(groups[seed], u)
						packed++
					}
				}
				pairs := 0
				for _, same := range groups {
					if len(same) < 2 {
						continue
					}
					pairs += len(same) * (len(same) - 1)
					inOrder(t, filepath.Join(t.TempDir(), "cache"), nil, same, plain)
					slices.Reverse(same)
					inOrder(t, filepath.Join(t.TempDir(), "reverse"), nil, same, plain)
				}
				t.Logf("%d shapes, %d in a cache, %d pairs of one seed", len(uses), packed, pairs)
				if packed == 0 || pairs > 0 {
					return
				}
				for _, u := range smallShapes(op, types) {
					if _, err := compute(nil, nil, u); errors.Is(err, xnnpack.ErrKnownDefect) {
						t.Skip(err)
					}
				}
				require.Fail(t, "no shapes have one seed")
			})
		}
	}
}

// seedOf returns XNNPACK's seed for a use, false if XNNPACK does not cache it.
func seedOf(t *testing.T, u kernelUse) (uint32, bool) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cache")
	c, err := xpwc.Open(path, nil)
	require.NoError(t, err)
	_, err = compute(c, nil, u)
	require.NoError(t, err, u)
	none := c.Stats().Packed.Entries == 0
	require.NoError(t, c.Close())
	if none {
		return 0, false
	}
	_, index := readIndex(t, path)
	require.Equal(t, 1, index.Len())
	return recordOf(t, index, 0).Seed, true
}

// A process whose runtime could not be created whole has seen the kernel packed in one of two ways, of which the next
// process cannot know which it was.
func TestAnAbortedCreationIsNotTakenForAllUsesOfAKernel(t *testing.T) {
	f32 := everyDatatype[0]
	wide := kernelUse{op: packing.FullyConnected, types: f32, shape: []int{32, 512}}
	tall := kernelUse{op: packing.FullyConnected, types: f32, shape: []int{512, 32}}
	both := []xpwc.LoadOption{xpwc.PackedAs(fullyConnected(wide)), xpwc.PackedAs(fullyConnected(tall))}
	_, plain := without(t, []kernelUse{wide, tall})
	for _, seen := range []kernelUse{wide, tall} {
		path := filepath.Join(t.TempDir(), "cache")
		next := func(uses ...kernelUse) []byte {
			c, err := xpwc.Open(path, &xpwc.Options{Strict: true})
			require.NoError(t, err)
			defer func() { require.NoError(t, c.Close()) }()
			out, err := compute(c, both, uses...)
			require.NoError(t, err)
			return out
		}
		require.Equal(t, plain[seen.String()], next(seen), "cold, and cut short")
		require.Equal(t, plain[tall.String()], next(tall), "the other, after %v", seen)
		require.Equal(t, plain[wide.String()], next(wide), "and again, after %v", seen)
	}
}

// What two uses of a kernel were seen to give alike is served to both from then on.
func TestUsesThatArePackedAlikeShareTheirBytes(t *testing.T) {
	f32 := everyDatatype[0]
	one := kernelUse{op: packing.Convolution2D, types: f32, shape: []int{12, 3, 3, 12}}
	two := one
	two.stride = xnnpack.Size{Height: 1, Width: 2} // which the bytes do not depend on
	plain, err := compute(nil, nil, one, two)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "cache")
	for i := range 3 {
		c, err := xpwc.Open(path, &xpwc.Options{Strict: true})
		require.NoError(t, err)
		got, err := compute(c, nil, one, two)
		require.NoError(t, err)
		require.Equal(t, plain, got)
		if i > 0 {
			require.EqualValues(t, 2, c.Stats().Hits.Entries)
		}
		require.NoError(t, c.Close())
	}
}
