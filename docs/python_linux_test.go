//go:build linux && cgo

package docs

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A python is an interpreter.
type python struct {
	path  string
	minor int // of version 3
}

// oldestPython is the minor version that the wheel's metadata ask for.
const oldestPython = 9

// pythons returns the machine's interpreters that can make virtual environments, the oldest first.
func pythons(t *testing.T) (list []python) {
	t.Helper()
	home, err := os.UserHomeDir()
	require.NoError(t, err)
	paths, err := filepath.Glob(filepath.Join(home, ".pyenv", "versions", "3.*", "bin", "python"))
	require.NoError(t, err)
	system, err := exec.LookPath("python3")
	require.NoError(t, err)
	for _, path := range append(paths, system) {
		p := python{path: path}
		const question = "import sys, venv, ensurepip; print(sys.version_info[1])"
		out, err := exec.Command(path, "-c", question).Output()
		if _, malformed := fmt.Sscan(string(out), &p.minor); err == nil && malformed == nil && p.minor >= oldestPython {
			list = append(list, p)
		}
	}
	require.NotEmpty(t, list, "no Python of 3.%d or later has venv and ensurepip", oldestPython)
	slices.SortFunc(list, func(a, b python) int { return a.minor - b.minor })
	return list
}

// An environment is a virtual environment of Python, with the wheel and without the checkout.
type environment struct{ dir, models string }

func newEnvironment(t *testing.T, p python, requirement string) environment {
	t.Helper()
	e := environment{dir: filepath.Join(t.TempDir(), "env"), models: t.TempDir()}
	require.NoError(t, saying(exec.Command(p.path, "-m", "venv", e.dir)))
	e.install(t, requirement)
	require.NoError(t, saying(e.command("-m", "pip", "check")))
	for name, source := range map[string]string{
		"model.tflite":    "third_party/models/selfie_segmentation.tflite",
		"model.pte":       "models/executorch/testdata/programs/mobilenet_v3_small_int8.pte",
		"bundle.litertlm": "models/bundle/testdata/small.litertlm",
		"other.pte":       "models/executorch/testdata/programs/mlp_fp32.pte",
		"test_xpwc.py":    "cmd/python/tests/test_xpwc.py",
	} {
		content, err := os.ReadFile(source)
		require.NoError(t, err, "run make third_party")
		require.NoError(t, os.WriteFile(filepath.Join(e.models, name), content, 0o644))
	}
	return e
}

// command runs Python without an environment variable that finds anything else.
func (e environment) command(args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(e.dir, "bin", "python"), args...)
	cmd.Dir = "/"
	cmd.Env = []string{"HOME=" + e.dir, "XPWC_TEST_MODELS=" + e.models, "PATH=/usr/bin:/bin"}
	return cmd
}

// install has pip install with the machine's settings, which name its registry.
func (e environment) install(t *testing.T, requirements ...string) {
	t.Helper()
	pip := exec.Command(filepath.Join(e.dir, "bin", "python"), append([]string{"-m", "pip", "install", "--quiet",
		"--disable-pip-version-check"}, requirements...)...)
	require.NoError(t, saying(pip))
}

// requireTests runs the tests of the package.
func (e environment) requireTests(t *testing.T) {
	t.Helper()
	out, err := e.command(filepath.Join(e.models, "test_xpwc.py"), "-v").CombinedOutput()
	require.NoError(t, err, string(out))
	require.Regexp(t, `\nRan \d+ tests in `, string(out))
	t.Log(string(out[bytes.LastIndex(out, []byte("\nRan ")):]))
}

// It installs packages from PyPI, which takes more than ten seconds.
func TestTheWheelServesPython(t *testing.T) {
	requireShippable(t)
	dist, err := distributed()
	require.NoError(t, err)
	dist.requireWheel(t)
	if os.Getenv("XNNPACK") != "executorch" {
		t.Skip("the tests pack for the stock ExecuTorch")
	}
	wheel, interpreters := dist.file(t, "*.whl"), pythons(t)
	t.Run(fmt.Sprintf("3.%d, with no other package", interpreters[0].minor), func(t *testing.T) {
		newEnvironment(t, interpreters[0], wheel).requireTests(t)
	})
	newest := interpreters[len(interpreters)-1]
	t.Run(fmt.Sprintf("3.%d, with the stock runtimes", newest.minor), func(t *testing.T) {
		e := newEnvironment(t, newest, wheel+"[litert]")
		e.requireTests(t)
		e.requireExamples(t)
		e.requireExecuTorch(t)
		e.install(t, "twine==7.0.0", "auditwheel==6.8.2")
		require.NoError(t, saying(e.command("-m", "twine", "check", "--strict", wheel)))
		platform, err := e.command("-m", "auditwheel", "show", wheel).Output()
		require.NoError(t, err)
		tag := strings.TrimSuffix(wheel[strings.LastIndex(wheel, "manylinux"):], ".whl")
		require.Contains(t, strings.Join(strings.Fields(string(platform)), " "), `platform tag to "`+tag+`"`)
	})
}

// requireExamples runs the examples of the guide.
func (e environment) requireExamples(t *testing.T) {
	t.Helper()
	const guide = "docs/guide-python.md"
	text, err := os.ReadFile(guide)
	require.NoError(t, err)
	work := t.TempDir()
	for name, model := range map[string]string{"pose.tflite": "model.tflite", "model.pte": "model.pte"} {
		require.NoError(t, os.Link(filepath.Join(e.models, model), filepath.Join(work, name)))
	}
	ran := 0
	for _, s := range snippets(guide, string(text)) {
		if s.language == "python" {
			example := e.command("-c", s.text)
			example.Dir = work
			require.NoError(t, saying(example), s.place)
			ran++
		}
	}
	require.NotZero(t, ran)
}

// requireExecuTorch has the stock ExecuTorch use a file that the package packed.
func (e environment) requireExecuTorch(t *testing.T) {
	t.Helper()
	build, program := t.TempDir(), filepath.Join(e.models, "model.pte")
	require.NoError(t, saying(exec.Command("make", "-s", "-C", "examples/executorch", "BUILD="+build, "CXXFLAGS=-O0")))
	const script = "import sys, xpwc; print(xpwc.pack(sys.argv[1], 'executorch'))"
	path, err := e.command("-c", script, program).Output()
	require.NoError(t, err)
	host := exec.Command(filepath.Join(build, "host"), program, "--cache", strings.TrimSpace(string(path)))
	out, err := host.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "Loaded packed weight cache")
	require.Contains(t, string(out), `"packed_bytes": 0,`)
}
