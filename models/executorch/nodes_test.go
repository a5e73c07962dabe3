//go:build cgo

package executorch

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/tests/modeltest"
)

// nodeCase is one node of a graph and its result.
type nodeCase struct {
	kind   byte
	in     [][]uint32 // shapes of the inputs, whose IDs are 1, 2 and so on
	out    []uint32   // of the output, whose ID is 0
	fields table      // as the schema numbers them
	limits []float32
	// constants are values of 10, 11 and so on.
	constants []arrayOf
	// want computes the output of the inputs, and then of the constants.
	want func(in [][]float32) []float32
	near float64
}

// arrayOf is a constant of floats.
type arrayOf struct {
	dims []uint32
	data []float32
}

func count(dims []uint32) int {
	n := 1
	for _, d := range dims {
		n *= int(d)
	}
	return n
}

// sequence is n numbers between -3 and 3 that follow no simple order.
func sequence(n, start int) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = float32((i+start)*37%61-30) / 10
	}
	return out
}

func weights(start int, dims ...uint32) arrayOf { return arrayOf{dims, sequence(count(dims), start)} }

// mapEach is an elementwise function of one input, or of two of the same shape.
func mapEach(f func(x float64) float64) func([][]float32) []float32 {
	return func(in [][]float32) []float32 {
		out := make([]float32, len(in[0]))
		for i, x := range in[0] {
			out[i] = float32(f(float64(x)))
		}
		return out
	}
}

func pairs(f func(x, y float64) float64) func([][]float32) []float32 {
	return func(in [][]float32) []float32 {
		out := make([]float32, len(in[0]))
		for i, x := range in[0] {
			out[i] = float32(f(float64(x), float64(in[1][i%len(in[1])])))
		}
		return out
	}
}

// elementsAt returns the input's elements at the positions.
func elementsAt(positions ...int) func([][]float32) []float32 {
	return func(in [][]float32) []float32 {
		var out []float32
		for _, p := range positions {
			if p < 0 {
				out = append(out, -7)
			} else {
				out = append(out, in[0][p])
			}
		}
		return out
	}
}

// conv is a convolution of [1, h, w, groups * inputs] by [groups * outputs, kh, kw, inputs].
type conv struct {
	h, w, kh, kw, inputs, outputs, groups int
	pad, stride, dilation                 [2]int
}

func (c conv) size() (h, w int) {
	h = (c.h+2*c.pad[0]-(c.kh-1)*c.dilation[0]-1)/c.stride[0] + 1
	w = (c.w+2*c.pad[1]-(c.kw-1)*c.dilation[1]-1)/c.stride[1] + 1
	return h, w
}

// taps calls do for each product of a convolution: positions in its output, input and filter.
func (c conv) taps(do func(out, in, filter int)) {
	h, w := c.size()
	for y := range h {
		for x := range w {
			for o := range c.groups * c.outputs {
				for i := range c.kh {
					for j := range c.kw {
						row, column := y*c.stride[0]-c.pad[0]+i*c.dilation[0], x*c.stride[1]-c.pad[1]+j*c.dilation[1]
						if row < 0 || row >= c.h || column < 0 || column >= c.w {
							continue
						}
						for k := range c.inputs {
							channel := o/c.outputs*c.inputs + k
							do((y*w+x)*c.groups*c.outputs+o, (row*c.w+column)*c.groups*c.inputs+channel,
								((o*c.kh+i)*c.kw+j)*c.inputs+k)
						}
					}
				}
			}
		}
	}
}

func (c conv) forward(in [][]float32) []float32 {
	h, w := c.size()
	out := make([]float32, h*w*c.groups*c.outputs)
	for i := range out {
		out[i] = in[2][i%(c.groups*c.outputs)]
	}
	c.taps(func(o, i, f int) { out[o] += in[0][i] * in[1][f] })
	return out
}

func convFields(c conv, adjustment int) table {
	return slots(c.pad[0], c.pad[1], c.pad[0], c.pad[1], c.kh, c.kw, c.stride[0], c.stride[1], c.dilation[0],
		c.dilation[1], c.inputs, c.outputs, c.groups, adjustment, 0, 1, 10, 11, 0, 0)
}

func unaryNode(flags uint32) table { return slots(1, 0, flags) }
func two() table                   { return slots(1, 2, 0, 0) }

