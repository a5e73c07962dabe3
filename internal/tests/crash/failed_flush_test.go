package crash

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/digest"
	"xpwc/internal/tests/harness"
	"xpwc/internal/tests/memdisk"
	"xpwc/internal/tests/testkit"
)

// failFlush has the nth flush of a process fail. It returns whether that flush was reached.
func failFlush(p *memdisk.Process, n int, f memdisk.FlushFailure) (failed *bool) {
	failed = new(bool)
	p.Fails = func(string) *memdisk.FlushFailure {
		if n--; n != 0 {
			return nil
		}
		*failed = true
		return &f
	}
	return failed
}

// A survival is what a power failure must leave in the file after so many steps, and what may be in it.
type survival struct {
	*scenario
	promises []promise
	right    map[string]bool // names with contents
}

type promise struct {
	steps int
	names map[string]bool
}

func (s *survival) promise(steps int, names ...string) {
	p := promise{steps, map[string]bool{}}
	if last := len(s.promises) - 1; last >= 0 && len(names) > 0 {
		maps.Copy(p.names, s.promises[last].names)
	}
	for _, name := range names {
		p.names[name] = true
	}
	s.promises = append(s.promises, p)
}

// check opens an image of the disk after so many steps. All that is in the file is right, and what was promised is
// there.
func (s *survival) check(image *memdisk.Dir, steps int) (recovered state, err error) {
	c, err := openOn(image.Process(), &xpwc.Options{Strict: true})
	if err != nil {
		return recovered, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	recovered = state{generation: harness.Store(c).Slot().Generation, packed: map[string][]byte{}}
	for i := range c.Stats().Entries {
		r, err := harness.Store(c).Index().Record(i)
		if err != nil {
			return recovered, err
		}
		b := harness.Store(c).Payload(&r)
		if !s.right[r.Kernel+string(b)] || digest.Of(b) != r.Sum {
			return recovered, fmt.Errorf("generation %d: wrong bytes in the payload of %s", recovered.generation,
				r.Kernel)
		}
		recovered.packed[r.Kernel] = bytes.Clone(b)
	}
	names := map[string]bool{}
	for _, p := range s.promises {
		if p.steps <= steps {
			names = p.names
		}
	}
	for name := range names {
		if recovered.packed[name] == nil {
			return recovered, fmt.Errorf("generation %d has no %s, which was promised", recovered.generation, name)
		}
	}
	return recovered, nil
}

// packAgainstFailure packs a model into a cache whose disk may fail once: whatever it loses, nobody computes from wrong
// bytes without a word, and what is packed again is in the file that is there then.
func (s *survival) packAgainstFailure(c *xpwc.Cache, m harness.OneModel) error {
	for name, content := range m {
		s.right[name+string(harness.PackedFrom(content))] = true
	}
	session, err := harness.PackModel(c, m)
	if err != nil && !errors.Is(err, xpwc.ErrLost) {
		return fmt.Errorf("packing: %w", err)
	}
	saveErr := c.Save()
	if saveErr != nil && !errors.Is(saveErr, syscall.EIO) {
		return fmt.Errorf("saving: %w", saveErr)
	}
	lost := session.Err()
	if (saveErr != nil) != errors.Is(lost, xpwc.ErrLost) {
		return fmt.Errorf("saving: %w; the session: %w", saveErr, lost)
	}
	for _, e := range harness.User(session).Used() {
		if string(e.Data) != string(harness.PackedFrom(m[e.Record.Kernel])) && lost == nil {
			return fmt.Errorf("the bytes of %s are wrong, and the session does not know", e.Record.Kernel)
		}
	}
	if saveErr != nil && harness.Store(c).Writing() {
		return errors.New("after a failed commit the lock was kept")
	}
	if err := c.Save(); err != nil {
		return fmt.Errorf("saving again: %w", err)
	}
	if err := session.Close(); err != nil {
		return err
	}
	harness.WriteAgain(c)
	repeated, err := harness.PackModel(c, m) // what was lost, or went into private memory, is packed afresh
	if err != nil {
		return fmt.Errorf("packing again: %w", err)
	}
	if err := c.Save(); err != nil {
		return fmt.Errorf("saving what was lost: %w", err)
	}
	s.promise(s.dir.Steps(), slices.Collect(maps.Keys(m))...)
	return repeated.Close()
}

// A failed flush may have lost any of the pages that it should have written, and the system may since have read them
// again from the disk. What is committed afterwards is right at every moment, on the disk and in memory.
func TestAFailedFlushIsNotRetried(t *testing.T) {
	for _, f := range testkit.Drawn(t, []struct {
		lost      memdisk.Subset
		reclaimed bool
	}{
		{memdisk.LeaveNone, false}, {memdisk.LeaveOne, false}, {memdisk.LeaveSome, false}, {memdisk.LeaveAll, false},
		{memdisk.LeaveOne, true}, {memdisk.LeaveSome, true}, {memdisk.LeaveAll, true},
	}) {
		t.Run(fmt.Sprintf("lost %v, reclaimed %v", f.lost, f.reclaimed), func(t *testing.T) {
			images := 0
			for n := 1; ; n++ {
				failure := memdisk.FlushFailure{Lost: f.lost, Reclaimed: f.reclaimed,
					Random: rand.New(rand.NewPCG(uint64(n), uint64(f.lost)))}
				checked := failFlushOf(t, n, failure)
				if checked == 0 {
					require.Greater(t, n, 9)
					t.Logf("%d flushes, %d images", n-1, images)
					return
				}
				images += checked
			}
		})
	}
}

// failFlushOf has the nth flush of a process fail that packs two models and compacts. It returns how many images of the
// disk it looked at: none if there were not so many flushes.
func failFlushOf(t *testing.T, n int, f memdisk.FlushFailure) (images int) {
	s := &survival{scenario: newScenario(t, uint64(n)), right: map[string]bool{}}
	s.dir.Record()
	p := s.dir.Process()
	flushes := 0
	p.Fails = func(path string) *memdisk.FlushFailure {
		if flushes++; flushes != n {
			return nil
		}
		if path == powerPath { // else what is at the path stays
			s.promise(s.dir.Steps())
		}
		return &f
	}
	c := s.open(p)
	for _, m := range []harness.OneModel{s.tensors(0, 3), s.tensors(2, 3)} {
		require.NoError(t, s.packAgainstFailure(c, m), "flush %d fails", n)
	}
	if err := c.Compact(); err != nil {
		require.ErrorIs(t, err, syscall.EIO)
		require.NoError(t, c.Compact(), "flush %d fails", n)
	}
	require.NoError(t, c.Close())
	if flushes < n {
		return 0
	}
	images, err := s.dir.Replay(uint64(n), 2, func(image *memdisk.Dir, steps, images int) error {
		recovered, err := s.check(image, steps)
		if err == nil && images%97 == 0 {
			err = s.goOn(image, recovered, nil)
		}
		return err
	})
	require.NoError(t, err, "flush %d fails", n)
	return images
}

// While one session's commit fails, another packs: it is right, or it knows.
func TestAFlushFailsWhileAnotherSessionPacks(t *testing.T) {
	for _, reclaimed := range []bool{false, true} {
		for n := 1; n <= 3; n++ { // payloads, index, slot
			t.Run(fmt.Sprint(reclaimed, n), func(t *testing.T) {
				s := newScenario(t, uint64(n))
				s.dir.Record()
				p := s.dir.Process()
				failed := failFlush(p, n, memdisk.FlushFailure{
					Lost: memdisk.LeaveAll, Reclaimed: reclaimed, Random: s.random,
				})
				c := s.open(p)
				slow, quick := s.tensors(100, 1), s.tensors(0, 2)
				for name, content := range slow {
					session, err := c.NewSession(slow)
					require.NoError(t, err)
					packed := harness.PackedFrom(content)
					space, err := harness.BeginPacking(session, name, len(packed))
					require.NoError(t, err)
					done := copy(space, packed[:len(packed)/2])
					second, err := harness.PackModel(c, quick)
					require.NoError(t, err)
					saved := make(chan error, 1)
					go func() { saved <- c.Save() }()
					require.ErrorIs(t, <-saved, syscall.EIO)
					copy(space[done:], packed[done:])
					harness.EndPacking(session, name, space)
					err = session.Finalize()
					require.ErrorIs(t, err, xpwc.ErrLost, "nobody knows what became of what was being packed")
					require.NoError(t, c.Save())
					requireRightOrTold(t, session, slow)
					requireRightOrTold(t, second, quick)
					require.NoError(t, errors.Join(session.Close(), second.Close()))
				}
				require.True(t, *failed)
				harness.WriteAgain(c)
				for _, m := range []harness.OneModel{slow, quick} {
					session, err := harness.PackModel(c, m)
					require.NoError(t, err)
					require.NoError(t, session.Close())
				}
				require.NoError(t, c.Save())
				require.NoError(t, c.Close())
				reopened, err := openOn(s.dir.Process(), &xpwc.Options{Strict: true, Verify: xpwc.VerifyOnUse})
				require.NoError(t, err)
				for _, m := range []harness.OneModel{slow, quick} {
					session, err := harness.PackModel(reopened, m)
					require.NoError(t, err)
					require.NoError(t, session.Close())
				}
				require.Zero(t, reopened.Stats().Misses)
				require.NoError(t, reopened.Close())
			})
		}
	}
}

// requireRightOrTold requires that a session has the right bytes of its tensors, or knows that the disk lost them.
func requireRightOrTold(t *testing.T, s *xpwc.Session, m harness.OneModel) {
	t.Helper()
	if err := s.Err(); err != nil {
		require.ErrorIs(t, err, xpwc.ErrLost)
		return
	}
	for _, e := range harness.User(s).Used() {
		require.True(t, string(harness.PackedFrom(m[e.Record.Kernel])) == string(e.Data), "the bytes of %s",
			e.Record.Kernel)
	}
}

// The file that takes ExecuTorch's place may fail to reach the disk, too.
func TestAFlushFailsWhileExecuTorchsFileIsReplaced(t *testing.T) {
	for n := 1; ; n++ {
		s := newScenario(t, uint64(n))
		m := s.tensors(0, 3)
		s.startWithExecuTorch(m)
		s.dir.Record()
		p := s.dir.Process()
		failed := failFlush(p, n, memdisk.FlushFailure{Lost: memdisk.LeaveAll, Reclaimed: false, Random: s.random})
		c := s.open(p)
		session, err := harness.PackModel(c, m)
		require.NoError(t, err)
		saveErr := c.Save()
		require.Equal(t, saveErr != nil, errors.Is(session.Err(), xpwc.ErrLost))
		requireRightOrTold(t, session, m)
		if !*failed {
			require.NoError(t, saveErr)
			require.Greater(t, n, 3)
			require.NoError(t, errors.Join(session.Close(), c.Close()))
			return
		}
		require.NoError(t, c.Save(), "flush %d", n)
		require.NoError(t, session.Close())
		harness.WriteAgain(c)
		repeated, err := harness.PackModel(c, m)
		require.NoError(t, err)
		require.NoError(t, errors.Join(c.Save(), repeated.Close(), c.Close()))
		reopened, err := openOn(s.dir.Process(), &xpwc.Options{Strict: true, Verify: xpwc.VerifyOnUse})
		require.NoError(t, err, "flush %d", n)
		session, err = harness.PackModel(reopened, m)
		require.NoError(t, err)
		require.Zero(t, reopened.Stats().Misses, "flush %d", n)
		require.NoError(t, errors.Join(session.Close(), reopened.Close()))
	}
}

// The slot may have reached the disk although its flush failed. A process that has loaded that generation keeps it.
func TestAGenerationAfterAFailedSlotFlushStaysLoaded(t *testing.T) {
	path := harness.Path(t)
	c, h := harness.OpenHooked(t, path, nil)
	m := map[string][]byte{"a": harness.Content("a", 1000)}
	n, theirs := 0, (*xpwc.Cache)(nil)
	h.Flush = func(string) error {
		if n++; n < 2 { // index, SLOT
			return nil
		}
		theirs = harness.OpenProcess(t, path)
		return syscall.EIO
	}
	o := harness.PackTensors(t, c, m)
	require.ErrorIs(t, harness.AwaitCommit(c), syscall.EIO)
	h.Flush = nil
	require.ErrorIs(t, o.Err(), xpwc.ErrLost)
	require.EqualValues(t, 1, theirs.Stats().Generation)
	infoBefore, err := os.Stat(path + ".damaged")
	require.NoError(t, err)

	require.ErrorIs(t, c.Save(), syscall.EIO, "what the failed commit had is not in the file")
	harness.WriteAgain(c)
	big := harness.PackTensors(t, c, map[string][]byte{"b": harness.Content("b", 300_000)})
	require.NoError(t, c.Save(), "into a new file")
	harness.PackTensors(t, theirs, map[string][]byte{"z": harness.Content("z", 10)}).MustClose(t)
	require.NoError(t, theirs.Close())
	infoAfter, err := os.Stat(path + ".damaged")
	require.NoError(t, err)
	require.Equal(t, infoBefore.Size(), infoAfter.Size())
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { require.Nil(t, recover(), "SIGBUS in a running session of the first process") }()
	o.Check(t)
	big.Check(t)
}
