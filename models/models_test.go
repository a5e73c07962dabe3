package models_test

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/models"
	"xpwc/xnnpack"
)

// source is a data map that notes what becomes of its tensors.
type source struct {
	tensors map[string]xpwc.Tensor
	loaded  map[string]int
	back    []string // what was evicted or released
}

func (s *source) Tensor(name string) (xpwc.Tensor, error) {
	t, ok := s.tensors[name]
	if !ok {
		return xpwc.Tensor{}, xpwc.ErrUnknownTensor
	}
	s.loaded[name]++
	t.Evict = func() { s.back = append(s.back, "evict "+name) }
	t.Release = func() { s.back = append(s.back, "release "+name) }
	return t, nil
}

var errBroken = errors.New("broken")

func newSource() *source {
	computed := func(n byte) xpwc.Tensor {
		return xpwc.Tensor{Size: 8, Fill: func(dst []byte) error { dst[0] = n; return nil }}
	}
	return &source{loaded: map[string]int{}, tensors: map[string]xpwc.Tensor{
		"there":  {Data: []byte{1, 2, 3, 4}},
		"weight": computed(5), "slope": computed(6),
		"broken": {Size: 8, Fill: func([]byte) error { return errBroken }},
	}}
}

func TestMemoryComputesWhatIsNotThereAndKeepsWhatInferenceReads(t *testing.T) {
	s := newSource()
	m := models.NewMemory(s)
	load := func(name string, options ...xpwc.LoadOption) []byte {
		t.Helper()
		b, err := m.Load(name, options...)
		require.NoError(t, err)
		return b
	}
	present := load("there")
	require.Same(t, &s.tensors["there"].Data[0], &present[0], "it is not copied")
	weight, slope := load("weight", xpwc.PackOnly()), load("slope", xpwc.PackOnly())
	load("slope", xpwc.Eager(), xpwc.Retain())
	require.EqualValues(t, 5, weight[0])
	require.Len(t, weight, 8)
	require.Same(t, &weight[0], &load("weight")[0], "a name has one memory")

	m.Finalize()
	require.ElementsMatch(t, []string{"evict there", "release there", "evict weight", "release weight"}, s.back)
	require.EqualValues(t, 6, slope[0], "inference reads it")
	require.Same(t, &slope[0], &load("slope")[0])
	require.EqualValues(t, 5, load("weight")[0], "what was freed is computed again")
	require.Equal(t, map[string]int{"there": 1, "weight": 2, "slope": 1}, s.loaded)

	s.back = nil
	require.NoError(t, m.Close())
	require.NoError(t, m.Close())
	require.ElementsMatch(t, []string{"evict weight", "release weight", "evict slope", "release slope"}, s.back)
	_, err := m.Load("weight")
	require.ErrorIs(t, err, xpwc.ErrClosed)
}

func TestMemoryNamesTheTensorThatFails(t *testing.T) {
	s := newSource()
	m := models.NewMemory(s)
	defer m.Close()
	for name, want := range map[string]error{"unknown": xpwc.ErrUnknownTensor, "broken": errBroken} {
		_, err := m.Load(name)
		require.ErrorIs(t, err, want)
		require.ErrorContains(t, err, `"`+name+`"`)
	}
	require.Equal(t, []string{"evict broken", "release broken"}, s.back)
}

func TestPackSaysWhyTheSubgraphCouldNotBeMade(t *testing.T) {
	cache, err := xpwc.Open(filepath.Join(t.TempDir(), "cache"), nil)
	require.NoError(t, err)
	fails := func(l models.Loader) (*xnnpack.Subgraph, error) {
		_, err := l.Load("broken", xpwc.Eager())
		return nil, err
	}
	require.ErrorIs(t, models.Pack(cache, newSource(), fails), errBroken)
	require.NoError(t, cache.Close(), "the session is closed")
	require.ErrorIs(t, models.Pack(cache, newSource(), fails), xpwc.ErrClosed)
}

func TestElementsAreWhatProgramsGiveAndTake(t *testing.T) {
	for kind, want := range map[xnnpack.Datatype]string{
		xnnpack.Float32: "float32", xnnpack.Float16: "float16", xnnpack.BFloat16: "bfloat16",
		xnnpack.QInt8: "int8", xnnpack.QUint8: "uint8", xnnpack.Int32: "int32", xnnpack.QInt32: "int32",
	} {
		e := models.Value{Type: kind}.Element()
		require.Equal(t, want, e.String())
		require.Equal(t, kind.Size(), 8*e.Size())
	}
	declared := models.Value{Type: xnnpack.Float32, Declared: models.Int64}.Element()
	require.Equal(t, "int64", declared.String())
	require.Equal(t, 8, declared.Size())
	require.Zero(t, models.Value{Type: xnnpack.ChannelQInt4}.Element())
	for _, unknown := range []models.Element{-1, 0, models.Bool + 1} {
		require.Zero(t, unknown.Size())
		require.Contains(t, unknown.String(), "element ")
	}
}
