package flatbuf

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAFlatbufferGetsAnotherRootFromWhatIsPutBeforeIt(t *testing.T) {
	malformed := errors.New("malformed")
	old := Build(Fields{0: "a name", 1: []Fields{{0: int32(7)}, {0: int32(8)}}, 2: []int32{1, 2, 3}}, "TEST")
	root := Root(old, "TEST", malformed)
	name, ok := root.Ref(0)
	require.True(t, ok)
	numbers, ok := root.Ref(2)
	require.True(t, ok)
	_, ok = root.Ref(3)
	require.False(t, ok)

	const align = 64
	last := Ref(root.Tables(1).Table(1).Position())
	prefix := BuildBefore(Fields{0: name, 1: []any{Fields{0: int32(9)}, last, last}, 4: numbers, 5: uint64(3)}, "NEXT",
		align)
	require.Zero(t, len(prefix)%align)
	root = Root(append(prefix, old...), "NEXT", malformed)
	require.Equal(t, "a name", root.String(0))
	require.Equal(t, []int32{1, 2, 3}, root.Int32s(4))
	require.EqualValues(t, 3, root.Uint64(5))
	tables := root.Tables(1)
	require.Equal(t, 3, tables.Len())
	for i, want := range []int32{9, 8, 8} {
		require.Equal(t, want, tables.Table(i).Int32(0, 0))
	}
}
