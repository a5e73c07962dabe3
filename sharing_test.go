//go:build cgo

package xpwc_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
)

// A subgraph whose body uses weights of the graph around it, and some of its own.
var (
	outerGraph = chain{width: 96, layers: [][2]string{{"embedding", ""}, {"shared", "shared bias"}}}
	subgraph   = chain{width: 96, layers: [][2]string{{"shared", "shared bias"}, {"own", "own bias"}}}
)

func TestASubgraphPacksAnOuterWeightOnce(t *testing.T) {
	outer := outerGraph.weights(1)
	inner := map[string][]byte{}
	for name, content := range subgraph.weights(1) {
		if _, shared := outer[name]; !shared {
			inner[name] = content
		}
	}
	all := maps.Clone(outer)
	maps.Copy(all, inner)
	for name, path := range map[string]string{"file": cachePath(t), "memory": ""} {
		t.Run(name, func(t *testing.T) {
			for start, packed := range []int64{3, 0} {
				if path == "" && start > 0 {
					break
				}
				c := openCache(t, path, nil)
				graph := outerGraph.open(t, c, xpwc.MapOf(outer))
				body := subgraph.open(t, c, subgraphMap{xpwc.MapOf(inner), xpwc.MapOf(outer)})
				require.Equal(t, outerGraph.plain(t, outer), outerGraph.infer(t, graph.runtime))
				require.Equal(t, subgraph.plain(t, all), subgraph.infer(t, body.runtime))
				s := c.Stats()
				require.Equal(t, packed, s.Packed.Entries, "of four uses of three weights")
				require.Equal(t, 4-packed, s.Hits.Entries)
				require.Equal(t, []string{"ownown bias", "sharedshared bias"}, body.names)

				graph.close(t)
				require.Equal(t, subgraph.plain(t, all), subgraph.infer(t, body.runtime), "after its parent's end")
				body.close(t)
				require.NoError(t, c.Close())
			}
		})
	}
}

func TestXNNPACKPacksWhereTheFileIsMapped(t *testing.T) {
	c := openCache(t, cachePath(t), nil)
	opened := threeLayers.open(t, c, xpwc.MapOf(threeLayers.weights(1)))
	s := c.Stats()
	require.EqualValues(t, 3, s.Packed.Entries)
	require.Equal(t, s.Packed.Bytes, s.MappedBytes)
	require.Zero(t, s.CopiedBytes)
	require.Zero(t, s.PrivateBytes)
	opened.close(t)
}

// Where packed weights are kept is what the host says, and nothing else is written.
func TestWhereWeightsAreSavedIsTheHostsChoice(t *testing.T) {
	tensors := threeLayers.weights(1)
	want := threeLayers.plain(t, tensors)
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
			c := openCache(t, path, choice.options)
			for range 2 {
				require.Equal(t, want, threeLayers.run(t, c, xpwc.MapOf(tensors)))
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
