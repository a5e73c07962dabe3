package xpwc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"xpwc/internal/store"
	"xpwc/internal/store/memdisk"
)

// hooks say how calls of real files and disks fail; nil: as they do. What they are given is what the call is.
type hooks struct {
	flush    func(path string) error
	write    func(offset int64) error
	allocate func(offset, size int64) error
	detach   func() error
	create   func(path string) error
	mapping  func() error
}

type hookedFiles struct {
	store.Files
	*hooks
}

type hookedDisk struct {
	store.Disk
	*hooks
	path string
}

func (f hookedFiles) Open(path string, writable, insecure bool) (store.Disk, error) {
	d, err := f.Files.Open(path, writable, insecure)
	if err != nil {
		return nil, err
	}
	return hookedDisk{d, f.hooks, path}, nil
}

func (f hookedFiles) Create(path string) (store.Disk, error) {
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
	return d.Disk.Flush()
}

func (d hookedDisk) WriteAt(b []byte, offset int64) (int, error) {
	if d.write != nil {
		if err := d.write(offset); err != nil {
			return 0, err
		}
	}
	return d.Disk.WriteAt(b, offset)
}

func (d hookedDisk) Allocate(offset, size int64) error {
	if d.allocate != nil {
		if err := d.allocate(offset, size); err != nil {
			return err
		}
	}
	return d.Disk.Allocate(offset, size)
}

func (d hookedDisk) Map(offset int64, size int, writable bool) ([]byte, error) {
	if d.mapping != nil {
		if err := d.mapping(); err != nil {
			return nil, err
		}
	}
	return d.Disk.Map(offset, size, writable)
}

func (d hookedDisk) Detach(b []byte) error {
	if d.detach != nil {
		if err := d.detach(); err != nil {
			return err
		}
	}
	return d.Disk.Detach(b)
}

// openHooked opens a cache on a real file, whose calls fail as the hooks say.
func openHooked(t *testing.T, path string, o *Options) (*Cache, *hooks) {
	t.Helper()
	c, err := newHandle(place{path: path}, o.withDefaults(), osFiles{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	h := &hooks{}
	if diskOf(c) != nil {
		setDisk(c, hookedDisk{diskOf(c), h, path})
	}
	setFiles(c, hookedFiles{filesOf(c), h})
	return c, h
}

// openElsewhere opens a cache as another process does, which knows nothing of flushes that failed in this one.
func openElsewhere(t *testing.T, path string) *Cache {
	t.Helper()
	c, err := newHandle(place{}, (&Options{WriterWait: -1}).withDefaults(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, openStore(c, path, store.New(path, osFiles{}, store.Options{Condemned: store.NewCondemned()})))
	return c
}

// needsDetach skips a test of what others do to a file that was given up: only Linux does so before another is in its
// place.
func needsDetach(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the condemned file is kept from others on this system")
	}
}

// commitWithSave has what was finalized wait for Save, however long that takes to come.
func (c *Cache) commitWithSave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.commitTimer != nil {
		c.commitTimer.Stop()
		c.commitTimer = nil
	}
}

// requireRight requires that a session's packed weights can be read and are what was packed from a model.
func requireRight(t *testing.T, s *Session, m map[string][]byte) {
	t.Helper()
	for _, e := range s.used {
		right := false
		require.NoError(t, faultless(func() { right = string(packedFrom(m[e.record.Kernel])) == string(e.data) }))
		require.True(t, right, "the bytes of %s", e.record.Kernel)
	}
}

// While a session packs a tensor that has a segment of the file to itself, another's commit fails.
func TestACommitFailsWhileALargeTensorIsPacked(t *testing.T) {
	for name, fail := range map[string]func(h *hooks){
		"flush": func(h *hooks) { h.flush = func(string) error { return syscall.EIO } },
		"index": func(h *hooks) { h.allocate = func(int64, int64) error { return syscall.ENOSPC } },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "cache")
			c, h := openHooked(t, path, &Options{WriterWait: -1})
			small, large := someTensors(2, 3000), map[string][]byte{"large": contentOf("large", 6<<20)}
			o := open(t, c, small)
			c.commitWithSave()
			s := newSession(t, c, large)
			packed := packedFrom(large["large"])
			space, err := beginPacking(s, "large", len(packed))
			require.NoError(t, err)
			half := copy(space, packed[:len(packed)/2])

			fail(h)
			require.Error(t, c.Save())
			*h = hooks{}
			theirs := openElsewhere(t, path)
			other := open(t, theirs, map[string][]byte{"theirs": contentOf("theirs", 1<<20)})
			require.NoError(t, theirs.Save())

			require.NoError(t, faultless(func() { copy(space[half:], packed[half:]) }), "XNNPACK packs on")
			endPacking(s, "large", space)
			err = s.Finalize()
			if err != nil {
				require.ErrorIs(t, err, ErrLost)
			} else {
				requireRight(t, s, large)
			}
			requireRight(t, o.Session, small)
			other.check(t)
			require.NoError(t, c.Save())
			require.NoError(t, faultless(func() { other.check(t) }))
			requireRight(t, o.Session, small)
			require.NoError(t, errors.Join(s.Close(), o.Close(), other.Close(), theirs.Close(), c.Close()))
			after := mustOpen(t, path, &Options{Strict: true, Verify: VerifyOnUse})
			open(t, after, small).close(t)
			require.Zero(t, after.Stats().DamagedPayloads)
			require.Zero(t, after.Stats().Misses)
		})
	}
}

