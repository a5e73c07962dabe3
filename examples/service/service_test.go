package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/models/tflite"
	"xpwc/xnnpack"
)

const (
	pose  = "pose_landmark_lite"
	hand  = "hand_landmark_lite"
	heavy = "pose_landmark_heavy"
)

var program string // the built service

func TestMain(m *testing.M) {
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
	program = filepath.Join(dir, "service.exe")
	build := exec.Command("go", "build", "-o", program, ".")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return 0, fmt.Errorf("build the service: %w", err)
	}
	return m.Run(), nil
}

func modelsDir(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("XPWC_MODELS")
	if dir == "" {
		dir = filepath.Join("..", "..", "third_party", "models")
	}
	_, err := os.Stat(filepath.Join(dir, heavy+".tflite"))
	require.NoError(t, err, "the models are not there: run make third_party")
	return dir
}

// A running is a process of the program.
type running struct {
	t      *testing.T
	cmd    *exec.Cmd
	url    string
	table  []string // what it printed of models before it served
	stderr bytes.Buffer
	ended  bool
}

func start(t *testing.T, cache, dir string, names ...string) *running {
	t.Helper()
	args := append([]string{"-addr", "localhost:0", "-instances", "2", "-cache", cache, "-models", dir}, names...)
	s := &running{t: t, cmd: exec.Command(program, args...)}
	s.cmd.Stderr = &s.stderr
	stdout, err := s.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, s.cmd.Start())
	t.Cleanup(func() {
		if !s.ended {
			_ = s.cmd.Process.Kill()
			_ = s.cmd.Wait()
			t.Log(s.stderr.String())
		}
	})
	lines := bufio.NewScanner(stdout)
	for s.url == "" && lines.Scan() {
		if url, ok := strings.CutPrefix(lines.Text(), "serving on "); ok {
			s.url = url
		} else {
			s.table = append(s.table, lines.Text())
		}
	}
	require.NotEmpty(t, s.url, "it serves")
	return s
}

// stop interrupts the process and requires that it ends well.
func (s *running) stop() {
	s.t.Helper()
	require.NoError(s.t, s.cmd.Process.Signal(os.Interrupt))
	s.ended = true
	require.NoError(s.t, s.cmd.Wait(), s.stderr.String())
	require.NotContains(s.t, s.stderr.String(), "level=WARN")
	require.NotContains(s.t, s.stderr.String(), "level=ERROR")
}

// do sends a request and returns the response's code, type and body.
func (s *running) do(method, path, kind string, body []byte) (code int, contentType string, answer []byte) {
	s.t.Helper()
	r, err := http.NewRequest(method, s.url+path, bytes.NewReader(body))
	require.NoError(s.t, err)
	r.Header.Set("Content-Type", kind)
	response, err := http.DefaultClient.Do(r)
	require.NoError(s.t, err)
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	require.NoError(s.t, err)
	return response.StatusCode, response.Header.Get("Content-Type"), answer
}

// infer executes a model on raw inputs.
func (s *running) infer(name string) []byte {
	s.t.Helper()
	code, kind, out := s.do("POST", "/models/"+name+"/infer", "application/octet-stream", raw(input(s.t, name)))
	require.Equal(s.t, http.StatusOK, code, string(out))
	require.Equal(s.t, "application/octet-stream", kind)
	require.NotEmpty(s.t, out)
	return out
}

// models returns the answer of GET /models, by name.
func (s *running) models() map[string]model {
	s.t.Helper()
	code, _, body := s.do("GET", "/models", "", nil)
	require.Equal(s.t, http.StatusOK, code)
	var models map[string]model
	require.NoError(s.t, json.Unmarshal(body, &models))
	return models
}

// metric returns a sample of GET /metrics that has the path as its only label.
func (s *running) metric(name string) string {
	s.t.Helper()
	code, _, body := s.do("GET", "/metrics", "", nil)
	require.Equal(s.t, http.StatusOK, code)
	for line := range strings.Lines(string(body)) {
		if rest, ok := strings.CutPrefix(line, name+"{path="); ok {
			return strings.TrimSpace(rest[strings.LastIndex(rest, "} ")+2:])
		}
	}
	s.t.Fatalf("no metric %s in:\n%s", name, body)
	return ""
}

// input makes an input for a model of one input: numbers from 0 to 1.
func input(t *testing.T, name string) []float32 {
	t.Helper()
	m, err := tflite.Open(filepath.Join(modelsDir(t), name+".tflite"), nil)
	require.NoError(t, err)
	defer m.Close()
	require.Len(t, m.Inputs(), 1)
	n := 1
	for _, d := range m.Inputs()[0].Shape {
		n *= d
	}
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(uint32(i)*2654435761) / (1 << 32)
	}
	return x
}

