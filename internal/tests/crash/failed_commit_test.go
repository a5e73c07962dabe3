package crash

import (
	"bytes"
	"errors"
	"os"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/mapped"
	"xpwc/internal/tests/harness"
	"xpwc/internal/tests/memdisk"
)

// While a session packs a tensor that has a segment of the file to itself, another's commit fails.
func TestACommitFailsWhileALargeTensorIsPacked(t *testing.T) {
	path := harness.Path(t)
	c, h := harness.OpenHooked(t, path, &xpwc.Options{WriterWait: -1})
	small, large := harness.Tensors(2, 3000), map[string][]byte{"large": harness.Content("large", 6<<20)}
	o := harness.PackTensors(t, c, small)
	harness.HoldCommits(c)
	s := harness.NewSession(t, c, large)
	packed := harness.PackedFrom(large["large"])
	space, err := harness.BeginPacking(s, "large", len(packed))
	require.NoError(t, err)
	half := copy(space, packed[:len(packed)/2])

	h.Flush = func(string) error { return syscall.EIO }
	require.ErrorIs(t, c.Save(), syscall.EIO)
	*h = harness.Hooks{}
	require.ErrorIs(t, o.Err(), xpwc.ErrLost)
	require.NoError(t, s.Err(), "it has handed in nothing yet")
	theirs := harness.OpenProcess(t, path)
	theirModel := map[string][]byte{"theirs": harness.Content("theirs", 1<<20)}
	theirPacked := harness.PackTensors(t, theirs, theirModel)
	require.Empty(t, theirs.Stats().Private, "others begin a new file at once")
	require.NoError(t, theirs.Save())

	require.NoError(t, mapped.Faultless(func() { copy(space[half:], packed[half:]) }), "XNNPACK packs on")
	harness.EndPacking(s, "large", space)
	require.ErrorIs(t, s.Err(), xpwc.ErrLost)
	require.ErrorIs(t, s.Finalize(), xpwc.ErrLost)
	require.NoError(t, c.Save(), "nothing is tried again")
	require.NoError(t, mapped.Faultless(func() { theirPacked.Check(t) }), "what another process has committed")
	require.NoError(t, errors.Join(s.Close(), o.Close(), theirPacked.Close(), theirs.Close(), c.Close()))
	reopened := harness.Open(t, path, &xpwc.Options{Strict: true, Verify: xpwc.VerifyOnUse})
	harness.PackTensors(t, reopened, theirModel).MustClose(t)
	require.Zero(t, reopened.Stats().Misses)
	require.EqualValues(t, 1, reopened.Stats().Entries)
}

// What is being packed when somebody learns that the disk has lost something may be lost, too, be it named or not.
func TestASessionReportsLostWeightsWhileAnotherPacks(t *testing.T) {
	for name, bias := range map[string]uintptr{"named": 0, "unnamed": 12345} {
		t.Run(name, func(t *testing.T) {
			c, h := harness.OpenHooked(t, harness.Path(t), nil)
			o := harness.PackTensors(t, c, harness.Tensors(2, 3000))
			harness.HoldCommits(c)
			s := harness.NewSession(t, c, map[string][]byte{"slow": harness.Content("slow", 3000)})
			packed := harness.PackedFrom(harness.Content("slow", 3000))
			space, err := harness.BeginPacking(s, "slow", len(packed))
			require.NoError(t, err)
			copy(space, packed)

			h.Failed = func() error { return syscall.EIO }
			require.ErrorIs(t, o.Err(), xpwc.ErrLost)
			h.Failed = nil
			require.NoError(t, s.Err(), "it has handed in nothing yet")
			harness.Insert(s, 42, harness.Address(harness.LoadedContent(s, "slow")), bias, harness.Address(space),
				uint64(len(space)))
			require.ErrorIs(t, s.Finalize(), xpwc.ErrLost)
			require.NoError(t, errors.Join(s.Close(), o.Close()))
			require.ErrorIs(t, c.Save(), syscall.EIO)
			require.NoError(t, c.Close())
		})
	}
}

