package tflite

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/half"
)

// array is a dense tensor of the reference interpreter.
type array struct {
	shape []int
	v     []float64
}

func newArray(shape ...int) *array {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return &array{slices.Clone(shape), make([]float64, n)}
}

func (a *array) element(b, y, x, c int) *float64 {
	return &a.v[((b*a.shape[1]+y)*a.shape[2]+x)*a.shape[3]+c]
}

// interpret computes a model in double precision by the definitions of TensorFlow Lite's reference kernels, without
// XNNPACK and without the package's planning.
func interpret(t testing.TB, file []byte, input []float32) [][]float32 {
	t.Helper()
	g := parse(file, "")
	in := &interpreter{file: file, g: g, arrays: make([]*array, len(g.tensors))}
	first := newArray(ints(g.tensors[g.inputs[0]].shape)...)
	for i := range input {
		first.v[i] = float64(input[i])
	}
	in.arrays[g.inputs[0]] = first
	for i := range g.operators {
		op := &g.operators[i]
		in.arrays[op.outputs[0]] = in.compute(op)
		require.NotNil(t, in.arrays[op.outputs[0]], "the reference interpreter has no %s", op.name())
	}
	var out [][]float32
	for _, n := range g.outputs {
		a := in.array(n)
		f := make([]float32, len(a.v))
		for i := range f {
			f[i] = float32(a.v[i])
		}
		out = append(out, f)
	}
	return out
}

type interpreter struct {
	file   []byte
	g      *graph
	arrays []*array
}

// array returns a tensor, whose elements it decodes if it is a constant.
func (in *interpreter) array(n int) *array {
	if in.arrays[n] != nil {
		return in.arrays[n]
	}
	t := &in.g.tensors[n]
	b := t.data.In(in.file)
	var stored []float64
	for len(b) > 0 {
		switch t.dtype {
		case typeFloat32:
			stored = append(stored, float64(math.Float32frombits(binary.LittleEndian.Uint32(b))))
		case typeFloat16:
			stored = append(stored, half.Float64(binary.LittleEndian.Uint16(b)))
		case typeInt32:
			stored = append(stored, float64(int32(binary.LittleEndian.Uint32(b))))
		}
		b = b[t.dtype.Size():]
	}
	a := newArray(ints(t.shape)...)
	if t.sparsity == nil {
		a.v = stored
	} else {
		expand(a, t.sparsity, stored, make([]int, len(t.sparsity.dims)), 0, 0)
	}
	in.arrays[n] = a
	return a
}

// expand spreads a sparse tensor: coordinates collects one number for each traversed dimension.
func expand(a *array, s *sparsity, stored []float64, coordinates []int, level, base int) {
	rank := len(a.shape)
	if level == len(s.dims) {
		position := make([]int, rank)
		for i, d := range s.traversalOrder {
			if int(d) < rank {
				position[d] += coordinates[i]
				continue
			}
			block := s.blockMap[int(d)-rank]
			position[block] = position[block]*int(s.dims[i].size) + coordinates[i]
		}
		offset := 0
		for i, p := range position {
			offset = offset*a.shape[i] + p
		}
		a.v[offset] = stored[base]
		return
	}
	d := s.dims[level]
	if d.format == dimensionDense {
		for i := range int(d.size) {
			coordinates[level] = i
			expand(a, s, stored, coordinates, level+1, base*int(d.size)+i)
		}
		return
	}
	for i := d.segments[base]; i < d.segments[base+1]; i++ {
		coordinates[level] = int(d.indices[i])
		expand(a, s, stored, coordinates, level+1, int(i))
	}
}

func (in *interpreter) operand(op *operator, i int) *array {
	if i >= len(op.inputs) || op.inputs[i] == absent {
		return nil
	}
	return in.array(op.inputs[i])
}

func limit(a *array, kind byte) *array {
	low, high := math.Inf(-1), math.Inf(1)
	switch kind {
	case activationReLU:
		low = 0
	case activationReLUN1:
		low, high = -1, 1
	case activationReLU6:
		low, high = 0, 6
	}
	return apply(a, func(x float64) float64 { return math.Min(math.Max(x, low), high) })
}

func apply(a *array, f func(float64) float64) *array {
	out := newArray(a.shape...)
	for i, x := range a.v {
		out.v[i] = f(x)
	}
	return out
}

