package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/tests/modeltest"
	"xpwc/internal/tests/testkit"
)

// languageModel is a .tflite file of six signatures for inputs of other lengths. Each has kernels of 64 x 64 and biases
// in tensors of its own, over the same three buffers.
func languageModel(t *testing.T) (path string, signatures []string) {
	t.Helper()
	const side = 64
	var buffers [][]byte
	for i, n := range []int{side * side, side * side, side} {
		var b []byte
		for k := range n {
			x := float32(math.Sin(float64(k*(i+1)))) / 8
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
		}
		buffers = append(buffers, b)
	}
	var written []modeltest.Signature
	for _, rows := range []int{64, 32, 16, 8, 4, 1} {
		layer := func(name string, buffer int) modeltest.Layer {
			return modeltest.Layer{
				Operator: modeltest.FullyConnected,
				Kernel:   modeltest.Tensor{Name: name, Buffer: buffer, Shape: []int32{side, side}},
				Bias:     &modeltest.Tensor{Name: name + " bias", Buffer: 2, Shape: []int32{side}},
			}
		}
		name := fmt.Sprint("length ", rows)
		signatures = append(signatures, name)
		written = append(written, modeltest.Signature{Name: name, Prefix: name + "/", Rows: rows,
			Layers: []modeltest.Layer{layer("up", 0), layer("down", 1)}})
	}
	return testkit.Settled(t, modeltest.WriteSignatures(t, buffers, written...)), signatures
}

func TestAProcessForEachSignaturePacksNothingAfterTheFirst(t *testing.T) {
	model, signatures := languageModel(t)
	backward := slices.Clone(signatures)
	slices.Reverse(backward)
	for _, order := range [][]string{signatures, backward} {
		dir := t.TempDir()
		var size int64
		for i, name := range order {
			plain, _ := runJSON(t, dir, model, "--method", name)
			cached, _ := runJSON(t, dir, model, "--method", name, "--cache", "c.xpwc")
			require.Equal(t, plain.Outputs, cached.Outputs, name)
			if i == 0 {
				require.EqualValues(t, 2, cached.Cache.Packed)
				size = sizeOf(filepath.Join(dir, "c.xpwc"))
				continue
			}
			require.Zero(t, cached.Cache.Packed, name)
			require.EqualValues(t, 2, cached.Cache.Hits, name)
			require.Equal(t, size, sizeOf(filepath.Join(dir, "c.xpwc")), name)
		}
	}
}

func TestProcessesThatStartEachSignatureAtOnceShareOneFile(t *testing.T) {
	testkit.SkipWithRace(t)
	model, signatures := languageModel(t)
	dir := t.TempDir()
	var running sync.WaitGroup
	reports := make([]runReport, len(signatures))
	for i, name := range signatures {
		running.Go(func() { reports[i], _ = runJSON(t, dir, model, "--method", name, "--cache", "c.xpwc") })
	}
	running.Wait()
	for i, name := range signatures {
		plain, _ := runJSON(t, dir, model, "--method", name)
		require.Equal(t, plain.Outputs, reports[i].Outputs, name)
		warm, _ := runJSON(t, dir, model, "--method", name, "--cache", "c.xpwc")
		require.Zero(t, warm.Cache.Packed, name)
	}
	alone := t.TempDir()
	runJSON(t, alone, model, "--method", signatures[0], "--cache", "c.xpwc")
	require.Equal(t, sizeOf(filepath.Join(alone, "c.xpwc")), sizeOf(filepath.Join(dir, "c.xpwc")))
}

func TestPackPacksWhatSignaturesShareOnce(t *testing.T) {
	model, signatures := languageModel(t)
	dir := t.TempDir()
	for file, flags := range map[string][]string{"c.xpwc": nil, "sealed.xpwc": {"--sealed"}} {
		report := packJSON(t, dir, append([]string{model, "-o", file}, flags...)...)
		require.EqualValues(t, 2, report.Levels[0].Packed)
		require.Equal(t, 2, report.Entries)
		original, err := os.ReadFile(filepath.Join(dir, file))
		require.NoError(t, err)
		for _, name := range signatures {
			warm, _ := runJSON(t, dir, model, "--method", name, "--cache", file)
			require.Zero(t, warm.Cache.Packed, name)
			require.Zero(t, warm.Cache.Private, name)
		}
		final, err := os.ReadFile(filepath.Join(dir, file))
		require.NoError(t, err)
		require.True(t, bytes.Equal(original, final))
		printed(t, dir, 0, "verify", file, "--model", model)
		require.Contains(t, printed(t, dir, 0, "inspect", file), signatures[0]+"/up", "it has the name of a tensor")
	}
}
