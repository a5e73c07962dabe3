package crash

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"xpwc"
	"xpwc/internal/tests/harness"
	"xpwc/internal/tests/thindisk"
)

// forgetPages drops the clean pages of a file from the page cache, so that the system reads them again from the disk.
// It does not drop pages of other files: another test may rely on pages that are not on its disk.
func forgetPages(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	require.NoError(t, unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED))
	require.NoError(t, f.Close())
}

// A disk that cannot store blocks that it had promised: thin provisioning, or a failing device.
func TestADiskThatLosesWritesGivesNoWrongWeights(t *testing.T) {
	tensors := harness.Tensors(4, 500_000)
	dir, ballast := thindisk.Mount(t)
	path := filepath.Join(dir, "cache")
	original := harness.Tensors(1, 1000)

	c := harness.Open(t, path, nil)
	harness.PackTensors(t, c, original).MustClose(t)
	require.NoError(t, c.Save())
	thindisk.Sync(t, dir)
	thindisk.FillUp(t, ballast)

	opened := harness.PackTensors(t, c, tensors)
	err := c.Save()
	require.Error(t, err, "the disk has no space")
	forgetPages(t, path+".damaged")
	require.ErrorIs(t, opened.Err(), xpwc.ErrLost)
	t.Logf("save: %v", err)

	require.NoError(t, os.Remove(ballast))
	require.NoError(t, c.Save(), "nothing is tried again")
	require.NoError(t, opened.Close())
	require.NoError(t, c.Close())

	c = harness.Open(t, path, &xpwc.Options{Strict: true, Verify: xpwc.VerifyOnUse})
	opened = harness.PackTensors(t, c, tensors)
	require.Zero(t, c.Stats().DamagedPayloads)
	t.Logf("the next process: %d found, %d packed", c.Stats().Hits.Entries, c.Stats().Packed.Entries)
	opened.MustClose(t)
	require.NoError(t, c.Close())
}

// What the system has written by itself, and could not, is known before the commit's flush: no output is given that was
// computed meanwhile.
func TestASessionReportsLostPagesBeforeTheCommit(t *testing.T) {
	dir, ballast := thindisk.Mount(t)
	path := filepath.Join(dir, "cache")
	c := harness.Open(t, path, nil)
	harness.PackTensors(t, c, harness.Tensors(1, 1000)).MustClose(t)
	require.NoError(t, c.Save())
	thindisk.Sync(t, dir)
	thindisk.FillUp(t, ballast)

	opened := harness.PackTensors(t, c, harness.Tensors(4, 500_000))
	harness.HoldCommits(c)
	require.NoError(t, opened.Err(), "nothing was written yet")
	f, err := os.Open(dir)
	require.NoError(t, err)
	_ = unix.Syncfs(int(f.Fd())) // as the system does by itself; somebody else is given the error
	require.NoError(t, f.Close())
	require.ErrorIs(t, opened.Err(), xpwc.ErrLost)
	require.NoError(t, opened.Close())
	require.NoError(t, os.Remove(ballast))
	require.Error(t, c.Save())
	require.NoError(t, c.Close())
}

// mountOverlay mounts an overlay over a directory. upper is where what is written goes.
func mountOverlay(t *testing.T, lower string) (dir, upper string) {
	t.Helper()
	scratch := t.TempDir()
	thindisk.MountTmpfs(t, scratch, "16m")
	t.Cleanup(func() { require.NoError(t, unix.Unmount(scratch, unix.MNT_DETACH)) })
	dir, upper = filepath.Join(scratch, "merged"), filepath.Join(scratch, "upper")
	work := filepath.Join(scratch, "work")
	for _, d := range []string{dir, upper, work} {
		require.NoError(t, os.Mkdir(d, 0o700))
	}
	require.NoError(t, unix.Mount("overlay", dir, "overlay", 0, "lowerdir="+lower+",upperdir="+upper+",workdir="+work))
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, 0)) })
	return dir, upper
}

// A container's image has the cache file in a lower layer, which is copied whole as soon as it is opened for writing.
func TestAWarmStartInAContainerCopiesNothing(t *testing.T) {
	lower := t.TempDir()
	m := harness.Tensors(3, 10_000)
	c := harness.Open(t, filepath.Join(lower, "cache"), nil)
	harness.PackTensors(t, c, m).MustClose(t)
	require.NoError(t, c.Close())

	dir, upper := mountOverlay(t, lower)
	copied := filepath.Join(upper, "cache")
	c = harness.Open(t, filepath.Join(dir, "cache"), nil)
	s, err := c.NewSession(stamped{m, "another stamp than it was packed with"})
	require.NoError(t, err)
	for name := range m {
		_, hit := harness.PackWeight(t, s, 42, harness.Load(t, s, name), 0, harness.PackedFrom(m[name]))
		require.True(t, hit)
	}
	harness.Finish(t, s)
	require.NoError(t, c.Save())
	require.NoFileExists(t, copied)

	m["new"] = harness.Content("new", 1000)
	harness.PackTensors(t, c, m).MustClose(t)
	require.NoError(t, c.Close())
	require.FileExists(t, copied, "it is written with the first miss")
	c = harness.Open(t, filepath.Join(dir, "cache"), &xpwc.Options{Strict: true, ReadOnly: true})
	harness.PackTensors(t, c, m).MustClose(t)
	require.Zero(t, c.Stats().Misses)
	require.NoError(t, c.Close())
}

// stamped gives tensors a source and a stamp.
type stamped struct {
	tensors map[string][]byte
	stamp   string
}

func (d stamped) Tensor(name string) (xpwc.Tensor, error) {
	t, err := xpwc.MapOf(d.tensors).Tensor(name)
	t.Identity.Source, t.Identity.Stamp = "model", d.stamp+name
	return t, err
}