// What is handed in while a commit is written, which then fails, has its sum before it leaves the file: what cannot be
// read any more would be zeros then, and their sum right.
func TestWhatLeavesTheFileIsSummedInIt(t *testing.T) {
	needsDetach(t)
	c, h := openHooked(t, filepath.Join(t.TempDir(), "cache"), nil)
	small, large := someTensors(2, 3000), map[string][]byte{"large": contentOf("large", 64<<20)}
	o := open(t, c, small)
	c.commitWithSave()
	s := newSession(t, c, large)
	packed := packedFrom(large["large"])
	space, err := beginPacking(s, "large", len(packed))
	require.NoError(t, err)
	copy(space, packed)
	h.write = func(int64) error {
		h.write = nil
		endPacking(s, "large", space)
		return syscall.EIO
	}
	detached, unsummed := 0, 0
	h.detach = func() error {
		detached++
		unsummed = len(c.freshOnes(func(e *entry) bool { return !e.summed }))
		return nil
	}
	require.ErrorIs(t, c.Save(), syscall.EIO)
	require.Positive(t, detached)
	require.Zero(t, unsummed, "when the last of it left")
	h.detach = nil
	require.NoError(t, s.Finalize())
	require.NoError(t, c.Save())
	requireRight(t, s, large)
	requireRight(t, o.Session, small)
}

// A commit does not wait long for what is being packed. What was committed from the same part of the file leaves it
// with that, if the next commit fails, and is compared too.
func TestWhatWasCommittedLeavesTheFileWithWhatWasNot(t *testing.T) {
	needsDetach(t)
	for name, lost := range map[string]bool{"and is whole": false, "and cannot be read any more": true} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "cache")
			c, h := openHooked(t, path, nil)
			small, large := someTensors(1, 9000), map[string][]byte{"large": contentOf("large", 1<<20)}
			o := open(t, c, small)
			c.commitWithSave()
			s := newSession(t, c, large)
			packed := packedFrom(large["large"])
			space, err := beginPacking(s, "large", len(packed))
			require.NoError(t, err)
			require.NoError(t, c.Save())
			copy(space, packed)
			endPacking(s, "large", space)
			require.NoError(t, s.Finalize())

			h.allocate = func(int64, int64) error { return syscall.ENOSPC }
			h.detach = func() error {
				if lost {
					return os.Truncate(path, int64(o.used[0].record.Offset)&^4095)
				}
				return nil
			}
			require.Error(t, c.Save())
			require.True(t, o.used[0].region.Detached())
			*h = hooks{}
			if lost {
				require.ErrorIs(t, o.Err(), ErrLost)
			} else {
				require.NoError(t, o.Err())
				requireRight(t, o.Session, small)
			}
			open(t, c, small).close(t)
			open(t, c, large).close(t)
		})
	}
}

