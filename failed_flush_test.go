package xpwc

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/store/memdisk"
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

// packAgainstFailure packs a model into a cache whose disk may fail once: whatever it loses, nobody computes from wrong
// bytes without a word, and with the next commit all is in the file.
func (s *scenario) packAgainstFailure(p *memdisk.Process, c *Cache, m model, loses bool) error {
	session, err := packModel(c, m)
	if err != nil && !errors.Is(err, ErrLost) {
		return fmt.Errorf("packing: %w", err)
	}
	saveErr := c.Save()
	if saveErr != nil && !errors.Is(saveErr, syscall.EIO) {
		return fmt.Errorf("saving: %w", saveErr)
	}
	lost := session.Err()
	if lost != nil && !loses {
		return fmt.Errorf("nothing was lost: %w", lost)
	}
	for _, e := range session.used {
		if string(e.data) != string(packedFrom(m[e.record.Kernel])) && !errors.Is(lost, ErrLost) {
			return fmt.Errorf("the bytes of %s are wrong, and the session was not told", e.record.Kernel)
		}
	}
	if saveErr != nil && c.store.Writing() && !p.CannotDetach {
		return errors.New("after a failed commit the lock was kept")
	}
	if err := c.Save(); err != nil {
		return fmt.Errorf("saving again: %w", err)
	}
	kept := model{}
	for _, e := range session.used {
		if e.state.inGeneration() {
			kept[e.record.Kernel] = m[e.record.Kernel]
		}
	}
	s.states = append(s.states, s.with(kept, c, s.dir.Steps()))
	if err := session.Close(); err != nil {
		return err
	}
	again, err := packModel(c, m) // what was lost is packed afresh
	if err != nil {
		return fmt.Errorf("packing again: %w", err)
	}
	if err := c.Save(); err != nil {
		return fmt.Errorf("saving what was lost: %w", err)
	}
	if n := c.Stats().Pending.Entries; n > 0 {
		return fmt.Errorf("%d entries are pending after a commit", n)
	}
	s.states = append(s.states, s.with(m, c, s.dir.Steps()))
	return again.Close()
}

// A failed flush may have lost any of the pages that it should have written, and the system may since have read them
// again from the disk. What is committed afterwards is right at every moment, on the disk and in memory. Systems that
// cannot exchange memory under who reads it lose nothing; there the file is kept from others until it is replaced.
func TestAFailedFlushIsNotRetried(t *testing.T) {
	for _, f := range []struct {
		lost                    memdisk.Subset
		reclaimed, cannotDetach bool
	}{
		{memdisk.LeaveNone, false, false}, {memdisk.LeaveOne, false, false},
		{memdisk.LeaveSome, false, false}, {memdisk.LeaveAll, false, false},
		{memdisk.LeaveOne, true, false}, {memdisk.LeaveSome, true, false}, {memdisk.LeaveAll, true, false},
		{memdisk.LeaveNone, false, true},
	} {
		t.Run(fmt.Sprintf("lost %v, reclaimed %v, cannot detach %v", f.lost, f.reclaimed, f.cannotDetach),
			func(t *testing.T) {
				images := 0
				for n := 1; ; n++ {
					failure := memdisk.FlushFailure{Lost: f.lost, Reclaimed: f.reclaimed,
						Random: rand.New(rand.NewPCG(uint64(n), uint64(f.lost)))}
					seen := failFlushOf(t, n, failure, f.cannotDetach)
					if seen == 0 {
						require.Greater(t, n, 11)
						t.Logf("%d flushes, %d images", n-1, images)
						return
					}
					images += seen
				}
			})
	}
}

// failFlushOf has the nth flush of a process fail that packs two models and compacts. It returns how many images of the
// disk it looked at: none if there were not so many flushes.
func failFlushOf(t *testing.T, n int, f memdisk.FlushFailure, cannotDetach bool) (images int) {
	s := newScenario(t, uint64(n))
	s.dir.Record()
	p := s.dir.Process()
	p.CannotDetach = cannotDetach
	failed := failFlush(p, n, f)
	c := s.open(p)
	for _, m := range []model{s.tensors(0, 3), s.tensors(2, 3)} {
		err := s.packAgainstFailure(p, c, m, f.Reclaimed)
		require.NoError(t, err, "flush %d fails", n)
	}
	if err := c.Compact(); err != nil {
		require.ErrorIs(t, err, syscall.EIO)
		require.NoError(t, c.Compact(), "flush %d fails", n)
	}
	s.states = append(s.states, s.with(nil, c, s.dir.Steps()))
	require.NoError(t, c.Close())
	if !*failed {
		return 0
	}
	images, err := s.replay(imaging{seed: uint64(n), perMoment: 2, goOnEvery: 97})
	require.NoError(t, err, "flush %d fails", n)
	return images
}

