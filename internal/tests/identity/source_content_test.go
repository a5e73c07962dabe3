package identity

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/tests/harness"
	"xpwc/xnnpack/packing"
)

// Two uses that pack equal bytes prove nothing about a third.
func TestAThirdUseWithOtherParametersIsDistinguished(t *testing.T) {
	c := harness.Open(t, harness.Path(t), nil)
	s := harness.NewSession(t, c, map[string][]byte{"w": harness.Content("w", 100)})
	w := harness.Load(t, s, "w")
	p1, p2 := bytes.Repeat([]byte{1}, 200), bytes.Repeat([]byte{2}, 200)
	got, _ := harness.PackWeight(t, s, 7, w, 0, p1)
	require.Equal(t, p1, got)
	got, _ = harness.PackWeight(t, s, 7, w, 0, p1)
	require.Equal(t, p1, got)
	got, hit := harness.PackWeight(t, s, 7, w, 0, p2)
	require.Equal(t, p2, got, "hit: %v", hit)
	harness.Finish(t, s)
}

func TestAKernelWithAnUnloadedBiasIsComputedBeforePacking(t *testing.T) {
	c := harness.Open(t, "", nil)
	want := harness.Content("w", 100)
	s := harness.NewSession(t, c, map[string][]byte{"w": want})
	content, err := s.Load("w")
	require.NoError(t, err)
	require.Equal(t, harness.NotFound, harness.LookUp(s, 7, harness.Address(content), 12345))
	space := harness.Reserve(s, 100)
	copy(space, content) // packing
	packed := bytes.Clone(space)
	harness.Insert(s, 7, harness.Address(content), 12345, harness.Address(space), 100)
	err = s.Finalize()
	require.True(t, err != nil || bytes.Equal(want, packed), "packed from zeros, no error")
	require.NoError(t, s.Close())
}

func TestABiasOfAnUnloadedKernelIsComputedBeforePacking(t *testing.T) {
	c := harness.Open(t, "", nil)
	want := harness.Content("b", 100)
	s := harness.NewSession(t, c, map[string][]byte{"b": want})
	content, err := s.Load("b")
	require.NoError(t, err)
	require.Equal(t, harness.NotFound, harness.LookUp(s, 7, 12345, harness.Address(content)))
	space := harness.Reserve(s, 100)
	copy(space, content) // packing
	packed := bytes.Clone(space)
	harness.Insert(s, 7, 12345, harness.Address(content), harness.Address(space), 100)
	err = s.Finalize()
	require.True(t, err != nil || bytes.Equal(want, packed), "packed from zeros, no error")
	require.NoError(t, s.Close())
}

// XNNPACK copied zeros: nothing of it may be kept under the tensor's digest.
func TestACopyOfAnUncomputedTensorIsAnError(t *testing.T) {
	path := harness.Path(t)
	m := map[string][]byte{"w": harness.Content("w", 100), "b": harness.Content("b", 100)}
	c := harness.Open(t, path, nil)
	s := harness.NewSession(t, c, m)
	w, err := s.Load("w")
	require.NoError(t, err)
	copied := make([]byte, 100)
	copy(copied, w)
	harness.Alias(s, harness.Address(copied), harness.Address(w))
	packed := bytes.Clone(copied[:100])
	harness.PackWeight(t, s, 7, harness.Address(copied), harness.Load(t, s, "b"), packed)
	err = s.Finalize()
	require.ErrorIs(t, err, xpwc.ErrNotEager, "zeros were packed and are committed under the true content's digest")
}

func TestAFailingDigestAffectsOnlyItsSession(t *testing.T) {
	path := harness.Path(t)
	c := harness.Open(t, path, nil)
	content := harness.Content("w", 100)
	bad := errors.New("transient")
	tensor := xpwc.Tensor{Size: 100, Fill: func(b []byte) error { copy(b, content); return nil }}
	tensor.Identity.Digest = func() (xpwc.Digest, error) { return xpwc.Digest{}, bad }
	s, err := c.NewSession(harness.TensorMap{"w": tensor})
	require.NoError(t, err)
	harness.PackWeight(t, s, 7, harness.Load(t, s, "w"), 0, make([]byte, 200))
	require.NoError(t, s.Finalize(), "the runtime is right")
	require.ErrorIs(t, c.Stats().LastError, bad)
	require.NoError(t, s.Close())
	require.NoError(t, c.Save())

	t.Run("lock", func(t *testing.T) {
		theirs := harness.OpenProcess(t, path)
		harness.PackTensors(t, theirs, harness.Tensors(1, 10)).MustClose(t)
		require.Empty(t, theirs.Stats().Private)
		require.NoError(t, theirs.Close())
	})
	t.Run("error", func(t *testing.T) {
		s := harness.NewSession(t, c, map[string][]byte{"w": content})
		harness.PackWeight(t, s, 7, harness.Load(t, s, "w"), 0, make([]byte, 200))
		require.NoError(t, s.Finalize())
		require.NoError(t, s.Close())
	})
}

func TestAKernelWithTwoQuantisationsHasBothInItsKey(t *testing.T) {
	path := harness.Path(t)
	m := map[string][]byte{"w": harness.Content("w", 100)}
	q1, q2 := []byte("scale 1"), []byte("scale 2")
	p1, p2 := bytes.Repeat([]byte{1}, 200), bytes.Repeat([]byte{2}, 200)
	c := harness.Open(t, path, nil)
	s := harness.NewSession(t, c, m)
	w := harness.Load(t, s, "w", xpwc.PackedAs(packing.Opaque(q1)))
	harness.Load(t, s, "w", xpwc.PackedAs(packing.Opaque(q2)))
	harness.PackWeight(t, s, 7, w, 0, p1) // the operator with scale 1; creating the next one fails
	harness.Finish(t, s)
	s = harness.NewSession(t, c, m)
	got, _ := harness.PackWeight(t, s, 7, harness.Load(t, s, "w", xpwc.PackedAs(packing.Opaque(q2))), 0, p2)
	require.Equal(t, p2, got)
	harness.Finish(t, s)
}

