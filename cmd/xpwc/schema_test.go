package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"xpwc/internal/tests/registrytest"
)

var schema = sync.OnceValues(func() (*jsonschema.Schema, error) {
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(outputSchema))
	if err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	if err := compiler.AddResource("output.schema.json", document); err != nil {
		return nil, err
	}
	return compiler.Compile("output.schema.json")
})

// requireSchema checks that the output of a command is one document of the schema, which knows all of its members.
func requireSchema(t testing.TB, out string) {
	t.Helper()
	s, err := schema()
	require.NoError(t, err)
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(out))
	require.NoError(t, err, out)
	require.NoError(t, s.Validate(document), out)
}

// failed is a command that fails with --json, and what it prints.
func failed(t testing.TB, dir string, code int, args ...string) failure {
	t.Helper()
	got := reported[document](t, dir, code, args...)
	require.NotNil(t, got.Error, args)
	require.Equal(t, code, got.Error.ExitCode)
	return *got.Error
}

func TestWhatEveryCommandPrintsIsInTheSchema(t *testing.T) {
	s := registrytest.Start(t)
	dir := t.TempDir()
	model, safetensors := faceModel(t), describedModel(t, dir)
	copyFile(t, filepath.Join("..", "..", "models", "litert", "testdata", "embedding_int8.litert_cache"),
		filepath.Join(dir, "moved.litert_cache"))
	present := map[string]bool{}
	strips := 0
	if !packsAsExecuTorch() {
		strips = exitFailed
	}
	for _, c := range []struct {
		code int
		args []string
	}{
		{0, []string{"pack", model, "-o", "model.xpwc"}},
		{0, []string{"pack", model, "-o", "other.xpwc"}},
		{0, []string{"pack", safetensors, "--embed-beside", "-o", "packed.safetensors"}},
		{0, []string{"run", model, "--cache", "cache.xpwc", "--output-dir", "out"}},
		{0, []string{"run", "packed.safetensors"}},
		{0, []string{"explain", "--cache", "cache.xpwc", model}},
		{0, []string{"explain", "--cache", "cache.xpwc", testModel(t, selfie)}},
		{0, []string{"inspect", "model.xpwc", "--check", "--map"}},
		{0, []string{"inspect", "packed.safetensors"}},
		{0, []string{"inspect", program(t, perceptron)}},
		{0, []string{"inspect", model}},
		{0, []string{"inspect", smallBundle(t)}},
		{0, []string{"place", smallBundle(t), "moved.litert_cache", "-o", "."}},
		{0, []string{"inspect", program(t, floats16)}},
		{0, []string{"inspect", program(t, mobilenet)}},
		{0, []string{"verify", "model.xpwc", "--model", model}},
		{1, []string{"verify", "model.xpwc", "--model", testModel(t, selfie)}},
		{0, []string{"verify", "packed.safetensors"}},
		{strips, []string{"pack", program(t, perceptron), "--for", "executorch", "-o", "for.packed_cache"}},
		{strips, []string{"strip", program(t, perceptron), "--packed", "for.packed_cache", "-o", "skeleton.pte"}},
		{0, []string{"convert", "model.xpwc", "--to", "xpwc2", "-o", "packed_cache"}},
		{0, []string{"inspect", "packed_cache"}},
		{0, []string{"verify", "packed_cache"}},
		{0, []string{"diff", "model.xpwc", "other.xpwc"}},
		{0, []string{"who", "model.xpwc"}},
		{0, []string{"diff", "model.xpwc", "packed_cache"}},
		{1, []string{"diff", "model.xpwc", "packed.safetensors"}},
		{0, []string{"prune", "other.xpwc", "--max-size", "100KiB"}},
		{0, []string{"compact", "other.xpwc"}},
		{0, []string{"layout"}},
		{0, []string{"demo", model, "--dir", "work"}},
		{0, []string{"bench", model, "--dir", "work", "--runs", "1"}},
		{0, []string{"push", s.Ref("face:v1"), "model.xpwc"}},
		{0, []string{"ls", s.Ref("face:v1")}},
		{0, []string{"pull", s.Ref("face:v1"), "-o", "pulled.xpwc", "--model", model}},
		{0, []string{"pull", s.Ref("face:v1"), "-o", "pulled.xpwc"}},
		{1, []string{"ls", s.Ref("face:v2")}},
		{2, []string{"fly"}},
		{2, []string{"inspect", "--fast", "model.xpwc"}},
	} {
		document := reported[map[string]any](t, dir, c.code, c.args...) // which xpwcIn holds to the schema
		if c.args[0] == "fly" {
			require.Equal(t, "xpwc", document["command"])
			continue
		}
		require.Equal(t, c.args[0], document["command"])
		present[c.args[0]] = true
	}
	for _, command := range newRootCommand().Commands() {
		f := command.Flags().Lookup("json")
		require.Equal(t, f != nil, present[command.Name()], command.Name())
	}
	require.Equal(t, outputSchema, printed(t, dir, 0, "schema"))
}

