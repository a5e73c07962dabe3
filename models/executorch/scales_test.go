//go:build cgo

package executorch

import (
	"path/filepath"
	"runtime"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/tests/modeltest"
	"xpwc/models"
)

// withScales is a program of one layer with scales in a list of their own. Where they are not aligned they begin a byte
// later in the file.
func withScales(q quantizedFilter, aligned bool) mprogram {
	g, _ := q.layer(2, false)
	p := around(g)
	if aligned {
		return p
	}
	scales := p.named["scale_of_it"]
	p.segments[scales] = append([]byte{0}, p.segments[scales]...)
	p.changes = func(root table) {
		tables := root[4].([]table)[scales]
		tables[0], tables[1] = tables[0].(uint64)+1, tables[1].(uint64)-1
	}
	return p
}

var channelsOf8Bits = quantizedFilter{datatype: dtChannelQInt8, inputs: 24, bits: 8, buffer: true}

var blocksOf4Bits = quantizedFilter{datatype: dtBlockQInt4, inputs: 128, bits: 4, block: 32, buffer: true}

func TestScalesAreReadWhereTheyAreInTheFile(t *testing.T) {
	for _, q := range []quantizedFilter{channelsOf8Bits, blocksOf4Bits} {
		var outputs [][]float32
		for _, aligned := range []bool{true, false} {
			p := openBytes(t, withScales(q, aligned).bytes())
			m := p.Methods()[0]
			outputs = append(outputs, modeltest.Run(t, m, sequence(2*q.inputs, 3))[0])
			matches := 0
			for id := range p.plan.values {
				v := &p.plan.values[id]
				if v.scales == nil {
					continue
				}
				matches++
				file, scales := p.files.program().file.Data(), v.tensor
				readScales(&scales, p.files.inPlace(*v.scales))
				addr := unsafe.Pointer(unsafe.SliceData(scales.Quantization.Scales))
				if q.block > 0 {
					addr = unsafe.Pointer(unsafe.SliceData(scales.Quantization.BlockScales))
				}
				require.Equal(t, aligned, addr == unsafe.Pointer(&file[v.scales.at.Offset]))
			}
			require.Equal(t, 1, matches)
		}
		require.Equal(t, outputs[0], outputs[1])
	}
}

// manyBlocks is a program of one layer of 4 bits with 32 MiB of weights and 4 MiB of scales.
func manyBlocks() mprogram {
	const channels, inputs, block = 16384, 4096, 32
	q := blocksOf4Bits
	q.inputs = inputs
	g, _ := q.layer(1, false)
	scales := make([]byte, 2*channels*inputs/block)
	for i := 1; i < len(scales); i += 2 {
		scales[i] = 0x3c // of 0.0078125
	}
	g.constants[0].data, g.constants[1].data = make([]byte, channels*inputs/2), make([]byte, 4*channels)
	g.constants[2].data = scales
	for i := range g.values {
		switch v := &g.values[i]; v.id {
		case 2:
			v.dims = []uint32{channels, inputs}
		case 3:
			v.dims = []uint32{channels}
		case 4:
			v.dims = []uint32{1, channels}
		}
	}
	return around(g)
}

// subgraphBytes is how much Go memory a subgraph of all of the program takes, including garbage.
func subgraphBytes(t testing.TB, p *Program, l models.Loader) uint64 {
	t.Helper()
	var start, end runtime.MemStats
	runtime.ReadMemStats(&start)
	s, err := p.Methods()[0].Subgraph(l)
	runtime.ReadMemStats(&end)
	require.NoError(t, err)
	require.NoError(t, s.Delete())
	return end.TotalAlloc - start.TotalAlloc
}

func TestTheHeapDoesNotGrowWithTheScales(t *testing.T) {
	p := openBytes(t, manyBlocks().bytes())
	loader := models.NewMemory(p.Methods()[0].DataMap())
	defer func() { require.NoError(t, loader.Close()) }()
	require.Less(t, subgraphBytes(t, p, loader), uint64(128<<10), "without a cache")

	cache, err := xpwc.Open(filepath.Join(t.TempDir(), "cache"), nil)
	require.NoError(t, err)
	session, err := cache.NewSession(p.DataMap())
	require.NoError(t, err)
	require.Less(t, subgraphBytes(t, p, session), uint64(128<<10), "with one")
	require.NoError(t, session.Close())
	require.NoError(t, cache.Close())
}

// BenchmarkSubgraph makes the subgraph of a layer with 4 MiB of scales: B/op is the Go memory that it takes.
func BenchmarkSubgraph(b *testing.B) {
	p, err := Open(save(b, manyBlocks().bytes()))
	require.NoError(b, err)
	defer func() { require.NoError(b, p.Close()) }()
	loader := models.NewMemory(p.Methods()[0].DataMap())
	defer func() { require.NoError(b, loader.Close()) }()
	b.ReportAllocs()
	for b.Loop() {
		s, err := p.Methods()[0].Subgraph(loader)
		require.NoError(b, err)
		require.NoError(b, s.Delete())
	}
}
