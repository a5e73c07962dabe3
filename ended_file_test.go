package xpwc

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/mapped"
	"xpwc/internal/osdisk"
	"xpwc/internal/store"
	"xpwc/internal/tests/memdisk"
)

// hooks say how calls of real files and disks fail; nil: as they do. What they are given is what the call is.
type hooks struct {
	flush    func(path string) error
	write    func(offset int64) error
	allocate func(offset, size int64) error
	create   func(path string) error
	mapping  func(writable bool) error
	failed   func() error
}

type hookedFiles struct {
	store.Files
	*hooks
}

type hookedDisk struct {
	store.File
	*hooks
	path string
}

func (f hookedFiles) Open(path string, writable bool) (store.File, error) {
	d, err := f.Files.Open(path, writable)
	if err != nil {
		return nil, err
	}
	return hookedDisk{d, f.hooks, path}, nil
}

func (f hookedFiles) Create(path string) (store.File, error) {
	if f.create != nil {
		if err := f.create(path); err != nil {
			return nil, err
		}
	}
	d, err := f.Files.Create(path)
	if err != nil {
		return nil, err
	}
	return hookedDisk{d, f.hooks, path}, nil
}

func (d hookedDisk) Flush() error {
	if d.flush != nil {
		if err := d.flush(d.path); err != nil {
			return err
		}
	}
	return d.File.Flush()
}

func (d hookedDisk) Failed() error {
	if d.failed != nil {
		return d.failed()
	}
	return nil
}

func (d hookedDisk) WriteAt(b []byte, offset int64) (int, error) {
	if d.write != nil {
		if err := d.write(offset); err != nil {
			return 0, err
		}
	}
	return d.File.WriteAt(b, offset)
}

func (d hookedDisk) Allocate(offset, size int64) error {
	if d.allocate != nil {
		if err := d.allocate(offset, size); err != nil {
			return err
		}
	}
	return d.File.Allocate(offset, size)
}

func (d hookedDisk) Map(offset int64, size int, writable bool) (store.Mapping, error) {
	if d.mapping != nil {
		if err := d.mapping(writable); err != nil {
			return nil, err
		}
	}
	return d.File.Map(offset, size, writable)
}

