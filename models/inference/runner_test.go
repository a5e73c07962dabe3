//go:build cgo

package inference_test

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/tests/testkit"
	"xpwc/models"
	"xpwc/models/executorch"
	"xpwc/models/inference"
	"xpwc/models/tflite"
	"xpwc/xnnpack"
)

// Models that the other packages' tests have: a MediaPipe model; a program that computes (token + 0.5*(n+1)) * bit of
// [2 3] tokens of int64, n of int8 and bits, as float32 and as int8; two fully connected layers with a dynamic batch.
var (
	pose   = filepath.Join("..", "..", "third_party", "models", "pose_landmark_lite.tflite")
	tokens = filepath.Join("..", "executorch", "testdata", "tokens.pte")
	mlp    = filepath.Join("..", "executorch", "testdata", "programs", "mlp_dyn_fp32.pte")
)

// allUseTheFile has models as small as these programs use the cache file.
var allUseTheFile = &executorch.Options{Options: inference.Options{CacheFrom: 1}}

func cacheFile(t testing.TB) string { return filepath.Join(t.TempDir(), "model.xpwc") }

func load(t testing.TB, pte string) *inference.Runner {
	t.Helper()
	r, err := executorch.Load(pte, cacheFile(t), allUseTheFile)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r
}

// sequence returns numbers that differ.
func sequence(n int) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(i%251)/251 - 0.5
	}
	return out
}

func TestInputsAndOutputsAreSlicesOfTheDeclaredTypes(t *testing.T) {
	r := load(t, tokens)
	for i, want := range []models.Element{models.Int64, models.Int8, models.Bool} {
		require.Equal(t, want, r.Inputs()[i].Element())
	}
	n := []int8{0, 0, 2, -1, 0, 7}
	got, err := r.Run(t.Context(), []int64{-3, 0, 5, 16777216, 7, 1}, n, []bool{true, false, true, true, true, false})
	require.NoError(t, err)
	require.Equal(t, []int{2, 3}, got[0].Shape)
	require.Equal(t, []float32{-2.5, 0, 6.5, 16777216, 7.5, 0}, got[0].Data)
	require.Equal(t, []int8{2, 3, 6, 127, 7, 3}, got[1].Data, "in steps of 2, 3 is 0")
	require.Equal(t, float32(2), r.Outputs()[1].Quantization.Scale)

	saved := slices.Clone(got[0].Data.([]float32))
	_, err = r.Run(t.Context(), make([]int64, 6), n, make([]bool, 6))
	require.NoError(t, err)
	require.Equal(t, saved, got[0].Data, "outputs are the caller's own")
}

func TestWrongInputsAreErrorsThatNameThem(t *testing.T) {
	r := load(t, tokens)
	ints, small, bits := make([]int64, 6), make([]int8, 6), make([]bool, 6)
	type ints64 []int64
	for _, c := range []struct {
		inputs []any
		err    error
		text   string
	}{
		{nil, inference.ErrInputCount, `0, not 3: "input 0", []int64 of shape [2 3]; "input 1", []int8`},
		{[]any{ints, small}, inference.ErrInputCount, "2, not 3"},
		{[]any{ints, small, bits, bits}, inference.ErrInputCount, "4, not 3"},
		{[]any{make([]float32, 6), small, bits}, inference.ErrInputType,
			`"input 0": []float32, not []int64 of shape [2 3]`},
		{[]any{ints64(ints), small, bits}, inference.ErrInputType, `"input 0": inference_test.ints64, not []int64`},
		{[]any{ints, make([]uint8, 6), bits}, inference.ErrInputType, `"input 1": []uint8, not []int8`},
		{[]any{ints, small, nil}, inference.ErrInputType, `"input 2": <nil>, not []bool`},
		{[]any{ints[:5], small, bits}, inference.ErrInputSize,
			`"input 0": 5 elements, not those of []int64 of shape [2 3]`},
		{[]any{ints, make([]int8, 7), bits}, inference.ErrInputSize, `"input 1": 7 elements`},
		{[]any{ints[:0], small, bits}, inference.ErrInputSize, `"input 0": 0 elements`},
		{[]any{ints[:3], small, bits}, inference.ErrInputSize, `"input 0": 3 elements`},
	} {
		_, err := r.Run(t.Context(), c.inputs...)
		require.ErrorIs(t, err, c.err)
		require.ErrorContains(t, err, c.text)
	}
	_, err := r.Run(t.Context(), ints, small, bits)
	require.NoError(t, err, "a refused input does no harm")
}

