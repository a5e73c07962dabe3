package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/models/llm"
)

// smallBundle is a language model with random weights, whose engine is LiteRT-LM's.
const smallBundle = "../../models/bundle/testdata/small.litertlm"

// bundleFile is the bundle that is compared with the engine: XPWC_TEST_BUNDLE names another one than the small one.
func bundleFile() string {
	if path := os.Getenv("XPWC_TEST_BUNDLE"); path != "" {
		return path
	}
	return smallBundle
}

// buildEngine builds a host of the stock engine.
func buildEngine(t *testing.T) (host string) {
	lib, err := filepath.Abs("../../third_party/litert-lm/lib")
	require.NoError(t, err)
	if _, err := os.Stat(filepath.Join(lib, "liblitert-lm.so")); err != nil {
		t.Skip("third_party/fetch-litert-lm gets LiteRT-LM's engine")
	}
	host = filepath.Join(t.TempDir(), "litert_lm")
	out, err := exec.Command("gcc", "-O1", "-o", host, "../../cmd/xpwc/testdata/litert_lm.c", "-L"+lib, "-llitert-lm",
		"-Wl,-rpath,"+lib).CombinedOutput()
	require.NoError(t, err, string(out))
	return host
}

// engineAnswer is the answer of a host of the stock engine to a prompt, of so many tokens, without a cache. The engine
// leaves white space at its end out.
func engineAnswer(t *testing.T, host, model, prompt string, tokens int) string {
	t.Helper()
	cmd := exec.Command(host, model, ":nocache", prompt, strconv.Itoa(tokens))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	return strings.TrimRight(string(out), " \n")
}

func TestABundleIsAnsweredAsByTheStockEngine(t *testing.T) {
	if os.Getenv("XNNPACK") == "debian" { // as the Makefile sets it
		t.Skip("XNNPACK of 2024 rounds otherwise than the engine's, and random weights have near ties")
	}
	const tokens = 32
	host, cache := buildEngine(t), filepath.Join(t.TempDir(), "llm.xpwc")
	o := options{model: bundleFile(), cache: cache, threads: 1, tokens: tokens}
	for range 2 { // a first and a next start
		s, err := openService(o)
		require.NoError(t, err)
		for _, prompt := range []string{"the rain in spain", "The capital of France is",
			"Once upon a time, in the land of"} {
			t.Run(prompt, func(t *testing.T) {
				var answer strings.Builder
				require.NoError(t, s.answer(t.Context(), prompt, o, &answer))
				require.NotEmpty(t, answer.String())
				want := engineAnswer(t, host, o.model, prompt, tokens)
				require.Equal(t, want, strings.TrimRight(answer.String(), " \n"))
			})
		}
		require.NoError(t, s.end())
	}
}

func TestAnAnswerEndsWhereTheBundleTells(t *testing.T) {
	tokens, err := bundleTokenizer(smallBundle)
	require.NoError(t, err)
	require.Equal(t, map[int]bool{2: true, 4: true}, tokens.ends, "</s> and <|im_end|>")
	ids, err := tokens.chat([]message{{"user", "12 a"}})
	require.NoError(t, err)
	var text strings.Builder
	for _, id := range ids {
		text.WriteString(tokens.decode(id))
	}
	require.Equal(t, "<|im_start|>user\n12 a<|im_end|>\n<|im_start|>assistant\n", text.String())
}

func TestATokenizerHasItsMergesAsTextsOrAsPairs(t *testing.T) {
	document := func(merges string) []byte {
		return []byte(`{"pre_tokenizer":{"type":"ByteLevel"},"model":{"type":"BPE","merges":` + merges +
			`,"vocab":{"a":0,"b":1,"ab":2,"c":3,"abc":4,"\u0120":5}}}`)
	}
	for _, merges := range []string{`["a b","ab c"]`, `[["a","b"],["ab","c"]]`} {
		tokens, err := huggingFaceTokenizer(document(merges))
		require.NoError(t, err)
		ids, err := tokens.encode("abc ab")
		require.NoError(t, err)
		require.Equal(t, []int{4, 5, 2}, ids)
	}
	for _, merges := range []string{`["a"]`, `[["a"]]`, `[["a","b","c"]]`, `[1]`, `{}`, `["a b"`} {
		_, err := huggingFaceTokenizer(document(merges))
		require.ErrorIs(t, err, errMalformed, merges)
	}
	_, err := huggingFaceTokenizer([]byte(`{"pre_tokenizer":{"type":"ByteLevel"},"model":{"vocab":{"a":"b"}}}`))
	require.ErrorIs(t, err, errMalformed)
}

func TestATextBeginsWithTheStartTokenOfTheBundle(t *testing.T) {
	starts, ends, err := markTokens([]byte("\x0a\x0e\x12\x0c<|im_start|>\x12\x05\x0a\x03\x0a\x01\x02"))
	require.NoError(t, err)
	tokens, err := bundleTokenizer(smallBundle)
	require.NoError(t, err)
	plain, err := tokens.encode("12 a")
	require.NoError(t, err)
	tokens.mark(starts, ends)
	s := &service{tokens: func() (*tokenizer, error) { return tokens, nil }}
	ids, err := s.encode("12 a")
	require.NoError(t, err)
	require.Equal(t, append([]int{3}, plain...), ids)
	s.chat = true
	ids, err = s.encode("12 a")
	require.NoError(t, err)
	require.NotEqual(t, []int{3, 3}, ids[:2], "a chat has it already")
}

