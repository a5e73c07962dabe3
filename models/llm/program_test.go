package llm_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/models/llm"
	"xpwc/xnnpack"
)

// A stockAnswer is what ExecuTorch's stock runtime computed.
type stockAnswer struct {
	Prompt []int32   `json:"prompt"`
	Tokens []int32   `json:"tokens"`
	Logits []float32 `json:"logits"` // of the first token
}

// smallProgram has weights of 4 bits.
const smallProgram = "testdata/small.pte"

// rounding is how far logits may be apart: where a CPU's kernels sum in another order, inputs may round to other
// integers of 8 bits. The two likeliest tokens of the answers are at least 2 apart.
const rounding = 0.5

// testedPrograms are the programs that are compared with the stock runtime: XPWC_TEST_PTE names another one, next to a
// .json of export.py.
func testedPrograms() []string {
	if path := os.Getenv("XPWC_TEST_PTE"); path != "" {
		return []string{path}
	}
	return []string{smallProgram, "testdata/small_int8.pte"}
}

// answersOf returns the stock runtime's answers.
func answersOf(t *testing.T, program string) (answers []stockAnswer) {
	t.Helper()
	content, err := os.ReadFile(strings.TrimSuffix(program, ".pte") + ".json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(content, &answers))
	return answers
}

func TestAProgramIsAnsweredAsByTheStockRuntime(t *testing.T) {
	for _, path := range testedPrograms() {
		t.Run(filepath.Base(path), func(t *testing.T) { compareAnswers(t, path) })
	}
}

func compareAnswers(t *testing.T, path string) {
	answers, cache := answersOf(t, path), filepath.Join(t.TempDir(), "llm.xpwc")
	for range 2 { // a first and a next start
		m, err := llm.Open(path, cache, nil)
		require.NoError(t, err)
		for _, answer := range answers {
			c, err := m.NewConversation()
			require.NoError(t, err)
			require.NoError(t, c.Append(answer.Prompt...))
			logits, err := c.Logits(t.Context())
			require.NoError(t, err)
			require.InDeltaSlice(t, answer.Logits, logits, rounding)
			var tokens []int32
			for range answer.Tokens {
				token, err := c.Next(t.Context(), llm.Greedy)
				require.NoError(t, err)
				tokens = append(tokens, token)
			}
			require.Equal(t, answer.Tokens, tokens)
			require.NoError(t, c.Close())
		}
		require.NoError(t, m.Close())
	}
}

// The stock runtime itself, where XPWC_TEST_PYTHON names a Python that has the package executorch.
func TestTheStockRuntimeAnswersAsIsRecorded(t *testing.T) {
	python := os.Getenv("XPWC_TEST_PYTHON")
	if python == "" {
		t.Skip("XPWC_TEST_PYTHON names a Python with executorch")
	}
	path := testedPrograms()[0]
	want := answersOf(t, path)
	content, err := json.Marshal(want)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "answers.json")
	require.NoError(t, os.WriteFile(file, content, 0o600))
	out, err := exec.Command(python, "testdata/export.py", "answers", path, file).CombinedOutput()
	require.NoError(t, err, string(out))
	content, err = os.ReadFile(file)
	require.NoError(t, err)
	var got []stockAnswer
	require.NoError(t, json.Unmarshal(content, &got))
	require.Len(t, got, len(want))
	for i := range want {
		require.Equal(t, want[i].Tokens, got[i].Tokens)
	}
}

func TestConversationsOfAProgramShareItsWeightsAlone(t *testing.T) {
	m, err := llm.Open(smallProgram, "", nil)
	require.NoError(t, err)
	require.Equal(t, 64, m.Capacity())
	require.Equal(t, 224, m.Vocabulary())
	require.Equal(t, []int32{2}, m.Ends())
	answers := answersOf(t, smallProgram)
	var together []*llm.Conversation
	for _, answer := range answers {
		c, err := m.NewConversation()
		require.NoError(t, err)
		require.NoError(t, c.Append(answer.Prompt...))
		together = append(together, c)
	}
	for k := range answers[0].Tokens {
		for i, c := range together {
			token, err := c.Next(t.Context(), llm.Greedy)
			require.NoError(t, err)
			require.Equal(t, answers[i].Tokens[k], token)
		}
	}
	require.ErrorIs(t, m.Close(), xpwc.ErrInUse)
	for _, c := range together {
		require.NoError(t, c.Close())
	}
	require.NoError(t, m.Close())
}

func TestAConversationOfAProgramIsCutAndCancelledAndFull(t *testing.T) {
	m, err := llm.Open(smallProgram, "", nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	c, err := m.NewConversation()
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	answers := answersOf(t, smallProgram)
	require.NoError(t, c.Append(answers[0].Prompt...))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = c.Next(ctx, llm.Greedy)
	require.ErrorIs(t, err, context.Canceled)
	for range 2 {
		for _, want := range answers[0].Tokens[:5] {
			token, err := c.Next(t.Context(), llm.Greedy)
			require.NoError(t, err)
			require.Equal(t, want, token)
		}
		c.Truncate(len(answers[0].Prompt))
	}
	require.ErrorIs(t, c.Append(make([]int32, 64)...), llm.ErrFull)
	require.ErrorIs(t, c.Append(224), llm.ErrToken)
	for len(c.Tokens()) <= m.Capacity() {
		_, err := c.Next(t.Context(), llm.Greedy)
		require.NoError(t, err)
	}
	_, err = c.Next(t.Context(), llm.Greedy)
	require.ErrorIs(t, err, llm.ErrFull)
}

// A prompt as long as the capacity is more than the program takes at once.
func TestAPromptOfAProgramIsComputedAsTokenByToken(t *testing.T) {
	m, err := llm.Open(smallProgram, "", nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	logits := func(pieces ...[]int32) []float32 {
		c, err := m.NewConversation()
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close()) }()
		var l []float32
		for _, piece := range pieces {
			require.NoError(t, c.Append(piece...))
			l, err = c.Logits(t.Context())
			if errors.Is(err, xnnpack.ErrKnownDefect) {
				t.Skip(err)
			}
			require.NoError(t, err)
		}
		return l
	}
	prompt := make([]int32, m.Capacity())
	var single [][]int32
	for i := range prompt {
		prompt[i] = int32(i*31+5) % int32(m.Vocabulary())
		single = append(single, prompt[i:i+1])
	}
	for _, n := range []int{1, 2, 3, 17, 63, 64} {
		require.InDeltaSlice(t, logits(single[:n]...), logits(prompt[:n]), rounding, n)
	}
}

func TestAProgramThatIsNoLanguageModelIsRefused(t *testing.T) {
	for _, path := range []string{"mlp_fp32", "mlp_dyn_fp32"} {
		_, err := llm.Open("../executorch/testdata/programs/"+path+".pte", "", nil)
		require.ErrorIs(t, err, llm.ErrUnsupported)
	}
	_, err := llm.Open("testdata/absent.pte", "", nil)
	require.ErrorIs(t, err, fs.ErrNotExist)
}
