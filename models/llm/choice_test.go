package llm_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/models/llm"
)

func TestSampledTokensAreLikelyOnesAndTheSameForASeed(t *testing.T) {
	logits := make([]float32, 1000)
	for i := range logits {
		logits[i] = float32(i % 100)
	}
	draw := func(s llm.Sampling) (tokens []int32) {
		choose := s.Choice()
		for range 50 {
			tokens = append(tokens, choose(logits))
		}
		return tokens
	}
	hot := llm.Sampling{Temperature: 100, Seed: 1}
	require.Equal(t, draw(hot), draw(hot))
	require.NotEqual(t, draw(hot), draw(llm.Sampling{Temperature: 100, Seed: 2}))
	for _, token := range draw(hot) {
		require.GreaterOrEqual(t, logits[token], float32(96), "it is one of the 40 likeliest")
	}
	for _, token := range draw(llm.Sampling{Temperature: 100, TopK: 3}) {
		require.Contains(t, []int32{99, 199, 299}, token)
	}
	for _, token := range draw(llm.Sampling{Temperature: 0.01, TopP: 0.1}) {
		require.Contains(t, []int32{99, 199, 299, 399}, token, "ten tokens have a tenth each")
	}
	for _, token := range draw(llm.Sampling{}) {
		require.EqualValues(t, 99, token, "the first of the likeliest")
	}
}
