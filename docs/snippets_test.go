//go:build linux && cgo

package docs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"xpwc/internal/tests/testkit"
)

// A snippet is a block of code in a document.
type snippet struct {
	place    string // the document and the line
	language string
	text     string
}

// snippets returns the blocks of code in a document.
func snippets(document, text string) (list []snippet) {
	var s *snippet
	number := 0
	for line := range strings.Lines(text) {
		number++
		switch fence, ok := strings.CutPrefix(strings.TrimSpace(line), "```"); {
		case ok && s == nil:
			s = &snippet{place: fmt.Sprintf("%s:%d", document, number), language: fence}
		case ok:
			list = append(list, *s)
			s = nil
		case s != nil:
			s.text += line
		}
	}
	return list
}

// A checker finds out whether a snippet is as it should be.
type checker func(t *testing.T, s snippet) error

// checkers check the snippets of a language. Other languages are not checked.
var checkers = map[string]checker{
	"go":  vetGo,
	"c":   compileC,
	"cpp": compileC,
	"sh":  callXPWCAndMake,

	"python": compilePython,

	"text": nil, "diff": nil, "cmake": nil, "kotlin": nil, "json": nil, "yaml": nil, "ini": nil, "html": nil,
	"promql": nil,
}

func check(t *testing.T, s snippet) error {
	t.Helper()
	c, ok := checkers[s.language]
	switch {
	case !ok:
		return fmt.Errorf("%s: %q is no language of snippets: write ```go, c, cpp, sh, or text", s.place, s.language)
	case c == nil:
		return nil
	}
	if err := c(t, s); err != nil {
		return fmt.Errorf("%s: %w", s.place, err)
	}
	return nil
}

func TestEverySnippetOfTheDocumentsCompiles(t *testing.T) {
	if os.Getenv(testkit.Emulator) != "" {
		t.Skip("the compilers are not emulated")
	}
	for _, name := range documents(t) {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		for _, s := range snippets(name, string(text)) {
			t.Run(s.place, func(t *testing.T) { require.NoError(t, check(t, s)) })
		}
	}
}

// The C++ host of the README is one that is built and run: see capi/hello_test.go.
func TestTheChangedLinesOfTheDocumentsAreThoseOfTheExample(t *testing.T) {
	out, err := exec.Command("diff", "-U0", "examples/hello/without.cpp", "examples/hello/hello.cpp").Output()
	var differ *exec.ExitError
	require.ErrorAs(t, err, &differ)
	changed := func(text string) (lines []string) {
		for line := range strings.Lines(text) {
			if regexp.MustCompile(`^[-+][^-+]`).MatchString(line) {
				lines = append(lines, line)
			}
		}
		return lines
	}
	want := changed(string(out))
	require.NotEmpty(t, want)
	for _, document := range []string{"README.md", "docs/guide-c.md"} {
		text, err := os.ReadFile(document)
		require.NoError(t, err)
		var shown []string
		for _, s := range snippets(document, string(text)) {
			if s.language == "diff" {
				shown = changed(s.text)
			}
		}
		require.Equal(t, want, shown, document)
	}
}

