//go:build cgo

package executorch

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/output"
)

// layer is a fully connected layer of a chain. Its kernel and its bias are named data: of other labels, other content,
// by whose hash they are called as ExecuTorch's export calls them.
type layer struct {
	out          int
	kernel, bias string // no bias if it is ""
	limits       []float32
	constant     []byte // kernel's, for the first layer that names it
	name         string // kernel's, if it is not the hash
}

// chainOf makes a program of fully connected layers, one after the other, that ExecuTorch loads too.
func chainOf(in int, layers ...layer) mprogram {
	g := xgraph{values: []xtensor{{id: 0, datatype: dtFloat32, dims: []uint32{2, uint32(in)}, flags: externalInput}}}
	last := uint32(0)
	for i, l := range layers {
		id := uint32(10 * (i + 1))
		out := xtensor{id: id, datatype: dtFloat32, dims: []uint32{2, uint32(l.out)}, external: absent}
		if i == len(layers)-1 {
			out.external, out.flags = 1, externalOutput
		}
		if l.constant == nil {
			l.constant = labelled(l.kernel, l.out*in)
		}
		g.constants = append(g.constants, blobConstant{cmp.Or(l.name, hashOf(l.constant)), l.constant})
		g.values = append(g.values, out, xtensor{id: id + 1, datatype: dtFloat32,
			dims: []uint32{uint32(l.out), uint32(in)}, constant: uint32(len(g.constants)), external: absent})
		bias := absent
		if l.bias != "" {
			bias = id + 2
			content := labelled(l.bias, l.out)
			g.constants = append(g.constants, blobConstant{hashOf(content), content})
			g.values = append(g.values, xtensor{id: bias, datatype: dtFloat32, dims: []uint32{uint32(l.out)},
				constant: uint32(len(g.constants)), external: absent})
		}
		g.nodes = append(g.nodes, xnode{kind: 2, fields: slots(last, id+1, bias, id, 0), limits: l.limits})
		last, in = id, l.out
	}
	p := around(g)
	p.constants, p.segments = []uint64{0}, append(p.segments, nil)
	p.methods[0].buffers = []uint64{0}
	return p
}

// labelled returns n floats that others of another label are not.
func labelled(label string, n int) []byte {
	start := 0
	for _, b := range []byte(label) {
		start += int(b)
	}
	return floats(sequence(n, start)...)
}

func hashOf(content []byte) string { return fmt.Sprintf("%x", sha256.Sum256(content)) }

var relu = []float32{0, 1e6}

func anyName(string) bool { return true }

// written returns the bytes of a program's skeleton.
func written(t *testing.T, s *Skeleton) []byte {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "skeleton.pte"))
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	require.NoError(t, s.Write(f))
	b, err := os.ReadFile(f.Name())
	require.NoError(t, err)
	return b
}

func TestASkeletonHasEverythingButKernelsAndItsBiasesAreNoNumbers(t *testing.T) {
	content := chainOf(6, layer{out: 5, kernel: "k1", bias: "b1", limits: relu},
		layer{out: 4, kernel: "k2", bias: "b2"}).bytes()
	p := openBytes(t, content)
	s, err := p.Skeleton(anyName)
	require.NoError(t, err)
	require.Equal(t, 2, s.Kernels)
	require.EqualValues(t, 4*(6*5+5*4), s.HoleBytes)
	require.Empty(t, s.Remaining)
	got := written(t, s)
	require.EqualValues(t, len(got), s.FileBytes)

	want := bytes.Clone(content)
	for _, e := range p.files.program().contents.named {
		if e.span.Size >= 4*5*4 { // the kernels
			clear(want[e.span.Offset:][:e.span.Size])
		} else {
			copy(want[e.span.Offset:], bytes.Repeat([]byte{0, 0, 0xc0, 0x7f}, int(e.span.Size)/4))
		}
	}
	require.True(t, bytes.Equal(want, got[:len(want)]))
	_, err = Open(save(t, got))
	require.ErrorIs(t, err, ErrSkeleton)
	_, err = OpenFile(save(t, got))
	require.ErrorIs(t, err, ErrSkeleton)
	require.True(t, output.IsSkeleton(got[len(got)-128:]))
	require.False(t, output.IsSkeleton(content))
}

