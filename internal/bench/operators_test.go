//go:build linux

package bench

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOperatorsSlowerThanInTheStockRuntimeAreListedTheSlowestFirst(t *testing.T) {
	programs, dir := t.TempDir(), t.TempDir()
	host := filepath.Join(programs, executorchHost)
	require.NoError(t, os.MkdirAll(filepath.Dir(host), 0o700))
	require.NoError(t, os.WriteFile(host, []byte(`#!/bin/sh
case $1 in *outside*) printf 'ERROR: index out of bounds\nrun failed\n' >&2; exit 1;; esac
case $1 in *slowest*) ms=1e-9;; *slow*) ms=1e-6;; *) ms=1e6;; esac
echo answer >"$5/answer.f32"
echo "{\"load_ms\": 1, \"methods\": [{\"first_inference_ms\": 1, \"steady_inference_ms\": $ms}]}"
cat >/dev/null
`), 0o700))
	program, err := os.ReadFile(filepath.Join("..", "..", "models", "executorch", "testdata", "programs",
		"mlp_fp32.pte"))
	require.NoError(t, err)
	var models []string
	for name, content := range map[string]string{"fast": string(program), "slow": string(program),
		"slowest": string(program), "broken": "no program", "outside": string(program)} {
		path := filepath.Join(dir, name+".pte")
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		models = append(models, path)
	}
	o := PeersOptions{Models: models, Rounds: 2, Dir: filepath.Join(dir, "work"), Programs: Programs(programs)}
	var out, stderr strings.Builder
	require.NoError(t, RunOperators(t.Context(), o, 1.5, &out, &stderr))
	require.Regexp(t, regexp.MustCompile(`(?s)slowest\.pte.*slow\.pte`), out.String())
	require.NotContains(t, out.String(), "fast.pte")
	require.Contains(t, out.String(), "3 models: at most 1.3 x 1, at most 1.5 x 1, at most 3 x 1\n")
	require.Contains(t, out.String(), "not measured: broken.pte: ")
	require.Regexp(t, `(?m)^not measured: outside\.pte: ExecuTorch, without cache: .*: exit status 1: `+
		"ERROR: index out of bounds; run failed$", out.String())

	o.Programs = ""
	out.Reset()
	require.NoError(t, RunOperators(t.Context(), o, 1.5, &out, &stderr))
	require.Contains(t, out.String(), "not measured: fast.pte: its stock runtime's host is missing\n")
}