// outside returns the output's size and how far the first window begins before the input.
func outside(in, kernel, stride, dilation int, padding byte) (out, pad int) {
	reach := (kernel-1)*dilation + 1
	if padding == paddingValid {
		return (in - reach + stride) / stride, 0
	}
	out = (in + stride - 1) / stride
	return out, max(0, (out-1)*stride+reach-in) / 2
}

func (in *interpreter) compute(op *operator) *array {
	o := op.options
	x := in.operand(op, 0)
	i32 := func(slot int, absent int32) int { return int(o.Int32(slot, absent)) }
	switch op.code {
	case "CONV_2D":
		return limit(convolve(x, in.operand(op, 1), in.operand(op, 2), false, o.Byte(conv2D.padding),
			i32(conv2D.strideH, 0), i32(conv2D.strideW, 0), i32(conv2D.dilationH, 1), i32(conv2D.dilationW,
				1)), o.Byte(conv2D.activation))
	case "DEPTHWISE_CONV_2D":
		return limit(convolve(x, in.operand(op, 1), in.operand(op, 2), true, o.Byte(depthwise2D.padding),
			i32(depthwise2D.strideH, 0),
			i32(depthwise2D.strideW, 0), i32(depthwise2D.dilationH, 1), i32(depthwise2D.dilationW,
				1)), o.Byte(depthwise2D.activation))
	case "FULLY_CONNECTED":
		return limit(connect(x, in.operand(op, 1), in.operand(op, 2), o.Bool(fullyConnectedKeepNumDims)),
			o.Byte(fullyConnectedActivation))
	case "TRANSPOSE_CONV":
		shape := in.operand(op, 0)
		k, y := in.operand(op, 1), in.operand(op, 2)
		_, top := outside(int(shape.v[1]), k.shape[1], i32(transposeConvStrideH, 0), 1, o.Byte(transposeConvPadding))
		_, pl := outside(int(shape.v[2]), k.shape[2], i32(transposeConvStrideW, 0), 1, o.Byte(transposeConvPadding))
		return limit(scatterKernel(y, k, in.operand(op, 3), i32(transposeConvStrideH, 0),
			i32(transposeConvStrideW, 0), top, pl,
			int(shape.v[1]), int(shape.v[2])), o.Byte(transposeConvActivation))
	case "CUSTOM":
		return in.transposeConvBias(op)
	case "AVERAGE_POOL_2D", "MAX_POOL_2D":
		return limit(pool(x, op.code == "AVERAGE_POOL_2D", o.Byte(pool2D.padding), i32(poolFilterHeight, 0),
			i32(poolFilterWidth, 0),
			i32(pool2D.strideH, 0), i32(pool2D.strideW, 0)), o.Byte(pool2D.activation))
	case "ADD":
		return limit(pairwise(x, in.operand(op, 1), func(a, b float64) float64 { return a + b }),
			o.Byte(binaryActivation))
	case "ADD_N":
		for i := range op.inputs[1:] {
			x = pairwise(x, in.operand(op, i+1), func(a, b float64) float64 { return a + b })
		}
		return x
	case "SUB":
		return limit(pairwise(x, in.operand(op, 1), func(a, b float64) float64 { return a - b }),
			o.Byte(binaryActivation))
	case "MUL":
		return limit(pairwise(x, in.operand(op, 1), func(a, b float64) float64 { return a * b }),
			o.Byte(binaryActivation))
	case "DIV":
		return limit(pairwise(x, in.operand(op, 1), func(a, b float64) float64 { return a / b }),
			o.Byte(binaryActivation))
	case "MAXIMUM":
		return pairwise(x, in.operand(op, 1), math.Max)
	case "MINIMUM":
		return pairwise(x, in.operand(op, 1), math.Min)
	case "PRELU":
		return pairwise(x, in.operand(op, 1), func(a, b float64) float64 {
			if a < 0 {
				return a * b
			}
			return a
		})
	case "MEAN":
		return mean(x, in.operand(op, 1).v, o.Bool(reducerKeepDims))
	case "PAD", "PADV2":
		fill := 0.0
		if op.code == "PADV2" {
			fill = in.operand(op, 2).v[0]
		}
		return pad(x, in.operand(op, 1).v, fill)
	case "RESHAPE":
		shape := ints(o.Int32s(reshapeNewShape))
		if s := in.operand(op, 1); s != nil {
			shape = nil
			for _, d := range s.v {
				shape = append(shape, int(d))
			}
		}
		rest := len(x.v)
		for _, d := range shape {
			if d > 0 {
				rest /= d
			}
		}
		if i := slices.Index(shape, -1); i >= 0 {
			shape[i] = rest
		}
		return &array{shape, x.v}
	case "CONCATENATION":
		var parts []*array
		for i := range op.inputs {
			parts = append(parts, in.operand(op, i))
		}
		return join(parts, i32(concatenationAxis, 0))
	case "RESIZE_BILINEAR":
		size := in.operand(op, 1).v
		return resize(x, int(size[0]), int(size[1]), o.Bool(resizeAlignCorners), o.Bool(resizeHalfPixelCenters))
	case "DEPTH_TO_SPACE":
		return spread(x, i32(depthToSpaceBlockSize, 0))
	case "SOFTMAX":
		return softmax(x)
	}
	if f := in.elementwise(op); f != nil {
		return apply(x, f)
	}
	return nil
}