func TestABrokenSnippetIsFound(t *testing.T) {
	if os.Getenv(testkit.Emulator) != "" {
		t.Skip("the compilers are not emulated")
	}
	for broken, says := range map[string]string{
		"```\nxpwc\n```":                                                              "is no language",
		"```golang\npackage main\n```":                                                "is no language",
		"```go\ncache, err := xpwc.Open(\"x\", nil)\n```":                             "expected 'package'",
		"```go\npackage  main\n```":                                                   "gofmt",
		"```go\npackage main\n\nfunc main() { x := 1 }\n```":                          "declared and not used",
		"```go\npackage main\n\nimport \"xpwc\"\n\nfunc main() { xpwc.Close() }\n```": "undefined: xpwc.Close",
		"```c\nint main(void) { return xpwc_version(); }\n```":                        "xpwc_version",
		"```c\n#include <xpwc.h>\nint f(void) { return xpwc_absent(); }\n```":         "xpwc_absent",
		"```cpp\n#include <xpwc.hpp>\nauto f() { return xpwc::Cache::open(1); }\n```": "error",
		"```sh\nif true; then\n```":                                                   "syntax error",
		"```sh\nxpwc pakc m.tflite\n```":                                              "unknown command",
		"```sh\nxpwc inspect m.xpwc --sort-by size\n```":                              "unknown flag",
		"```sh\nxpwc inspect m.xpwc --sort color\n```":                                "name, offset",
		"```sh\ncd x && bin/xpwc diff a.xpwc | less\n```":                             "wrong number of arguments",
		"```sh\nXNNPACK=system make demmo\n```":                                       "no target demmo",
		"```sh\neval \"$(make -s enw)\"\n```":                                         "no target enw",
		"```sh\nmake demo MODELS=x LAYER=4 # a comment\n```":                          "no variable LAYER",
	} {
		parsed := snippets("a.md", "text\n"+broken+"\ntext\n")
		require.Len(t, parsed, 1)
		require.ErrorContains(t, check(t, parsed[0]), says, broken)
	}
}

// TestASnippetThatIsRightPasses also shows that what a comment or a quoted text has of commands is none.
func TestASnippetThatIsRightPasses(t *testing.T) {
	if os.Getenv(testkit.Emulator) != "" {
		t.Skip("the compilers are not emulated")
	}
	for _, s := range snippets("a.md", "```sh\n"+
		"make demo MODEL='a b' # xpwc pakc; make demmo\n"+
		"xpwc pack \\\n  m.tflite -o 'a b.xpwc' | tee \"make demmo\"; echo \"xpwc pakc\"\n"+
		"xpwc bench --layers 4 --runs 3\n"+
		"frobnicate --all >out.txt\n"+
		"```\n```json\n{\n```\n") {
		require.NoError(t, check(t, s))
	}
}

// saying runs a command and returns what it prints with its error.
func saying(cmd *exec.Cmd) error {
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// compilePython only compiles: the wheel's test runs the examples of its guide.
func compilePython(t *testing.T, s snippet) error {
	t.Helper()
	return saying(exec.Command("python3", "-c", "import sys; compile(sys.argv[1], 'snippet', 'exec')", s.text))
}

// source writes a snippet to a file of a directory.
func source(t *testing.T, s snippet, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(s.text), 0o600))
	return path
}

// vetGo compiles a Go file as it stands. It must be formatted.
func vetGo(t *testing.T, s snippet) error {
	path := source(t, s, "snippet.go")
	if formatted, err := format.Source([]byte(s.text)); err == nil && string(formatted) != s.text {
		return errors.New("gofmt would change it")
	}
	return saying(exec.Command("go", "vet", path))
}

// compileC compiles a file of C or C++ as it stands, with the headers of xpwc, XNNPACK and ExecuTorch.
func compileC(t *testing.T, s snippet) error {
	flags := []string{"-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-pedantic", "-Icapi/include", "-Icapi/reader"}
	cflags, err := exec.Command("go", "env", "CGO_CFLAGS").Output()
	require.NoError(t, err)
	flags = append(flags, strings.Fields(string(cflags))...)
	if s.language == "c" {
		return saying(exec.Command("gcc", append(flags, "-std=c99", source(t, s, "snippet.c"))...))
	}
	if strings.Contains(s.text, "<executorch/") {
		const wheel = "third_party/executorch/include"
		if _, err := os.Stat(wheel); errors.Is(err, os.ErrNotExist) {
			t.Skip("ExecuTorch's headers are not there: make third_party")
		}
		flags = append(flags, "-isystem", wheel, "-isystem", wheel+"/executorch/runtime/core/portable_type/c10",
			"-DC10_USING_CUSTOM_GENERATED_MACROS")
	}
	return saying(exec.Command("g++", append(flags, "-std=c++17", source(t, s, "snippet.cpp"))...))
}

