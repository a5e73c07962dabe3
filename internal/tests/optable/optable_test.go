package optable_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/tests/optable"
	"xpwc/internal/tests/recorder"
	"xpwc/xnnpack"
)

// eachCase runs test for every case. It is skipped where this CPU, or the one it is limited to, cannot run the case.
func eachCase(t *testing.T, test func(t *testing.T, c optable.Case)) {
	for _, c := range optable.Cases() {
		t.Run(c.Name, func(t *testing.T) { test(t, c) })
	}
}

func requireRun(t *testing.T, err error) {
	t.Helper()
	if errors.Is(err, xnnpack.UnsupportedHardware) {
		t.Skip(err)
	}
	require.NoError(t, err)
}

func TestNamesAreUnique(t *testing.T) {
	names := map[string]bool{}
	for _, c := range optable.Cases() {
		require.False(t, names[c.Name], c.Name)
		names[c.Name] = true
	}
}

func TestEveryOperatorComputesWhatItShould(t *testing.T) {
	eachCase(t, func(t *testing.T, c optable.Case) {
		plain, err := c.RunChecked(nil, nil, nil)
		requireRun(t, err)

		cache, err := xnnpack.NewWeightsCache()
		require.NoError(t, err)
		defer cache.Close()
		cached, err := c.Run(cache, nil, cache.Finalize)
		require.NoError(t, err)
		require.Equal(t, plain, cached, "with XNNPACK's own weights cache")
	})
}

// What a weights cache is asked, and when, is what this project's cache is built on.
func TestAnnouncedCasesLookUpBeforeTheyReadAndPackAndTheOthersDoNot(t *testing.T) {
	eachCase(t, func(t *testing.T, c optable.Case) {
		cache, err := recorder.New()
		require.NoError(t, err)
		defer cache.Delete()
		var places samePlaces
		defer places.Free()

		cold, err := c.RunChecked(cache, places.place, cache.Finalize)
		requireRun(t, err)
		calls, err := cache.Take()
		require.NoError(t, err)
		inserts := strings.Count(calls, "i")
		require.NotContains(t, calls, "I", "a first insert of these weights")
		if c.Packs != optable.Varies {
			require.Equal(t, c.Packs, inserts, calls)
			announced := strings.Count(calls, "lr") == strings.Count(calls, "r")
			require.Equal(t, c.Announced, announced && inserts > 0, calls)
		}

		// The content of a weight that is not Eager need not be there: it is not read.
		cache.Reopen()
		warm, err := c.Run(cache, func(w optable.Weight) ([]byte, error) {
			b, err := places.place(w)
			if err == nil && !w.Eager {
				clear(b)
			}
			return b, err
		}, cache.Finalize)
		require.NoError(t, err)
		require.Equal(t, cold, warm)
		calls, err = cache.Take()
		require.NoError(t, err)
		require.False(t, c.Announced && strings.Contains(calls, "r"), "packed although the look-up hit")
		require.False(t, strings.ContainsAny(calls, "li"), "the same weights are packed to the same bytes")
	})
}

// samePlaces gives a weight the same address each time, as a data map does.
type samePlaces struct {
	optable.Copies
	hasKnown map[string][]byte
}

func (m *samePlaces) place(w optable.Weight) ([]byte, error) {
	if b, ok := m.hasKnown[w.Name]; ok {
		copy(b, w.Content)
		return b, nil
	}
	b, err := m.Copies.Place(w)
	if m.hasKnown == nil {
		m.hasKnown = map[string][]byte{}
	}
	m.hasKnown[w.Name] = b
	return b, err
}

func TestAPlaceThatCannotBeHadFailsTheCase(t *testing.T) {
	lost := errors.New("lost")
	_, err := optable.Cases()[0].Run(nil, func(optable.Weight) ([]byte, error) { return nil, lost }, nil)
	require.ErrorIs(t, err, lost)
}

func TestWrongOutputsAreFound(t *testing.T) {
	for _, c := range optable.Cases()[:1] {
		wrong := func(w optable.Weight) ([]byte, error) {
			b, err := xnnpack.NewBuffer(len(w.Content))
			if err != nil {
				return nil, err
			}
			t.Cleanup(b.Free)
			return b.Bytes(), nil // zeroes
		}
		_, err := c.RunChecked(nil, wrong, nil)
		require.ErrorContains(t, err, "want")
	}
}
