//go:build cgo

package executorch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/tests/modeltest"
	"xpwc/models"
	"xpwc/xnnpack"
)

// quantizedFilter is a filter of 4 output channels, and its quantization.
type quantizedFilter struct {
	name     string
	datatype int16
	inputs   int
	bits     int
	block    int  // elements that share a scale; 0 for all of a channel
	buffer   bool // the scales are a constant of their own
}

// scale is that of a block, exactly as bfloat16 has it.
func (q quantizedFilter) scale(channel, block int) float32 { return float32(channel+2*block+1) / 128 }

func (q quantizedFilter) integer(channel, i int) int {
	half := 1 << (q.bits - 1)
	return (channel*31+i*17)%(2*half-1) - half + 1
}

// content packs the integers as the file has them: 4-bit ones unsigned, two in a byte, the first in the low half.
func (q quantizedFilter) content() []byte {
	var out []byte
	for c := range 4 {
		for i := range q.inputs {
			v := q.integer(c, i)
			switch {
			case q.bits == 8:
				out = append(out, byte(v))
			case i%2 == 0:
				out = append(out, byte(v+8))
			default:
				out[len(out)-1] |= byte(v+8) << 4
			}
		}
	}
	return out
}

func (q quantizedFilter) blocks() int {
	if q.block == 0 {
		return 1
	}
	return q.inputs / q.block
}

func (q quantizedFilter) weight(channel, i int) float32 {
	block := 0
	if q.block > 0 {
		block = i / q.block
	}
	return float32(q.integer(channel, i)) * q.scale(channel, block)
}

// layer is a graph that multiplies rows by the filter and adds a bias. The rows are quantised as they come in.
func (q quantizedFilter) layer(rows int, old bool) (g xgraph, bias []float32) {
	bias = []float32{1, -2, 3, -4}
	var scales []float32
	var scaleBytes []byte
	for c := range 4 {
		for b := range q.blocks() {
			s := q.scale(c, b)
			scales = append(scales, s)
			if q.block > 0 {
				scaleBytes = binary.LittleEndian.AppendUint16(scaleBytes, uint16(math.Float32bits(s)>>16))
			} else {
				scaleBytes = binary.LittleEndian.AppendUint32(scaleBytes, math.Float32bits(s))
			}
		}
	}
	filter := xtensor{
		id: 2, datatype: q.datatype, dims: []uint32{4, uint32(q.inputs)}, constant: 1, external: absent, quant: 1,
		params: table{1: int32(0)},
	}
	buffer := 2
	if q.block > 0 {
		filter.quant, filter.params[2], buffer = 4, int32(q.block), 4
	}
	g.constants = []blobConstant{{"filter", q.content()}, {"bias", floats(bias...)}, {"scale_of_it", scaleBytes}}
	if q.buffer {
		filter.params[buffer], filter.params[buffer+1] = uint32(3), uint32(len(scales))
	} else {
		filter.params[0] = scales
	}
	in := xtensor{id: 0, datatype: dtFloat32, dims: []uint32{uint32(rows), uint32(q.inputs)}, external: 0,
		flags: externalInput}
	dynamic := xtensor{id: 1, datatype: dtDynamicQInt8, dims: in.dims, external: absent, quant: 3,
		params: table{0: int32(1)}}
	g.values = []xtensor{
		in, dynamic, filter,
		{id: 3, datatype: dtFloat32, dims: []uint32{4}, constant: 2, external: absent},
		{id: 4, datatype: dtFloat32, dims: []uint32{uint32(rows), 4}, external: 1, flags: externalOutput},
	}
	g.nodes = []xnode{
		{kind: 18, fields: slots(0, 1, 0)},
		{kind: 2, fields: slots(1, 2, 3, 4, 0)},
	}
	if old {
		g.values[0].id, g.values[0].dq = 1, dtQInt8
		g.values, g.nodes = append(g.values[:1], g.values[2:]...), g.nodes[1:]
	}
	return g, bias
}