func (in *interpreter) elementwise(op *operator) func(float64) float64 {
	switch op.code {
	case "DENSIFY", "DEQUANTIZE":
		return func(x float64) float64 { return x }
	case "RELU":
		return func(x float64) float64 { return math.Max(x, 0) }
	case "RELU6":
		return func(x float64) float64 { return math.Min(math.Max(x, 0), 6) }
	case "RELU_N1_TO_1":
		return func(x float64) float64 { return math.Min(math.Max(x, -1), 1) }
	case "LOGISTIC":
		return func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	case "HARD_SWISH":
		return func(x float64) float64 { return x * math.Min(math.Max(x+3, 0), 6) / 6 }
	case "TANH":
		return math.Tanh
	case "ABS":
		return math.Abs
	case "LEAKY_RELU":
		slope := float64(op.options.Float32(leakyReluAlpha, 0))
		return func(x float64) float64 {
			if x < 0 {
				return slope * x
			}
			return x
		}
	}
	return nil
}

// convolve computes CONV_2D and DEPTHWISE_CONV_2D; the kernel is [outputs, h, w, inputs/groups] or [1, h, w,
// outputs]. Only one goroutine has the arrays, and the race detector would make billions of multiplications ten times
// slower.
//
//go:norace
func convolve(x, k, bias *array, depthwise bool, padding byte, strideH, strideW, dilationH, dilationW int) *array {
	oh, top := outside(x.shape[1], k.shape[1], strideH, dilationH, padding)
	ow, padLeft := outside(x.shape[2], k.shape[2], strideW, dilationW, padding)
	outputs, perGroup := k.shape[0], k.shape[3]
	if depthwise {
		outputs, perGroup = k.shape[3], 1
	}
	perOutput := outputs / (x.shape[3] / perGroup) // outputs in a group
	out := newArray(x.shape[0], oh, ow, outputs)
	for n := range x.shape[0] {
		for y := range oh {
			for z := range ow {
				row := out.v[((n*oh+y)*ow+z)*outputs:][:outputs]
				if bias != nil {
					copy(row, bias.v)
				}
				for ky := range k.shape[1] {
					for kx := range k.shape[2] {
						iy, ix := y*strideH-top+ky*dilationH, z*strideW-padLeft+kx*dilationW
						if iy < 0 || iy >= x.shape[1] || ix < 0 || ix >= x.shape[2] {
							continue
						}
						pixel := x.v[((n*x.shape[1]+iy)*x.shape[2]+ix)*x.shape[3]:][:x.shape[3]]
						if depthwise {
							for c, w := range k.v[(ky*k.shape[2]+kx)*outputs:][:outputs] {
								row[c] += w * pixel[c/perOutput]
							}
							continue
						}
						for c := range outputs {
							weights := k.v[((c*k.shape[1]+ky)*k.shape[2]+kx)*perGroup:][:perGroup]
							group := pixel[c/perOutput*perGroup:][:perGroup]
							sum := 0.0
							for i, w := range weights {
								sum += w * group[i]
							}
							row[c] += sum
						}
					}
				}
			}
		}
	}
	return out
}