func TestItStartsColdLoadsWhileItServesAndRestartsWarm(t *testing.T) {
	cache := filepath.Join(t.TempDir(), "models.xpwc")
	cold := start(t, cache, modelsDir(t), pose, hand)
	require.Len(t, cold.table, 2, "two models")
	require.Contains(t, cold.table[0], pose)
	want := map[string][]byte{pose: cold.infer(pose), hand: cold.infer(hand)}
	packed := map[string]int64{}
	for _, name := range []string{pose, hand} {
		m := cold.models()[name]
		require.Positive(t, m.Packed)
		packed[name] = m.Packed
	}

	release := holdWriter(t, cache)
	loaded := make(chan int)
	go func() {
		code, _, _ := cold.do("POST", "/models/"+heavy, "", nil)
		loaded <- code
	}()
	for range 3 { // as often as one likes: the third model cannot be packed yet
		require.Equal(t, want[pose], cold.infer(pose))
		require.Equal(t, want[hand], cold.infer(hand))
	}
	require.NotContains(t, cold.models(), heavy)
	release()
	require.Equal(t, http.StatusOK, <-loaded)
	packed[heavy] = cold.models()[heavy].Packed
	require.Positive(t, packed[heavy])
	want[heavy] = cold.infer(heavy)
	cold.stop()

	warm := start(t, cache, modelsDir(t), pose, hand, heavy)
	for name, m := range warm.models() {
		require.Zero(t, m.Packed, name)
		require.Equal(t, want[name], warm.infer(name), name)
	}
	require.Equal(t, "0", warm.metric("xpwc_packed_entries_total"))
	require.Equal(t, "0", warm.metric("xpwc_file_written_bytes_total"))
	require.NotEqual(t, "0", warm.metric("xpwc_lookup_hits_total"))
	warm.stop()
}

// holdWriter packs another model into the cache as another process does, and stays the file's writer until it is
// released.
func holdWriter(t *testing.T, path string) (release func()) {
	t.Helper()
	cache, err := xpwc.Open(path, nil)
	require.NoError(t, err)
	m, err := tflite.Open(filepath.Join(modelsDir(t), "selfie_segmentation.tflite"), nil)
	require.NoError(t, err)
	session, err := cache.NewSession(m.DataMap())
	require.NoError(t, err)
	subgraph, err := m.Subgraph(session)
	require.NoError(t, err)
	runtime, err := xnnpack.NewRuntime(subgraph, &xnnpack.RuntimeOptions{WeightsCache: session})
	require.NoError(t, err)
	require.Positive(t, cache.Stats().Packed.Entries)
	require.Empty(t, cache.Stats().Private)
	return func() {
		err := session.Finalize()
		require.NoError(t, err)
		require.NoError(t, runtime.Delete())
		require.NoError(t, subgraph.Delete())
		require.NoError(t, session.Close())
		require.NoError(t, m.Close())
		require.NoError(t, cache.Close())
	}
}

func TestWrongRequestsAreToldWhatIsWrong(t *testing.T) {
	s := start(t, filepath.Join(t.TempDir(), "models.xpwc"), modelsDir(t), pose)
	size := 4 * len(input(t, pose))
	infer := "/models/" + pose + "/infer"
	notANumber := make([]byte, size)
	copy(notANumber, raw([]float32{float32(math.NaN())}))
	wanted := fmt.Sprint(size)
	for name, c := range map[string]struct {
		method, path string
		body         []byte
		code         int
		text         string
	}{
		"too short":          {"POST", infer, make([]byte, size-4), http.StatusBadRequest, wanted},
		"empty":              {"POST", infer, nil, http.StatusBadRequest, wanted},
		"too long":           {"POST", infer, make([]byte, size+1), http.StatusBadRequest, "more bytes"},
		"not a model":        {"POST", "/models/nothing", nil, http.StatusNotFound, "no such file"},
		"not loaded":         {"POST", "/models/" + hand + "/infer", nil, http.StatusNotFound, "no such model"},
		"out of the folder":  {"POST", "/models/..%2Fmodels%2F" + hand, nil, http.StatusNotFound, "no such model"},
		"no numbers harm it": {"POST", infer, notANumber, http.StatusOK, ""},
		"the wrong method":   {"GET", infer, nil, http.StatusMethodNotAllowed, ""},
		"health":             {"GET", "/healthz", nil, http.StatusOK, "ok"},
	} {
		t.Run(name, func(t *testing.T) {
			code, _, body := s.do(c.method, c.path, "", c.body)
			require.Equal(t, c.code, code, string(body))
			require.Contains(t, string(body), c.text)
		})
	}
	s.stop()
}

// raw writes floats as little-endian float32.
func raw(floats []float32) []byte {
	b, _ := binary.Append(nil, binary.LittleEndian, floats)
	return b
}

func TestWhatCannotBeLoadedIsAnError(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "broken.tflite"), []byte("no model"), 0o600))
	for _, name := range []string{"broken", "absent"} {
		out, err := exec.Command(program, "-cache", filepath.Join(dir, "cache"), "-models", dir, name).CombinedOutput()
		require.Error(t, err)
		require.Contains(t, string(out), "service: "+name)
	}
}