// The schema is worth something only if it notices what it does not know.
func TestTheSchemaIsStrict(t *testing.T) {
	s, err := schema()
	require.NoError(t, err)
	const good = `{"schema_version": 1, "command": "layout", "layout": "00112233445566778899aabbccddeeff",
		"description": "amd64"}`
	requireSchema(t, good)
	for _, bad := range []string{
		strings.Replace(good, `"amd64"`, `"amd64", "more": 1`, 1),
		strings.Replace(good, `"schema_version": 1`, `"schema_version": 2`, 1),
		strings.Replace(good, `"layout", `, `"inspect", `, 1),
		strings.Replace(good, "0011", "001", 1),
		`{"schema_version": 1, "command": "layout"}`,
		`{"schema_version": 1, "command": "layout", "error": {"kind": "odd", "message": "m", "exit_code": 1}}`,
	} {
		document, err := jsonschema.UnmarshalJSON(strings.NewReader(bad))
		require.NoError(t, err)
		require.Error(t, s.Validate(document), bad)
	}
}

func TestEveryKindOfErrorIsInTheSchemaAndExplained(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "json.md"))
	require.NoError(t, err)
	kinds := []errorKind{kindUsage, kindConnection, kindFailed}
	for _, k := range errorKinds {
		kinds = append(kinds, k.kind)
	}
	for _, kind := range kinds {
		require.Contains(t, string(text), "| `"+string(kind)+"` |")
		out, err := json.Marshal(document{schemaVersion, "run", &failure{Kind: kind, Message: "m", ExitCode: 1}})
		require.NoError(t, err)
		requireSchema(t, string(out))
	}
}

func TestErrorsAreJSONToo(t *testing.T) {
	dir := t.TempDir()
	model := faceModel(t)
	packJSON(t, dir, model, "-o", "model.xpwc")
	good, err := os.ReadFile(filepath.Join(dir, "model.xpwc"))
	require.NoError(t, err)
	bad := slices.Clone(good)
	bad[len(bad)/2] ^= 1
	for name, content := range map[string][]byte{
		"notes": []byte("my notes"), "bad.xpwc": bad, "bad.tflite": bytes.Repeat([]byte{1}, 100),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	for _, c := range []struct {
		code int
		kind errorKind
		args []string
	}{
		{2, kindUsage, []string{"inspect"}},
		{2, kindUsage, []string{"inspect", "model.xpwc", "--sort", "color"}},
		{2, kindUsage, []string{"inspect", "--jsom"}},
		{1, kindNotFound, []string{"inspect", "absent.xpwc"}},
		{2, kindNotFound, []string{"diff", "model.xpwc", "absent.xpwc"}},
		{1, kindNotCache, []string{"verify", "notes"}},
		{1, kindDamaged, []string{"verify", "bad.xpwc"}},
		{1, kindDamaged, []string{"inspect", "bad.xpwc", "--check"}},
		{1, kindNoLayout, []string{"convert", "model.xpwc", "--to", "native", "--layout", "0000", "-o", "c"}},
		{1, kindMalformed, []string{"run", "bad.tflite"}},
		{1, kindNotFound, []string{"pack", model, "-o", "absent/c.xpwc"}},
		{1, kindUnproven, []string{"verify", "model.xpwc", "--model", testModel(t, selfie)}},
		{1, kindConnection, []string{"ls", "localhost:1/face"}},
	} {
		e := failed(t, dir, c.code, c.args...)
		require.Equal(t, c.kind, e.Kind, "%v: %v", c.args, e)
		_, _, stderr := xpwcIn(t, dir, append(c.args, "--json")...)
		require.Contains(t, stderr, "xpwc: "+e.Message, "people find it where errors are")
	}

	// What a command found out is there, too.
	var result struct {
		document
		verification
	}
	_, out, _ := xpwcIn(t, dir, "verify", "bad.xpwc", "--json")
	require.NoError(t, json.Unmarshal([]byte(out), &result))
	require.NotNil(t, result.Error)
	require.NotEmpty(t, result.Problems)

	for _, c := range []struct {
		document bool
		args     []string
	}{
		{true, []string{"inspect", "model.xpwc", "--json=1"}},
		{true, []string{"inspect", "absent.xpwc", "--json=T"}},
		{true, []string{"inspect", "--jsom", "--json=TRUE"}},
		{false, []string{"inspect", "absent.xpwc", "--json", "--json=false"}},
		{false, []string{"inspect", "absent.xpwc", "--json=0", "--sort", "size"}},
		{false, []string{"pull", "localhost:1/face", "-o", "--json"}},
	} {
		_, out, _ := xpwcIn(t, dir, c.args...)
		require.Equal(t, c.document, out != "", "%v", c.args)
		if c.document {
			requireSchema(t, out)
		}
	}

	code, out, _ := xpwcIn(t, dir, "inspect", "absent.xpwc", "--", "--json")
	require.Equal(t, exitUsage, code)
	require.Empty(t, out, "that is a file's name")
}
