package files

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/format"
	"xpwc/internal/osdisk"
	"xpwc/internal/tests/harness"
	"xpwc/internal/writer"
)

// Sessions that pack while a commit is written keep their memory when the file turns out to be gone.
func TestAFileMovedAwayDuringACommitKeepsItsBytes(t *testing.T) {
	path := harness.Path(t)
	c, h := harness.OpenHooked(t, path, &xpwc.Options{WriterWait: -1})
	slow := harness.NewSession(t, c, map[string][]byte{"slow": harness.Content("slow", 100_000),
		"s2": harness.Content("s2", 300_000)})
	var space []byte
	var kernel uintptr
	n := 0
	h.Flush = func(string) error {
		n++
		if n == 1 { // of the index
			kernel = harness.Load(t, slow, "slow")
			require.Equal(t, harness.NotFound, harness.LookUp(slow, 1, kernel, 0))
			space = harness.Reserve(slow, 100_000)
			require.NoError(t, os.Rename(path, path+".moved"))
		}
		return nil
	}
	harness.PackTensors(t, c, map[string][]byte{"quick": harness.Content("q", 100)}).MustClose(t)
	_ = harness.AwaitCommit(c)
	defer harness.RecoverFault(t)()
	for i := range space {
		space[i] = 1 // XNNPACK packs
	}
}

func TestADiskImageThatBeginsWithZerosIsLeftAlone(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no permissions tell it from a new cache")
	}
	path := harness.Path(t)
	image := make([]byte, 1<<20)
	require.NoError(t, os.WriteFile(path, image, 0o644))
	_, err := xpwc.Open(path, nil)
	require.ErrorIs(t, err, xpwc.ErrNotCache)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, image, content)
}

// A file without a commit is not flushed, so a power failure may leave zeros of its header.
func TestAFileWhoseHeaderAPowerFailureLostIsPackedAnew(t *testing.T) {
	path := harness.Path(t)
	require.NoError(t, os.WriteFile(path, make([]byte, 1<<20), 0o600))
	c := harness.Open(t, path, &xpwc.Options{Strict: true})
	harness.PackTensors(t, c, harness.Tensors(2, 1000)).MustClose(t)
	require.NoError(t, c.Close())
	require.EqualValues(t, 1, c.Stats().Generation)
	require.FileExists(t, path+".damaged", "it may be another program's")
}

// A device whose power fails at each first start does not fill its disk, and packs into a file as soon as it stays on.
func TestPowerFailuresBeforeACommitDoNotBlockThePath(t *testing.T) {
	path := harness.Path(t)
	for range 20 {
		require.NoError(t, os.WriteFile(path, make([]byte, 1<<16), 0o600))
		c := harness.Open(t, path, nil)
		harness.PackTensors(t, c, harness.Tensors(2, 1000)).MustClose(t)
		require.NoError(t, c.Close())
		require.EqualValues(t, 1, c.Stats().Generation)
	}
	names, err := filepath.Glob(path + "*")
	require.NoError(t, err)
	require.Len(t, names, 2)
}

// A program that copies in pieces allocates the file, and may write its header last.
func TestAFileThatIsBeingCopiedInPiecesIsNotMoved(t *testing.T) {
	content, _ := harness.SmallFile(t, harness.Tensors(2, 10_000))
	writer.Arrival = time.Hour
	defer func() { writer.Arrival = 0 }()
	path := harness.Path(t)
	partial := bytes.Clone(content)
	clear(partial[:format.HeaderSize])
	require.NoError(t, os.WriteFile(path, partial, 0o600))
	c := harness.Open(t, path, &xpwc.Options{WriterWait: -1})
	harness.PackTensors(t, c, harness.Tensors(2, 1000)).MustClose(t)
	require.Contains(t, c.Stats().Private, xpwc.ReasonBusy)
	harness.Overwrite(t, path, content)
	writer.Arrival = 0
	harness.PackTensors(t, c, harness.Tensors(2, 10_000)).MustClose(t)
	require.NoError(t, c.Close())
	require.NoFileExists(t, path+".damaged")
	require.EqualValues(t, 2, c.Stats().Hits.Entries)
}

