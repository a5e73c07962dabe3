package tflite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/xnnpack"
)

// packShare creates the runtime of a share with a session of its own, and deletes it.
func packShare(cache *xpwc.Cache, m *Model, share Share) error {
	session, err := cache.NewSession(m.DataMap())
	if err != nil {
		return err
	}
	s, err := share.Subgraph(session)
	if err != nil {
		return errors.Join(err, session.Close())
	}
	r, err := xnnpack.NewRuntime(s, &xnnpack.RuntimeOptions{WeightsCache: session})
	finalized := session.Finalize()
	if err == nil {
		err = r.Delete()
	}
	return errors.Join(err, finalized, s.Delete(), session.Close())
}

// packAllShares packs a model with a goroutine for each share.
func packAllShares(t *testing.T, m *Model, path string, n int) xpwc.Stats {
	t.Helper()
	cache, err := xpwc.Open(path, nil)
	require.NoError(t, err)
	shares := m.Shares(n)
	errs := make([]error, len(shares))
	var group sync.WaitGroup
	for i, s := range shares {
		group.Go(func() { errs[i] = packShare(cache, m, s) })
	}
	group.Wait()
	require.NoError(t, errors.Join(errs...))
	require.NoError(t, cache.Save())
	stats := cache.Stats()
	require.NoError(t, cache.Close())
	return stats
}

// loadWhole creates a runtime of the whole model, as any program does.
func loadWhole(t *testing.T, m *Model, path string) xpwc.Stats {
	t.Helper()
	cache, err := xpwc.Open(path, nil)
	require.NoError(t, err)
	require.NoError(t, packShare(cache, m, Share{model: m, plan: m.plan}))
	require.NoError(t, cache.Save())
	stats := cache.Stats()
	require.NoError(t, cache.Close())
	return stats
}

func TestSharesPackWhatAWholeLoadLooksUp(t *testing.T) {
	models, err := filepath.Glob(filepath.Join(filepath.Dir(modelPath(t, "selfie_segmentation.tflite")), "*.tflite"))
	require.NoError(t, err)
	require.NotEmpty(t, models)
	for _, path := range models {
		m := openModel(t, path)
		for _, n := range []int{1, 3, 1000} {
			t.Run(fmt.Sprintf("%s in %d", filepath.Base(path), n), func(t *testing.T) {
				dir := t.TempDir()
				alone := loadWhole(t, m, filepath.Join(dir, "alone.xpwc"))
				cache := filepath.Join(dir, "shares.xpwc")
				packed := packAllShares(t, m, cache, n)
				require.Equal(t, alone.Packed, packed.Packed)
				require.Empty(t, packed.Private)
				before, err := os.ReadFile(cache)
				require.NoError(t, err)

				warm := loadWhole(t, m, cache)
				require.Zero(t, warm.Packed)
				require.Zero(t, warm.WrittenBytes)
				require.Equal(t, alone.Packed.Entries, warm.Hits.Entries+warm.Reused.Entries)
				after, err := os.ReadFile(cache)
				require.NoError(t, err)
				require.Equal(t, before, after)
			})
		}
	}
}

func TestSharesAreOfAboutTheSameSize(t *testing.T) {
	m := openModel(t, modelPath(t, "pose_landmark_heavy.tflite"))
	all := m.Shares(1)
	require.Len(t, all, 1)
	for _, n := range []int{2, 4} {
		shares := m.Shares(n)
		require.Len(t, shares, n)
		var sum int64
		for _, s := range shares {
			require.LessOrEqual(t, s.Bytes(), shares[0].Bytes(), "the largest is the first")
			require.InDelta(t, all[0].Bytes()/int64(n), s.Bytes(), float64(all[0].Bytes())/20)
			sum += s.Bytes()
		}
		require.Equal(t, all[0].Bytes(), sum)
	}
	require.Empty(t, m.Shares(0))
	require.Empty(t, m.Shares(-1))
	require.Empty(t, openModel(t, save(t, new(single(blueOp{code: opAbs}, []int{2, 3})).bytes())).Shares(2))
}

// Two operators may pack one kernel alike or not, which only a runtime with both can see.
func TestOperatorsOfOneKernelComeIntoOneShare(t *testing.T) {
	one, other := constantOf("b", 4), constantOf("c", 4)
	m := single(blueOp{code: opFullyConnected, inputs: []int{0, 1, 2}}, []int{3, 4}, constantOf("k", 4, 4), one, other, constantOf("l", 4, 4))
	last := len(m.tensors) - 1
	for _, inputs := range [][]int{{last, 1, 3}, {last + 1, 1, 2}, {last + 2, 4, 2}} {
		m.tensors = append(m.tensors, m.tensors[last])
		m.tensors[len(m.tensors)-1].name = fmt.Sprint("output ", len(m.tensors))
		m.ops = append(m.ops, blueOp{code: opFullyConnected, inputs: inputs, outputs: []int{len(m.tensors) - 1}})
	}
	m.outputs = []int{len(m.tensors) - 1}
	model := openModel(t, save(t, m.bytes()))
	shares := model.Shares(4)
	require.Len(t, shares, 2)
	require.Len(t, shares[0].plan.steps, 3)
	require.EqualValues(t, 4*(4*4+3*4), shares[0].Bytes())

	path := filepath.Join(t.TempDir(), "cache.xpwc")
	packed := packAllShares(t, model, path, 4)
	require.EqualValues(t, 3, packed.Packed.Entries, "k with b, k with c, l with b")
	warm := loadWhole(t, model, path)
	require.Zero(t, warm.Packed)
	require.Zero(t, warm.WrittenBytes)
}
