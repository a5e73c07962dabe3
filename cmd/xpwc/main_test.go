package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/tests/testkit"
	"xpwc/xnnpack"
)

var tool string // the built command

// envCPU makes the test's binary the command, on a lesser CPU than this one.
const envCPU = "XPWC_TEST_CPU"

// envStuck makes the test's binary a command that cannot be interrupted.
const envStuck = "XPWC_TEST_STUCK"

// envHolds makes the test's binary a process that has the cache of this path open until its input ends.
const envHolds = "XPWC_TEST_HOLDS"

func hold(path string) {
	cache, err := xpwc.Open(path, &xpwc.Options{Prefetch: true})
	fmt.Println(err)
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err == nil {
		_ = cache.Close()
	}
	os.Exit(exitOK)
}

func stuck() {
	ctx, j := newJob(os.Stderr)
	j.listen()
	jobOf(ctx).onInterrupt(func() {
		fmt.Println("interrupted")
		_, _ = io.Copy(io.Discard, os.Stdin)
	})
	j.run(func() outcome {
		fmt.Println("ready")
		select {}
	})
	os.Exit(exitOK)
}

func TestMain(m *testing.M) {
	if level := os.Getenv(envCPU); level != "" {
		if err := xnnpack.LimitCPU(level); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(exitFailed)
		}
		main()
	}
	if os.Getenv(envStuck) != "" {
		stuck()
	}
	if path := os.Getenv(envHolds); path != "" {
		hold(path)
	}
	code, err := buildAndRun(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func buildAndRun(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("", "xpwc")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	tool = filepath.Join(dir, "xpwc.exe")
	build := exec.Command("go", "build", "-o", tool, ".")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return 0, fmt.Errorf("build the command: %w", err)
	}
	return m.Run(), nil
}

// xpwcIn runs the command in a directory and returns its exit code and what it prints, which is of the schema if it is
// JSON.
func xpwcIn(t testing.TB, dir string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	if slices.Contains(args, "--cpu") {
		testkit.NeedsWholeCPU(t)
	}
	cmd := exec.Command(tool, args...)
	cmd.Dir = dir
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
	}
	if slices.Contains(args, "--json") && out.Len() > 0 {
		requireSchema(t, out.String())
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// skipKnownDefect skips a test of a model that this XNNPACK is known to compute wrongly on this processor.
func skipKnownDefect(t testing.TB, stderr string) {
	t.Helper()
	if strings.Contains(stderr, xnnpack.ErrKnownDefect.Error()) {
		t.Skip(stderr)
	}
}

// runJSON is a successful xpwc run --json.
func runJSON(t testing.TB, dir string, args ...string) (report runReport, stderr string) {
	t.Helper()
	code, out, stderr := xpwcIn(t, dir, append([]string{"run", "--json"}, args...)...)
	skipKnownDefect(t, stderr)
	require.Zero(t, code, stderr)
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	return report, stderr
}

// faceModel is a small model with one input [1, 128, 128, 3] and two outputs.
func faceModel(t testing.TB) string {
	t.Helper()
	return testModel(t, "face_detection_short_range.tflite")
}

// testModel returns the path of a fetched model.
func testModel(t testing.TB, name string) string {
	t.Helper()
	dir := os.Getenv("XPWC_MODELS")
	if dir == "" {
		dir = filepath.Join("..", "..", "third_party", "models")
	}
	path, err := filepath.Abs(filepath.Join(dir, name))
	require.NoError(t, err)
	_, err = os.Stat(path)
	require.NoError(t, err, "the models are not there: run make third_party")
	return path
}

func TestMistakesAreReported(t *testing.T) {
	dir := t.TempDir()
	garbage := filepath.Join(dir, "garbage.tflite")
	require.NoError(t, os.WriteFile(garbage, bytes.Repeat([]byte{0xa5}, 4096), 0o600))
	model := faceModel(t)
	for _, c := range []struct {
		args    []string
		code    int
		message string
	}{
		{nil, exitUsage, "no command"},
		{[]string{"fly"}, exitUsage, `"fly"`},
		{[]string{"run"}, exitUsage, "run --help"},
		{[]string{"run", model, model}, exitUsage, "run --help"},
		{[]string{"run", model, "--fast"}, exitUsage, "--fast"},
		{[]string{"run", model, "--threads", "-1"}, exitUsage, "--threads -1"},
		{[]string{"run", model, "--threads", "many"}, exitUsage, "many"},
		{[]string{"demo", model, "--layers", "2"}, exitUsage, "--layers"},
		{[]string{"demo", "llama", "--layers", "0"}, exitUsage, "--layers 0"},
		{[]string{"demo", model, model}, exitUsage, "demo --help"},
		{[]string{"demo"}, exitFailed, "make third_party"},
		{[]string{"bench", "--runs", "0"}, exitUsage, "--runs 0"},
		{[]string{"bench", "--layers", "257"}, exitUsage, "--layers 257"},
		{[]string{"bench", model, "--layers", "2"}, exitUsage, "--layers"},
		{[]string{"bench", model, model}, exitUsage, "bench --help"},
		{[]string{"bench", "absent.tflite"}, exitFailed, "absent.tflite"},
		{[]string{"demo", "absent.tflite"}, exitFailed, "absent.tflite"},
		{[]string{"demo", garbage}, exitFailed, garbage},
		{[]string{"run", "absent.tflite"}, exitFailed, "absent.tflite"},
		{[]string{"run", garbage}, exitFailed, "malformed"},
		{[]string{"run", dir}, exitFailed, dir},
		{[]string{"run", model, "--cache", dir}, exitFailed, dir},
		{[]string{"run", model, "--cache", filepath.Join(dir, "absent", "c")}, exitFailed, "absent"},
		{[]string{"run", model, "--input", filepath.Join(dir, "absent.f32")}, exitFailed, "absent.f32"},
		{[]string{"run", model, "--output-dir", garbage}, exitFailed, garbage},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			code, out, stderr := xpwcIn(t, dir, c.args...)
			require.Equal(t, c.code, code, stderr)
			require.Empty(t, out)
			require.Contains(t, stderr, "xpwc: ")
			require.Contains(t, stderr, c.message)
		})
	}
}

func TestDemoAndBenchMeasureInProcessesOfThisProgram(t *testing.T) {
	dir := t.TempDir()
	code, out, stderr := xpwcIn(t, dir, "demo", faceModel(t), "--figures", "demo.json", "--dir", "work")
	require.Zero(t, code, stderr)
	require.Contains(t, out, "identical bit for bit")
	code, out, stderr = xpwcIn(t, dir, "bench", faceModel(t), "--figures", "bench.json", "--dir", "work", "--runs", "1")
	require.Zero(t, code, stderr)
	require.Regexp(t, `(?s)none .*warm `, out, "in the order of the help")
	for _, name := range []string{"demo.json", "bench.json"} {
		content, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.True(t, json.Valid(content), name)
	}
}