func nodeCases() map[string]nodeCase {
	elements := [][]uint32{{2, 3, 5}}
	unary := func(kind byte, f func(float64) float64) nodeCase {
		return nodeCase{kind: kind, in: elements, out: elements[0], fields: unaryNode(0), want: mapEach(f)}
	}
	binary := func(kind byte, f func(x, y float64) float64) nodeCase {
		return nodeCase{kind: kind, in: [][]uint32{{2, 3, 5}, {5}}, out: []uint32{2, 3, 5}, fields: two(),
			want: pairs(f)}
	}
	limited := func(c nodeCase, low, high float32) nodeCase {
		want := c.want
		c.limits, c.want = []float32{low, high}, func(in [][]float32) []float32 {
			out := want(in)
			for i := range out {
				out[i] = min(max(out[i], low), high)
			}
			return out
		}
		return c
	}
	withFields := func(c nodeCase, fields table) nodeCase { c.fields = fields; return c }
	erf := func(x float64) float64 { return x / 2 * (1 + math.Erf(x/math.Sqrt2)) }
	cases := map[string]nodeCase{
		"Add":            binary(1, func(x, y float64) float64 { return x + y }),
		"Add, limited":   limited(binary(1, func(x, y float64) float64 { return x + y }), -1, 2),
		"Subtract":       binary(16, func(x, y float64) float64 { return x - y }),
		"Multiply":       binary(15, func(x, y float64) float64 { return x * y }),
		"Div":            binary(8, func(x, y float64) float64 { return x / y }),
		"Minimum":        binary(12, math.Min),
		"Maximum":        binary(26, math.Max),
		"Sigmoid":        unary(4, func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }),
		"Clamp":          limited(unary(6, func(x float64) float64 { return x }), -0.5, 1.5),
		"Floor":          unary(17, math.Floor),
		"Ceiling":        unary(23, math.Ceil),
		"Convert":        unary(18, func(x float64) float64 { return x }),
		"Copy":           unary(46, func(x float64) float64 { return x }),
		"SquareRoot":     unary(22, func(x float64) float64 { return math.Sqrt(math.Abs(x)) }),
		"Hardswish":      unary(24, func(x float64) float64 { return x / 6 * min(max(x+3, 0), 6) }),
		"Negate":         unary(27, func(x float64) float64 { return -x }),
		"Square":         unary(28, func(x float64) float64 { return x * x }),
		"Abs":            unary(30, math.Abs),
		"ReciprocalRoot": unary(40, func(x float64) float64 { return 1 / math.Sqrt(math.Abs(x)) }),
		"Log":            unary(41, func(x float64) float64 { return math.Log(math.Abs(x)) }),
		"Gelu":           unary(42, erf),
		"Tanh":           unary(43, math.Tanh),
		"Exp":            unary(44, math.Exp),
		"Sin":            unary(45, math.Sin),
		"Cos":            unary(47, math.Cos),
		"LeakyReLU": withFields(unary(25, func(x float64) float64 { return max(x, 0.25*x) }),
			slots(float32(0.25), 1, 0, 0)),
		"ELU": withFields(unary(29, func(x float64) float64 {
			if x > 0 {
				return x
			}
			return 0.5 * math.Expm1(x)
		}), slots(float32(0.5), 1, 0, 0)),
		"Softmax": {kind: 3, in: [][]uint32{{2, 4}}, out: []uint32{2, 4}, fields: unaryNode(0),
			want: func(in [][]float32) []float32 {
				var out []float32
				for row := range 2 {
					var sum float64
					for _, x := range in[0][4*row:][:4] {
						sum += math.Exp(float64(x))
					}
					for _, x := range in[0][4*row:][:4] {
						out = append(out, float32(math.Exp(float64(x))/sum))
					}
				}
				return out
			}},
		"PReLU": {kind: 31, in: [][]uint32{{1, 2, 2, 3}}, out: []uint32{1, 2, 2, 3},
			constants: []arrayOf{weights(5, 3)},
			fields:    slots(1, 10, 0, 0),
			want: pairs(func(x, y float64) float64 {
				if x < 0 {
					return x * y
				}
				return x
			})},
		"Add to a constant": {kind: 1, in: elements, out: elements[0], constants: []arrayOf{weights(3, 5)},
			fields: slots(1, 10, 0, 0),
			want:   pairs(func(x, y float64) float64 { return x + y })},
		"StaticTranspose": {kind: 5, in: [][]uint32{{2, 3}}, out: []uint32{3, 2},
			fields: slots(2, []uint32{1, 0}, 1, 0, 0), want: elementsAt(0, 3, 1, 4, 2, 5)},
		"StaticReshape": {kind: 20, in: [][]uint32{{2, 3}}, out: []uint32{3, 1, 2},
			fields: slots(3, []uint32{3, 1, 2}, 1, 0, 0), want: elementsAt(0, 1, 2, 3, 4, 5)},
		"StaticReshape, one free": {kind: 20, in: [][]uint32{{2, 3}}, out: []uint32{3, 2},
			fields: slots(2, []uint32{0, 2}, 1, 0, 0), want: elementsAt(0, 1, 2, 3, 4, 5)},
		"StaticSlice": {kind: 35, in: [][]uint32{{2, 3}}, out: []uint32{1, 2}, want: elementsAt(4, 5),
			fields: slots(2, []uint32{1, 1}, []uint32{1, 2}, 1, 0, 0)},
		"StaticConstantPad": {kind: 10, in: [][]uint32{{2, 2}}, out: []uint32{3, 3},
			want:   elementsAt(-1, 0, 1, -1, 2, 3, -1, -1, -1),
			fields: slots([]uint32{0, 1}, []uint32{1, 0}, float32(-7), 1, 0, 0)},
		"MaxPooling2d": {kind: 14, in: [][]uint32{{1, 4, 4, 1}}, out: []uint32{1, 2, 2, 1},
			fields: slots(0, 0, 0, 0, 2, 2, 2, 2, 1, 1, 1, 0, 0),
			want:   pool(func(x []float32) float32 { return max(x[0], x[1], x[2], x[3]) })},
		"MaxPooling2d, as exported": {kind: 14, in: [][]uint32{{1, 4, 4, 1}}, out: []uint32{1, 2, 2, 1},
			fields: slots(0, 0, 0, 0, 2, 2, 2, 2, 1, 1, 1, 0, 64),
			want:   pool(func(x []float32) float32 { return max(x[0], x[1], x[2], x[3]) })},
		"AvgPooling2d": {kind: 11, in: [][]uint32{{1, 4, 4, 1}}, out: []uint32{1, 2, 2, 1},
			fields: slots(0, 0, 0, 0, 2, 2, 2, 2, 0, 0, 1, 0, 64),
			want:   pool(func(x []float32) float32 { return (x[0] + x[1] + x[2] + x[3]) / 4 })},
		"GlobalAvgPooling2d": {kind: 19, in: [][]uint32{{2, 3, 2, 4}}, out: []uint32{2, 1, 1, 4},
			fields: unaryNode(64), want: means},
		"GlobalAvgPooling2d without images": {kind: 19, in: [][]uint32{{2, 3, 2, 4}}, out: []uint32{2, 4},
			fields: unaryNode(0), want: means},
		"GlobalAvgPooling2d, limited": limited(nodeCase{
			kind: 19, in: [][]uint32{{2, 3, 2, 4}}, out: []uint32{2, 1, 1, 4}, fields: unaryNode(64), want: means,
		}, -0.2, 0.1),
		"StaticResizeBilinear2D": {kind: 9, in: [][]uint32{{1, 2, 2, 1}}, out: []uint32{1, 3, 3, 1},
			fields: slots(3, 3, 1, 0, 8),
			want: func(in [][]float32) []float32 {
				a, b, c, d := in[0][0], in[0][1], in[0][2], in[0][3]
				return []float32{a, (a + b) / 2, b, (a + c) / 2, (a + b + c + d) / 4, (b + d) / 2, c, (c + d) / 2, d}
			}},
		"BatchMatrixMultiply": {kind: 37, in: [][]uint32{{2, 2, 3}, {2, 3, 2}}, out: []uint32{2, 2, 2}, fields: two(),
			want: func(in [][]float32) []float32 { return matrices(in[0], in[1], 2, 2, 3, 2, false) }},
		"BatchMatrixMultiply with a transposed constant": {kind: 37, in: [][]uint32{{2, 2, 3}}, out: []uint32{2, 2, 2},
			constants: []arrayOf{weights(8, 2, 2, 3)},
			fields:    slots(1, 10, 0, 1),
			want:      func(in [][]float32) []float32 { return matrices(in[0], in[1], 2, 2, 3, 2, true) }},
		"FullyConnected": limited(nodeCase{kind: 2, in: [][]uint32{{2, 2, 3}}, out: []uint32{2, 2, 4},
			constants: []arrayOf{weights(1, 4, 3), weights(2, 4)},
			fields:    slots(1, 10, 11, 0, 0),
			want:      connected(true)}, -8, 8),
		"FullyConnected transposed without a bias": {kind: 2, in: [][]uint32{{4, 3}}, out: []uint32{4, 4},
			constants: []arrayOf{weights(1, 3, 4)},
			fields:    slots(1, 10, absent, 0, 1),
			want:      func(in [][]float32) []float32 { return matrices(in[0], in[1], 1, 4, 3, 4, false) }},
	}
	for n, kind := range map[int]byte{2: 32, 3: 33, 4: 34, 5: 38} {
		c := nodeCase{kind: kind, out: []uint32{2, uint32(3 * n)},
			fields: table{0: uint32(1), 5: uint32(0), 6: uint32(0)}}
		for i := range n {
			c.in = append(c.in, []uint32{2, 3})
			c.fields[[]int{1, 2, 3, 4, 7}[i]] = uint32(i + 1)
		}
		c.want = func(in [][]float32) (out []float32) {
			for row := range 2 {
				for _, x := range in {
					out = append(out, x[3*row:][:3]...)
				}
			}
			return out
		}
		cases["Concatenate"+string(rune('0'+n))] = c
	}
	for name, c := range map[string]struct {
		kind byte
		conv
	}{
		"Conv2d":                   {7, conv{5, 6, 3, 2, 2, 3, 1, [2]int{1, 0}, [2]int{2, 1}, [2]int{1, 2}}},
		"Conv2d of groups":         {7, conv{4, 4, 1, 1, 2, 3, 2, [2]int{}, [2]int{1, 1}, [2]int{1, 1}}},
		"Conv2d of each channel":   {7, conv{4, 4, 3, 3, 1, 1, 4, [2]int{1, 1}, [2]int{1, 1}, [2]int{1, 1}}},
		"DepthwiseConv2d":          {13, conv{5, 5, 3, 3, 1, 1, 4, [2]int{1, 1}, [2]int{2, 2}, [2]int{1, 1}}},
		"DepthwiseConv2d, doubled": {13, conv{5, 5, 3, 3, 1, 2, 4, [2]int{1, 1}, [2]int{1, 1}, [2]int{1, 1}}},
	} {
		h, w := c.size()
		channels := uint32(c.groups * c.outputs)
		filter := weights(7, channels, uint32(c.kh), uint32(c.kw), uint32(c.inputs))
		node := nodeCase{
			kind: c.kind, in: [][]uint32{{1, uint32(c.h), uint32(c.w), uint32(c.groups * c.inputs)}}, out: []uint32{1,
				uint32(h), uint32(w), channels},
			fields: convFields(c.conv, 0), constants: []arrayOf{filter, weights(4, channels)}, want: c.forward,
		}
		if c.kind == 13 { // the filter's output channels are its innermost dimension
			node.constants[0] = arrayOf{[]uint32{1, uint32(c.kh), uint32(c.kw), channels},
				make([]float32, len(filter.data))}
			for o := range int(channels) {
				for k := range c.kh * c.kw {
					node.constants[0].data[k*int(channels)+o] = filter.data[o*c.kh*c.kw+k]
				}
			}
			node.want = func(in [][]float32) []float32 { return c.forward([][]float32{in[0], filter.data, in[2]}) }
		}
		cases[name] = node
	}
	up := conv{4, 5, 3, 2, 3, 2, 1, [2]int{1, 0}, [2]int{2, 1}, [2]int{1, 1}}
	height, width := uint32(2*3+1+2+1-2), uint32(4+1+1)
	fields := convFields(up, 1)
	cases["ConvTranspose2d"] = nodeCase{
		kind: 39, in: [][]uint32{{1, 4, 5, 3}}, out: []uint32{1, height, width, 2}, fields: fields,
		constants: []arrayOf{weights(7, 2, 3, 2, 3), weights(4, 2)},
		want: func(in [][]float32) []float32 {
			out := make([]float32, height*width*2)
			for i := range out {
				out[i] = in[2][i%2]
			}
			for y := range 4 {
				for x := range 5 {
					for i := range 3 {
						for j := range 2 {
							row, column := 2*y+i-1, x+j
							if row < 0 || row >= int(height) || column >= int(width) {
								continue
							}
							for o := range 2 {
								for k := range 3 {
									out[(row*int(width)+column)*2+o] += in[0][(y*5+x)*3+k] * in[1][((o*3+i)*2+j)*3+k]
								}
							}
						}
					}
				}
			}
			return out
		},
	}
	for _, name := range []string{"SquareRoot", "ReciprocalRoot",
		"Log"} { // of positive numbers, which the inputs are then
		c := cases[name]
		c.near = -1
		cases[name] = c
	}
	return cases
}

