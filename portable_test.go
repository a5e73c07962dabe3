//go:build cgo

package xpwc_test

import (
	"io"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/cachefile"
)

// broughtFrom makes a file of other machines' caches, as a registry would bring it here.
func broughtFrom(t *testing.T, caches ...string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "brought.xpwc")
	var files []*cachefile.File
	for _, cache := range caches {
		f, err := cachefile.Open(cache)
		require.NoError(t, err)
		defer f.Close()
		files = append(files, f)
	}
	image, err := cachefile.Combine(files, nil, nil)
	require.NoError(t, err)
	require.NoError(t, cachefile.Install(path, func(w io.Writer) error {
		_, err := io.Copy(w, image.Reader())
		return err
	}, nil, nil))
	return path
}

func TestWhatAnotherMachinePackedIsComparedOnceAndThenKnownByItsStamps(t *testing.T) {
	var digests atomic.Int64
	tensors := threeLayers.weights(1)
	packed := cachePath(t)
	c := openCache(t, packed, nil)
	threeLayers.run(t, c, fineTune{tensors, "/elsewhere/model", &digests})
	require.NoError(t, c.Close())

	path := broughtFrom(t, packed)
	run := func() xpwc.Stats {
		digests.Store(0)
		c := openCache(t, path, nil)
		data := fineTune{tensors, "/here/model", &digests}
		require.Equal(t, threeLayers.plain(t, tensors), threeLayers.run(t, c, data))
		require.NoError(t, c.Close())
		require.Zero(t, c.Stats().Packed)
		require.EqualValues(t, 3, c.Stats().Hits.Entries)
		return c.Stats()
	}
	require.NotZero(t, run().WrittenBytes)
	require.NotZero(t, digests.Load())
	require.Zero(t, run().WrittenBytes)
	require.Zero(t, digests.Load())
}

// Machines of one image have equal stamps for files that differ.
func TestAStampOfAnotherMachineIsNoEvidence(t *testing.T) {
	var digests atomic.Int64
	theirs, mine := threeLayers.weights(1), threeLayers.weights(2)
	packed := cachePath(t)
	c := openCache(t, packed, nil)
	threeLayers.run(t, c, fineTune{theirs, "/model", &digests})
	require.NoError(t, c.Close())

	c = openCache(t, broughtFrom(t, packed), nil)
	require.Equal(t, threeLayers.plain(t, mine), threeLayers.run(t, c, fineTune{mine, "/model", &digests}))
	require.NoError(t, c.Close())
	require.EqualValues(t, 3, c.Stats().Packed.Entries)
}

// Each alone would be served; which of the two is meant, only packing tells.
func TestTwoMachinesPackingsOfOneKernelWithScalesNobodyToldAreBothServedRight(t *testing.T) {
	var caches []string
	models := []twoScales{{scales: [2]float32{0.01, 0.01}}, {scales: [2]float32{0.02, 0.02}}}
	for _, m := range models {
		caches = append(caches, cachePath(t))
		c := openCache(t, caches[len(caches)-1], nil)
		m.run(t, c)
		require.NoError(t, c.Close())
	}
	c := openCache(t, broughtFrom(t, caches...), nil)
	for _, m := range models {
		require.Equal(t, m.run(t, nil), m.run(t, c))
	}
	require.NoError(t, c.Close())
	require.Zero(t, c.Stats().Packed.Entries)
}