// A session that has packed something, and not all, is no writer of the condemned file while that is replaced.
func TestASessionPacksOnWhileACondemnedFileIsRenewed(t *testing.T) {
	needsDetach(t)
	path := filepath.Join(t.TempDir(), "cache")
	c, h := openHooked(t, path, nil)
	m := someTensors(4, 3000)
	s := newSession(t, c, m)
	require.NoError(t, packTensor(s, "tensor 0", m["tensor 0"]))
	o := open(t, c, map[string][]byte{"other": contentOf("other", 5000)})
	c.commitWithSave()
	h.flush = func(string) error { return syscall.EIO }
	require.Error(t, c.Save())
	h.flush = nil

	theirModel := map[string][]byte{"theirs": contentOf("theirs", 1<<20)}
	theirs := openElsewhere(t, path)
	other := open(t, theirs, theirModel)
	require.NoError(t, theirs.Save())

	renewing, packedOn := make(chan struct{}), make(chan error, 1)
	h.create = func(string) error {
		h.create = nil
		close(renewing)
		select {
		case err := <-packedOn: // at once
			packedOn <- err
		case <-time.After(200 * time.Millisecond): // it waits
		}
		return nil
	}
	saved := make(chan error, 1)
	go func() { saved <- c.Save() }()
	select {
	case <-renewing:
	case err := <-saved:
		t.Fatalf("the file was not renewed: %v %+v", err, c.Stats())
	}
	go func() {
		var err error
		for i := 1; i < 4 && err == nil; i++ {
			name := fmt.Sprint("tensor ", i)
			err = packTensor(s, name, m[name])
		}
		packedOn <- err
	}()
	require.NoError(t, <-saved)
	require.NoError(t, <-packedOn)
	require.NoError(t, faultless(func() { other.check(t) }), "what another process has committed")
	err := s.Finalize()
	require.NoError(t, err)
	requireRight(t, s, m)
	require.NoError(t, c.Save())
	requireRight(t, s, m)
	require.NoError(t, errors.Join(s.Close(), o.Close(), c.Close(), other.Close(), theirs.Close()))
	after := mustOpen(t, path, &Options{Strict: true, Verify: VerifyOnUse})
	open(t, after, m).close(t)
	open(t, after, theirModel).close(t)
	require.Zero(t, after.Stats().Misses)
}

// Where memory cannot be exchanged under its readers, the condemned file is not given up before they are done, or
// another is in its place: there the system keeps what it failed to write, or there is no memory.
func TestAFlushFailsWhereNothingCanBeDetached(t *testing.T) {
	for why, waits := range map[error]bool{errors.ErrUnsupported: false, syscall.ENOMEM: true} {
		t.Run(why.Error(), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "cache")
			c, h := openHooked(t, path, &Options{WriterWait: -1})
			h.detach = func() error { return why }
			m := someTensors(3, 100_000)
			o := open(t, c, m)
			c.commitWithSave()
			h.flush = func(string) error { return syscall.EIO }
			require.Error(t, c.Save())
			h.flush = nil
			if err := c.Save(); waits {
				require.Error(t, err, "what is in use cannot leave the file")
			} else {
				require.NoError(t, err)
			}
			if o.Err() == nil {
				requireRight(t, o.Session, m)
			}
			theirs := openElsewhere(t, path)
			other := open(t, theirs, map[string][]byte{"theirs": contentOf("theirs", 1<<20)})
			_ = theirs.Save()
			if o.Err() == nil {
				requireRight(t, o.Session, m)
			}
			other.check(t)
			require.NoError(t, errors.Join(o.Close(), other.Close(), theirs.Close()))
			require.NoError(t, c.Save())
			open(t, c, m).close(t)
			require.NoError(t, c.Save())
			require.NoError(t, c.Close())
			after := mustOpen(t, path, &Options{Strict: true, Verify: VerifyOnUse})
			open(t, after, m).close(t)
			require.Zero(t, after.Stats().Misses)
		})
	}
}

// What waits for a commit is committed to whatever file has taken the condemned one's place.
func TestACondemnedFileIsReplacedBySomebodyElse(t *testing.T) {
	needsDetach(t)
	for name, replace := range map[string]func(t *testing.T, path string){
		"compacted": func(t *testing.T, path string) {
			theirs := openElsewhere(t, path)
			require.NoError(t, theirs.Compact())
			require.NoError(t, theirs.Close())
		},
		"removed":   func(t *testing.T, path string) { require.NoError(t, os.Remove(path)) },
		"truncated": func(t *testing.T, path string) { require.NoError(t, os.Truncate(path, 5000)) },
		"emptied":   func(t *testing.T, path string) { require.NoError(t, os.Truncate(path, 0)) },
		"damaged": func(t *testing.T, path string) {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			require.NoError(t, err)
			_, err = f.WriteAt(make([]byte, 4096), 16)
			require.NoError(t, errors.Join(err, f.Close()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "cache")
			c, h := openHooked(t, path, &Options{WriterWait: -1})
			open(t, c, someTensors(1, 100)).close(t)
			require.NoError(t, c.Save())
			m := map[string][]byte{"new": contentOf("new", 5000)}
			o := open(t, c, m)
			c.commitWithSave()
			h.flush = func(string) error { return syscall.EIO }
			require.Error(t, c.Save())
			h.flush = nil
			replace(t, path)
			require.NoError(t, c.Save())
			require.Zero(t, c.Stats().Pending.Entries, "Save has said that nothing is")
			requireRight(t, o.Session, m)
			require.NoError(t, errors.Join(o.Close(), c.Close()))
			after := mustOpen(t, path, &Options{Strict: true, Verify: VerifyOnUse})
			open(t, after, m).close(t)
			require.Zero(t, after.Stats().Misses)
		})
	}
}