// pool applies f to the four squares of an image of 4 by 4.
func pool(f func([]float32) float32) func([][]float32) []float32 {
	return func(in [][]float32) (out []float32) {
		for _, i := range []int{0, 2, 8, 10} {
			out = append(out, f([]float32{in[0][i], in[0][i+1], in[0][i+4], in[0][i+5]}))
		}
		return out
	}
}

// means returns the means of two images of 3 by 2 pixels and 4 channels.
func means(in [][]float32) []float32 {
	out := make([]float32, 8)
	for i, x := range in[0] {
		out[i/24*4+i%4] += x / 6
	}
	return out
}

// matrices multiplies n matrices of rows by inner with others of inner by columns.
func matrices(a, b []float32, n, rows, inner, columns int, transposed bool) []float32 {
	var out []float32
	for m := range n {
		for i := range rows {
			for j := range columns {
				var sum float32
				for k := range inner {
					offset := k*columns + j
					if transposed {
						offset = j*inner + k
					}
					sum += a[(m*rows+i)*inner+k] * b[m*inner*columns+offset]
				}
				out = append(out, sum)
			}
		}
	}
	return out
}

// connected is a layer of 3 inputs and 4 outputs.
func connected(bias bool) func([][]float32) []float32 {
	return func(in [][]float32) []float32 {
		out := matrices(in[0], in[1], 1, len(in[0])/3, 3, 4, true)
		for i := range out {
			if bias {
				out[i] += in[2][i%4]
			}
		}
		return out
	}
}