func TestADynamicInputHasAsManyRowsAsItsLengthMakes(t *testing.T) {
	r := load(t, mlp)
	in, out := r.Inputs()[0], r.Outputs()[0]
	require.True(t, in.Dynamic)
	rows, width, results := in.Shape[0], in.Shape[1], out.Shape[1]
	require.Greater(t, rows, 2)
	input := sequence(rows * width)
	whole, err := r.Run(t.Context(), input)
	require.NoError(t, err)
	require.Equal(t, []int{rows, results}, whole[0].Shape)
	want := whole[0].Data.([]float32)
	for _, n := range []int{1, rows, 2, 2, rows - 1, rows} {
		part, err := r.Run(t.Context(), input[:n*width])
		require.NoError(t, err)
		require.Equal(t, []int{n, results}, part[0].Shape)
		require.Len(t, part[0].Data, n*results)
		require.InDeltaSlice(t, want[:n*results], part[0].Data, 1e-5)
	}
	for _, n := range []int{0, 1, width + 1, (rows + 1) * width} {
		_, err := r.Run(t.Context(), make([]float32, n))
		require.ErrorIs(t, err, inference.ErrInputSize)
		require.ErrorContains(t, err, "or smaller")
	}
	repeated, err := r.Run(t.Context(), input)
	require.NoError(t, err)
	require.Equal(t, whole, repeated)
}

