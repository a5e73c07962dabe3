//go:build cgo

package registry_test

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/cachefile"
	"xpwc/models"
	"xpwc/models/tflite"
	"xpwc/registry"
	"xpwc/xnnpack"
)

// lesser is a CPU level that every amd64 machine has and that packs unlike any newer one.
const lesser = "sse2"

// modelFile returns the path of a small fetched model.
func modelFile(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("XPWC_MODELS")
	if dir == "" {
		dir = filepath.Join("..", "third_party", "models")
	}
	path, err := filepath.Abs(filepath.Join(dir, "face_detection_short_range.tflite"))
	require.NoError(t, err)
	_, err = os.Stat(path)
	require.NoError(t, err, "the models are not there: run make third_party")
	return path
}

// A loaded model has a runtime on a cache.
type loaded struct {
	model   *tflite.Model
	cache   *xpwc.Cache
	session *xpwc.Session
	runtime *xnnpack.Runtime
}

func load(t *testing.T, model, cache string) *loaded {
	t.Helper()
	var l loaded
	var err error
	l.model, err = tflite.Open(model, nil)
	require.NoError(t, err)
	l.cache, err = xpwc.Open(cache, &xpwc.Options{Strict: true})
	require.NoError(t, err)
	l.session, err = l.cache.NewSession(l.model.DataMap())
	require.NoError(t, err)
	g, err := l.model.Subgraph(l.session)
	require.NoError(t, err)
	l.runtime, err = xnnpack.NewRuntime(g, &xnnpack.RuntimeOptions{WeightsCache: l.session})
	require.NoError(t, err)
	require.NoError(t, g.Delete())
	require.NoError(t, l.session.Finalize())
	return &l
}

// infer runs the model on a fixed input and returns all outputs.
func (l *loaded) infer(t *testing.T) (outputs []float32) {
	t.Helper()
	require.NoError(t, l.runtime.Reshape())
	values := map[xnnpack.ValueID][]byte{}
	buffer := func(v models.Value) *xnnpack.Buffer {
		size, err := v.ByteSize()
		require.NoError(t, err)
		b, err := xnnpack.NewBuffer(size)
		require.NoError(t, err)
		t.Cleanup(b.Free)
		values[v.ID] = b.Bytes()
		return b
	}
	for _, v := range l.model.Inputs() {
		b := buffer(v).Bytes()
		for i := 0; i < len(b); i += 4 {
			binary.LittleEndian.PutUint32(b[i:], math.Float32bits(float32(i%97)/97))
		}
	}
	var out []*xnnpack.Buffer
	for _, v := range l.model.Outputs() {
		out = append(out, buffer(v))
	}
	require.NoError(t, l.runtime.Setup(values))
	require.NoError(t, l.runtime.Invoke())
	for _, b := range out {
		outputs = append(outputs, b.Float32s()...)
	}
	require.NotEmpty(t, outputs)
	return outputs
}

// close returns what the cache did.
func (l *loaded) close(t *testing.T) xpwc.Stats {
	t.Helper()
	require.NoError(t, l.runtime.Delete())
	require.NoError(t, l.session.Close())
	require.NoError(t, l.model.Close())
	require.NoError(t, l.cache.Close())
	return l.cache.Stats()
}

// run loads, infers and closes.
func run(t *testing.T, model, cache string) ([]float32, xpwc.Stats) {
	t.Helper()
	l := load(t, model, cache)
	outputs := l.infer(t)
	return outputs, l.close(t)
}

// pack makes a cache file of the model on this machine.
func pack(t *testing.T) (cache string, outputs []float32) {
	t.Helper()
	cache = filepath.Join(t.TempDir(), "packed.xpwc")
	outputs, stats := run(t, modelFile(t), cache)
	require.NotZero(t, stats.Packed.Entries)
	return cache, outputs
}

// packOn makes one on a machine with another CPU.
func packOn(t *testing.T, level, model string) (cache string) {
	t.Helper()
	if !slices.Contains(xnnpack.CPULevels(), level) {
		t.Skipf("there is no CPU level %s on %s", level, runtime.GOARCH)
	}
	cache = filepath.Join(t.TempDir(), level+".xpwc")
	runNode(t, level, "TestNodeRunsTheModel", envCache+"="+cache, envModel+"="+model)
	return cache
}

// TestNodeRunsTheModel is what packOn has done in another process.
func TestNodeRunsTheModel(t *testing.T) {
	if os.Getenv(envNode) == "" {
		t.Skip("it is a part of other tests")
	}
	run(t, os.Getenv(envModel), os.Getenv(envCache))
}

// layoutOf returns the only layout of a cache file.
func layoutOf(t *testing.T, cache string) registry.Fingerprint {
	t.Helper()
	layouts := layoutsOf(t, cache)
	require.Len(t, layouts, 1)
	return layouts[0]
}

func layoutsOf(t *testing.T, cache string) (layouts []registry.Fingerprint) {
	t.Helper()
	for _, l := range infoOf(t, cache).Layouts {
		layouts = append(layouts, l.Fingerprint)
	}
	return layouts
}

func infoOf(t *testing.T, cache string) cachefile.Info {
	t.Helper()
	f, err := cachefile.Open(cache)
	require.NoError(t, err)
	defer f.Close()
	info, err := f.Info()
	require.NoError(t, err)
	return info
}
