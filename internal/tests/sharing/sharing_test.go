//go:build cgo

package sharing

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/tests/harness"
)

// A subgraph whose body uses weights of the graph around it, and some of its own.
var (
	outerGraph = harness.Chain{Width: 96, Layers: [][2]string{{"embedding", ""}, {"shared", "shared bias"}}}
	subgraph   = harness.Chain{Width: 96, Layers: [][2]string{{"shared", "shared bias"}, {"own", "own bias"}}}
)

func TestASubgraphPacksAnOuterWeightOnce(t *testing.T) {
	outer := outerGraph.Weights(1)
	inner := map[string][]byte{}
	for name, content := range subgraph.Weights(1) {
		if _, shared := outer[name]; !shared {
			inner[name] = content
		}
	}
	complete := maps.Clone(outer)
	maps.Copy(complete, inner)
	for name, path := range map[string]string{"file": harness.Path(t), "memory": ""} {
		t.Run(name, func(t *testing.T) {
			for start, packed := range []int64{3, 0} {
				if path == "" && start > 0 {
					break
				}
				c := harness.OpenCache(t, path, nil)
				graph := outerGraph.Open(t, c, xpwc.MapOf(outer))
				body := subgraph.Open(t, c, subgraphMap{xpwc.MapOf(inner), xpwc.MapOf(outer)})
				require.Equal(t, outerGraph.Plain(t, outer), outerGraph.Infer(t, graph.Runtime))
				require.Equal(t, subgraph.Plain(t, complete), subgraph.Infer(t, body.Runtime))
				s := c.Stats()
				require.Equal(t, packed, s.Packed.Entries, "of four uses of three weights")
				require.Equal(t, 4-packed, s.Hits.Entries)
				require.Equal(t, []string{"ownown bias", "sharedshared bias"}, body.Names)

				graph.MustClose(t)
				require.Equal(t, subgraph.Plain(t, complete), subgraph.Infer(t, body.Runtime), "after its parent's end")
				body.MustClose(t)
				require.NoError(t, c.Close())
			}
		})
	}
}

func TestXNNPACKPacksWhereTheFileIsMapped(t *testing.T) {
	c := harness.OpenCache(t, harness.Path(t), nil)
	opened := harness.ThreeLayers.Open(t, c, xpwc.MapOf(harness.ThreeLayers.Weights(1)))
	s := c.Stats()
	require.EqualValues(t, 3, s.Packed.Entries)
	require.Equal(t, s.Packed.Bytes, s.MappedBytes)
	require.Zero(t, s.CopiedBytes)
	require.Zero(t, s.PrivateBytes)
	opened.MustClose(t)
}

// Packed weights are kept in the place that the host chooses, and nothing else is written.
func TestTheHostChoosesThePlaceOfTheFile(t *testing.T) {
	tensors := harness.ThreeLayers.Weights(1)
	want := harness.ThreeLayers.Plain(t, tensors)
	for _, choice := range []struct {
		name    string
		file    string
		options *xpwc.Options
		saved   []string
	}{
		{"memory", "", nil, nil},
		{"read-only", "cache", &xpwc.Options{ReadOnly: true}, nil},
		{"file", "cache", nil, []string{"cache"}},
	} {
		t.Run(choice.name, func(t *testing.T) {
			dir := t.TempDir()
			path := choice.file
			if path != "" {
				path = filepath.Join(dir, path)
			}
			t.Chdir(dir)
			c := harness.OpenCache(t, path, choice.options)
			for range 2 {
				require.Equal(t, want, harness.ThreeLayers.Run(t, c, xpwc.MapOf(tensors)))
			}
			require.NoError(t, c.Save())
			entries, err := os.ReadDir(dir)
			require.NoError(t, err)
			var saved []string
			for _, e := range entries {
				saved = append(saved, e.Name())
			}
			require.Equal(t, choice.saved, saved)
			if choice.saved != nil {
				require.Equal(t, 3, c.Stats().Entries, "on stable storage when Save returns")
			}
			require.NoError(t, c.Close())
		})
	}
}

// subgraphMap is the data map of a subgraph: what it does not know is a tensor of the graph around it.
type subgraphMap struct{ inner, outer xpwc.DataMap }

func (m subgraphMap) Tensor(name string) (xpwc.Tensor, error) {
	t, err := m.inner.Tensor(name)
	if errors.Is(err, xpwc.ErrUnknownTensor) {
		return m.outer.Tensor(name)
	}
	return t, err
}