func connect(x, k, bias *array, keep bool) *array {
	outputs, channels := k.shape[0], k.shape[1]
	shape := []int{len(x.v) / channels, outputs}
	out := newArray(shape...)
	if keep {
		out.shape = append(slices.Clone(x.shape[:len(x.shape)-1]), outputs)
	}
	for n := range shape[0] {
		for c := range outputs {
			sum := 0.0
			if bias != nil {
				sum = bias.v[c]
			}
			for i := range channels {
				sum += k.v[c*channels+i] * x.v[n*channels+i]
			}
			out.v[n*outputs+c] = sum
		}
	}
	return out
}

func (in *interpreter) transposeConvBias(op *operator) *array {
	b := op.bytes.In(in.file)
	strideW, strideH := int(binary.LittleEndian.Uint32(b[4:])), int(binary.LittleEndian.Uint32(b[8:]))
	x, k := in.operand(op, 0), in.operand(op, 1)
	offH, offW := 0, 0
	if binary.LittleEndian.Uint32(b) == 1 {
		offH = max(0, k.shape[1]-(x.shape[1]-1)%strideH-1)
		offW = max(0, k.shape[2]-(x.shape[2]-1)%strideW-1)
	}
	return scatterKernel(x, k, in.operand(op, 2), strideH, strideW, offH/2, offW/2,
		strideH*(x.shape[1]-1)+k.shape[1]-offH, strideW*(x.shape[2]-1)+k.shape[2]-offW)
}

// scatterKernel adds each input pixel's kernel to the output, as a transposed convolution is defined.
func scatterKernel(x, k, bias *array, strideH, strideW, top, padLeft, oh, ow int) *array {
	out := newArray(x.shape[0], oh, ow, k.shape[0])
	for i := range out.v {
		if bias != nil {
			out.v[i] = bias.v[i%k.shape[0]]
		}
	}
	for n := range x.shape[0] {
		for y := range x.shape[1] {
			for z := range x.shape[2] {
				for ky := range k.shape[1] {
					for kx := range k.shape[2] {
						oy, ox := y*strideH-top+ky, z*strideW-padLeft+kx
						if oy < 0 || oy >= oh || ox < 0 || ox >= ow {
							continue
						}
						for c := range k.shape[0] {
							for i := range x.shape[3] {
								*out.element(n, oy, ox, c) += *x.element(n, y, z, i) * *k.element(c, ky, kx, i)
							}
						}
					}
				}
			}
		}
	}
	return out
}

func pool(x *array, average bool, padding byte, h, w, strideH, strideW int) *array {
	oh, top := outside(x.shape[1], h, strideH, 1, padding)
	ow, padLeft := outside(x.shape[2], w, strideW, 1, padding)
	out := newArray(x.shape[0], oh, ow, x.shape[3])
	for n := range x.shape[0] {
		for y := range oh {
			for z := range ow {
				for c := range x.shape[3] {
					sum, largest, count := 0.0, math.Inf(-1), 0.0
					for iy := max(0, y*strideH-top); iy < min(x.shape[1], y*strideH-top+h); iy++ {
						for ix := max(0, z*strideW-padLeft); ix < min(x.shape[2], z*strideW-padLeft+w); ix++ {
							v := *x.element(n, iy, ix, c)
							sum, largest, count = sum+v, math.Max(largest, v), count+1
						}
					}
					if average {
						largest = sum / count
					}
					*out.element(n, y, z, c) = largest
				}
			}
		}
	}
	return out
}

// indices calls f with every index of a shape.
func indices(shape []int, f func(index []int)) {
	index := make([]int, len(shape))
	n := len(newArray(shape...).v)
	for i := range n {
		for d, rest := len(shape)-1, i; d >= 0; d-- {
			index[d], rest = rest%shape[d], rest/shape[d]
		}
		f(index)
	}
}

func (a *array) offset(index []int) int {
	o := 0
	for i, d := range a.shape {
		o = o*d + index[i]
	}
	return o
}