// ExecuTorch's export notes the dimensions of images that are quantised inside a delegate in the order of PyTorch.
func TestWhatADelegateComputesInsideHasTheShapeThatXNNPACKComputes(t *testing.T) {
	q := quantizedFilter{datatype: dtChannelQInt8, inputs: 24, bits: 8}
	layer := func(claimed ...uint32) xgraph {
		g, _ := q.layer(2, false)
		g.values[1].dims = claimed
		return g
	}
	x := sequence(2*q.inputs, 3)
	want := modeltest.Run(t, openBytes(t, around(layer(2, 24)).bytes()).Methods()[0], x)
	for _, claimed := range [][]uint32{{24, 2}, {1, 48}, {2, 24, 1}} {
		m := openBytes(t, around(layer(claimed...)).bytes()).Methods()[0]
		require.NoError(t, m.Runnable())
		require.Equal(t, want, modeltest.Run(t, m, x), claimed)
	}

	used := layer(2, 24)
	used.values[0].dims, used.nodes[0], used.nodes[1] = []uint32{24, 2}, used.nodes[1], used.nodes[0]
	p := openBytes(t, around(used).bytes())
	require.ErrorContains(t, p.Methods()[0].Runnable(), "is not computed before")
	requirePackedAlike(t, p, openBytes(t, around(layer(2, 24)).bytes()))
}

func TestDynamicallyQuantisedConvolutionsArePacked(t *testing.T) {
	zoo := filepath.Join("..", "..", "..", "..", "internal", "tests", "zoo")
	p := openProgram(t, filepath.Join(zoo, "testdata", "pte", "group_dyn"))
	path := filepath.Join(t.TempDir(), "cache")
	cold := packAll(t, p, path)
	require.GreaterOrEqual(t, cold.Packed.Entries, int64(2), "and XNNPACK of 2026 packs depthwise ones through a cache")
	warm := packAll(t, p, path)
	require.Zero(t, warm.Packed)
	require.GreaterOrEqual(t, warm.Hits.Entries+warm.Reused.Entries, cold.Packed.Entries)
}

func TestQuantizedWeightsMeanWhatTheirScalesSay(t *testing.T) {
	const rows = 2
	for _, q := range []quantizedFilter{
		{name: "8 bits", datatype: dtChannelQInt8, inputs: 24, bits: 8},
		{name: "8 bits with scales of their own", datatype: dtChannelQInt8, inputs: 24, bits: 8, buffer: true},
		{name: "4 bits", datatype: dtChannelQInt4, inputs: 24, bits: 4, buffer: true},
		{name: "4 bits in blocks", datatype: dtBlockQInt4, inputs: 128, bits: 4, block: 32, buffer: true},
		{name: "4 bits in blocks with floats as scales", datatype: dtBlockQInt4, inputs: 128, bits: 4, block: 32},
	} {
		for _, old := range []bool{false, true} {
			t.Run(fmt.Sprint(q.name, map[bool]string{true: ", quantised in the old way"}[old]), func(t *testing.T) {
				g, bias := q.layer(rows, old)
				p := openBytes(t, around(g).bytes())
				m := p.Methods()[0]
				x := sequence(rows*q.inputs, 3)
				var want []float32
				for r := range rows {
					for c := range 4 {
						sum := bias[c]
						for i := range q.inputs {
							sum += x[r*q.inputs+i] * q.weight(c, i)
						}
						want = append(want, sum)
					}
				}
				got := modeltest.Run(t, m, x)[0]
				require.LessOrEqual(t, relativeL2(got, want), 0.02)

				cache, err := xpwc.Open(filepath.Join(t.TempDir(), "cache"), nil)
				require.NoError(t, err)
				require.Equal(t, got, modeltest.RunCached(t, m, cache, m.DataMap(), x)[0])
				require.Equal(t, got, modeltest.RunCached(t, m, cache, m.DataMap(), x)[0])
				require.EqualValues(t, 1, cache.Stats().Packed.Entries)
				require.NoError(t, cache.Close())
				modeltest.CheckPacked(t, m)
			})
		}
	}
}

