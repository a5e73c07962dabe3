package llm_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	flatbuffers "github.com/google/flatbuffers/go"
	"github.com/stretchr/testify/require"

	"xpwc/models/bundle"
	"xpwc/models/llm"
	"xpwc/models/tflite"
)

// smallBundle has a prefill of 16 tokens, and a model of its own for embeddings.
const (
	smallBundle   = "../bundle/testdata/small.litertlm"
	languageModel = "tf_lite_prefill_decode"
	embedder      = "tf_lite_embedder"
)

// copiedBundle writes a bundle with the same content into a directory.
func copiedBundle(t *testing.T, dir string) (path string) {
	t.Helper()
	content, err := os.ReadFile(smallBundle)
	require.NoError(t, err)
	path = filepath.Join(dir, "model.litertlm")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return path
}

// damage makes a signature of one of the bundle's models one that no program can run: an operator that is not there.
func damage(t *testing.T, path, role, signature string) {
	t.Helper()
	b, err := bundle.Open(path)
	require.NoError(t, err)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	damaged := false
	for _, s := range b.Models() {
		if s.Role == role {
			damaged = damageSubgraph(content[s.Offset:][:s.Size], signature)
		}
	}
	require.True(t, damaged)
	require.NoError(t, os.WriteFile(path, content, 0o600))
}

// damageSubgraph changes the operator code of an operator of a signature.
func damageSubgraph(model []byte, signature string) bool {
	// Fields of the schema, as vtables have them.
	const subgraphs, signatures, operators, key, subgraph = 8, 18, 10, 8, 12
	root := flatbuffers.Table{Bytes: model, Pos: flatbuffers.GetUOffsetT(model)}
	element := func(t flatbuffers.Table, field flatbuffers.VOffsetT, i int) flatbuffers.Table {
		offset := t.Vector(flatbuffers.UOffsetT(t.Offset(field))) + flatbuffers.UOffsetT(4*i)
		return flatbuffers.Table{Bytes: model, Pos: t.Indirect(offset)}
	}
	for i := range root.VectorLen(flatbuffers.UOffsetT(root.Offset(signatures))) {
		s := element(root, signatures, i)
		if s.String(flatbuffers.UOffsetT(s.Offset(key))+s.Pos) != signature {
			continue
		}
		body := element(root, subgraphs, int(s.GetUint32Slot(subgraph, 0)))
		for k := range body.VectorLen(flatbuffers.UOffsetT(body.Offset(operators))) {
			op := element(body, operators, k)
			if op.MutateUint32Slot(4, 1<<20) {
				return true
			}
		}
	}
	return false
}

func logitsOf(t *testing.T, m *llm.Model, prompt ...int32) ([]float32, error) {
	t.Helper()
	c, err := m.NewConversation()
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	require.NoError(t, c.Append(prompt...))
	return c.Logits(t.Context())
}

func TestAStartOpensOnlyTheSignaturesThatThePromptUses(t *testing.T) {
	path := copiedBundle(t, t.TempDir())
	whole, err := llm.Open(path, "", nil)
	require.NoError(t, err)
	want, err := logitsOf(t, whole, 40)
	require.NoError(t, err)
	require.NoError(t, whole.Close())

	damage(t, path, languageModel, "prefill_16")
	m, err := llm.Open(path, "", nil)
	require.NoError(t, err)
	got, err := logitsOf(t, m, 40)
	require.NoError(t, err, "one token needs no prefill")
	require.Equal(t, want, got)
	for range 2 {
		_, err = logitsOf(t, m, 40, 41, 42)
		require.ErrorIs(t, err, tflite.ErrMalformed)
		require.ErrorContains(t, err, "prefill_16")
	}
	require.NoError(t, m.Close())
}

func TestABundleWhoseEmbedderCannotBeRunIsRefused(t *testing.T) {
	path := copiedBundle(t, t.TempDir())
	damage(t, path, embedder, "decode_embedder")
	_, err := llm.Open(path, "", nil)
	require.ErrorIs(t, err, tflite.ErrMalformed)
	require.ErrorContains(t, err, "embedder")
}

func TestAModelThatIsReplacedWhileItIsOpenAnswersAsBefore(t *testing.T) {
	dir := t.TempDir()
	path := copiedBundle(t, dir)
	prompt := []int32{40, 41, 42}
	m, err := llm.Open(path, "", nil)
	require.NoError(t, err)
	want, err := logitsOf(t, m, prompt...)
	require.NoError(t, err)
	require.NoError(t, m.Close())

	m, err = llm.Open(path, "", nil)
	require.NoError(t, err)
	damaged := copiedBundle(t, t.TempDir())
	damage(t, damaged, languageModel, "prefill_16")
	require.NoError(t, os.Rename(damaged, path))
	got, err := logitsOf(t, m, prompt...) // the first that opens prefill
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.NoError(t, m.Close())
}

func TestAnErrorNamesATruncatedBundleOnce(t *testing.T) {
	path := copiedBundle(t, t.TempDir())
	require.NoError(t, os.Truncate(path, 50_000))
	_, err := llm.Open(path, "", nil)
	require.ErrorIs(t, err, bundle.ErrMalformed)
	require.Equal(t, 1, strings.Count(err.Error(), path), err)
}
