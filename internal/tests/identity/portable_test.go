//go:build cgo

package identity

import (
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/cachefile"
	"xpwc/internal/format"
	"xpwc/internal/output"
	"xpwc/internal/tests/harness"
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
	info, err := files[0].Info()
	require.NoError(t, err)
	image, err := cachefile.Combine(files, info.Layouts[0].Fingerprint)
	require.NoError(t, err)
	require.NoError(t, output.Write(path, func(file *os.File) error {
		return cachefile.Install(file, func(w io.Writer) error {
			_, err := io.Copy(w, image.Reader())
			return err
		}, func(info *cachefile.Info) error {
			l := &info.Layouts[0]
			l.Evidence = format.SeenHere(l.Fingerprint, l.Families, "") // as a pull does
			return nil
		})
	}))
	return path
}

func TestEntriesOfAnotherMachineAreComparedOnce(t *testing.T) {
	var digests atomic.Int64
	tensors := harness.ThreeLayers.Weights(1)
	packed := harness.Path(t)
	c := harness.OpenCache(t, packed, nil)
	harness.ThreeLayers.Run(t, c, fineTune{tensors, "/elsewhere/model", &digests, ""})
	require.NoError(t, c.Close())

	path := broughtFrom(t, packed)
	run := func() xpwc.Stats {
		digests.Store(0)
		c := harness.OpenCache(t, path, nil)
		data := fineTune{tensors, "/here/model", &digests, ""}
		require.Equal(t, harness.ThreeLayers.Plain(t, tensors), harness.ThreeLayers.Run(t, c, data))
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

// A process must not overwrite newer stamps of another process with older ones of its own.
func TestNewerStampsOfAnotherProcessStay(t *testing.T) {
	const name, envStamp = "TestNewerStampsOfAnotherProcessStay", "XPWC_TEST_STAMP"
	var digests atomic.Int64
	tensors := harness.ThreeLayers.Weights(1)
	model := func(stamp string) fineTune { return fineTune{tensors, "/model", &digests, stamp} }
	if dir := os.Getenv(harness.EnvDir); dir != "" {
		c := harness.OpenCache(t, filepath.Join(dir, "cache"), nil)
		harness.ThreeLayers.Run(t, c, model(os.Getenv(envStamp)))
		require.NoError(t, c.Close())
		return
	}
	dir := t.TempDir()
	harness.InProcess(t, name, harness.EnvDir+"="+dir, envStamp+"=1")
	c := harness.OpenCache(t, filepath.Join(dir, "cache"), nil)
	open := harness.ThreeLayers.Open(t, c, model("2"))
	require.NoError(t, c.Save())
	harness.InProcess(t, name, harness.EnvDir+"="+dir, envStamp+"=3")
	harness.ThreeLayers.Run(t, c, fineTune{harness.ThreeLayers.Weights(2), "/another", &digests, ""})
	require.NoError(t, c.Save())
	open.MustClose(t)
	require.NoError(t, c.Close())

	c = harness.OpenCache(t, filepath.Join(dir, "cache"), nil)
	digests.Store(0)
	harness.ThreeLayers.Run(t, c, model("3"))
	require.NoError(t, c.Close())
	require.Zero(t, digests.Load(), "nothing had to be read")
}

// Machines of one image have equal stamps for files that differ.
func TestAStampOfAnotherMachineIsNotTrusted(t *testing.T) {
	var digests atomic.Int64
	theirs, mine := harness.ThreeLayers.Weights(1), harness.ThreeLayers.Weights(2)
	packed := harness.Path(t)
	c := harness.OpenCache(t, packed, nil)
	harness.ThreeLayers.Run(t, c, fineTune{theirs, "/model", &digests, ""})
	require.NoError(t, c.Close())

	c = harness.OpenCache(t, broughtFrom(t, packed), nil)
	require.Equal(t, harness.ThreeLayers.Plain(t, mine), harness.ThreeLayers.Run(t, c, fineTune{mine, "/model",
		&digests, ""}))
	require.NoError(t, c.Close())
	require.EqualValues(t, 3, c.Stats().Packed.Entries)
}

// Each alone would be served; which of the two is meant, only packing shows.
func TestUnknownScalesOfTwoMachinesAreServedRight(t *testing.T) {
	var caches []string
	models := []twoScales{{scales: [2]float32{0.01, 0.01}}, {scales: [2]float32{0.02, 0.02}}}
	for _, m := range models {
		caches = append(caches, harness.Path(t))
		c := harness.OpenCache(t, caches[len(caches)-1], nil)
		m.run(t, c)
		require.NoError(t, c.Close())
	}
	c := harness.OpenCache(t, broughtFrom(t, caches...), nil)
	for _, m := range models {
		require.Equal(t, m.run(t, nil), m.run(t, c))
	}
	require.NoError(t, c.Close())
	require.Zero(t, c.Stats().Packed.Entries)
}
