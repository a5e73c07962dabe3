package xpwc

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A scope is a data map of tensors that all come from one source.
type scope struct {
	source  string
	tensors map[string][]byte
}

func (s scope) Tensor(name string) (Tensor, error) {
	t, err := MapOf(s.tensors).Tensor(name)
	t.Identity.Source = s.source
	return t, err
}

func contentIn(t *testing.T, m DataMap, name string) []byte {
	t.Helper()
	tensor, err := m.Tensor(name)
	require.NoError(t, err)
	content := make([]byte, tensor.Size)
	require.NoError(t, tensor.Fill(content))
	return content
}

func TestANameIsThatOfTheInnermostScopeThatHasIt(t *testing.T) {
	graph := scope{"graph", map[string][]byte{"a": {1}, "b": {2}, "c": {3}}}
	branch := scope{"branch", map[string][]byte{"b": {20}, "c": {30}}}
	loop := scope{"loop", map[string][]byte{"c": {40}}}
	m := Nested(loop, Nested(branch, graph))
	for name, want := range map[string]struct {
		content byte
		source  string
	}{
		"a": {1, "graph"},
		"b": {20, "branch"},
		"c": {40, "loop"},
	} {
		require.Equal(t, []byte{want.content}, contentIn(t, m, name))
		tensor, err := m.Tensor(name)
		require.NoError(t, err)
		require.Equal(t, want.source, tensor.Identity.Source)
	}
	_, err := m.Tensor("d")
	require.ErrorIs(t, err, ErrUnknownTensor)
	require.ErrorContains(t, err, `"d"`)
}

type failing struct{ error }

func (f failing) Tensor(string) (Tensor, error) { return Tensor{}, f.error }

func TestOnlyAnUnknownTensorIsLookedForInTheOuterScope(t *testing.T) {
	outer := MapOf(map[string][]byte{"w": {1}})
	unreadable := errors.New("the disk cannot read it")
	c := mustOpen(t, "", nil)
	s, err := c.NewSession(Nested(failing{unreadable}, outer))
	require.NoError(t, err)
	_, err = s.Load("w")
	require.ErrorIs(t, err, unreadable)
	require.NoError(t, s.Close())
	require.NoError(t, c.Close())
}

func TestAScopeWithoutTensorsIsItsNeighbour(t *testing.T) {
	m := MapOf(map[string][]byte{"w": {1}})
	require.Equal(t, []byte{1}, contentIn(t, Nested(nil, m), "w"))
	require.Equal(t, []byte{1}, contentIn(t, Nested(m, nil), "w"))
	require.Nil(t, Nested(nil, nil))
}

// What one source calls by one name is superseded when it changes; what two call so is kept for both.
func TestAShadowedNameIsKeptForBothScopes(t *testing.T) {
	outer := scope{"graph", map[string][]byte{"w": contentOf("outer", 3000), "v": contentOf("v", 2000)}}
	inner := scope{"branch", map[string][]byte{"w": contentOf("inner", 3000)}}
	seen := map[string][]byte{"w": inner.tensors["w"], "v": outer.tensors["v"]}
	path := filepath.Join(t.TempDir(), "cache")
	for round := range 3 {
		c := mustOpen(t, path, nil)
		session := func(m DataMap, tensors map[string][]byte) *opened {
			s, err := c.NewSession(m)
			require.NoError(t, err)
			return packAll(t, s, tensors)
		}
		a := session(outer, outer.tensors)
		b := session(Nested(inner, outer), seen)
		s := c.Stats()
		if round == 0 {
			require.EqualValues(t, 3, s.Packed.Entries, "v once, w twice")
		} else {
			require.Zero(t, s.Misses)
			require.EqualValues(t, 4, s.Hits.Entries)
		}
		a.close(t)
		b.close(t)
		require.NoError(t, c.Close())
		require.Equal(t, 3, c.Stats().Entries)
	}
}