// graph makes a delegate of a node.
func (c nodeCase) graph() xgraph {
	var g xgraph
	for i, dims := range c.in {
		g.values = append(g.values,
			xtensor{id: uint32(i + 1), datatype: dtFloat32, dims: dims, external: uint32(i), flags: externalInput})
	}
	for i, a := range c.constants {
		g.constants = append(g.constants, blobConstant{data: floats(a.data...), name: []string{"kernel", ""}[i%2]})
		g.values = append(g.values,
			xtensor{id: uint32(10 + i), datatype: dtFloat32, dims: a.dims, constant: uint32(i + 1), external: absent})
	}
	g.values = append(g.values,
		xtensor{id: 0, datatype: dtFloat32, dims: c.out, external: uint32(len(c.in)), flags: externalOutput})
	g.nodes = []xnode{{c.kind, c.fields, c.limits}}
	return g
}

// inputs returns numbers for the inputs.
func (c nodeCase) inputs() [][]float32 {
	var out [][]float32
	for i, dims := range c.in {
		x := sequence(count(dims), 11*i)
		for j := range x {
			if c.near < 0 {
				x[j] = float32(math.Abs(float64(x[j]))) + 0.5
			} else if x[j] == 0 {
				x[j] = 0.7 // for divisions
			}
		}
		out = append(out, x)
	}
	return out
}

