package identity

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/tests/harness"
)

// A scope is a data map of tensors that all come from one source.
type scope struct {
	source  string
	tensors map[string][]byte
}

func (s scope) Tensor(name string) (xpwc.Tensor, error) {
	t, err := xpwc.MapOf(s.tensors).Tensor(name)
	t.Identity.Source = s.source
	return t, err
}

// nested is the data map of a scope within another one.
type nested struct{ inner, outer xpwc.DataMap }

func (m nested) Tensor(name string) (xpwc.Tensor, error) {
	t, err := m.inner.Tensor(name)
	if errors.Is(err, xpwc.ErrUnknownTensor) {
		return m.outer.Tensor(name)
	}
	return t, err
}

// What one source calls by one name is superseded when it changes; what two call so is kept for both.
func TestAShadowedNameIsKeptForBothScopes(t *testing.T) {
	outer := scope{"graph", map[string][]byte{"w": harness.Content("outer", 3000), "v": harness.Content("v", 2000)}}
	inner := scope{"branch", map[string][]byte{"w": harness.Content("inner", 3000)}}
	visible := map[string][]byte{"w": inner.tensors["w"], "v": outer.tensors["v"]}
	path := harness.Path(t)
	for round := range 3 {
		c := harness.Open(t, path, nil)
		session := func(m xpwc.DataMap, tensors map[string][]byte) *harness.Packed {
			s, err := c.NewSession(m)
			require.NoError(t, err)
			return harness.PackSession(t, s, tensors)
		}
		a := session(outer, outer.tensors)
		b := session(nested{inner, outer}, visible)
		s := c.Stats()
		if round == 0 {
			require.EqualValues(t, 3, s.Packed.Entries, "v once, w twice")
		} else {
			require.Zero(t, s.Misses)
			require.EqualValues(t, 4, s.Hits.Entries)
		}
		a.MustClose(t)
		b.MustClose(t)
		require.NoError(t, c.Close())
		require.Equal(t, 3, c.Stats().Entries)
	}
}
