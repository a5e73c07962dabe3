package identity

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/tests/harness"
)

// A converting host gives XNNPACK a copy of "w" that it made in some way. Its packed weights are those bytes.
type converting struct {
	word     string
	xnnpacks bool // XNNPACK made the copy
	copied   []byte
}

// run packs the copy, or finds it packed.
func (h converting) run(t *testing.T, path string, tensors map[string][]byte) (packed []byte, hit bool,
	stats xpwc.Stats) {
	t.Helper()
	c := harness.Open(t, path, nil)
	s := harness.NewSession(t, c, tensors)
	w, err := s.Load("w", xpwc.Eager(), xpwc.Believe())
	require.NoError(t, err)
	r := make([]byte, len(h.copied))
	copy(r, h.copied)
	if h.xnnpacks {
		harness.Alias(s, harness.Address(r), harness.Address(w))
	} else {
		require.NoError(t, s.Alias(r[:len(h.copied)], w, h.word))
	}
	e, hit := harness.PackWeight(t, s, 7, harness.Address(r), 0, harness.PackedFrom(h.copied))
	packed = bytes.Clone(e)
	harness.Finish(t, s)
	require.NoError(t, c.Close())
	return packed, hit, c.Stats()
}

func TestHostsWithDifferentConversionsGetTheirOwnEntries(t *testing.T) {
	tensors := map[string][]byte{"w": harness.Content("w", 100)}
	halves, doubles, third := harness.Content("as f16", 200), harness.Content("as f64",
		200), harness.Content("as XNNPACK does it", 200)
	for name, hosts := range map[string][]converting{
		"two words": {{word: "f32 to f16", copied: halves}, {word: "f32 to f64", copied: doubles}},
		"XNNPACK's and words": {{xnnpacks: true, copied: third}, {word: "xnnpack", copied: halves},
			{word: "#", copied: doubles}},
		"words that begin alike": {{word: "a", copied: halves}, {word: "ab", copied: doubles},
			{word: "a#", copied: third}},
		"a word for how copies are named":    {{word: "alias", copied: halves}, {copied: doubles}},
		"no words":                           {{copied: halves}, {copied: doubles}, {copied: third}},
		"no word and XNNPACK's":              {{copied: halves}, {xnnpacks: true, copied: third}},
		"no words, and as long as the other": {{copied: tensors["w"]}, {copied: harness.Content("another", 100)}},
	} {
		t.Run(name, func(t *testing.T) {
			path := harness.Path(t)
			for range 2 {
				for i, h := range hosts {
					packed, _, _ := h.run(t, path, tensors)
					require.Equal(t, harness.PackedFrom(h.copied), packed, "host %d has another's", i)
					packed, hit, stats := h.run(t, path, tensors)
					require.Equal(t, harness.PackedFrom(h.copied), packed)
					require.True(t, hit)
					require.Zero(t, stats.WrittenBytes)
				}
			}
		})
	}
}

func TestNamedConversionsCoexist(t *testing.T) {
	path := harness.Path(t)
	tensors := map[string][]byte{"w": harness.Content("w", 100)}
	hosts := []converting{{word: "f16", copied: harness.Content("f16", 200)}, {word: "f64",
		copied: harness.Content("f64", 400)},
		{xnnpacks: true, copied: harness.Content("f32", 200)}}
	for round := range 2 {
		for _, h := range hosts {
			_, hit, _ := h.run(t, path, tensors)
			require.Equal(t, round > 0, hit)
		}
	}
	c := harness.Open(t, path, nil)
	require.Equal(t, []string{"w#", "w#f16", "w#f64"}, c.Names())
	require.NoError(t, c.Close())
}

// The content of the original, under a name that looks like a copy's.
func TestATensorNamedLikeACopyIsNoCopy(t *testing.T) {
	path := harness.Path(t)
	w := harness.Content("w", 100)
	host := converting{word: "f16", copied: harness.Content("f16", 200)}
	host.run(t, path, map[string][]byte{"w": w})

	c := harness.Open(t, path, nil)
	s := harness.NewSession(t, c, map[string][]byte{"w#f16": w})
	packed, hit := harness.PackWeight(t, s, 7, harness.Load(t, s, "w#f16", xpwc.Eager()), 0, harness.PackedFrom(w))
	require.False(t, hit)
	require.Equal(t, harness.PackedFrom(w), packed)
	harness.Finish(t, s)
	require.NoError(t, c.Close())
}

func TestACopyIsComparedIfItsOriginalIs(t *testing.T) {
	for _, first := range []bool{true, false} {
		c := harness.Open(t, "", nil)
		for range 3 {
			s := harness.NewSession(t, c, map[string][]byte{"w": harness.Content("w", 100)})
			w, err := s.Load("w", xpwc.Eager(), xpwc.Believe())
			require.NoError(t, err)
			compare := func() {
				_, err := s.Load("w", xpwc.Compare())
				require.NoError(t, err)
			}
			if first {
				compare()
			}
			copied := harness.Content("f16", 200)
			require.NoError(t, s.Alias(copied, w, "f16"))
			if !first {
				compare()
			}
			packed, hit := harness.PackWeight(t, s, 7, harness.Address(copied), 0, harness.PackedFrom(copied))
			require.False(t, hit)
			require.Equal(t, harness.PackedFrom(copied), packed)
			harness.Finish(t, s)
		}
		require.EqualValues(t, 1, c.Stats().Packed.Entries)
		require.NoError(t, c.Close())
	}
}

func TestACopyOfNothingIsHarmless(t *testing.T) {
	c := harness.Open(t, "", nil)
	s := harness.NewSession(t, c, map[string][]byte{"w": harness.Content("w", 100)})
	w, err := s.Load("w", xpwc.Eager(), xpwc.Believe())
	require.NoError(t, err)
	require.NoError(t, s.Alias(nil, w, ""))
	require.NoError(t, s.Alias(nil, w, "f16"))
	harness.Finish(t, s)
}