// A process whose file has ended packs privately, with the reason, and after a while into the file that is there then.
func TestALostFileIsRecreatedAfterAWhile(t *testing.T) {
	path := harness.Path(t)
	var l harness.Listener
	o := l.Options()
	o.WriterWait = -1
	c, h := harness.OpenHooked(t, path, o)
	m := harness.Tensors(2, 3000)
	lost := harness.PackTensors(t, c, m)
	harness.HoldCommits(c)
	h.Flush = func(string) error { return syscall.EIO }
	require.ErrorIs(t, c.Save(), syscall.EIO)
	h.Flush = nil
	require.ErrorIs(t, lost.Err(), xpwc.ErrLost)
	require.EqualValues(t, 2, c.Stats().LostPayloads)
	require.NoError(t, lost.Close())
	require.FileExists(t, path+".damaged")
	require.Equal(t, []string{"packed weights in use were lost", "damaged cache file was set aside",
		"packed weights could not be committed"}, l.Messages(c))

	private := harness.PackTensors(t, c, m) // what was lost is packed again
	require.NoError(t, private.Err())
	require.EqualValues(t, 2, c.Stats().Private[xpwc.ReasonDisk].Entries)
	require.ErrorIs(t, c.Stats().LastError, syscall.EIO)
	require.NoFileExists(t, path)
	private.MustClose(t)

	harness.WriteAgain(c)
	harness.PackTensors(t, c, m).MustClose(t)
	require.NoError(t, c.Close())
	reopened := harness.Open(t, path, &xpwc.Options{Strict: true, Verify: xpwc.VerifyOnUse})
	harness.PackTensors(t, reopened, m).MustClose(t)
	require.Zero(t, reopened.Stats().Misses)
}

// If no Save was waiting when a commit failed, the next Save reports the loss.
func TestSaveReportsWeightsLostByABackgroundCommit(t *testing.T) {
	c, h := harness.OpenHooked(t, harness.Path(t), nil)
	o := harness.PackTensors(t, c, harness.Tensors(1, 3000))
	h.Flush = func(string) error { return syscall.EIO }
	require.ErrorIs(t, harness.AwaitCommit(c), syscall.EIO)
	require.ErrorIs(t, o.Err(), xpwc.ErrLost)
	require.NoError(t, o.Close())
	require.ErrorIs(t, c.Save(), syscall.EIO)
	require.NoError(t, c.Save(), "once")
}

// Whatever others have put into the place of the file that ends stays there.
func TestALostFileDoesNotReplaceAnotherFile(t *testing.T) {
	theirModel := map[string][]byte{"theirs": harness.Content("theirs", 3000)}
	for name, replace := range map[string]func(t *testing.T, path string){
		"replaced": func(t *testing.T, path string) {
			aside := path + ".aside"
			require.NoError(t, os.Rename(path, aside))
			theirs := harness.OpenProcess(t, path)
			harness.PackTensors(t, theirs, theirModel).MustClose(t)
			require.NoError(t, theirs.Close())
		},
		"removed": func(t *testing.T, path string) { require.NoError(t, os.Remove(path)) },
	} {
		t.Run(name, func(t *testing.T) {
			if name == "removed" && runtime.GOOS == "windows" {
				t.Skip("a removed file may keep its name until it is closed")
			}
			path := harness.Path(t)
			c, h := harness.OpenHooked(t, path, &xpwc.Options{WriterWait: -1})
			harness.PackTensors(t, c, harness.Tensors(1, 100)).MustClose(t)
			require.NoError(t, c.Save())
			m := map[string][]byte{"new": harness.Content("new", 5000)}
			o := harness.PackTensors(t, c, m)
			harness.HoldCommits(c)
			h.Flush = func(string) error { replace(t, path); return syscall.EIO }
			require.ErrorIs(t, c.Save(), syscall.EIO)
			h.Flush = nil
			require.ErrorIs(t, o.Err(), xpwc.ErrLost)
			require.NoFileExists(t, path+".damaged")
			require.NoError(t, o.Close())
			harness.WriteAgain(c)
			harness.PackTensors(t, c, m).MustClose(t)
			require.NoError(t, c.Close())
			reopened := harness.Open(t, path, &xpwc.Options{Strict: true, Verify: xpwc.VerifyOnUse})
			harness.PackTensors(t, reopened, m).MustClose(t)
			require.Zero(t, reopened.Stats().Misses)
			if name == "replaced" {
				harness.PackTensors(t, reopened, theirModel).MustClose(t)
				require.Zero(t, reopened.Stats().Misses)
			}
		})
	}
}

