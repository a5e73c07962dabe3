package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const modelFile = "../../third_party/llm/SmolLM2-135M-Instruct.Q4_1.gguf"

// openModelFile opens SmolLM2, or skips the test where it was not fetched.
func openModelFile(t testing.TB) *gguf {
	t.Helper()
	g, err := openGGUF(modelFile)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("SmolLM2 was not fetched; make test-llm does")
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, g.file.Close()) })
	return g
}

// golden is what transformers computes of one prompt in float32; see testdata/README.md.
type golden struct {
	Prompt string       `json:"prompt"`
	IDs    []int        `json:"ids"`
	Tokens []int        `json:"tokens"`
	Text   string       `json:"text"`
	Top5   [][2]float32 `json:"top5"`
}

func goldens(t testing.TB) (list []golden) {
	t.Helper()
	b, err := os.ReadFile("testdata/greedy.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &list))
	require.NotEmpty(t, list)
	return list
}

func TestTextBecomesTheTokensOfTransformersAndBack(t *testing.T) {
	tokens, err := newTokenizer(openModelFile(t))
	require.NoError(t, err)
	for _, g := range goldens(t) {
		got, err := tokens.encode(g.Prompt)
		require.NoError(t, err)
		require.Equal(t, g.IDs, got, g.Prompt)
		var text strings.Builder
		for _, id := range g.Tokens {
			text.WriteString(tokens.decode(id))
		}
		require.Equal(t, g.Text, text.String())
		encoded, err := tokens.encode(strings.TrimSuffix(g.Text, "<|im_end|>"))
		require.NoError(t, err)
		require.Equal(t, g.Tokens[:len(encoded)], encoded)
	}
}

func TestAnyTextSurvivesTheTokenizer(t *testing.T) {
	tokens, err := newTokenizer(openModelFile(t))
	require.NoError(t, err)
	for _, text := range []string{"", " ", "a  b\n\n c\t", "Grüße, 世界! 🙂", "don't we'll", "  12 345", "\u00a0x",
		"<|im_end|>", strings.Repeat("ab", 5000), "tab\tand\x00zero"} {
		ids, err := tokens.encode(text)
		require.NoError(t, err)
		var back strings.Builder
		for _, id := range ids {
			back.WriteString(tokens.decode(id))
		}
		require.Equal(t, text, back.String())
	}
}

func TestTextIsCutAsGPT2CutsItWithEachDigitAlone(t *testing.T) {
	for text, want := range map[string][]string{
		"Hello world":     {"Hello", " world"},
		"a  b":            {"a", " ", " b"},
		"it's 12:30 now.": {"it", "'s", " ", "1", "2", ":", "3", "0", " now", "."},
		"x   7\n\n y ":    {"x", "   ", "7", "\n\n", " y", " "},
		"f(n):\n":         {"f", "(", "n", "):", "\n"},
	} {
		require.Equal(t, want, splitText(text, false), text)
	}
}

// smallFile is a GGUF file of one string, one array of strings and a tensor of 2 rows of 32 elements.
func smallFile() []byte {
	b := []byte("GGUF")
	number := func(n uint64, size int) { b = append(b, binary.LittleEndian.AppendUint64(nil, n)[:size]...) }
	text := func(s string) { number(uint64(len(s)), 8); b = append(b, s...) }
	number(3, 4)
	number(1, 8)
	number(2, 8)
	text("name")
	number(uint64(kindString), 4)
	text("small")
	text("words")
	number(uint64(kindArray), 4)
	number(uint64(kindString), 4)
	number(2, 8)
	text("one")
	text("two")
	text("w")
	number(2, 4)
	number(32, 8)
	number(2, 8)
	number(uint64(kindQ8_0), 4)
	number(0, 8)
	for len(b)%alignment != 0 {
		b = append(b, 0)
	}
	return append(b, make([]byte, 2*34)...)
}

func TestAFileIsReadAsItWasWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "small.gguf")
	require.NoError(t, os.WriteFile(path, smallFile(), 0o600))
	g, err := openGGUF(path)
	require.NoError(t, err)
	defer g.file.Close()
	words, err := g.strings("words")
	require.NoError(t, err)
	require.Equal(t, []string{"one", "two"}, words)
	w, err := g.tensor("w", 2, 32)
	require.NoError(t, err)
	require.Len(t, w.place.In(g.file.Data()), 2*34)
	_, err = g.tensor("w", 32, 2)
	require.ErrorIs(t, err, errMalformed)
	_, err = g.number("name")
	require.ErrorIs(t, err, errMalformed)
}

func TestAFileThatIsCutOffIsAnError(t *testing.T) {
	whole := smallFile()
	path := filepath.Join(t.TempDir(), "cut.gguf")
	for n := range whole {
		require.NoError(t, os.WriteFile(path, whole[:n], 0o600))
		_, err := openGGUF(path)
		require.ErrorIs(t, err, errMalformed, "%d bytes", n)
	}
}

// Any bytes are an error or a file whose tensors and strings can be read.
func FuzzGGUF(f *testing.F) {
	f.Add(smallFile())
	f.Fuzz(func(t *testing.T, b []byte) {
		g := &gguf{}
		if g.parse(b) != nil {
			return
		}
		for name := range g.metadata {
			_, _ = g.strings(name)
			_, _ = g.number(name)
		}
		for _, t := range g.tensors {
			_ = t.place.In(b)
		}
	})
}

// Any text is cut into parts that make it up.
func FuzzSplitText(f *testing.F) {
	f.Add("it's  12\n\n x ")
	f.Fuzz(func(t *testing.T, text string) {
		require.Equal(t, text, strings.Join(splitText(text, len(text)%2 == 0), ""))
	})
}