// What is packed depends on the scales and, where inputs are quantised at inference, on the bias, of which XNNPACK's
// key shows nothing.
func TestScalesAndHiddenBiasesArePartOfWhatIsPacked(t *testing.T) {
	q := quantizedFilter{datatype: dtChannelQInt8, inputs: 24, bits: 8, buffer: true}
	x := sequence(2*q.inputs, 3)
	path := filepath.Join(t.TempDir(), "cache")
	seen := map[string]bool{}
	for i, change := range []func(g *xgraph){
		func(*xgraph) {},
		func(g *xgraph) { g.constants[1].data = floats(7, 7, 7, 7) },
		func(g *xgraph) { g.constants[2].data = floats(1, 1, 1, 1) },
	} {
		g, _ := q.layer(2, false)
		change(&g)
		p := openBytes(t, around(g).bytes())
		cache, err := xpwc.Open(path, nil)
		require.NoError(t, err)
		got := modeltest.RunCached(t, p.Methods()[0], cache, p.DataMap(), x)[0]
		require.Equal(t, modeltest.Run(t, p.Methods()[0], x)[0], got, "change %d", i)
		require.EqualValues(t, 1, cache.Stats().Packed.Entries)
		require.NoError(t, cache.Close())
		seen[fmt.Sprint(got)] = true
	}
	require.Len(t, seen, 3)
}

// XNNPACK multiplies bfloat16 into single precision only, and not everywhere: where it does, the output is rounded.
func TestALayerOfBFloat16IsRoundedOnce(t *testing.T) {
	round := func(x []float32) (b []byte, rounded []float32) {
		for _, f := range x {
			u := uint16(math.Float32bits(f) >> 16)
			b = binary.LittleEndian.AppendUint16(b, u)
			rounded = append(rounded, math.Float32frombits(uint32(u)<<16))
		}
		return b, rounded
	}
	const rows, inputs, dtBFloat16 = 2, 64, int16(14)
	in, x := round(sequence(rows*inputs, 1))
	filter, w := round(sequence(4*inputs, 2))
	g := xgraph{
		constants: []blobConstant{{"filter", filter}},
		values: []xtensor{
			{id: 1, datatype: dtBFloat16, dims: []uint32{rows, inputs}, flags: externalInput},
			{id: 10, datatype: dtBFloat16, dims: []uint32{4, inputs}, constant: 1, external: absent},
			{id: 0, datatype: dtBFloat16, dims: []uint32{rows, 4}, external: 1, flags: externalOutput},
		},
		nodes: []xnode{{kind: 2, fields: slots(1, 10, absent, 0, 0)}},
	}
	m := openBytes(t, around(g).bytes()).Methods()[0]
	require.NoError(t, m.Runnable())
	l := models.NewMemory(m.DataMap())
	defer func() { require.NoError(t, l.Close()) }()
	s, err := m.Subgraph(l)
	if errors.Is(err, xnnpack.InvalidParameter) || errors.Is(err, xnnpack.UnsupportedParameter) {
		require.ErrorContains(t, err, "node 0 (FullyConnected, debug handle 100)")
		t.Skip("this XNNPACK has no such layer: ", err)
	}
	require.NoError(t, err)
	r, err := xnnpack.NewRuntime(s, nil)
	require.NoError(t, s.Delete())
	if errors.Is(err, xnnpack.UnsupportedHardware) || errors.Is(err, xnnpack.UnsupportedParameter) {
		t.Skip("this XNNPACK or CPU has no such layer: ", err)
	}
	require.NoError(t, err)
	require.NoError(t, r.Delete())
	got, _ := execution{}.run(t, m, [][]byte{in}, [][]int{{rows, inputs}})
	want := matrices(x, w, 1, rows, inputs, 4, true)
	for i := range want {
		f := math.Float32frombits(uint32(binary.LittleEndian.Uint16(got[0][2*i:])) << 16)
		require.InDelta(t, want[i], f, 0.01*math.Abs(float64(want[i]))+0.01)
	}
}
