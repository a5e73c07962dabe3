package llm_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/models/llm"
)

// A stockAnswer is what ExecuTorch's stock runtime computed.
type stockAnswer struct {
	Prompt, Tokens []int32
	Logits         []float32 // of the first token
}

// modelFile returns the program that is tested and the stock runtime's answers: those of XPWC_TEST_PTE, a .pte next to
// a .json of export.py, or of the small one.
func modelFile(t *testing.T) (path string, answers []stockAnswer) {
	path = "testdata/small.pte"
	if named := os.Getenv("XPWC_TEST_PTE"); named != "" {
		path = named
	}
	content, err := os.ReadFile(path[:len(path)-len(filepath.Ext(path))] + ".json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(content, &answers))
	return path, answers
}

func TestAProgramIsAnsweredAsByTheStockRuntime(t *testing.T) {
	path, answers := modelFile(t)
	cache := filepath.Join(t.TempDir(), "llm.xpwc")
	for range 2 { // a first and a next start
		m, err := llm.Open(path, cache, nil)
		require.NoError(t, err)
		for _, answer := range answers {
			c, err := m.NewConversation()
			require.NoError(t, err)
			require.NoError(t, c.Append(answer.Prompt...))
			logits, err := c.Logits(t.Context())
			require.NoError(t, err)
			require.InDeltaSlice(t, answer.Logits, logits, 0.05)
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
