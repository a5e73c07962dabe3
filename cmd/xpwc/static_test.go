package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/registrytest"
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

	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"inspect", "model.xpwc"}, 0, lesser},
		{[]string{"inspect", faceModel(t)}, exitFailed, ""},
		{[]string{"verify", "model.xpwc"}, 0, ""},
		{[]string{"report", "model.xpwc", "-o", "-"}, 0, lesser},
		{[]string{"diff", "model.xpwc", "model.xpwc"}, 0, "in common"},
		{[]string{"convert", "model.xpwc", "--to", "xpwc2", "--layout", lesser, "-o", "packed_cache"}, 0, ""},
		{[]string{"push", s.Ref("face:v1"), "model.xpwc"}, 0, "digest"},
		{[]string{"ls", s.Ref("face:v1")}, 0, lesser},
		{[]string{"pull", s.Ref("face:v1"), "--layout", lesser, "-o", "pulled.xpwc"}, 0, "written to"},
		{[]string{"pull", s.Ref("face:v1"), "-o", "absent.xpwc"}, exitFailed,
			"is not known: this xpwc was built without XNNPACK (make build makes one with it); name one with --layout"},
		{[]string{"prune", "model.xpwc", "--keep-layout", lesser}, 0, ""},
		{[]string{"compact", "model.xpwc"}, 0, ""},
		{[]string{"verify", "pulled.xpwc"}, 0, ""},
		{[]string{"prune", "pulled.xpwc", "--keep-layout", "current"}, exitFailed, "make build"},
		{[]string{"verify", "pulled.xpwc", "--model", faceModel(t)}, exitFailed,
			"verify --model: this xpwc was built without"},
		{[]string{"pull", s.Ref("face:v1"), "--layout", lesser, "--model", faceModel(t), "-o", "absent.xpwc"},
			exitFailed, "pull --model: this xpwc was built without XNNPACK"},
		{[]string{"convert", "packed_cache", "--to", "native", "--model", faceModel(t), "-o", "absent.xpwc"},
			exitFailed, "convert --model: this xpwc was built without XNNPACK"},
		{[]string{"layout"}, exitFailed, "layout: this xpwc was built without XNNPACK"},
		{[]string{"--version"}, 0, "this machine's layout is not known: this xpwc was built without XNNPACK"},
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
		require.Contains(t, out.String(), c.says, c.args)
		require.NoFileExists(t, filepath.Join(dir, "absent.xpwc"))
	}
	who := exec.Command(static, "who", filepath.Join(dir, "model.xpwc"))
	out, err = who.CombinedOutput()
	if runtime.GOOS == "linux" {
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "no process has the file mapped")
	} else {
		require.Error(t, err)
		require.Contains(t, string(out), "on Linux only")
	}
	pulled := reported[inspection](t, dir, 0, "inspect", "pulled.xpwc")
	require.Len(t, pulled.Layouts, 1)
	require.Equal(t, lesser, pulled.Layouts[0].Fingerprint.String())
}