// What is handed in while a flush fails may have been lost before anybody knew its sum.
func TestWeightsPackedDuringAFailingFlushAreRightOrReported(t *testing.T) {
	s := newScenario(t, 1)
	s.dir.Record()
	p := s.dir.Process()
	c := s.open(p)
	slow := s.tensors(100, 1)
	name := "tensor 100"
	session, err := c.NewSession(slow)
	require.NoError(t, err)
	packed := harness.PackedFrom(slow[name])
	space, err := harness.BeginPacking(session, name, len(packed))
	require.NoError(t, err)
	quick, err := harness.PackModel(c, s.tensors(0, 2))
	require.NoError(t, err)
	copy(space, packed)
	failed := false
	p.Fails = func(path string) *memdisk.FlushFailure {
		if failed {
			return nil
		}
		failed = true
		s.dir.Fail(memdisk.FlushFailure{Lost: memdisk.LeaveAll, Reclaimed: true, Random: s.random})
		s.dir.Unlocked(func() {
			harness.EndPacking(session, name, space)
			harness.Probe(c).AwaitSums()
		})
		return &memdisk.FlushFailure{Lost: memdisk.LeaveNone, Reclaimed: false, Random: s.random}
	}
	require.ErrorIs(t, c.Save(), syscall.EIO)
	err = session.Finalize()
	require.True(t, errors.Is(err, xpwc.ErrLost) || err == nil)
	requireRightOrTold(t, session, slow)
	require.NoError(t, c.Save())
	require.NoError(t, errors.Join(session.Close(), quick.Close(), c.Close()))
}

// undigested is a data map whose tensors have no digest: no payload can be attributed to them.
type undigested struct{ xpwc.DataMap }

func (u undigested) Tensor(name string) (xpwc.Tensor, error) {
	t, err := u.DataMap.Tensor(name)
	t.Identity.Digest = func() (xpwc.Digest, error) { return xpwc.Digest{}, errors.New("no digest") }
	return t, err
}

// The runtime is right, and may be used for as long as the process lives.
func TestAnUncommittableEntryDoesNotBlockOthers(t *testing.T) {
	path := harness.Path(t)
	c := harness.Open(t, path, nil)
	m := harness.Tensors(2, 3000)
	s, err := c.NewSession(undigested{xpwc.MapOf(m)})
	require.NoError(t, err)
	harness.PackSession(t, s, m) // and Finalize has no error
	require.NoError(t, c.Save())
	require.ErrorContains(t, c.Stats().LastError, "no digest")

	second := harness.OpenProcess(t, path)
	harness.PackTensors(t, second, m).MustClose(t)
	require.Empty(t, second.Stats().Private)
	require.NoError(t, second.Save())
	harness.RequireRight(t, s, m)
	require.NoError(t, s.Close())
	harness.PackTensors(t, c, m).MustClose(t)
	require.EqualValues(t, 2, c.Stats().Hits.Entries)
}

// The disk may lose a payload before its checksum is computed, which then matches the damaged bytes on the disk.
func TestWeightsLostBeforeTheirChecksumAreNeverCommitted(t *testing.T) {
	path := harness.Path(t)
	c, h := harness.OpenHooked(t, path, nil)
	m := map[string][]byte{"w": harness.Content("w", 50_000)}
	s := harness.NewSession(t, c, m)
	packed := harness.PackedFrom(m["w"])
	space, err := harness.BeginPacking(s, "w", len(packed))
	require.NoError(t, err)
	copy(space, packed)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	require.NoError(t, err)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	offset := bytes.Index(content, packed)
	require.Positive(t, offset)
	_, err = f.WriteAt(make([]byte, 4096), int64(offset))
	require.NoError(t, errors.Join(err, f.Close()))
	harness.EndPacking(s, "w", space)
	require.NoError(t, s.Finalize())
	harness.HoldCommits(c)
	h.Flush = func(string) error { return syscall.EIO }
	require.ErrorIs(t, c.Save(), syscall.EIO, "the system says that it could not write pages")
	h.Flush = nil
	lost := s.Err()
	require.NoError(t, c.Save())
	require.NoError(t, errors.Join(s.Close(), c.Close()))
	harness.PackTensors(t, harness.Open(t, path, nil), m).MustClose(t)
	require.ErrorIs(t, lost, xpwc.ErrLost)
}
