package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/cpu"
	"xpwc/internal/tests/registrytest"
	"xpwc/registry"
)

func TestTheToolWithoutXNNPACKLooksAfterFilesAndRegistries(t *testing.T) {
	static := filepath.Join(t.TempDir(), "xpwc.exe")
	build := exec.Command("go", "build", "-o", static, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)

	s := registrytest.Start(t)
	dir := t.TempDir()
	packedOnALesserCPU(t, dir, "face_detection_short_range.tflite")
	_, _ = runJSON(t, dir, faceModel(t), "--cache", "model.xpwc")
	layouts := reported[inspection](t, dir, 0, "inspect", "model.xpwc").Layouts
	require.Len(t, layouts, 2)
	lesser := layouts[0].Fingerprint.String()
	forHere, unknown := litertHere()
	packed := filepath.Join("..", "..", "models", "litert", "testdata", "embedding_int8.litert_cache")
	sum, _, err := sha256Of(packed)
	require.NoError(t, err)
	pullsLiteRT := exitFailed
	if unknown == nil {
		pullsLiteRT = 0
		_, err := registry.PushLiteRT(t.Context(), s.Ref("face:v1"),
			registry.LiteRTFile{Path: packed, SHA256: sum, For: forHere, Model: sum}, nil)
		require.NoError(t, err)
	}

	for _, c := range []struct {
		args    []string
		code    int
		message string
	}{
		{[]string{"inspect", "model.xpwc"}, 0, lesser},
		{[]string{"inspect", faceModel(t)}, 0, "can be run"},
		{[]string{"verify", "model.xpwc"}, 0, ""},
		{[]string{"report", "model.xpwc", "-o", "page.html"}, 0, "about model.xpwc"},
		{[]string{"diff", "model.xpwc", "model.xpwc"}, 0, "in common"},
		{[]string{"convert", "model.xpwc", "--to", "xpwc2", "--layout", lesser, "-o", "packed_cache"}, 0, ""},
		{[]string{"push", s.Ref("face:v1"), "model.xpwc"}, 0, "digest"},
		{[]string{"ls", s.Ref("face:v1")}, 0, lesser},
		{[]string{"pull", s.Ref("face:v1"), "--layout", lesser, "-o", "pulled.xpwc"}, 0, "written to"},
		{[]string{"pull", s.Ref("face:v1"), "-o", "own.xpwc"}, 0,
			"the only one of 2 packed on a processor such as this one"},
		{[]string{"pull", s.Ref("face:v1"), "--layout", "current", "-o", "own.xpwc"}, 0, "up to date"},
		{[]string{"pull", s.Ref("face:v1"), "--for", "litert", "-o", "pulled.litert_cache"}, pullsLiteRT, "LiteRT"},
		{[]string{"push", s.Ref("lesser:v1"), "pulled.xpwc"}, 0, "digest"},
		{[]string{"pull", s.Ref("lesser:v1"), "-o", "absent.xpwc"}, exitFailed,
			"0 of 1 layout packed on a processor such as this one, " + cpu.Name() +
				"; name one with --layout: " + lesser},
		{[]string{"prune", "model.xpwc", "--keep-layout", lesser}, 0, ""},
		{[]string{"compact", "model.xpwc"}, 0, ""},
		{[]string{"verify", "pulled.xpwc"}, 0, ""},
		{[]string{"prune", "pulled.xpwc", "--keep-layout", "current"}, exitFailed, "built without XNNPACK"},
		{[]string{"verify", "pulled.xpwc", "--model", faceModel(t)}, exitFailed,
			"verify --model: this xpwc was built without"},
		{[]string{"pull", s.Ref("face:v1"), "--for", "executorch", "-o", "absent.xpwc"}, exitFailed,
			"pull --for: this xpwc was built without XNNPACK"},
		{[]string{"pull", s.Ref("face:v1"), "--layout", lesser, "--model", faceModel(t), "-o", "absent.xpwc"},
			exitFailed, "pull --model: this xpwc was built without XNNPACK"},
		{[]string{"layout"}, exitFailed, "layout: this xpwc was built without XNNPACK"},
		{[]string{"--version"}, 0, "this machine's layout is not known: this xpwc was built without XNNPACK"},
		{[]string{"--version"}, 0, "processor " + cpu.Name() + "\n"},
		{[]string{"run", faceModel(t)}, exitFailed, "built without XNNPACK"},
		{[]string{"pack", faceModel(t), "-o", "absent.xpwc"}, exitFailed, "built without XNNPACK"},
		{[]string{"demo", faceModel(t)}, exitFailed, "built without XNNPACK"},
		{[]string{"bench", faceModel(t)}, exitFailed, "built without XNNPACK"},
		{[]string{"--help"}, 0, "built without XNNPACK"},
		{[]string{"pack", "--help"}, 0, "Not in this build"},
	} {
		cmd := exec.Command(static, c.args...)
		cmd.Dir = dir
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Run(); err != nil {
			require.ErrorAs(t, err, new(*exec.ExitError))
		}
		require.Equal(t, c.code, cmd.ProcessState.ExitCode(), "%v\n%s", c.args, &out)
		require.Contains(t, out.String(), c.message, c.args)
		require.NoFileExists(t, filepath.Join(dir, "absent.xpwc"))
	}
	cmd := exec.Command(static, "who", filepath.Join(dir, "model.xpwc"))
	out, err = cmd.CombinedOutput()
	if runtime.GOOS == "linux" {
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "no process has the file mapped")
	} else {
		require.Error(t, err)
		require.Contains(t, string(out), "on Linux only")
	}
	separate := reported[inspection](t, dir, 0, "inspect", "own.xpwc")
	require.Len(t, separate.Layouts, 1)
	require.Equal(t, layouts[1].Fingerprint, separate.Layouts[0].Fingerprint)
	pulled := reported[inspection](t, dir, 0, "inspect", "pulled.xpwc")
	require.Len(t, pulled.Layouts, 1)
	require.Equal(t, lesser, pulled.Layouts[0].Fingerprint.String())
}