func TestEveryKindOfNodeComputesWhatItSays(t *testing.T) {
	tested := map[byte]bool{21: true, 36: true} // not in the schema
	for name, c := range nodeCases() {
		tested[c.kind] = true
		t.Run(name, func(t *testing.T) {
			g := c.graph()
			for _, inline := range []bool{false, true} {
				g.inline = inline
				p := openBytes(t, around(g).bytes())
				m := p.Methods()[0]
				require.NoError(t, m.Runnable())
				in := c.inputs()
				got := modeltest.Run(t, m, in...)[0]
				for _, a := range c.constants {
					in = append(in, a.data)
				}
				want := c.want(in)
				require.Len(t, got, len(want))
				for i := range want {
					require.InDelta(t, want[i], got[i], 1e-4*(1+math.Abs(float64(want[i]))), "element %d", i)
				}
			}
		})
	}
	for i := range kinds {
		require.True(t, i == 0 || tested[byte(i)], "kind %d, %s", i, kindOf(byte(i)).name)
	}
}

func TestANodeThatTheBindingLacksIsNamed(t *testing.T) {
	for kind, name := range map[byte]string{21: "ArgMaxPooling2d", 36: "ScaledDotProductAttention", 48: "type 48"} {
		c := nodeCases()["Abs"]
		c.kind = kind
		err := openBytes(t, around(c.graph()).bytes()).Methods()[0].Runnable()
		require.ErrorIs(t, err, ErrUnsupportedOp)
		require.ErrorContains(t, err, `method "forward": delegate 0, node 0 (`+name+", debug handle 100)")
	}
}