func TestWhatOthersReadOrNoBiasPoisonsStaysInASkeleton(t *testing.T) {
	last := layer{out: 4, kernel: "last", bias: "last bias"}
	square := func(kernel, bias string) layer { return layer{out: 4, kernel: kernel, bias: bias} }
	packsLast := func(name string) bool {
		return name == hashOf(labelled("last", 4*4))+hashOf(labelled("last bias", 4))
	}
	for name, c := range map[string]struct {
		layers []layer
		packed func(string) bool
		reason string
	}{
		"no bias":     {[]layer{square("k", ""), last}, anyName, "without a bias of floats, which can be NaN"},
		"not packed":  {[]layer{square("k", "b"), last}, packsLast, "not in the file of packed weights"},
		"two biases":  {[]layer{square("k", "b"), square("k", "c"), last}, anyName, "packed in several ways"},
		"shared bias": {[]layer{square("k", "b"), {out: 4, kernel: "l"}, square("l", "b"), last}, anyName, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := openBytes(t, chainOf(4, c.layers...).bytes()).Skeleton(c.packed)
			require.NoError(t, err)
			reasons := []string{}
			for _, k := range s.Remaining {
				reasons = append(reasons, k.Reason)
			}
			if c.reason != "" {
				require.Equal(t, []string{c.reason}, reasons)
			} else {
				require.Contains(t, reasons, "read by others too, or its bias")
			}
			require.Equal(t, 1, s.Kernels, "the last one")
		})
	}
}

// The runtime finds packed weights by names. If these do not identify all that is packed, it might find another
// program's.
func TestAKernelStaysInASkeletonIfItsNameCouldBeAnothers(t *testing.T) {
	renamed := chainOf(4, layer{out: 4, kernel: "k", bias: "b"}, layer{out: 4, kernel: "last", bias: "last bias"})
	name, wrong := hashOf(labelled("k", 4*4)), strings.Repeat("0", sha256.Size*2)
	content := bytes.ReplaceAll(renamed.bytes(), []byte(name), []byte(wrong))
	s, err := openBytes(t, content).Skeleton(anyName)
	require.NoError(t, err)
	require.Equal(t, 1, s.Kernels)
	require.Equal(t, "under a name that is not the hash of its content", s.Remaining[0].Reason)

	q := quantizedFilter{datatype: dtChannelQInt8, inputs: 24, bits: 8}
	g, _ := q.layer(2, false)
	for i := range g.constants {
		g.constants[i].name = hashOf(g.constants[i].data)
	}
	_, err = openBytes(t, around(g).bytes()).Skeleton(anyName)
	require.ErrorIs(t, err, ErrNoSkeleton, "its name does not have the bias, nor the scales")
}

// Another program of the same layer in int8 has its kernel under the same name, packed with other scales.
func TestAKernelThatStaysIsRenamedInASkeletonIfItsNameDoesNotShowAllThatIsPacked(t *testing.T) {
	names := map[string]bool{}
	for _, name := range []string{"mixd1", "mixd2", "mixd3", "nb1", "nb2"} {
		p, err := Open(filepath.Join("testdata", "reported", name+".pte"))
		require.NoError(t, err)
		s, err := p.Skeleton(anyName)
		require.NoError(t, err)
		require.Equal(t, 1, s.Renamed, name)
		skeleton := written(t, s)
		renamed := openBytes(t, skeleton[:len(skeleton)-len(output.SkeletonMark)])
		for i, e := range p.files.program().contents.named {
			current := renamed.files.program().contents.named[i]
			require.Len(t, current.name, len(e.name))
			require.Equal(t, e.span, current.span)
			if current.name == e.name {
				continue
			}
			require.False(t, names[current.name], "a name of its own")
			names[current.name] = true
		}
		require.NoError(t, p.Close())
	}
	require.Len(t, names, 5, "one in each program")
}

func TestAKernelWhoseNameIsTooShortToBeReplacedIsAReasonAgainstASkeleton(t *testing.T) {
	last := layer{out: 4, kernel: "last", bias: "last bias"}
	for name, ok := range map[string]bool{"fc": false, "kernel of the layer": true} {
		p := openBytes(t, chainOf(4, layer{out: 4, kernel: "k", name: name}, last).bytes())
		s, err := p.Skeleton(anyName)
		if ok {
			require.NoError(t, err)
			require.Equal(t, 1, s.Renamed)
			continue
		}
		require.ErrorIs(t, err, ErrNoSkeleton)
		require.ErrorContains(t, err, "cannot be renamed")
	}
}

func TestAProgramWhoseOutputsCouldBeBelievedHasNoSkeleton(t *testing.T) {
	first := layer{out: 4, kernel: "first", bias: "first bias"}
	for name, last := range map[string]layer{
		"limited":     {out: 4, kernel: "k", bias: "b", limits: relu},
		"without":     {out: 4, kernel: "k"},
		"not in file": {out: 4, kernel: "absent", bias: "b"},
	} {
		p := openBytes(t, chainOf(4, first, last).bytes())
		_, err := p.Skeleton(func(name string) bool {
			return !strings.HasPrefix(name, hashOf(labelled("absent", 4*4)))
		})
		require.ErrorIs(t, err, ErrNoSkeleton, name)
		require.ErrorContains(t, err, "output 0", name)
	}
	for _, name := range []string{"no_weights", "deconvolution", "no_names"} {
		p, err := Open(filepath.Join("testdata", name+".pte"))
		require.NoError(t, err)
		_, err = p.Skeleton(anyName)
		require.ErrorIs(t, err, ErrNoSkeleton, name)
		require.NoError(t, p.Close())
	}
}
