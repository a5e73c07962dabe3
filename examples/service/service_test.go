package main

import (
	"bufio"
	"bytes"
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
	"xpwc/tflite"
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

// A service is a running process of the program.
type service struct {
	t      *testing.T
	cmd    *exec.Cmd
	url    string
	table  []string // what it printed before it served
	stderr bytes.Buffer
	ended  bool
}

func start(t *testing.T, cache string, names ...string) *service {
	t.Helper()
	args := append([]string{"-addr", "localhost:0", "-cache", cache, "-models", modelsDir(t)}, names...)
	s := &service{t: t, cmd: exec.Command(program, args...)}
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
func (s *service) stop() {
	s.t.Helper()
	require.NoError(s.t, s.cmd.Process.Signal(os.Interrupt))
	s.ended = true
	require.NoError(s.t, s.cmd.Wait(), s.stderr.String())
	require.NotContains(s.t, s.stderr.String(), "level=WARN")
	require.NotContains(s.t, s.stderr.String(), "level=ERROR")
}

// do sends a request and returns the response's code, type and body.
func (s *service) do(method, path, kind string, body []byte) (code int, contentType string, answer []byte) {
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
func (s *service) infer(name string) []byte {
	s.t.Helper()
	code, kind, out := s.do("POST", "/models/"+name+"/infer", "application/octet-stream", raw(input(s.t, name)))
	require.Equal(s.t, http.StatusOK, code, string(out))
	require.Equal(s.t, "application/octet-stream", kind)
	require.NotEmpty(s.t, out)
	return out
}

// models returns what GET /models tells, by name.
func (s *service) models() map[string]status {
	s.t.Helper()
	code, _, body := s.do("GET", "/models", "", nil)
	require.Equal(s.t, http.StatusOK, code)
	var all []status
	require.NoError(s.t, json.Unmarshal(body, &all))
	byName := map[string]status{}
	for _, m := range all {
		byName[m.Name] = m
	}
	return byName
}

// metric returns a sample of GET /metrics that has the path as its only label.
func (s *service) metric(name string) string {
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
	cold := start(t, cache, pose, hand)
	require.Len(t, cold.table, 3, "a headline and two models")
	require.Contains(t, cold.table[1], pose)
	want := map[string][]byte{pose: cold.infer(pose), hand: cold.infer(hand)}
	packed := map[string]int64{}
	for _, name := range []string{pose, hand} {
		m := cold.models()[name]
		require.Equal(t, ready, m.State)
		require.Positive(t, m.Packed)
		require.Zero(t, m.Mapped)
		require.Zero(t, m.Private)
		packed[name] = m.Packed
	}

	release := holdWriter(t, cache)
	code, _, body := cold.do("POST", "/models/"+heavy, "", nil)
	require.Equal(t, http.StatusAccepted, code, string(body))
	for range 3 { // as often as one likes: the third model cannot be packed yet
		require.Equal(t, want[pose], cold.infer(pose))
		require.Equal(t, want[hand], cold.infer(hand))
	}
	require.Equal(t, loading, cold.models()[heavy].State)
	code, _, _ = cold.do("POST", "/models/"+heavy+"/infer", "", raw(input(t, heavy)))
	require.Equal(t, http.StatusServiceUnavailable, code)
	release()
	for cold.models()[heavy].State == loading { // and while it is packed
		require.Equal(t, want[pose], cold.infer(pose))
		require.Equal(t, want[hand], cold.infer(hand))
	}
	third := cold.models()[heavy]
	require.Equal(t, ready, third.State, third.Error)
	require.Positive(t, third.Packed)
	require.Zero(t, third.Private)
	packed[heavy] = third.Packed
	want[heavy] = cold.infer(heavy)
	cold.stop()

	warm := start(t, cache, pose, hand, heavy)
	require.Len(t, warm.table, 4)
	for name, m := range warm.models() {
		require.Zero(t, m.Packed, name)
		require.Zero(t, m.Private, name)
		require.GreaterOrEqual(t, m.Mapped+m.Checked, packed[name], name)
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

func TestJSONGivesWhatRawFloatsGive(t *testing.T) {
	s := start(t, filepath.Join(t.TempDir(), "models.xpwc"), pose)
	body, err := json.Marshal(request{Inputs: [][]float32{input(t, pose)}})
	require.NoError(t, err)
	code, kind, answer := s.do("POST", "/models/"+pose+"/infer", "application/json; charset=utf-8", body)
	require.Equal(t, http.StatusOK, code, string(answer))
	require.Equal(t, "application/json", kind)
	var got struct {
		Outputs []struct {
			Name  string
			Shape []int
			Data  []float32
		}
	}
	require.NoError(t, json.Unmarshal(answer, &got))
	var all []byte
	for i, o := range got.Outputs {
		n := 1
		for _, d := range o.Shape {
			n *= d
		}
		require.Len(t, o.Data, n, "output %d", i)
		require.NotEmpty(t, o.Name)
		all = append(all, raw(o.Data)...)
	}
	require.Equal(t, s.infer(pose), all)
	s.stop()
}

func TestWrongRequestsAreToldWhatIsWrong(t *testing.T) {
	s := start(t, filepath.Join(t.TempDir(), "models.xpwc"), pose)
	size := 4 * len(input(t, pose))
	infer := "/models/" + pose + "/infer"
	notANumber := make([]byte, size)
	copy(notANumber, raw([]float32{float32(math.NaN())}))
	oneElement := []byte(`{"inputs": [[1]]}`)
	const asJSON = "application/json"
	bytesWanted := fmt.Sprint(size)
	for name, c := range map[string]struct {
		method, path, kind string
		body               []byte
		code               int
		text               string
	}{
		"too short":          {"POST", infer, "", make([]byte, size-4), http.StatusBadRequest, bytesWanted},
		"too long":           {"POST", infer, "", make([]byte, size+1), http.StatusRequestEntityTooLarge, bytesWanted},
		"no JSON":            {"POST", infer, asJSON, []byte("inputs"), http.StatusBadRequest, "invalid"},
		"too few inputs":     {"POST", infer, asJSON, []byte("{}"), http.StatusBadRequest, "the model has 1"},
		"too few elements":   {"POST", infer, asJSON, oneElement, http.StatusBadRequest, "has 1 elements"},
		"not a model":        {"POST", "/models/nothing", "", nil, http.StatusNotFound, "no such model"},
		"not loaded":         {"POST", "/models/" + hand + "/infer", "", nil, http.StatusNotFound, "no such model"},
		"out of the folder":  {"POST", "/models/..%2Fmodels%2F" + hand, "", nil, http.StatusNotFound, "no such model"},
		"loaded already":     {"POST", "/models/" + pose, "", nil, http.StatusOK, ready},
		"no numbers harm it": {"POST", infer, "", notANumber, http.StatusOK, ""},
		"the wrong method":   {"GET", infer, "", nil, http.StatusMethodNotAllowed, ""},
		"health":             {"GET", "/healthz", "", nil, http.StatusOK, "ok"},
	} {
		t.Run(name, func(t *testing.T) {
			code, _, body := s.do(c.method, c.path, c.kind, c.body)
			require.Equal(t, c.code, code, string(body))
			require.Contains(t, string(body), c.text)
		})
	}
	s.stop()
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
