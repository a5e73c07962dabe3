package bench

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"xpwc/internal/console"
)

// languagePrograms builds the hosts of language models: xpwc's, and that of LiteRT-LM if its library was fetched.
func languagePrograms(t testing.TB) Programs {
	t.Helper()
	dir := t.TempDir()
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", dir, "../../examples/llm").CombinedOutput()
	require.NoError(t, err, string(out))
	lib, err := filepath.Abs("../../third_party/litert-lm/lib")
	require.NoError(t, err)
	if _, err := os.Stat(filepath.Join(lib, "liblitert-lm.so")); err == nil {
		out, err := exec.CommandContext(t.Context(), "gcc", "-pthread", "-o", filepath.Join(dir, liteRTLMHost),
			"llm/litert_lm.c", "-L"+lib, "-llitert-lm", "-Wl,-rpath,"+lib).CombinedOutput()
		require.NoError(t, err, string(out))
	}
	return Programs(dir)
}

func TestLanguageModelsAreCompared(t *testing.T) {
	dir := t.TempDir()
	o := LanguageModelsOptions{Models: []string{"../../models/bundle/testdata/small.litertlm"}, Rounds: 1, Processes: 2,
		Threads: 1, Tokens: 8, Prompts: []string{"the rain", "the rain in spain"}, Dir: filepath.Join(dir, "work"),
		JSON: filepath.Join(dir, "llm.json"), Programs: languagePrograms(t)}
	var out, stderr strings.Builder
	require.NoError(t, RunLanguageModels(t.Context(), o, &out, &stderr), stderr.String())
	content, err := os.ReadFile(o.JSON)
	require.NoError(t, err)
	var report Report
	require.NoError(t, json.Unmarshal(content, &report))
	r := report.Results[0]
	require.Contains(t, out.String(), "xpwc, next start, from the disk")
	require.True(t, r.sameOutputs() || os.Getenv("XNNPACK") == "debian", out.String()) // as the Makefile sets it
	for _, m := range r.Modes {
		for _, f := range []figure{tokenMS, tokenCPU, prefillRate, decodeRate, pss, dirty} {
			require.Positive(t, m.Figures[f].Min, "%s: %s", m.Mode, f)
		}
		require.Contains(t, m.Figures, decodeCPU, "8 tokens may take less than the clock shows")
		many := !strings.Contains(m.Mode, "first") && !strings.Contains(m.Mode, "disk")
		require.Equal(t, many, m.Figures[manyPSS].Min > 0, m.Mode)
		require.Equal(t, strings.Contains(m.Mode, "first"), m.Figures[fileBytes].Min > 0, m.Mode)
	}
	engine := slices.Contains(modeNames(r), "LiteRT-LM, next start")
	require.Equal(t, o.Programs.path(liteRTLMHost) != "", engine)
	remaining, err := os.ReadDir(o.Dir)
	require.NoError(t, err)
	require.Empty(t, remaining)
}

func TestAProgramThatDoesNotAnswerIsReported(t *testing.T) {
	for _, script := range []string{"exit 1", "echo no", `echo; echo; echo; echo; echo '{"figures": {}}'`} {
		p, err := startProcess(t.Context(), []string{"sh", "-c", script})
		require.NoError(t, err)
		_, err = p.readAnswers()
		require.Error(t, err, script)
		_ = p.stop() // which may report the exit code
	}
}

func TestTheClockOfAProgramInPythonStartsWhenItHasImported(t *testing.T) {
	script := `echo; read go; echo; echo; echo; echo; echo '{"figures": {"prompt_tokens": 4, "answer_tokens": 3}}'`
	p, err := startProcess(t.Context(), []string{"sh", "-c", script})
	require.NoError(t, err)
	begin, err := p.mark()
	require.NoError(t, err)
	_, err = io.WriteString(p.stdin, "\n")
	require.NoError(t, err)
	r, err := p.readAnswersSince(begin)
	require.NoError(t, err)
	require.Less(t, r.Figures[tokenMS], console.Milliseconds(time.Since(begin.wall)))
	require.NoError(t, p.stop())
}

func TestTheHostsOfLanguageModelsCompile(t *testing.T) {
	check := "import ast, sys; ast.parse(open(sys.argv[1]).read())"
	out, err := exec.CommandContext(t.Context(), "python3", "-c", check, "llm/executorch_llm.py").CombinedOutput()
	require.NoError(t, err, string(out))
	for _, host := range []string{"litert_lm.c", "llama_cpp.c"} {
		out, err := exec.CommandContext(t.Context(), "gcc", "-Wall", "-Wextra", "-Werror", "-fsyntax-only",
			filepath.Join("llm", host)).CombinedOutput()
		require.NoError(t, err, string(out))
	}
}