func TestWeightsThatCannotBeComputedFailTheCreation(t *testing.T) {
	c := harness.Open(t, "", nil)
	tensor := xpwc.Tensor{Size: 100, Fill: func(b []byte) error { return errors.New("cannot read") }}
	s, err := c.NewSession(harness.TensorMap{"w": tensor})
	require.NoError(t, err)
	require.Equal(t, harness.NotFound, harness.LookUp(s, 7, harness.Load(t, s, "w"), 0))
	require.Nil(t, harness.Reserve(s, 100), "creation of the runtime must fail")
}

func TestContentThatPacksToEqualBytesIsFoundNextTime(t *testing.T) {
	path := harness.Path(t)
	p := bytes.Repeat([]byte{1}, 200)
	c := harness.Open(t, path, nil)
	for i, content := range [][]byte{harness.Content("1", 100), harness.Content("2", 100), harness.Content("2", 100)} {
		s := harness.NewSession(t, c, map[string][]byte{"w": content})
		_, hit := harness.PackWeight(t, s, 7, harness.Load(t, s, "w"), 0, p)
		harness.Finish(t, s)
		require.NoError(t, c.Save())
		require.Equal(t, i == 2, hit)
	}
	require.NoError(t, c.Close())
}

// A bias that XNNPACK will pack without naming it is computed by the look-up that misses.
func TestAPossiblyHiddenBiasIsComputed(t *testing.T) {
	c := harness.Open(t, "", nil)
	m := map[string][]byte{"w": harness.Content("w", 1000), "v": harness.Content("v", 1000), "b": harness.Content("b",
		100),
		"unlike a bias": harness.Content("x", 1<<20)}
	s := harness.NewSession(t, c, m)
	harness.Load(t, s, "unlike a bias")
	b, err := s.Load("b", xpwc.PackOnly())
	require.NoError(t, err)
	harness.PackWeight(t, s, 7, harness.Load(t, s, "w"), harness.Address(b), make([]byte, 100))
	harness.Finish(t, s)

	s = harness.NewSession(t, c, m)
	big, err := s.Load("unlike a bias", xpwc.Believe())
	require.NoError(t, err)
	b, err = s.Load("b", xpwc.PackOnly())
	require.NoError(t, err)
	_, hit := harness.PackWeight(t, s, 7, harness.Load(t, s, "w"), harness.Address(b), make([]byte, 100))
	require.True(t, hit)
	require.NotEqual(t, m["b"], b, "not for a hit")
	require.Equal(t, harness.NotFound, harness.LookUp(s, 7, harness.Load(t, s, "v"), 0))
	require.Equal(t, m["b"], b)
	require.NotEqual(t, m["unlike a bias"], big)
	harness.Finish(t, s)
	require.NoError(t, c.Close())
}

// XNNPACK gives addresses. Formats that keep equal content once give two names the same.
func TestTensorsWithOneAddressAreDistinguished(t *testing.T) {
	for _, names := range [][]string{{"whole", "half"}, {"half", "whole"}} {
		t.Run(names[1]+" loaded last", func(t *testing.T) {
			memory := make([]byte, 100)
			copy(memory, harness.Content("w", 100))
			m := harness.TensorMap{"whole": {Data: memory[:100]}, "half": {Data: memory[:50]}}
			c := harness.Open(t, harness.Path(t), nil)
			packed := func(bytes []byte) []byte {
				s, err := c.NewSession(m)
				require.NoError(t, err)
				harness.Load(t, s, names[0])
				got, _ := harness.PackWeight(t, s, 7, harness.Load(t, s, names[1]), 0, bytes)
				harness.Finish(t, s)
				return got
			}
			p1, p2 := bytes.Repeat([]byte{1}, 200), bytes.Repeat([]byte{2}, 200)
			require.Equal(t, p1, packed(p1))
			memory[99]++
			require.Equal(t, p2, packed(p2), "the whole has changed")
			require.NoError(t, c.Close())
		})
	}
}

func TestNamesOfOneAddressShareTheirOptions(t *testing.T) {
	memory := make([]byte, 100)
	copy(memory, harness.Content("w", 100))
	m := harness.TensorMap{"a": {Data: memory[:100]}, "b": {Data: memory[:100]}}
	q1, q2 := []byte("scale 1"), []byte("scale 2")
	p1, p2 := bytes.Repeat([]byte{1}, 200), bytes.Repeat([]byte{2}, 200)
	for _, late := range []bool{false, true} { // given a, when b is loaded already
		c := harness.Open(t, harness.Path(t), nil)
		s, err := c.NewSession(m)
		require.NoError(t, err)
		if late {
			harness.Load(t, s, "a")
		} else {
			harness.Load(t, s, "a", xpwc.PackedAs(packing.Opaque(q1)))
		}
		w := harness.Load(t, s, "b", xpwc.PackedAs(packing.Opaque(q2)))
		harness.Load(t, s, "a", xpwc.PackedAs(packing.Opaque(q1)))
		harness.PackWeight(t, s, 7, w, 0, p1) // the operator of a; creating the one of b fails
		harness.Finish(t, s)

		s, err = c.NewSession(m)
		require.NoError(t, err)
		got, _ := harness.PackWeight(t, s, 7, harness.Load(t, s, "b", xpwc.PackedAs(packing.Opaque(q2))), 0, p2)
		require.Equal(t, p2, got)
		harness.Finish(t, s)
		require.NoError(t, c.Close())
	}
}