// The tokenizer and the metadata of a bundle are hostile input.
func FuzzMetadata(f *testing.F) {
	f.Add([]byte("\x12\x05\n\x03\n\x01\x02\x12\x0d\x12\x0b<|im_end|>\n"),
		[]byte(`{"model":{"type":"BPE"}}`))
	f.Add([]byte{},
		[]byte(`{"pre_tokenizer":{"type":"ByteLevel"},"model":{"type":"BPE","vocab":{"a":1},"merges":["a b"]}}`))
	f.Fuzz(func(t *testing.T, metadata, document []byte) {
		_, _, _ = markTokens(metadata)
		if tokens, err := huggingFaceTokenizer(document); err == nil {
			ids, err := tokens.encode("the rain, 12")
			for _, id := range ids {
				require.NoError(t, err)
				tokens.decode(id)
			}
		}
	})
}

func TestConversationsInTurnDoNotMeet(t *testing.T) {
	m, err := llm.Open(smallBundle, "", nil)
	require.NoError(t, err)
	prompts := [][]int32{{40, 41, 42}, {7},
		{50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63, 64, 65, 66, 67, 68}}
	alone := make([][]int32, len(prompts))
	for i, prompt := range prompts {
		c := converse(t, m, prompt)
		for range 20 {
			alone[i] = append(alone[i], nextToken(t, c))
		}
		require.Equal(t, append(prompt, alone[i]...), c.Tokens())
		require.NoError(t, c.Close())
	}
	var together []*llm.Conversation
	for _, prompt := range prompts {
		together = append(together, converse(t, m, prompt))
	}
	for k := range 20 {
		for i, c := range together {
			require.Equal(t, alone[i][k], nextToken(t, c))
		}
	}
	require.Error(t, m.Close(), "conversations are open")
	for _, c := range together {
		require.NoError(t, c.Close())
	}
	require.NoError(t, m.Close())
	_, err = m.NewConversation()
	require.ErrorIs(t, err, xpwc.ErrClosed)
}

func converse(t testing.TB, m *llm.Model, prompt []int32) *llm.Conversation {
	t.Helper()
	c, err := m.NewConversation()
	require.NoError(t, err)
	require.NoError(t, c.Append(prompt...))
	return c
}

func nextToken(t testing.TB, c *llm.Conversation) int32 {
	t.Helper()
	token, err := c.Next(t.Context(), llm.Greedy)
	require.NoError(t, err)
	return token
}

func TestACancelledConversationGoesOn(t *testing.T) {
	m, err := llm.Open(smallBundle, "", nil)
	require.NoError(t, err)
	c := converse(t, m, []int32{40, 41, 42})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = c.Next(ctx, llm.Greedy)
	require.ErrorIs(t, err, context.Canceled)
	first := nextToken(t, c)
	c.Truncate(3)
	require.Equal(t, first, nextToken(t, c))
	require.ErrorIs(t, c.Append(make([]int32, 64)...), llm.ErrFull)
	require.ErrorIs(t, c.Append(224), llm.ErrToken)
	for len(c.Tokens()) <= m.Capacity() {
		nextToken(t, c)
	}
	_, err = c.Next(t.Context(), llm.Greedy)
	require.ErrorIs(t, err, llm.ErrFull)
	require.NoError(t, c.Close())
	require.ErrorIs(t, c.Append(1), xpwc.ErrClosed)
	require.NoError(t, m.Close())
}

// A prompt of any length is computed by prefill and decode; token by token it is computed by decode alone.
func TestAPromptOfAnyLengthIsComputedAsTokenByToken(t *testing.T) {
	m, err := llm.Open(smallBundle, "", nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	prompt := make([]int32, m.Capacity())
	for i := range prompt {
		prompt[i] = int32(i*31+5) % int32(m.Vocabulary())
	}
	single := converse(t, m, nil)
	defer func() { require.NoError(t, single.Close()) }()
	for n := 1; n <= len(prompt); n++ {
		require.NoError(t, single.Append(prompt[n-1]))
		want, err := single.Logits(t.Context())
		require.NoError(t, err)
		whole := converse(t, m, prompt[:n])
		got, err := whole.Logits(t.Context())
		require.NoError(t, err)
		require.InDeltaSlice(t, want, got, 1e-3, n)
		require.NoError(t, whole.Close())
	}
}

func TestAnAnswerIsAsLongAsTheModelHasRoomFor(t *testing.T) {
	s, err := openService(options{model: smallBundle, threads: 1})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.end()) }()
	var answer bytes.Buffer
	require.NoError(t, s.answer(t.Context(), "Hi", options{tokens: 1000}, &answer))
	require.NotEmpty(t, answer.String())
	err = s.answer(t.Context(), strings.Repeat("the rain ", 500), options{tokens: 1}, &answer)
	require.ErrorIs(t, err, llm.ErrFull)
}
