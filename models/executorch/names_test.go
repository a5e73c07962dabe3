//go:build cgo

package executorch

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/tests/modeltest"
)

// A kernelUse is of the one kernel of a program, by a fully connected layer of its own.
type kernelUse struct {
	dims       []uint32 // the kernel's
	transposed bool
	kernel     string // its name, "" for a constant in the blob
}

// oneKernel is a program with a method for each list of uses: a chain of fully connected layers without biases.
func oneKernel(methods ...[]kernelUse) mprogram {
	p := mprogram{named: map[string]uint32{}, constants: []uint64{0}}
	size := 0
	for i, uses := range methods {
		in := func(u kernelUse) uint32 {
			if u.transposed {
				return u.dims[0]
			}
			return u.dims[1]
		}
		g := xgraph{values: []xtensor{
			{id: 0, datatype: dtFloat32, dims: []uint32{2, in(uses[0])}, flags: externalInput},
		}}
		last := uint32(0)
		var width uint32
		for l, u := range uses {
			width = u.dims[0] + u.dims[1] - in(u)
			size = count(u.dims)
			c := blobConstant{name: u.kernel}
			if c.name == "" {
				c.data = floats(sequence(size, 5)...)
			}
			g.constants = append(g.constants, c)
			out := xtensor{id: uint32(10*l + 10), datatype: dtFloat32, dims: []uint32{2, width}, external: absent}
			if l == len(uses)-1 {
				out.external, out.flags = 1, externalOutput
			}
			g.values = append(g.values, out, xtensor{id: out.id + 1, datatype: dtFloat32, dims: u.dims,
				constant: uint32(l + 1), external: absent})
			flags := 0
			if u.transposed {
				flags = 1
			}
			g.nodes = append(g.nodes, xnode{kind: 2, fields: slots(last, out.id+1, absent, out.id, flags)})
			last = out.id
		}
		p.segments = append(p.segments, g.bytes())
		p.methods = append(p.methods, mmethod{
			name: fmt.Sprint("method ", i), inputs: []int32{0}, outputs: []int32{1},
			values: tensors(mtensor{dtype: Float, sizes: []int32{2, int32(in(uses[0]))}},
				mtensor{dtype: Float, sizes: []int32{2, int32(width)}}),
			delegates: []table{inSegment(i)}, instructions: []table{call(0, 0, 1)}, buffers: []uint64{0},
		})
	}
	p.named["kernel"] = uint32(len(p.segments))
	p.segments = append(p.segments, floats(sequence(size, 3)...), nil)
	return p
}

// loadable makes a program of one node that ExecuTorch loads, too; its constants have names.
func loadable(c nodeCase) mprogram {
	g := c.graph()
	for i := range g.constants {
		g.constants[i].name = fmt.Sprint("constant ", i)
	}
	p := around(g)
	p.constants, p.segments = []uint64{0}, append(p.segments, nil)
	p.methods[0].buffers = []uint64{0}
	return p
}

// calibrated is a program of one fully connected layer of int8, whose inputs are of that scale. Nothing else of it
// depends on what it was calibrated with.
func calibrated(scale float32) mprogram {
	q := quantizedFilter{datatype: dtChannelQInt8, inputs: 24, bits: 8}
	g, _ := q.layer(2, false)
	quantized := func(scale float32) table { return table{perTensorScale: scale, perTensorZeroPoint: int32(0)} }
	in, out := g.values[0], g.values[4]
	in.datatype, in.quant, in.params = dtQInt8, perTensor, quantized(scale)
	out.datatype, out.quant, out.params = dtQInt8, perTensor, quantized(1)
	g.values = []xtensor{in, g.values[2], out}
	g.constants = g.constants[:1]
	g.nodes = []xnode{{kind: 2, fields: slots(0, 2, absent, 4, 0)}}
	p := around(g)
	p.constants, p.segments = []uint64{0}, append(p.segments, nil)
	p.methods[0].buffers = []uint64{0}
	return p
}