// behind returns the layer's graph with a node between the input and what reads it, which has a field for flags.
func behind(kind byte, flags uint32) xgraph {
	q := quantizedFilter{datatype: dtChannelQInt8, inputs: 24, bits: 8}
	g, _ := q.layer(2, false)
	g.values = append(g.values, xtensor{id: 9, datatype: dtFloat32, dims: []uint32{24, 2}, external: absent})
	g.nodes[0].fields = slots(9, 1, 0)
	g.nodes = append([]xnode{{kind: kind, fields: slots(0, 9, int(flags))}}, g.nodes...)
	return g
}

func TestWhatDoesNotPackDoesNotKeepAProgramFromBeingPacked(t *testing.T) {
	const abs, argMaxPooling = 30, 21
	sound := openBytes(t, around(behind(abs, 0)).bytes())
	require.NoError(t, sound.Methods()[0].Runnable())
	for name, c := range map[string]struct {
		program  mprogram
		sentinel error
		reasons  []string
	}{
		"a flag": {around(behind(abs, 0x240)), ErrUnsupported,
			[]string{"delegate 0, node 0 (Abs, debug handle 100): unsupported in an ExecuTorch file: the node's " +
				"flags 0x2"}},
		"a node": {around(behind(argMaxPooling, 0)), ErrUnsupportedOp,
			[]string{"delegate 0, node 0 (ArgMaxPooling2d, debug handle 100)"}},
		"a number": {func() mprogram {
			g := behind(abs, 0)
			g.nodes[0].limits = []float32{1, 1}
			return around(g)
		}(), ErrMalformed, []string{"node 0 (Abs, debug handle 100): malformed ExecuTorch file: its output is"}},
		"an axis before the first": {func() mprogram {
			g := behind(abs, 0)
			g.nodes[0] = xnode{kind: 32, fields: table{
				0: absent, 1: uint32(0), 2: uint32(0), 5: uint32(9), 6: uint32(0)}}
			return around(g)
		}(), ErrMalformed, []string{"node 0 (Concatenate2, debug handle 100): malformed ExecuTorch file: the number"}},
		"a part of a tensor": {func() mprogram {
			p := around(behind(abs, 0))
			p.methods[0].values[0][1].(table)[1] = int32(3)
			return p
		}(), ErrUnsupported, []string{"value 0 begins at element 3 of its memory"}},
		"all of these, and an operator": {func() mprogram {
			p := around(behind(argMaxPooling, 0))
			m := &p.methods[0]
			m.values[0][1].(table)[1] = int32(3)
			m.operators = []string{"aten::erfinv"}
			m.instructions = append(m.instructions, kernel(0, 1))
			return p
		}(), ErrUnsupported, []string{"that cannot be run here: aten::erfinv.out", "value 0 begins at element 3",
			"delegate 0, node 0 (ArgMaxPooling2d"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := openBytes(t, c.program.bytes())
			err := p.Methods()[0].Runnable()
			require.ErrorIs(t, err, c.sentinel)
			require.Len(t, strings.Split(err.Error(), "\n"), len(c.reasons), "what follows from one is none: %v", err)
			for _, reason := range c.reasons {
				require.ErrorContains(t, err, reason)
			}
			requirePackedAlike(t, p, sound)
		})
	}

	g := nodeCases()["FullyConnected"].graph()
	g.nodes[0].fields[4] = uint32(0x200)
	_, err := Open(save(t, around(g).bytes()))
	require.ErrorIs(t, err, ErrUnsupported, "it may decide what is packed")
}

func TestTheReasonsOfAHostileProgramAreBounded(t *testing.T) {
	g := behind(30, 0)
	for range 168 {
		g.nodes = append(g.nodes, xnode{kind: 21, fields: slots(0, 9, 0)})
	}
	err := openBytes(t, around(g).bytes()).Methods()[0].Runnable()
	require.Equal(t, 100, strings.Count(err.Error(), "ArgMaxPooling2d"))
	require.ErrorContains(t, err, "and 68 more reasons")
}