// openHooked opens a cache on a real file, whose calls fail as the hooks say.
func openHooked(t *testing.T, path string, o *Options) (*Cache, *hooks) {
	t.Helper()
	c, err := openAlone(path, o, osdisk.Files{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	h := &hooks{}
	if diskOf(c) != nil {
		setDisk(c, hookedDisk{diskOf(c), h, path})
	}
	setFiles(c, hookedFiles{filesOf(c), h})
	return c, h
}

// requireRight requires that a session's packed weights can be read and are what was packed from a model.
func requireRight(t *testing.T, s *Session, m map[string][]byte) {
	t.Helper()
	for _, e := range userOf(s).Used() {
		right := false
		want := string(packedFrom(m[e.Record.Kernel]))
		require.NoError(t, mapped.Faultless(func() { right = want == string(e.Data) }))
		require.True(t, right, "the bytes of %s", e.Record.Kernel)
	}
}

// While a session packs a tensor that has a segment of the file to itself, another's commit fails.
func TestACommitFailsWhileALargeTensorIsPacked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	c, h := openHooked(t, path, &Options{WriterWait: -1})
	small, large := someTensors(2, 3000), map[string][]byte{"large": contentOf("large", 6<<20)}
	o := open(t, c, small)
	holdCommits(c)
	s := newSession(t, c, large)
	packed := packedFrom(large["large"])
	space, err := beginPacking(s, "large", len(packed))
	require.NoError(t, err)
	half := copy(space, packed[:len(packed)/2])

	h.flush = func(string) error { return syscall.EIO }
	require.ErrorIs(t, c.Save(), syscall.EIO)
	*h = hooks{}
	require.ErrorIs(t, o.Err(), ErrLost)
	require.NoError(t, s.Err(), "it has handed in nothing yet")
	theirs := otherProcess(t, path)
	theirModel := map[string][]byte{"theirs": contentOf("theirs", 1<<20)}
	other := open(t, theirs, theirModel)
	require.Empty(t, theirs.Stats().Private, "others begin a new file at once")
	require.NoError(t, theirs.Save())

	require.NoError(t, mapped.Faultless(func() { copy(space[half:], packed[half:]) }), "XNNPACK packs on")
	endPacking(s, "large", space)
	require.ErrorIs(t, s.Err(), ErrLost)
	require.ErrorIs(t, s.Finalize(), ErrLost)
	require.NoError(t, c.Save(), "nothing is tried again")
	require.NoError(t, mapped.Faultless(func() { other.check(t) }), "what another process has committed")
	require.NoError(t, errors.Join(s.Close(), o.Close(), other.Close(), theirs.Close(), c.Close()))
	after := mustOpen(t, path, &Options{Strict: true, Verify: VerifyOnUse})
	open(t, after, theirModel).close(t)
	require.Zero(t, after.Stats().Misses)
	require.EqualValues(t, 1, after.Stats().Entries)
}

// What is being packed when somebody learns that the disk has lost something may be lost, too, be it named or not.
func TestASessionLearnsOfALossWhileAnotherPacks(t *testing.T) {
	for name, bias := range map[string]uintptr{"named": 0, "unnamed": 12345} {
		t.Run(name, func(t *testing.T) {
			c, h := openHooked(t, filepath.Join(t.TempDir(), "cache"), nil)
			o := open(t, c, someTensors(2, 3000))
			holdCommits(c)
			s := newSession(t, c, map[string][]byte{"slow": contentOf("slow", 3000)})
			packed := packedFrom(contentOf("slow", 3000))
			space, err := beginPacking(s, "slow", len(packed))
			require.NoError(t, err)
			copy(space, packed)

			h.failed = func() error { return syscall.EIO }
			require.ErrorIs(t, o.Err(), ErrLost)
			h.failed = nil
			require.NoError(t, s.Err(), "it has handed in nothing yet")
			insert(s, 42, addressTo(contentIn(s, "slow")), bias, addressTo(space), uint64(len(space)))
			require.ErrorIs(t, s.Finalize(), ErrLost)
			require.NoError(t, errors.Join(s.Close(), o.Close()))
			require.ErrorIs(t, c.Save(), syscall.EIO)
			require.NoError(t, c.Close())
		})
	}
}

// A process whose file has ended packs privately, with the reason, and after a while into the file that is there then.
func TestAProcessWhoseFileHasEndedPacksPrivatelyForAWhile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	var l listener
	o := l.options()
	o.WriterWait = -1
	c, h := openHooked(t, path, o)
	m := someTensors(2, 3000)
	lost := open(t, c, m)
	holdCommits(c)
	h.flush = func(string) error { return syscall.EIO }
	require.ErrorIs(t, c.Save(), syscall.EIO)
	h.flush = nil
	require.ErrorIs(t, lost.Err(), ErrLost)
	require.EqualValues(t, 2, c.Stats().LostPayloads)
	require.NoError(t, lost.Close())
	require.FileExists(t, path+".damaged")
	require.Equal(t, []string{"packed weights in use were lost", "damaged cache file was set aside",
		"packed weights could not be committed"}, l.messages(c))

	private := open(t, c, m) // what was lost is packed again
	require.NoError(t, private.Err())
	require.EqualValues(t, 2, c.Stats().Private[ReasonDisk].Entries)
	require.ErrorIs(t, c.Stats().LastError, syscall.EIO)
	require.NoFileExists(t, path)
	private.close(t)

	writeAgain(c)
	open(t, c, m).close(t)
	require.NoError(t, c.Close())
	after := mustOpen(t, path, &Options{Strict: true, Verify: VerifyOnUse})
	open(t, after, m).close(t)
	require.Zero(t, after.Stats().Misses)
}

// What a failed commit loses says so with the next Save, if nobody was waiting when it failed.
func TestSaveReportsWhatACommitInTheBackgroundHasLost(t *testing.T) {
	c, h := openHooked(t, filepath.Join(t.TempDir(), "cache"), nil)
	o := open(t, c, someTensors(1, 3000))
	h.flush = func(string) error { return syscall.EIO }
	require.ErrorIs(t, awaitCommit(c), syscall.EIO)
	require.ErrorIs(t, o.Err(), ErrLost)
	require.NoError(t, o.Close())
	require.ErrorIs(t, c.Save(), syscall.EIO)
	require.NoError(t, c.Save(), "once")
}