func TestManyLoadsOfOneCacheFileAtOncePackOnceAndComputeTheSame(t *testing.T) {
	file, picture := cacheFile(t), sequence(256*256*3)
	alone, err := tflite.Load(pose, cacheFile(t), nil)
	require.NoError(t, err)
	want, err := alone.Run(t.Context(), picture)
	require.NoError(t, err)
	require.NoError(t, alone.Close())
	runners := make([]*inference.Runner, 4)
	var group sync.WaitGroup
	for i := range runners {
		group.Go(func() {
			r, err := tflite.Load(pose, file, &inference.Options{Threads: 1 + i%2})
			if err == nil {
				runners[i] = r
				var got []inference.Result
				got, err = r.Run(t.Context(), picture)
				if err == nil && !slices.Equal(want[0].Data.([]float32), got[0].Data.([]float32)) {
					t.Error("other outputs")
				}
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	for _, r := range runners {
		require.NotNil(t, r)
	}
	require.Empty(t, runners[0].Cache().Stats().Private)
	for i := range runners {
		require.NoError(t, runners[i].Close())
	}
	next, err := tflite.Load(pose, file, nil)
	require.NoError(t, err)
	got, err := next.Run(t.Context(), picture)
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.NoError(t, next.Close())
	require.Zero(t, next.Cache().Stats().Packed)
	require.Equal(t, alone.Cache().Stats().PayloadBytes, next.Cache().Stats().PayloadBytes, "each is once in the file")
}

func TestOneRunnerServesManyGoroutinesUntilItIsClosed(t *testing.T) {
	r, err := executorch.Load(mlp, cacheFile(t), allUseTheFile)
	require.NoError(t, err)
	rows, width := r.Inputs()[0].Shape[0], r.Inputs()[0].Shape[1]
	wants := make([]any, rows)
	input := func(n int) []float32 { return sequence((rows + n) * width)[:(n+1)*width] }
	for n := range rows {
		outputs, err := r.Run(t.Context(), input(n))
		require.NoError(t, err)
		wants[n] = outputs[0].Data
	}
	var computed atomic.Int64
	var group sync.WaitGroup
	for g := range 4 {
		group.Go(func() {
			for i := g; ; i++ {
				outputs, err := r.Run(t.Context(), input(i%rows))
				if err != nil {
					if !errors.Is(err, xpwc.ErrClosed) {
						t.Error(err)
					}
					return
				}
				if !slices.Equal(wants[i%rows].([]float32), outputs[0].Data.([]float32)) {
					t.Error("the outputs of another goroutine")
				}
				if computed.Add(1) == 200 {
					group.Go(func() {
						if err := r.Close(); err != nil {
							t.Error(err)
						}
					})
				}
			}
		})
	}
	group.Wait()
	require.GreaterOrEqual(t, computed.Load(), int64(200))
}

func TestARunnerThatIsClosedComputesNothing(t *testing.T) {
	r, err := executorch.Load(tokens, cacheFile(t), allUseTheFile)
	require.NoError(t, err)
	require.NoError(t, r.Close())
	require.NoError(t, r.Close())
	_, err = r.Run(t.Context(), make([]int64, 6), make([]int8, 6), make([]bool, 6))
	require.ErrorIs(t, err, xpwc.ErrClosed)
	require.Len(t, r.Inputs(), 3)
	require.ErrorIs(t, r.Cache().Save(), xpwc.ErrClosed)
}

// counted counts how often a model is closed, and may have another type of input.
type counted struct {
	models.Model
	closed int
	kind   xnnpack.Datatype
}

func (m *counted) Close() error {
	m.closed++
	return m.Model.Close()
}

func (m *counted) Inputs() []models.Value {
	inputs := m.Model.Inputs()
	if m.kind != 0 {
		inputs[0].Type = m.kind
	}
	return inputs
}

func open(t testing.TB) *counted {
	t.Helper()
	m, err := tflite.Open(pose, nil)
	require.NoError(t, err)
	return &counted{Model: m}
}

func TestALoadThatFailsClosesTheModel(t *testing.T) {
	dir, strict := t.TempDir(), &inference.Options{CacheOptions: &xpwc.Options{Strict: true}}
	for name, c := range map[string]struct {
		file    string
		options *inference.Options
		kind    xnnpack.Datatype
		err     error
	}{
		"the cache is a directory":   {dir, strict, 0, xpwc.ErrNotCache},
		"no threads":                 {"", &inference.Options{Threads: -1}, 0, xnnpack.InvalidParameter},
		"a type that Go has not":     {"", nil, xnnpack.ChannelQInt4, models.ErrElement},
		"the directory is not there": {filepath.Join(dir, "none", "f"), strict, 0, os.ErrNotExist},
	} {
		t.Run(name, func(t *testing.T) {
			m := open(t)
			m.kind = c.kind
			_, err := inference.Load(m, c.file, c.options)
			require.ErrorIs(t, err, c.err)
			require.Equal(t, 1, m.closed)
		})
	}
	m := open(t)
	r, err := inference.Load(m, "", nil)
	require.NoError(t, err)
	require.Zero(t, m.closed)
	require.NoError(t, r.Close())
	require.NoError(t, r.Close())
	require.Equal(t, 1, m.closed)
}

// noModel is a data map without tensors.
type noModel struct{}

func (noModel) Tensor(string) (xpwc.Tensor, error) { return xpwc.Tensor{}, xpwc.ErrUnknownTensor }

func TestASmallModelDoesWithoutTheCacheFileUnlessItIsToldToUseIt(t *testing.T) {
	selfie := filepath.Join(filepath.Dir(pose), "selfie_segmentation.tflite")
	file, picture := cacheFile(t), sequence(256*256*3)
	var logged bytes.Buffer
	run := func(model string, threshold int64) (outputs []inference.Result, s xpwc.Stats) {
		logged.Reset()
		r, err := tflite.Load(model, file, &inference.Options{CacheFrom: threshold,
			CacheOptions: &xpwc.Options{Logger: slog.New(slog.NewTextHandler(&logged, nil))}})
		require.NoError(t, err)
		outputs, err = r.Run(t.Context(), picture)
		require.NoError(t, err)
		require.NoError(t, r.Close())
		return outputs, r.Cache().Stats()
	}
	want, s := run(selfie, 0)
	require.NoFileExists(t, file)
	require.NotZero(t, s.Packed.Entries, "into memory")
	require.Zero(t, s.FileBytes)
	require.Contains(t, logged.String(), "does without its cache file", "the log says why there is no file")
	require.Contains(t, logged.String(), file)
	for range 2 {
		got, s := run(selfie, 1)
		require.Equal(t, want, got)
		require.NotZero(t, s.FileBytes)
		require.NotContains(t, logged.String(), "does without")
	}
	got, s := run(selfie, 0)
	require.Equal(t, want, got)
	require.Zero(t, s.Hits.Entries, "the file that is there is not read")

	require.NoError(t, os.Remove(file))
	_, s = run(pose, 0)
	require.NotZero(t, s.FileBytes, "it has some MiB of weights")
	_, s = run(pose, 64<<20)
	require.Zero(t, s.Hits.Entries)
}

func TestWhatCannotBeWrittenIsPackedPrivately(t *testing.T) {
	file := cacheFile(t)
	r, err := tflite.Load(pose, file, &inference.Options{CacheOptions: &xpwc.Options{ReadOnly: true}})
	require.NoError(t, err)
	_, err = r.Run(t.Context(), sequence(256*256*3))
	require.NoError(t, err)
	require.NoError(t, r.Close())
	require.Positive(t, r.Cache().Stats().Private[xpwc.ReasonReadOnly].Entries)
	require.NoFileExists(t, file)
}

func TestAModelRunsWithoutACacheFileThatCannotBeUsed(t *testing.T) {
	picture := sequence(256 * 256 * 3)
	alone, err := tflite.Load(pose, "", nil)
	require.NoError(t, err)
	defer alone.Close()
	want, err := alone.Run(t.Context(), picture)
	require.NoError(t, err)
	dir, open := t.TempDir(), cacheFile(t)
	require.NoError(t, os.WriteFile(open, nil, 0o600))
	require.NoError(t, os.Chmod(open, 0o666))
	for name, file := range map[string]string{
		"a directory": dir, "in no directory": filepath.Join(dir, "none", "f"), "a model": pose, "for all": open,
	} {
		t.Run(name, func(t *testing.T) {
			var logged bytes.Buffer
			o := &inference.Options{CacheOptions: &xpwc.Options{Logger: slog.New(slog.NewTextHandler(&logged, nil))}}
			first, err := tflite.Load(pose, file, o)
			require.NoError(t, err)
			packed := first.Cache().Stats().Packed
			second, err := tflite.Load(pose, file, o)
			require.NoError(t, err)
			got, err := second.Run(t.Context(), picture)
			require.NoError(t, err)
			require.Equal(t, want, got)
			s := second.Cache().Stats()
			require.Error(t, s.Unusable)
			require.Equal(t, packed, s.Packed, "the second one finds what the first one packed")
			_, err = xpwc.Open(file, nil)
			require.Error(t, err, "it is an error for who does not say OrMemory")
			require.NoError(t, first.Close())
			require.NoError(t, second.Close())
			require.Equal(t, 1, strings.Count(logged.String(), "the cache file cannot be used"), logged.String())
		})
	}
}

func TestAModelIsLoadedThoughTheCacheFileCannotBeUsedAnyMore(t *testing.T) {
	file := cacheFile(t)
	first, err := tflite.Load(pose, file, nil)
	require.NoError(t, err)
	require.NoError(t, first.Cache().Save())
	for name, spoil := range map[string]func(path string) error{
		"a file for all": func(path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o600), os.Chmod(path, 0o666))
		},
		"a model": func(path string) error {
			content, err := os.ReadFile(pose)
			return errors.Join(err, os.WriteFile(path, content, 0o600))
		},
		"a directory": func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		require.NoError(t, os.RemoveAll(file))
		require.NoError(t, spoil(file))
		second, err := tflite.Load(pose, file, nil)
		require.NoError(t, err, name)
		require.NoError(t, second.Close(), name)
	}
	require.NoError(t, first.Close())
}

func TestAModelThatIsChangedWhileItIsPackedIsNotLoaded(t *testing.T) {
	content, err := os.ReadFile(pose)
	require.NoError(t, err)
	path, file := filepath.Join(t.TempDir(), "model.tflite"), cacheFile(t)
	require.NoError(t, os.WriteFile(path, content, 0o600))
	testkit.Settled(t, path)
	var once sync.Once
	o := &inference.Options{CacheOptions: &xpwc.Options{Progress: func(xpwc.Progress) {
		once.Do(func() {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err == nil {
				_, err = f.WriteAt(content[:1], 0)
			}
			if err != nil || f.Close() != nil {
				t.Error("the model cannot be overwritten: ", err)
			}
		})
	}}}
	_, err = tflite.Load(path, file, o)
	require.ErrorIs(t, err, xpwc.ErrSourceChanged)
	r, err := tflite.Load(path, file, &inference.Options{CacheOptions: &xpwc.Options{Strict: true}})
	require.NoError(t, err, "nothing of it is open any more, so other options do")
	require.NoError(t, r.Close())
}
