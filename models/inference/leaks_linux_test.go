//go:build cgo

package inference_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/models"
	"xpwc/models/executorch"
	"xpwc/models/inference"
	"xpwc/models/tflite"
	"xpwc/xnnpack"
)

// held returns what this process has open or mapped of the files in a directory.
func held(t *testing.T, dir string) (files []string) {
	t.Helper()
	descriptors, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	for _, d := range descriptors {
		path, err := os.Readlink(filepath.Join("/proc/self/fd", d.Name()))
		if err == nil && strings.HasPrefix(path, dir) { // the one that lists them is gone
			files = append(files, "open: "+path)
		}
	}
	mappings, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	for line := range strings.Lines(string(mappings)) {
		if strings.Contains(line, dir) {
			files = append(files, "mapped: "+line)
		}
	}
	return files
}

// shaped has an input of another shape than its subgraph, or an output, or other constants.
type shaped struct {
	models.Model
	input, output []int
	data          xpwc.DataMap
}

func (m shaped) DataMap() xpwc.DataMap {
	if m.data != nil {
		return m.data
	}
	return m.Model.DataMap()
}

func (m shaped) Inputs() []models.Value  { return m.reshape(m.Model.Inputs(), m.input) }
func (m shaped) Outputs() []models.Value { return m.reshape(m.Model.Outputs(), m.output) }

func (shaped) reshape(values []models.Value, shape []int) []models.Value {
	if shape != nil {
		values[0].Shape = shape
	}
	return values
}

// tooShort is a data map whose tensors have one byte.
type tooShort struct{}

func (tooShort) Tensor(string) (xpwc.Tensor, error) { return xpwc.Tensor{Data: make([]byte, 1)}, nil }

// anonymous returns how many KiB of anonymous memory this process has.
func anonymous(t *testing.T) (kib int) {
	t.Helper()
	debug.FreeOSMemory()
	status, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(status), "RssAnon:")
	require.True(t, ok)
	kib, err = strconv.Atoi(strings.Fields(rest)[0])
	require.NoError(t, err)
	return kib
}

func TestMemoryOfOldVersionsGoesBackToTheSystem(t *testing.T) {
	if testing.Short() {
		t.Skip("loads 80 instances")
	}
	full := filepath.Join(filepath.Dir(pose), "pose_landmark_full.tflite")
	baseline := anonymous(t)
	r, err := tflite.Load(full, cacheFile(t), &tflite.Options{Options: inference.Options{Instances: 4}})
	require.NoError(t, err)
	loaded := anonymous(t)
	for range 20 {
		m, err := tflite.Open(full, nil)
		require.NoError(t, err)
		require.NoError(t, r.Reload(m))
	}
	require.Less(t, anonymous(t)-baseline, 2*(loaded-baseline), "after twenty versions, one is in memory")
	require.NoError(t, r.Close())
	require.Less(t, anonymous(t), loaded)
}

func TestNothingOfAModelOrItsCacheStaysOpenOrMapped(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	copyPath := func(name string) string { return filepath.Join(dir, name) }
	copied := func(name, src string, change func(content []byte) []byte) string {
		content, err := os.ReadFile(src)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(copyPath(name), change(content), 0o600))
		return copyPath(name)
	}
	whole := func(b []byte) []byte { return b }
	half := func(b []byte) []byte { return b[:len(b)/2] }
	model, program := copied("model.tflite", pose, whole), copied("model.pte", mlp, whole)
	cutModel, cutProgram := copied("cut.tflite", pose, half), copied("cut.pte", mlp, half)
	file := copyPath("cache")
	for _, r := range []func() (*inference.Runner, error){
		func() (*inference.Runner, error) { return tflite.Load(model, file, nil) },
		func() (*inference.Runner, error) { return executorch.Load(program, file, allUseTheFile) },
		func() (*inference.Runner, error) { return tflite.Load(model, "", nil) },
	} {
		r, err := r()
		require.NoError(t, err)
		require.NotEmpty(t, held(t, dir))
		require.NoError(t, r.Close())
		require.Empty(t, held(t, dir))
	}
	damaged := copied("damaged", file, func(b []byte) []byte {
		return append(b[:4096], bytes.Repeat([]byte{1}, len(b))...)
	})
	loadWith := func(o inference.Options) func() (*inference.Runner, error) {
		return func() (*inference.Runner, error) { return tflite.Load(model, file, &tflite.Options{Options: o}) }
	}
	loadModel := func(m shaped) func() (*inference.Runner, error) {
		return func() (r *inference.Runner, err error) {
			if m.Model, err = tflite.Open(model, nil); err != nil {
				return nil, err
			}
			return inference.Load(m, file, nil)
		}
	}
	for name, load := range map[string]func() (*inference.Runner, error){
		"half a model":   func() (*inference.Runner, error) { return tflite.Load(cutModel, file, nil) },
		"half a program": func() (*inference.Runner, error) { return executorch.Load(cutProgram, file, allUseTheFile) },
		"constants in half a file": func() (*inference.Runner, error) {
			return executorch.Load(program, file,
				&executorch.Options{Options: allUseTheFile.Options, Data: []string{cutProgram}})
		},
		"a method that is not there": func() (*inference.Runner, error) {
			return executorch.Load(program, file,
				&executorch.Options{Options: allUseTheFile.Options, Method: "backward"})
		},
		"a damaged cache": func() (*inference.Runner, error) {
			return tflite.Load(model, damaged,
				&tflite.Options{Options: inference.Options{CacheOptions: &xpwc.Options{Strict: true}}})
		},
		"a cache that is a model": func() (*inference.Runner, error) {
			return tflite.Load(model, model,
				&tflite.Options{Options: inference.Options{CacheOptions: &xpwc.Options{Strict: true}}})
		},
		"no threads":                loadWith(inference.Options{Threads: -1}),
		"constants that nobody has": loadModel(shaped{data: noModel{}}),
		"constants that are short":  loadModel(shaped{data: tooShort{}}),
		"an input of no size":       loadModel(shaped{input: []int{-1, 256, 256, 3}}),
		"an input beyond numbers":   loadModel(shaped{input: []int{1, 1 << 30, 1 << 30, 3}}),
		"an input beyond memory":    loadModel(shaped{input: []int{1, 1 << 22, 1 << 20, 3}}),
		"an input that is short":    loadModel(shaped{input: []int{1, 2, 2, 3}}),
		"an output that is short":   loadModel(shaped{output: []int{1}}),
	} {
		_, err := load()
		require.Error(t, err, name)
		require.Empty(t, held(t, dir), name)
	}
}

func TestASmallInputOfADynamicProgramTakesTheMemoryOfItsShape(t *testing.T) {
	const largestShape = 128 << 10 // KiB of values between the layers for images of 1024 by 1024
	baseline := anonymous(t)
	r, err := executorch.Load("../executorch/testdata/dynamic/image_large.pte", "", nil)
	if errors.Is(err, xnnpack.ErrKnownDefect) {
		t.Skip(err)
	}
	require.NoError(t, err)
	_, err = r.Run(t.Context(), inference.Tensor{Shape: []int{1, 3, 64, 64}, Data: make([]float32, 3*64*64)})
	require.NoError(t, err)
	require.Less(t, anonymous(t)-baseline, largestShape/4)
	require.NoError(t, r.Close())
}
