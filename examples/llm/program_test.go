package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const smallProgram = "../../models/llm/testdata/small.pte"

func TestAProgramAnswersWithTheTokenizerBesideIt(t *testing.T) {
	o := options{model: smallProgram, threads: 1, tokens: 32}
	s, err := openService(o)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.end()) }()
	for prompt, want := range map[string]string{
		"the rain in spain": " stays mainly in the plain, and the snow",
		"Once upon a time":  ", in the land of the midnight sun, a fo",
	} {
		var answer strings.Builder
		require.NoError(t, s.answer(t.Context(), prompt, o, &answer))
		require.True(t, strings.HasPrefix(answer.String(), want), answer.String())
	}
	tokens, err := s.tokens()
	require.NoError(t, err)
	require.Equal(t, map[int]bool{2: true, 4: true}, tokens.ends, "the program's, and that of a chat")
}

func TestATokenizerThatIsNotThereIsNamed(t *testing.T) {
	o := options{model: smallProgram, tokenizer: "absent.json", threads: 1, tokens: 1}
	s, err := openService(o)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.end()) }()
	require.ErrorContains(t, s.answer(t.Context(), "the", o, &strings.Builder{}), "absent.json")
}
