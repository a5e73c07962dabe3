//go:build cgo

package harness

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/tests/optable"
)

func Case(t testing.TB, name string) optable.Case {
	t.Helper()
	cases := optable.Cases()
	i := slices.IndexFunc(cases, func(c optable.Case) bool { return c.Name == name })
	require.GreaterOrEqual(t, i, 0, "no case %s", name)
	return cases[i]
}

// The two packings of DESIGN, fact 5: with AVX-512 masked off they have one seed and one size with and without
// AVX-VNNI, and other bytes. A file that moves between two such machines must serve each its own.
var Collisions = []string{"fully-connected-qs8-qc8w-64x48", "fully-connected-qd8-f32-qc4w-64x48"}

// RunCase runs an operator with a session of the cache and returns its output.
func RunCase(t *testing.T, c *xpwc.Cache, op optable.Case) []byte {
	t.Helper()
	weights := map[string][]byte{}
	session, err := c.NewSession(xpwc.MapOf(weights))
	require.NoError(t, err)
	defer func() { require.NoError(t, session.Close()) }()
	load := func(w optable.Weight) ([]byte, error) {
		weights[w.Name] = w.Content
		var options []xpwc.LoadOption
		if w.Eager {
			options = append(options, xpwc.Eager())
		}
		if w.Retain {
			options = append(options, xpwc.Retain())
		}
		options = append(options, xpwc.PackedAs(w.Packing))
		return session.Load(w.Name, options...)
	}
	output, err := op.Run(session, load, session.Finalize)
	require.NoError(t, err)
	return output
}