// recording has bash run a script in which xpwc and make do nothing but write down how they were called, and in which
// there are no other programs.
const recording = `
record() { printf '%s\x1f' "$@" >>"$CALLS"; printf '\n' >>"$CALLS"; }
xpwc() { record xpwc "$@"; }
bin/xpwc() { record xpwc "$@"; }
make() { record make "$@"; }
sudo() { "$@"; }
cd() { :; }
source() { :; }
command_not_found_handle() { :; }
`

// calls returns the calls of xpwc and make in a script.
func calls(t *testing.T, s snippet) (commands [][]string, err error) {
	t.Helper()
	bash, err := exec.LookPath("bash")
	require.NoError(t, err)
	if err := saying(exec.Command(bash, "-n", source(t, s, "snippet.sh"))); err != nil {
		return nil, err
	}
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	script := exec.CommandContext(ctx, bash, "-c", recording+s.text)
	script.Dir = dir
	script.Env = []string{"PATH=" + filepath.Join(dir, "nothing"), "CALLS=" + filepath.Join(dir, "calls")}
	if err := script.Run(); ctx.Err() != nil {
		return nil, err
	}
	lines, err := os.ReadFile(filepath.Join(dir, "calls"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	for line := range strings.Lines(string(lines)) {
		commands = append(commands, strings.Split(strings.TrimSuffix(line, "\x1f\n"), "\x1f"))
	}
	return commands, err
}

// callXPWCAndMake checks the calls of xpwc and make in a script.
func callXPWCAndMake(t *testing.T, s snippet) error {
	commands, err := calls(t, s)
	if err != nil {
		return err
	}
	for _, call := range commands {
		if call[0] == "make" {
			document, _, _ := strings.Cut(s.place, ":")
			err = knowsMake(document, call[1:])
		} else {
			err = understood(t, call[1:])
		}
		if err != nil {
			return fmt.Errorf("%s: %w", strings.Join(call, " "), err)
		}
	}
	return nil
}

// knowsMake returns an error if a target or variable is neither in the Makefile nor in one in the document's
// directory.
func knowsMake(document string, args []string) error {
	if slices.Contains(args, "-C") || slices.Contains(args, "-f") {
		return nil // another one
	}
	var makefiles []byte
	for _, name := range []string{"Makefile", filepath.Dir(document) + "/Makefile"} {
		text, err := os.ReadFile(name)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		makefiles = append(makefiles, text...)
	}
	for _, arg := range args {
		variable, _, set := strings.Cut(arg, "=")
		switch {
		case strings.HasPrefix(arg, "-"):
		case set:
			if !regexp.MustCompile(`\b` + variable + `\b`).Match(makefiles) {
				return fmt.Errorf("the Makefile has no variable %s", variable)
			}
		case !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(arg) + `:`).Match(makefiles):
			return fmt.Errorf("the Makefile has no target %s", arg)
		}
	}
	return nil
}

// understood returns an error if the tool does not understand a command line. It calls the tool in an empty directory,
// so that no command finds what it needs, except for one that needs nothing and takes long.
func understood(t *testing.T, args []string) error {
	if slices.Contains(args, "bench") {
		args = append(args, "--help")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, tool(t), args...)
	cmd.Dir = t.TempDir()
	// No registry is asked.
	cmd.Env = append(os.Environ(), "HTTP_PROXY=http://127.0.0.1:1", "HTTPS_PROXY=http://127.0.0.1:1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err := cmd.Run()
	if cmd.ProcessState != nil && cmd.ProcessState.ExitCode() >= 0 && !strings.Contains(stderr.String(), "--help.\n") {
		return nil // it went well, or found no file
	}
	return fmt.Errorf("%w: %s", err, stderr.String())
}

// tool returns the path of the tool, which is built once.
func tool(t *testing.T) string {
	t.Helper()
	path, err := buildTool()
	require.NoError(t, err)
	return path
}

var buildTool = sync.OnceValues(func() (path string, err error) {
	path = filepath.Join(scratch, "xpwc")
	return path, saying(exec.Command("go", "build", "-C", "cmd/xpwc", "-o", path, "."))
})