// A device without a clock may begin again in the past.
func TestAFileOfTheFutureIsNotBeingCopied(t *testing.T) {
	writer.Arrival = time.Hour
	defer func() { writer.Arrival = 0 }()
	path := harness.Path(t)
	require.NoError(t, os.WriteFile(path, make([]byte, 1<<16), 0o600))
	future := time.Now().Add(1000 * time.Hour)
	require.NoError(t, os.Chtimes(path, future, future))
	c := harness.Open(t, path, &xpwc.Options{WriterWait: -1})
	harness.PackTensors(t, c, harness.Tensors(2, 1000)).MustClose(t)
	require.NoError(t, c.Close())
	require.Empty(t, c.Stats().Private)
}

// The slot may be in force although its flush failed.
func TestACommitWithAnUncertainSlotIsKept(t *testing.T) {
	path := harness.Path(t)
	c := harness.Open(t, path, nil)
	harness.PackTensors(t, c, harness.Tensors(2, 1000)).MustClose(t)
	require.NoError(t, c.Close())
	c, h := harness.OpenHooked(t, path, nil)
	n := 0
	h.Flush = func(string) error {
		if n++; n >= 2 { // index, SLOT, and all after
			return syscall.EIO
		}
		return nil
	}
	harness.PackTensors(t, c, harness.Tensors(4, 1000)).MustClose(t)
	require.ErrorIs(t, c.Close(), syscall.EIO)
	c, err := xpwc.Open(path, &xpwc.Options{Strict: true})
	require.NoError(t, err)
	require.NoError(t, c.Close())
}

func TestExecuTorchsFileReplacedWhilePackingIsFollowed(t *testing.T) {
	path := harness.Path(t)
	m := map[string][]byte{"w": harness.Content("w", 1000)}
	require.NoError(t, os.WriteFile(path, harness.ExecuTorchFile(m), 0o600))
	c := harness.Open(t, path, nil)
	s := harness.NewSession(t, c, m)
	harness.PackWeight(t, s, 42, harness.Load(t, s, "w"), 0, harness.PackedFrom(m["w"]))
	require.NoError(t, os.WriteFile(path+".new", harness.ExecuTorchFile(m), 0o600))
	require.NoError(t, osdisk.Files{}.Rename(path+".new", path))
	harness.Finish(t, s)
	_ = harness.AwaitCommit(c)
	for i := range 3 {
		harness.PackTensors(t, c, map[string][]byte{"v": harness.Content("v", 1000)}).MustClose(t)
		err := c.Save()
		if i == 2 {
			require.NoError(t, err)
		}
	}
}

func TestAFailedStatOfThePathIsRetried(t *testing.T) {
	path := harness.Path(t)
	c, h := harness.OpenHooked(t, path, nil)
	slow := harness.NewSession(t, c, map[string][]byte{"slow": harness.Content("slow", 1000)})
	n, f := 0, 0
	h.Replaced = func() error {
		if n++; n == 2 { // begin; after the commit
			return syscall.EIO
		}
		return nil
	}
	h.Flush = func(string) error {
		if f++; f == 1 { // of the index
			p := bytes.Repeat([]byte{1}, 1000)
			harness.PackWeight(t, slow, 1, harness.Load(t, slow, "slow"), 0, p)
		}
		return nil
	}
	o := harness.PackTensors(t, c, map[string][]byte{"a": harness.Content("a", 1000)})
	_ = harness.AwaitCommit(c)
	_ = c.Save()
	err := slow.Finalize()
	require.NoError(t, err)
	_ = c.Save()
	o2 := harness.PackTensors(t, c, map[string][]byte{"b": harness.Content("b", 3000)})
	_ = c.Save()
	defer harness.RecoverFault(t)()
	o.MustClose(t)
	o2.MustClose(t)
	require.NoError(t, slow.Close())
	require.NoError(t, c.Close())
	c, err = xpwc.Open(path, &xpwc.Options{Strict: true, Verify: xpwc.VerifyOnUse})
	require.NoError(t, err)
	require.LessOrEqual(t, c.Stats().Entries, 3)
	require.NoError(t, c.Close())
}