func pairwise(a, b *array, f func(a, b float64) float64) *array {
	rank := max(len(a.shape), len(b.shape))
	widen := func(s []int) []int { return append(slices.Repeat([]int{1}, rank-len(s)), s...) }
	wa, wb := &array{widen(a.shape), a.v}, &array{widen(b.shape), b.v}
	shape := make([]int, rank)
	for i := range shape {
		shape[i] = max(wa.shape[i], wb.shape[i])
	}
	out := newArray(shape...)
	squash := func(w *array, index []int) int {
		o := 0
		for i, d := range w.shape {
			o = o*d + index[i]%d
		}
		return o
	}
	indices(shape, func(index []int) {
		out.v[out.offset(index)] = f(wa.v[squash(wa, index)], wb.v[squash(wb, index)])
	})
	return out
}

func mean(x *array, axes []float64, keep bool) *array {
	dims, shape := slices.Clone(x.shape), []int{}
	for _, a := range axes {
		dims[(int(a)+len(dims))%len(dims)] = 1
	}
	out := newArray(dims...)
	indices(x.shape, func(index []int) {
		o := 0
		for i, d := range dims {
			o = o*d + index[i]%d
		}
		out.v[o] += x.v[x.offset(index)] * float64(len(out.v)) / float64(len(x.v))
	})
	if keep {
		return out
	}
	reduced := make([]bool, len(dims))
	for _, a := range axes {
		reduced[(int(a)+len(dims))%len(dims)] = true
	}
	for i, d := range dims {
		if !reduced[i] {
			shape = append(shape, d)
		}
	}
	return &array{shape, out.v}
}

func pad(x *array, paddings []float64, fill float64) *array {
	shape := slices.Clone(x.shape)
	for i := range shape {
		shape[i] += int(paddings[2*i] + paddings[2*i+1])
	}
	out := newArray(shape...)
	for i := range out.v {
		out.v[i] = fill
	}
	position := make([]int, len(shape))
	indices(x.shape, func(index []int) {
		for i := range position {
			position[i] = index[i] + int(paddings[2*i])
		}
		out.v[out.offset(position)] = x.v[x.offset(index)]
	})
	return out
}

func join(parts []*array, axis int) *array {
	shape := slices.Clone(parts[0].shape)
	axis = (axis + len(shape)) % len(shape)
	for _, p := range parts[1:] {
		shape[axis] += p.shape[axis]
	}
	out := newArray(shape...)
	start := 0
	for _, p := range parts {
		indices(p.shape, func(index []int) {
			position := slices.Clone(index)
			position[axis] += start
			out.v[out.offset(position)] = p.v[p.offset(index)]
		})
		start += p.shape[axis]
	}
	return out
}

func resize(x *array, oh, ow int, align, half bool) *array {
	source := func(o, in, out int) (low, high int, share float64) {
		scale := float64(in) / float64(out)
		if align && out > 1 {
			scale = float64(in-1) / float64(out-1)
		}
		p := float64(o) * scale
		if half {
			p = math.Max(0, (float64(o)+0.5)*scale-0.5)
		}
		low = min(int(p), in-1)
		return low, min(low+1, in-1), p - float64(low)
	}
	out := newArray(x.shape[0], oh, ow, x.shape[3])
	for n := range x.shape[0] {
		for y := range oh {
			y0, y1, fy := source(y, x.shape[1], oh)
			for z := range ow {
				x0, x1, fx := source(z, x.shape[2], ow)
				for c := range x.shape[3] {
					upper := *x.element(n, y0, x0, c)*(1-fx) + *x.element(n, y0, x1, c)*fx
					lower := *x.element(n, y1, x0, c)*(1-fx) + *x.element(n, y1, x1, c)*fx
					*out.element(n, y, z, c) = upper*(1-fy) + lower*fy
				}
			}
		}
	}
	return out
}

func spread(x *array, block int) *array {
	depth := x.shape[3] / (block * block)
	out := newArray(x.shape[0], x.shape[1]*block, x.shape[2]*block, depth)
	indices(out.shape, func(i []int) {
		channel := ((i[1]%block)*block+i[2]%block)*depth + i[3]
		out.v[out.offset(i)] = *x.element(i[0], i[1]/block, i[2]/block, channel)
	})
	return out
}

func softmax(x *array) *array {
	out := newArray(x.shape...)
	n := x.shape[len(x.shape)-1]
	for i := 0; i < len(x.v); i += n {
		sum := 0.0
		for j := range n {
			out.v[i+j] = math.Exp(x.v[i+j])
			sum += out.v[i+j]
		}
		for j := range n {
			out.v[i+j] /= sum
		}
	}
	return out
}
