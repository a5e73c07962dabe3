package main

import (
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/models/llm"
)

func openModelOf(t testing.TB, w weights) *model {
	t.Helper()
	openModelFile(t) // or skip
	m, err := openModel(modelFile, w)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.close()) })
	return m
}

// answered is what an instance makes of a golden prompt.
type answered struct {
	distance float64 // of the largest logits after the prompt
	tokens   []int
	golden   int // how many of the first ones are golden
}

func answer(t testing.TB, m *model, cache *xpwc.Cache, g golden) (a answered) {
	t.Helper()
	i, err := m.newInstance(cache, 2)
	require.NoError(t, err)
	defer func() { require.NoError(t, i.close()) }()
	logits, err := i.next(t.Context(), g.IDs)
	require.NoError(t, err)
	for _, top := range g.Top5 {
		a.distance = max(a.distance, math.Abs(float64(logits[int(top[0])]-top[1])))
	}
	for next := int(llm.Greedy(logits)); ; next = int(llm.Greedy(logits)) {
		if a.golden == len(a.tokens) && next == g.Tokens[a.golden] {
			a.golden++
		}
		if a.tokens = append(a.tokens, next); len(a.tokens) == len(g.Tokens) {
			t.Logf("%s, %q: logits within %.4f, the first %d of %d tokens are the same", m.weights, g.Prompt,
				a.distance, a.golden, len(a.tokens))
			return a
		}
		logits, err = i.next(t.Context(), []int{next})
		require.NoError(t, err)
	}
}

func TestInFloat32TheTokensAndLogitsAreThoseOfTransformers(t *testing.T) {
	m := openModelOf(t, float32Weights)
	cache, err := xpwc.Open("", nil) // all prompts share what is packed
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cache.Close()) })
	for _, g := range goldens(t) {
		a := answer(t, m, cache, g)
		require.Less(t, a.distance, 1e-2, g.Prompt)
		require.Equal(t, g.Tokens, a.tokens, g.Prompt)
	}
}

func TestWith8BitsTheFirst16TokensAreTheSame(t *testing.T) {
	a := answer(t, openModelOf(t, int8Weights), nil, goldens(t)[0])
	require.GreaterOrEqual(t, a.golden, 16)
}

func TestANextStartFindsAllThatAFirstOnePackedAndAnswersTheSame(t *testing.T) {
	m, g := openModelOf(t, int8Weights), goldens(t)[0]
	file := filepath.Join(t.TempDir(), "llm.xpwc")
	without := answer(t, m, nil, g)
	require.Less(t, without.distance, 3.0)
	start := func() xpwc.Stats {
		cache, err := xpwc.Open(file, nil)
		require.NoError(t, err)
		require.Equal(t, without, answer(t, m, cache, g))
		require.NoError(t, cache.Close())
		return cache.Stats()
	}
	first, next := start(), start()
	require.EqualValues(t, matrices, first.Packed.Entries)
	require.EqualValues(t, matrices, next.Hits.Entries)
	require.Zero(t, next.Misses)
}

// matrices is how many SmolLM2 has: seven in each of 30 layers, and that of its vocabulary.
const matrices = 7*30 + 1

// A text that is computed token by token has the logits of one that is computed at a time.
func TestALongPromptIsComputedInParts(t *testing.T) {
	m := openModelOf(t, float32Weights)
	cache, err := xpwc.Open("", nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cache.Close()) })
	var prompt []int
	for len(prompt) < chunk+leastPast { // more than one chunk, and more than the caches begin with
		prompt = append(prompt, goldens(t)[1].Tokens...)
	}
	whole, err := m.newInstance(cache, 2)
	require.NoError(t, err)
	defer func() { require.NoError(t, whole.close()) }()
	want, err := whole.next(t.Context(), prompt)
	require.NoError(t, err)
	single, err := m.newInstance(cache, 2)
	require.NoError(t, err)
	defer func() { require.NoError(t, single.close()) }()
	var got []float32
	for _, token := range prompt {
		got, err = single.next(t.Context(), []int{token})
		require.NoError(t, err)
	}
	require.InDeltaSlice(t, want, got, 1e-2)
}

func TestTwoPromptsAreAnsweredAtTheSameTimeWithOneSetOfWeights(t *testing.T) {
	openModelFile(t) // or skip
	o := options{model: modelFile, cache: filepath.Join(t.TempDir(), "llm.xpwc"), weights: int8Weights, threads: 1,
		tokens: 12}
	d, err := openDoor(o)
	require.NoError(t, err)
	defer func() { require.NoError(t, d.close()) }()
	s := d.current
	server := httptest.NewServer(d.handler())
	defer server.Close()
	prompts := goldens(t)[:2]
	want, got := make([]string, len(prompts)), make([]string, len(prompts))
	for i, g := range prompts {
		var b strings.Builder
		require.NoError(t, s.answer(t.Context(), g.Prompt, o, &b))
		want[i] = b.String()
	}
	var wg sync.WaitGroup
	for i, g := range prompts {
		wg.Go(func() {
			reply, err := http.Post(server.URL, "text/plain", strings.NewReader(g.Prompt))
			if assert.NoError(t, err) {
				defer reply.Body.Close()
				text, err := io.ReadAll(reply.Body)
				assert.NoError(t, err)
				got[i] = string(text)
			}
		})
	}
	wg.Wait()
	require.Equal(t, want, got)
	for _, wrong := range []string{"", strings.Repeat("long ", longestPrompt)} {
		reply, err := http.Post(server.URL, "text/plain", strings.NewReader(wrong))
		require.NoError(t, err)
		require.Equal(t, http.StatusBadRequest, reply.StatusCode)
		require.NoError(t, reply.Body.Close())
	}
	stats := s.language.(*ggufLanguage).cache.Stats()
	require.EqualValues(t, matrices, stats.Packed.Entries)
	require.Empty(t, stats.Private)
}