func TestAReadOnlyCacheSeesRepairsOfOtherProcesses(t *testing.T) {
	path := harness.Path(t)
	m := harness.Tensors(1, 1000)
	c := harness.Open(t, path, nil)
	harness.PackTensors(t, c, m).MustClose(t)
	require.NoError(t, c.Close())
	good, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.Truncate(path, 4500))
	c = harness.Open(t, path, &xpwc.Options{ReadOnly: true})
	harness.PackTensors(t, c, m).MustClose(t)
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.WriteFile(path, good, 0o600))
	harness.PackTensors(t, c, m).MustClose(t)
	require.EqualValues(t, 1, c.Stats().Hits.Entries)
}

func TestExecuTorchsFileShortenedWhileOpenIsSurvived(t *testing.T) {
	path := harness.Path(t)
	m := map[string][]byte{"w": harness.Content("w", 100_000)}
	require.NoError(t, os.WriteFile(path, harness.ExecuTorchFile(m), 0o600))
	c := harness.Open(t, path, nil)
	require.NoError(t, os.Truncate(path, 0))
	defer harness.RecoverFault(t)()
	s := harness.NewSession(t, c, m)
	harness.PackWeight(t, s, 42, harness.Load(t, s, "w"), 0, harness.PackedFrom(m["w"]))
	err := s.Finalize()
	require.NoError(t, err)
}

func TestFillIsCalledOnceEvenIfItFails(t *testing.T) {
	c := harness.Open(t, "", nil)
	var calls atomic.Int64
	tensor := xpwc.Tensor{Size: 100, Fill: func(b []byte) error { calls.Add(1); return errors.New("cannot read") }}
	s, err := c.NewSession(harness.TensorMap{"w": tensor})
	require.NoError(t, err)
	require.Equal(t, harness.NotFound, harness.LookUp(s, 7, harness.Load(t, s, "w"), 0))
	require.Nil(t, harness.Reserve(s, 100))
	_ = s.Finalize()
	require.EqualValues(t, 1, calls.Load())
}

func TestACopyAtAReusedAddressIsPersisted(t *testing.T) {
	path := harness.Path(t)
	c := harness.Open(t, path, &xpwc.Options{WriterWait: -1})
	m := map[string][]byte{"v": harness.Content("v", 100), "w": harness.Content("w", 100)}
	s := harness.NewSession(t, c, m)
	v, w := harness.Load(t, s, "v", xpwc.Eager()), harness.Load(t, s, "w", xpwc.Eager())
	r := make([]byte, 100)
	k := harness.Address(r)
	harness.Alias(s, k, v)
	harness.PackWeight(t, s, 1, k, 0, bytes.Repeat([]byte{1}, 100))
	harness.Alias(s, k, w)
	harness.PackWeight(t, s, 1, k, 0, bytes.Repeat([]byte{2}, 100))
	harness.Finish(t, s)
	require.NoError(t, c.Save())
	require.Equal(t, 2, c.Stats().Entries)
}

func TestASizeCapBelowEveryEntryIsHarmless(t *testing.T) {
	path := harness.Path(t)
	c := harness.Open(t, path, &xpwc.Options{MaxBytes: 1000})
	o := harness.PackTensors(t, c, harness.Tensors(2, 3000))
	require.NoError(t, c.Save())
	o.Check(t)
	o.MustClose(t)
	harness.PackTensors(t, c, harness.Tensors(2, 3000)).MustClose(t)
	require.NoError(t, c.Close())
}