// Save waits for a renewal that a session's look-up has begun, and tries again what that could not do.
func TestSaveWhileALookUpRenewsACondemnedFile(t *testing.T) {
	c, h := openHooked(t, filepath.Join(t.TempDir(), "cache"), nil)
	m := someTensors(2, 5000)
	o := open(t, c, m)
	c.commitWithSave()
	h.flush = func(string) error { return syscall.EIO }
	require.Error(t, c.Save())
	h.flush = nil
	renewing, goOn := make(chan struct{}), make(chan struct{})
	h.create = func(string) error {
		h.create = nil
		close(renewing)
		<-goOn
		return syscall.EIO
	}
	c.mu.Lock()
	c.retry.succeeded() // the look-up comes when it is time to try again
	c.mu.Unlock()
	more := map[string][]byte{"more": contentOf("more", 5000)}
	s := newSession(t, c, more)
	packed := make(chan error, 1)
	go func() { packed <- packTensor(s, "more", more["more"]) }()
	<-renewing
	saved := make(chan error, 1)
	go func() { saved <- c.Save() }()
	require.Eventually(t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.commitAgain
	}, 10*time.Second, time.Millisecond)
	close(goOn)
	require.NoError(t, <-saved)
	require.Zero(t, c.Stats().Pending.Entries)
	require.NoError(t, <-packed)
	err := s.Finalize()
	require.NoError(t, err)
	require.NoError(t, errors.Join(s.Close(), o.Close(), c.Close()))
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
			c.mu.Lock()
			defer c.mu.Unlock()
			c.awaitSums()
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

// A commit is in force although the process has no memory to map it.
func TestWhatWasCommittedCannotBeMapped(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	c, h := openHooked(t, path, &Options{WriterWait: -1})
	before := someTensors(3, 5000)
	open(t, c, before).close(t)
	require.NoError(t, c.Save())
	m := map[string][]byte{"new": contentOf("new", 5000)}
	o := open(t, c, m)
	h.allocate = func(int64, int64) error { return syscall.ENOSPC }
	_ = c.Save()
	c.mu.Lock()
	c.retry.stop() // only Save commits what is pending
	c.mu.Unlock()
	require.NotZero(t, c.Stats().Pending.Entries)
	h.allocate = nil
	large := map[string][]byte{"large": contentOf("large", 6<<20)}
	packing := newSession(t, c, large)
	space, err := beginPacking(packing, "large", len(packedFrom(large["large"])))
	require.NoError(t, err)
	h.mapping = func() error { return syscall.ENOMEM }
	require.ErrorIs(t, c.Save(), syscall.ENOMEM)
	h.mapping = nil
	require.EqualValues(t, 2, c.Stats().Generation)
	copy(space, packedFrom(large["large"]))
	endPacking(packing, "large", space)
	require.NoError(t, packing.Finalize())
	require.NoError(t, c.Save())
	require.NoError(t, packing.Close())
	require.NoError(t, o.Close())
	more := map[string][]byte{"more": contentOf("more", 5000)}
	open(t, c, more).close(t)
	require.NoError(t, c.Save())
	require.NoError(t, c.Close())
	after := mustOpen(t, path, &Options{Strict: true, Verify: VerifyOnUse})
	open(t, after, before).close(t)
	open(t, after, m).close(t)
	open(t, after, large).close(t)
	open(t, after, more).close(t)
	require.Zero(t, after.Stats().Misses)
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
	needsDetach(t)
	path := filepath.Join(t.TempDir(), "cache")
	c := mustOpen(t, path, nil)
	m := someTensors(2, 3000)
	s, err := c.NewSession(undigested{MapOf(m)})
	require.NoError(t, err)
	packAll(t, s, m) // and Finalize has no error
	require.NoError(t, c.Save())
	require.ErrorContains(t, c.Stats().LastError, "no digest")

	other := openElsewhere(t, path)
	open(t, other, m).close(t)
	require.Empty(t, other.Stats().Private)
	require.NoError(t, other.Save())
	requireRight(t, s, m)
	require.NoError(t, s.Close())
	open(t, c, m).close(t)
	require.EqualValues(t, 2, c.Stats().Hits.Entries)
}