// While one session's commit fails, another packs: it is right, or told.
func TestAFlushFailsWhileAnotherSessionPacks(t *testing.T) {
	for _, reclaimed := range []bool{false, true} {
		for n := 2; n <= 4; n++ { // payloads, index, slot
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
					packed := packedFrom(content)
					space, err := beginPacking(session, name, len(packed))
					require.NoError(t, err)
					done := copy(space, packed[:len(packed)/2])
					other, err := packModel(c, quick)
					require.NoError(t, err)
					saved := make(chan error, 1)
					go func() { saved <- c.Save() }()
					require.ErrorIs(t, <-saved, syscall.EIO)
					copy(space[done:], packed[done:])
					endPacking(session, name, space)
					err = session.Finalize()
					require.ErrorIs(t, err, ErrLost, "nobody knows what became of what was being packed")
					require.NoError(t, c.Save())
					requireRightOrTold(t, session, slow)
					requireRightOrTold(t, other, quick)
					require.NoError(t, errors.Join(session.Close(), other.Close()))
				}
				require.True(t, *failed)
				for _, m := range []model{slow, quick} {
					session, err := packModel(c, m)
					require.NoError(t, err)
					require.NoError(t, session.Close())
				}
				require.NoError(t, c.Save())
				require.NoError(t, c.Close())
				after, err := openOn(s.dir.Process(), &Options{Strict: true, Verify: VerifyOnUse})
				require.NoError(t, err)
				for _, m := range []model{slow, quick} {
					session, err := packModel(after, m)
					require.NoError(t, err)
					require.NoError(t, session.Close())
				}
				require.Zero(t, after.Stats().Misses)
				require.NoError(t, after.Close())
			})
		}
	}
}

// requireRightOrTold requires that a session has the right bytes of its tensors, or knows that the disk lost them.
func requireRightOrTold(t *testing.T, s *Session, m model) {
	t.Helper()
	if err := s.Err(); err != nil {
		require.ErrorIs(t, err, ErrLost)
		return
	}
	for _, e := range s.used {
		require.True(t, string(packedFrom(m[e.record.Kernel])) == string(e.data), "the bytes of %s", e.record.Kernel)
	}
}

// A commit that fails leaves the file to other processes at once, and they need not wait for it.
func TestAfterAFailedCommitOthersMayWrite(t *testing.T) {
	s := newScenario(t, 1)
	s.dir.Record()
	p := s.dir.Process()
	c := s.open(p)
	s.commit(c, s.tensors(0, 2))
	failFlush(p, 1, memdisk.FlushFailure{Lost: memdisk.LeaveAll, Reclaimed: false, Random: s.random})
	mine, theirs := s.tensors(10, 2), s.tensors(20, 2)
	session, err := packModel(c, mine)
	require.NoError(t, err)
	require.ErrorIs(t, c.Save(), syscall.EIO)
	require.EqualValues(t, 2, c.Stats().Pending.Entries)

	other := s.open(s.dir.Process()) // which does not wait
	s.commit(other, theirs)
	require.Empty(t, other.Stats().Private)

	require.NoError(t, c.Save(), "into a new file, with what the other process has committed")
	require.Zero(t, c.Stats().Pending.Entries)
	require.NoError(t, errors.Join(session.Close(), c.Close(), other.Close()))
	after, err := openOn(s.dir.Process(), &Options{Strict: true, Verify: VerifyOnUse})
	require.NoError(t, err)
	for _, m := range []model{mine, theirs} {
		session, err := packModel(after, m)
		require.NoError(t, err)
		require.NoError(t, session.Close())
	}
	require.Zero(t, after.Stats().Misses)
	require.NoError(t, after.Close())
}

// The file that takes the place of ExecuTorch's may fail to reach the disk, too.
func TestAFlushFailsWhileExecuTorchsFileIsReplaced(t *testing.T) {
	for n := 1; ; n++ {
		s := newScenario(t, uint64(n))
		m := s.tensors(0, 3)
		s.startWithExecuTorch(m)
		s.dir.Record()
		p := s.dir.Process()
		failed := failFlush(p, n, memdisk.FlushFailure{Lost: memdisk.LeaveAll, Reclaimed: false, Random: s.random})
		c := s.open(p)
		session, err := packModel(c, m)
		require.NoError(t, err)
		saveErr := c.Save()
		require.NoError(t, session.Err())
		requireRightOrTold(t, session, m)
		if !*failed {
			require.NoError(t, saveErr)
			require.Greater(t, n, 4)
			require.NoError(t, errors.Join(session.Close(), c.Close()))
			return
		}
		require.NoError(t, c.Save(), "flush %d", n)
		require.NoError(t, session.Close())
		again, err := packModel(c, m) // what was private
		require.NoError(t, err)
		require.NoError(t, errors.Join(c.Save(), again.Close(), c.Close()))
		require.Len(t, s.dir.Names(), 1, "nothing lies beside the cache")
		after, err := openOn(s.dir.Process(), &Options{Strict: true, Verify: VerifyOnUse})
		require.NoError(t, err, "flush %d", n)
		session, err = packModel(after, m)
		require.NoError(t, err)
		require.Zero(t, after.Stats().Misses, "flush %d", n)
		require.NoError(t, errors.Join(session.Close(), after.Close()))
	}
}