// A file that took the place of another holds what was packed into it and nothing else: where the old one had a
// payload, it has another one.
func TestANewFileListsNoEntriesOfTheOldOne(t *testing.T) {
	old := map[string][]byte{"old": harness.Content("old", 5000)}
	second := map[string][]byte{"other": harness.Content("other", 5000)}
	ends := map[string]func(path string) error{
		"moved away": func(path string) error { return osdisk.Files{}.Rename(path, path+".moved") },
		"replaced": func(path string) error {
			c := harness.Open(t, path+".other", nil)
			harness.PackTensors(t, c, map[string][]byte{"third": harness.Content("third", 5000)}).MustClose(t)
			return errors.Join(c.Close(), osdisk.Files{}.Rename(path+".other", path))
		},
	}
	// Windows refuses it, or (before version 10, and Wine) keeps the name as long as the file is open.
	if runtime.GOOS != "windows" {
		ends["removed"] = os.Remove
		ends["truncated"] = func(path string) error { return os.Truncate(path, 5000) }
		ends["emptied"] = func(path string) error { return os.Truncate(path, 0) }
	}
	for name, end := range ends {
		for _, packedHere := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, packed here %v", name, packedHere), func(t *testing.T) {
				path := harness.Path(t)
				c := harness.Open(t, path, nil)
				harness.PackTensors(t, c, old).MustClose(t)
				if packedHere {
					require.NoError(t, c.Save())
				} else {
					require.NoError(t, c.Close())
					c = harness.Open(t, path, nil)
				}
				require.NoError(t, end(path))
				harness.PackTensors(t, c, second).MustClose(t)
				require.NoError(t, c.Close())

				c = harness.Open(t, path, &xpwc.Options{Strict: true})
				harness.PackTensors(t, c, second).MustClose(t)
				require.EqualValues(t, 1, c.Stats().Hits.Entries)
				harness.PackTensors(t, c, old).MustClose(t) // checks the bytes
				require.EqualValues(t, 1, c.Stats().Misses)
				require.NoError(t, c.Close())
			})
		}
	}
}

// Everything at once: sessions of changing tensors, compactions, saves, closes, and somebody who moves the file away.
func TestCachesThatAreOpenedClosedCompactedAndLost(t *testing.T) {
	path := harness.Path(t)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(g), 1))
			for range 60 {
				c, err := xpwc.Open(path, &xpwc.Options{WriterWait: 5 * time.Millisecond, MaxBytes: 300_000})
				if err != nil {
					t.Error(err)
					return
				}
				for range 1 + random.IntN(4) {
					tensors, n := map[string][]byte{}, random.IntN(12)
					for i := range 3 {
						name := fmt.Sprint("t", n+i)
						tensors[name] = harness.Content(fmt.Sprint(name, random.IntN(3)), 9000+100*(n+i))
					}
					harness.PackTensors(t, c, tensors).MustClose(t)
					switch random.IntN(8) {
					case 0:
						_ = c.Compact()
					case 1:
						_ = c.Save()
					case 2:
						if random.IntN(5) == 0 {
							_ = os.Rename(path, path+".gone")
						}
					}
				}
				if err := c.Close(); errors.Is(err, xpwc.ErrInUse) {
					t.Error("sessions of other handles: ", err)
				}
				if err := c.Close(); err != nil {
					t.Error("closed twice: ", err)
				}
			}
		})
	}
	wg.Wait()
	c := harness.Open(t, path, &xpwc.Options{Strict: true, Verify: xpwc.VerifyOnUse})
	harness.PackTensors(t, c, harness.Tensors(1, 100)).MustClose(t)
	require.NoError(t, c.Close())
}

func TestAPrivateEntryNeverCausesACommit(t *testing.T) {
	path := harness.Path(t)
	c := harness.OpenProcess(t, path)
	harness.PackTensors(t, c, harness.Tensors(1, 100)).MustClose(t)
	require.NoError(t, c.Save())
	theirs := harness.OpenProcess(t, path)
	blocker := harness.NewSession(t, theirs, harness.Tensors(2, 77))
	harness.LookUp(blocker, 1, harness.Load(t, blocker, "tensor 1"), 0) // has the lock
	name := func(stamp string) *xpwc.Session {
		content := harness.Content("w", 100)
		s, err := c.NewSession(harness.TensorMap{"w": {Data: content, Identity: xpwc.Identity{Source: "model",
			Stamp: stamp}}})
		require.NoError(t, err)
		t.Cleanup(func() { _ = s.Close() })
		harness.PackWeight(t, s, 7, harness.Load(t, s, "w"), 0, make([]byte, 200))
		return s
	}
	first := name("1")
	err := first.Finalize()
	require.NoError(t, err)
	require.NoError(t, blocker.Close())
	require.NoError(t, theirs.Close())
	count := c.Stats().Generation
	second := name("2")
	require.NoError(t, second.Finalize())
	require.NoError(t, c.Save())
	require.Equal(t, count, c.Stats().Generation)
}