// The programs for the tool's tests of files for the stock runtime, which finds packed weights by name and seed.
var namingPrograms = map[string]mprogram{
	// Where XNNPACK packs both in tiles of one size, their seeds are the same.
	"one_name_one_seed.pte": oneKernel([]kernelUse{
		{dims: []uint32{64, 128}, kernel: "kernel"}, {dims: []uint32{128, 64}, kernel: "kernel"},
	}),
	"one_name_two_seeds.pte": oneKernel([]kernelUse{{dims: []uint32{48, 48}, kernel: "kernel"}},
		[]kernelUse{{dims: []uint32{48, 48}, kernel: "kernel", transposed: true}, {dims: []uint32{48, 48}}}),
	"deconvolution.pte":    loadable(nodeCases()["ConvTranspose2d"]),
	"calibrated.pte":       calibrated(0.25),
	"calibrated_again.pte": calibrated(0.5),
	"no_weights.pte":       loadable(nodeCases()["Add"]),
	"no_names.pte":         oneKernel([]kernelUse{{dims: []uint32{48, 48}}}),
}

func TestTheProgramsOfOneKernelForTheToolsTestsAreWhatIsBuiltHere(t *testing.T) {
	for name, p := range namingPrograms {
		content, err := os.ReadFile(filepath.Join("testdata", name))
		require.NoError(t, err)
		require.Equal(t, p.bytes(), content, name)
	}
}

func TestOnlyNamesFromTheFilesAreNames(t *testing.T) {
	p := openBytes(t, namingPrograms["one_name_two_seeds.pte"].bytes())
	var named, unnamed int
	for _, w := range p.Constants() {
		if Named(w.Name) {
			require.Equal(t, "kernel", w.Name)
			named++
		} else {
			unnamed++
		}
	}
	require.Equal(t, 1, named)
	require.Equal(t, 1, unnamed)
	for _, name := range []string{"", "kernel as fp32"} {
		require.False(t, Named(name))
	}
}

// Older exporters write a kernel into the blob of each delegate that has it. One may also be in a file under two names.
func TestOneKernelUnderSeveralNamesIsStoredOnce(t *testing.T) {
	dims := []uint32{128, 64}
	tied := oneKernel([]kernelUse{{dims: dims, kernel: "kernel"}}, []kernelUse{{dims: dims, kernel: "tied"}})
	tied.named["tied"] = tied.named["kernel"]
	for name, program := range map[string]mprogram{
		"two blobs": oneKernel([]kernelUse{{dims: dims}}, []kernelUse{{dims: dims}}), "two names": tied,
	} {
		t.Run(name, func(t *testing.T) {
			p := openBytes(t, program.bytes())
			path := filepath.Join(t.TempDir(), "cache")
			for _, m := range p.Methods() {
				require.EqualValues(t, 1, modeltest.PackWhole(t, m, path).Packed.Entries)
			}
			info, err := os.Stat(path)
			require.NoError(t, err)
			require.Less(t, info.Size(), int64(2*4*128*64))
			for _, m := range p.Methods() {
				warm := modeltest.PackWhole(t, m, path)
				require.EqualValues(t, 1, warm.Hits.Entries)
				require.Zero(t, warm.Packed)
			}
		})
	}
}

// A host may free a kernel once the file has it for the delegate: linear(x, w) + w reads w at inference.
func TestAKernelThatInferenceReadsHasNoPackingDelegate(t *testing.T) {
	dims := []uint32{32, 32}
	for title, second := range map[string]uint32{"linear(x, w) + w": 1, "linear(x, w) + x": 0} {
		p := openBytes(t, around(xgraph{
			values: []xtensor{
				{id: 0, datatype: dtFloat32, dims: dims, flags: externalInput},
				{id: 1, datatype: dtFloat32, dims: dims, constant: 1, external: absent},
				{id: 2, datatype: dtFloat32, dims: dims, external: absent},
				{id: 3, datatype: dtFloat32, dims: dims, external: 1, flags: externalOutput},
			},
			constants: []blobConstant{{name: "kernel", data: floats(sequence(count(dims), 3)...)}},
			nodes: []xnode{
				{kind: 2, fields: slots(0, 1, absent, 2, 0)},
				{kind: 1, fields: slots(2, int(second), 3, 0)},
			},
		}).bytes())
		delegates, err := p.PackingDelegates()
		require.NoError(t, err)
		require.Equal(t, second == 0, len(delegates) == 1, title)
	}
}