// Whatever others have put into the place of the file that ends stays there.
func TestAFileThatEndsIsNotInItsPlace(t *testing.T) {
	theirModel := map[string][]byte{"theirs": contentOf("theirs", 3000)}
	for name, replace := range map[string]func(t *testing.T, path string){
		"replaced": func(t *testing.T, path string) {
			aside := path + ".aside"
			require.NoError(t, os.Rename(path, aside))
			theirs := otherProcess(t, path)
			open(t, theirs, theirModel).close(t)
			require.NoError(t, theirs.Close())
		},
		"removed": func(t *testing.T, path string) { require.NoError(t, os.Remove(path)) },
	} {
		t.Run(name, func(t *testing.T) {
			if name == "removed" && runtime.GOOS == "windows" {
				t.Skip("a removed file may keep its name until it is closed")
			}
			path := filepath.Join(t.TempDir(), "cache")
			c, h := openHooked(t, path, &Options{WriterWait: -1})
			open(t, c, someTensors(1, 100)).close(t)
			require.NoError(t, c.Save())
			m := map[string][]byte{"new": contentOf("new", 5000)}
			o := open(t, c, m)
			holdCommits(c)
			h.flush = func(string) error { replace(t, path); return syscall.EIO }
			require.ErrorIs(t, c.Save(), syscall.EIO)
			h.flush = nil
			require.ErrorIs(t, o.Err(), ErrLost)
			require.NoFileExists(t, path+".damaged")
			require.NoError(t, o.Close())
			writeAgain(c)
			open(t, c, m).close(t)
			require.NoError(t, c.Close())
			after := mustOpen(t, path, &Options{Strict: true, Verify: VerifyOnUse})
			open(t, after, m).close(t)
			require.Zero(t, after.Stats().Misses)
			if name == "replaced" {
				open(t, after, theirModel).close(t)
				require.Zero(t, after.Stats().Misses)
			}
		})
	}
}

// What is handed in while a flush fails may have been lost before anybody knew its sum.
func TestWhatIsHandedInWhileAFlushFailsIsRightOrTold(t *testing.T) {
	s := newScenario(t, 1)
	s.dir.Record()
	p := s.dir.Process()
	c := s.open(p)
	slow := s.tensors(100, 1)
	name := "tensor 100"
	session, err := c.NewSession(slow)
	require.NoError(t, err)
	packed := packedFrom(slow[name])
	space, err := beginPacking(session, name, len(packed))
	require.NoError(t, err)
	quick, err := packModel(c, s.tensors(0, 2))
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
			endPacking(session, name, space)
			probe(c).AwaitSums()
		})
		return &memdisk.FlushFailure{Lost: memdisk.LeaveNone, Reclaimed: false, Random: s.random}
	}
	require.ErrorIs(t, c.Save(), syscall.EIO)
	err = session.Finalize()
	require.True(t, errors.Is(err, ErrLost) || err == nil)
	requireRightOrTold(t, session, slow)
	require.NoError(t, c.Save())
	require.NoError(t, errors.Join(session.Close(), quick.Close(), c.Close()))
}

// undigested is a data map whose tensors have no digest: nobody can say what was packed from them.
type undigested struct{ DataMap }

func (u undigested) Tensor(name string) (Tensor, error) {
	t, err := u.DataMap.Tensor(name)
	t.Identity.Digest = func() (Digest, error) { return Digest{}, errors.New("no digest") }
	return t, err
}

// The runtime is right, and may be used for as long as the process lives.
func TestWhatCannotBeCommittedDoesNotKeepOthersFromTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	c := mustOpen(t, path, nil)
	m := someTensors(2, 3000)
	s, err := c.NewSession(undigested{MapOf(m)})
	require.NoError(t, err)
	packAll(t, s, m) // and Finalize has no error
	require.NoError(t, c.Save())
	require.ErrorContains(t, c.Stats().LastError, "no digest")

	other := otherProcess(t, path)
	open(t, other, m).close(t)
	require.Empty(t, other.Stats().Private)
	require.NoError(t, other.Save())
	requireRight(t, s, m)
	require.NoError(t, s.Close())
	open(t, c, m).close(t)
	require.EqualValues(t, 2, c.Stats().Hits.Entries)
}

// The disk may lose what was packed before anybody knows its sum, which is right then for what the disk has.
func TestWhatTheDiskLosesBeforeItIsSummedIsNeverCommitted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	c, h := openHooked(t, path, nil)
	m := map[string][]byte{"w": contentOf("w", 50_000)}
	s := newSession(t, c, m)
	packed := packedFrom(m["w"])
	space, err := beginPacking(s, "w", len(packed))
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
	endPacking(s, "w", space)
	require.NoError(t, s.Finalize())
	holdCommits(c)
	h.flush = func(string) error { return syscall.EIO }
	require.ErrorIs(t, c.Save(), syscall.EIO, "the system says that it could not write pages")
	h.flush = nil
	lost := s.Err()
	require.NoError(t, c.Save())
	require.NoError(t, errors.Join(s.Close(), c.Close()))
	open(t, mustOpen(t, path, nil), m).close(t)
	require.ErrorIs(t, lost, ErrLost)
}
