package xpwc

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"xpwc/internal/osdisk"
	"xpwc/internal/store"
	"xpwc/xnnpack/packing"
)

// What once went wrong, or nearly.

// What was committed to a file that is gone is not in the file that takes its place.
func TestAFileDeletedWhileOpenLeavesNothingOfItsIndex(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	a, b := contentOf("a", 1000), contentOf("b", 1000)
	c := mustOpen(t, path, nil)
	open(t, c, map[string][]byte{"a": a}).close(t)
	require.NoError(t, c.Save())
	require.NoError(t, os.Remove(path))
	open(t, c, map[string][]byte{"b": b}).close(t)
	require.NoError(t, c.Close())

	c = mustOpen(t, path, &Options{Strict: true})
	open(t, c, map[string][]byte{"b": b}).close(t)
	open(t, c, map[string][]byte{"a": a}).close(t)
	require.NoError(t, c.Close())
}

func TestAFileDeletedWhileOpenLeavesNothingOfItsPayloads(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	c := mustOpen(t, path, nil)
	open(t, c, map[string][]byte{"a": contentOf("a", 1000)}).close(t)
	require.NoError(t, c.Save())
	require.NoError(t, os.Remove(path))
	open(t, c, map[string][]byte{"b": contentOf("b", 5000)}).close(t)
	require.NoError(t, c.Close())
	c = mustOpen(t, path, &Options{Strict: true})
	require.NoError(t, c.Close())
}

func TestAnEntryOfAReplacedFileIsNotMistakenForOneOfTheNewFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	v1, v2 := contentOf("one", 1000), contentOf("two", 1000)
	c := mustOpen(t, path, nil)
	o := open(t, c, map[string][]byte{"w": v1})
	require.NoError(t, c.Save())

	require.NoError(t, os.Remove(path))
	theirs := otherProcess(t, path)
	open(t, theirs, map[string][]byte{"w": v2}).close(t)
	require.NoError(t, theirs.Close())

	open(t, c, map[string][]byte{"x": contentOf("x", 100)}).close(t)
	o.close(t)
	require.NoError(t, c.Close())

	c = mustOpen(t, path, &Options{Strict: true})
	open(t, c, map[string][]byte{"w": v1}).close(t)
	require.NoError(t, c.Close())
}

// The slot may have reached the disk although its flush failed. Who has loaded that generation keeps it.
func TestAGenerationWhoseFlushFailedServesThoseWhoHaveIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	c, h := openHooked(t, path, nil)
	m := map[string][]byte{"a": contentOf("a", 1000)}
	n, theirs := 0, (*Cache)(nil)
	h.flush = func(string) error {
		if n++; n < 3 { // header; index, SLOT
			return nil
		}
		theirs = otherProcess(t, path)
		return syscall.EIO
	}
	o := open(t, c, m)
	require.ErrorIs(t, c.waitForCommit(), syscall.EIO)
	h.flush = nil
	require.ErrorIs(t, o.Err(), ErrLost)
	require.EqualValues(t, 1, theirs.Stats().Generation)
	before, err := os.Stat(path + ".damaged")
	require.NoError(t, err)

	require.ErrorIs(t, c.Save(), syscall.EIO, "what the failed commit had is not in the file")
	c.writeAgain()
	big := open(t, c, map[string][]byte{"b": contentOf("b", 300_000)})
	require.NoError(t, c.Save(), "into a new file")
	open(t, theirs, map[string][]byte{"z": contentOf("z", 10)}).close(t)
	require.NoError(t, theirs.Close())
	after, err := os.Stat(path + ".damaged")
	require.NoError(t, err)
	require.Equal(t, before.Size(), after.Size())
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { require.Nil(t, recover(), "SIGBUS in a running session of the first process") }()
	o.check(t)
	big.check(t)
}

// Two uses that are packed alike say nothing about a third.
func TestAThirdUseWithOtherParametersIsToldApart(t *testing.T) {
	c := mustOpen(t, filepath.Join(t.TempDir(), "cache"), nil)
	s := newSession(t, c, map[string][]byte{"w": contentOf("w", 100)})
	w := load(t, s, "w")
	p1, p2 := bytes.Repeat([]byte{1}, 200), bytes.Repeat([]byte{2}, 200)
	got, _ := packWeight(t, s, 7, w, 0, p1)
	require.Equal(t, p1, got)
	got, _ = packWeight(t, s, 7, w, 0, p1)
	require.Equal(t, p1, got)
	got, hit := packWeight(t, s, 7, w, 0, p2)
	require.Equal(t, p2, got, "hit: %v", hit)
	finish(t, s)
}

func TestAKernelWithABiasNobodyGaveOutIsComputedBeforeItIsPacked(t *testing.T) {
	c := mustOpen(t, "", nil)
	want := contentOf("w", 100)
	s := newSession(t, c, map[string][]byte{"w": want})
	content, err := s.Load("w")
	require.NoError(t, err)
	require.Equal(t, notFound, s.lookUp(lookUpKey{7, addressOf(content), 12345, 0}))
	space := s.reserve(100)
	copy(space, content) // packing
	packed := bytes.Clone(space)
	s.insert(lookUpKey{7, addressOf(content), 12345, 0}, addressOf(space), 100)
	err = s.Finalize()
	require.True(t, err != nil || bytes.Equal(want, packed), "packed from zeros, no error")
	require.NoError(t, s.Close())
}

func TestABiasOfAKernelNobodyGaveOutIsComputedBeforeItIsPacked(t *testing.T) {
	c := mustOpen(t, "", nil)
	want := contentOf("b", 100)
	s := newSession(t, c, map[string][]byte{"b": want})
	content, err := s.Load("b")
	require.NoError(t, err)
	require.Equal(t, notFound, s.lookUp(lookUpKey{7, 12345, addressOf(content), 0}))
	space := s.reserve(100)
	copy(space, content) // packing
	packed := bytes.Clone(space)
	s.insert(lookUpKey{7, 12345, addressOf(content), 0}, addressOf(space), 100)
	err = s.Finalize()
	require.True(t, err != nil || bytes.Equal(want, packed), "packed from zeros, no error")
	require.NoError(t, s.Close())
}

// XNNPACK copied zeros: nothing of it may be kept under the tensor's digest.
func TestACopyOfWhatWasNotComputedIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	m := map[string][]byte{"w": contentOf("w", 100), "b": contentOf("b", 100)}
	c := mustOpen(t, path, nil)
	s := newSession(t, c, m)
	w, err := s.Load("w")
	require.NoError(t, err)
	copied, err := newAnonymousRegion(100)
	require.NoError(t, err)
	copy(copied.Data(), w)
	s.alias(addressOf(copied.Data()), addressOf(w))
	packed := bytes.Clone(copied.Data()[:100])
	packWeight(t, s, 7, addressOf(copied.Data()), load(t, s, "b"), packed)
	err = s.Finalize()
	require.ErrorIs(t, err, ErrNotEager, "zeros were packed and are committed under the true content's digest")
}

// The trailer stays the very last of the file.
func TestWhatWasReservedAndNotUsedIsGivenBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	c := mustOpen(t, path, nil)
	open(t, c, someTensors(1, 1000)).close(t)
	require.NoError(t, c.Save())
	before := c.Stats().FileBytes
	s := newSession(t, c, map[string][]byte{"a": contentOf("a", 100)})
	require.Equal(t, notFound, s.lookUp(lookUpKey{1, load(t, s, "a"), 0, 0}))
	require.NotNil(t, s.reserve(1000))
	require.NoError(t, s.Close()) // the runtime's creation failed
	require.NoError(t, c.Close())
	after, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, before, after.Size())
}

func TestADigestThatFailsConcernsItsSessionAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	c := mustOpen(t, path, nil)
	content := contentOf("w", 100)
	bad := errors.New("transient")
	tensor := Tensor{Size: 100, Fill: func(b []byte) error { copy(b, content); return nil }}
	tensor.Identity.Digest = func() (Digest, error) { return Digest{}, bad }
	s, err := c.NewSession(tensorMap{"w": tensor})
	require.NoError(t, err)
	packWeight(t, s, 7, load(t, s, "w"), 0, make([]byte, 200))
	require.NoError(t, s.Finalize(), "the runtime is right")
	require.ErrorIs(t, c.Stats().LastError, bad)
	require.NoError(t, s.Close())
	require.NoError(t, c.Save())

	t.Run("lock", func(t *testing.T) {
		theirs := otherProcess(t, path)
		open(t, theirs, someTensors(1, 10)).close(t)
		require.Empty(t, theirs.Stats().Private)
		require.NoError(t, theirs.Close())
	})
	t.Run("error", func(t *testing.T) {
		s := newSession(t, c, map[string][]byte{"w": content})
		packWeight(t, s, 7, load(t, s, "w"), 0, make([]byte, 200))
		require.NoError(t, s.Finalize())
		require.NoError(t, s.Close())
	})
}

func TestFlagsThatAnotherProcessSetAreKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	m := map[string][]byte{"w": contentOf("w", 100), "x": contentOf("x", 100)}
	p1, p2 := bytes.Repeat([]byte{1}, 200), bytes.Repeat([]byte{2}, 200)
	mine := mustOpen(t, path, nil)
	inUse := newSession(t, mine, m)
	packWeight(t, inUse, 7, load(t, inUse, "w"), 0, p1)
	err := inUse.Finalize()
	require.NoError(t, err)
	require.NoError(t, mine.Save())

	both := func(c *Cache) {
		s := newSession(t, c, m)
		got, _ := packWeight(t, s, 7, load(t, s, "w"), 0, p1)
		require.Equal(t, p1, got)
		got, _ = packWeight(t, s, 7, load(t, s, "w"), 0, p2)
		require.Equal(t, p2, got)
		finish(t, s)
	}
	theirs := otherProcess(t, path)
	both(theirs) // both are variants now
	require.NoError(t, theirs.Close())
	only2 := func(c *Cache) []byte {
		s := newSession(t, c, m)
		got, _ := packWeight(t, s, 7, load(t, s, "w"), 0, p2)
		finish(t, s)
		return got
	}
	theirs = otherProcess(t, path)
	require.Equal(t, p2, only2(theirs), "as long as the flags are there")
	require.NoError(t, theirs.Close())

	t.Run("here", func(t *testing.T) { require.Equal(t, p2, only2(mine)) })
	s := newSession(t, mine, m)
	packWeight(t, s, 7, load(t, s, "x"), 0, p1) // anything to commit
	finish(t, s)
	require.NoError(t, inUse.Close())
	require.NoError(t, mine.Close())
	theirs = otherProcess(t, path)
	require.Equal(t, p2, only2(theirs), "in the file")
	require.NoError(t, theirs.Close())
}

func TestAKernelWithTwoQuantisationsHasBothAsItsKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	m := map[string][]byte{"w": contentOf("w", 100)}
	q1, q2 := []byte("scale 1"), []byte("scale 2")
	p1, p2 := bytes.Repeat([]byte{1}, 200), bytes.Repeat([]byte{2}, 200)
	c := mustOpen(t, path, nil)
	s := newSession(t, c, m)
	w := load(t, s, "w", PackedAs(packing.Opaque(q1)))
	load(t, s, "w", PackedAs(packing.Opaque(q2)))
	packWeight(t, s, 7, w, 0, p1) // the operator with scale 1; creating the next one fails
	finish(t, s)
	s = newSession(t, c, m)
	got, _ := packWeight(t, s, 7, load(t, s, "w", PackedAs(packing.Opaque(q2))), 0, p2)
	require.Equal(t, p2, got)
	finish(t, s)
}

func TestWeightsThatCannotBeComputedFailTheCreation(t *testing.T) {
	c := mustOpen(t, "", nil)
	tensor := Tensor{Size: 100, Fill: func(b []byte) error { return errors.New("cannot read") }}
	s, err := c.NewSession(tensorMap{"w": tensor})
	require.NoError(t, err)
	require.Equal(t, notFound, s.lookUp(lookUpKey{7, load(t, s, "w"), 0, 0}))
	require.Nil(t, s.reserve(100), "creation of the runtime must fail")
}

func TestTwoReservationsWithoutLookUpAreBothKept(t *testing.T) {
	c := mustOpen(t, filepath.Join(t.TempDir(), "cache"), nil)
	s := newSession(t, c, map[string][]byte{"v": contentOf("v", 100), "w": contentOf("w", 100)})
	v, w := load(t, s, "v", Eager()), load(t, s, "w", Eager())
	a, b := s.reserve(100), s.reserve(100)
	copy(a, bytes.Repeat([]byte{1}, 100))
	copy(b, bytes.Repeat([]byte{2}, 100))
	s.insert(lookUpKey{7, v, 0, 0}, addressOf(a), 100)
	s.insert(lookUpKey{7, w, 0, 0}, addressOf(b), 100)
	finish(t, s)
	require.NoError(t, c.Save())
	require.Equal(t, 2, c.Stats().Entries)
	require.NoError(t, c.Close())
}

func TestSaveTellsOfAFileThatIsGone(t *testing.T) {
	for _, noticedBefore := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "cache")
		c := mustOpen(t, path, nil)
		s := newSession(t, c, map[string][]byte{"w": contentOf("w", 100)})
		packWeight(t, s, 7, load(t, s, "w"), 0, make([]byte, 200))
		require.NoError(t, os.Remove(path))
		finish(t, s)
		if noticedBefore {
			_ = c.waitForCommit()
		}
		err := c.Save()
		_, statErr := os.Stat(path)
		require.True(t, err != nil || statErr == nil, "Save: %v, file: %v", err, statErr)
		require.NoError(t, c.Close())
	}
}

func TestOtherContentThatPacksToTheSameBytesIsFoundTheNextTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	p := bytes.Repeat([]byte{1}, 200)
	c := mustOpen(t, path, nil)
	for i, content := range [][]byte{contentOf("1", 100), contentOf("2", 100), contentOf("2", 100)} {
		s := newSession(t, c, map[string][]byte{"w": content})
		_, hit := packWeight(t, s, 7, load(t, s, "w"), 0, p)
		finish(t, s)
		require.NoError(t, c.Save())
		require.Equal(t, i == 2, hit)
	}
	require.NoError(t, c.Close())
}

func TestAPrivateEntryNeverCausesACommit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	c := otherProcess(t, path)
	open(t, c, someTensors(1, 100)).close(t)
	require.NoError(t, c.Save())
	theirs := otherProcess(t, path)
	blocker := newSession(t, theirs, someTensors(2, 77))
	blocker.lookUp(lookUpKey{1, load(t, blocker, "tensor 1"), 0, 0}) // has the lock
	at := func(stamp string) *Session {
		content := contentOf("w", 100)
		s, err := c.NewSession(tensorMap{"w": {Data: content, Identity: Identity{Source: "model", Stamp: stamp}}})
		require.NoError(t, err)
		t.Cleanup(func() { _ = s.Close() })
		packWeight(t, s, 7, load(t, s, "w"), 0, make([]byte, 200))
		return s
	}
	first := at("1")
	err := first.Finalize()
	require.NoError(t, err)
	require.NoError(t, blocker.Close())
	require.NoError(t, theirs.Close())
	before := c.Stats().Generation
	second := at("2")
	require.NoError(t, second.Finalize())
	require.NoError(t, c.Save())
	require.Equal(t, before, c.Stats().Generation)
}

func TestFlagsSetWhileACompactionCopiesAreKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	m := map[string][]byte{"w": contentOf("w", 1000)}
	p := packedFrom(m["w"])
	c := mustOpen(t, path, nil)
	s := newSession(t, c, m)
	packWeight(t, s, 7, load(t, s, "w", PackedAs(packing.Opaque(nil))), 0, p)
	finish(t, s)
	require.NoError(t, c.Save())
	atCopy, copyOn := make(chan bool), make(chan bool)
	setFiles(c, wrappedFiles{osdisk.Files{}, func(d store.File, err error) (store.File, error) {
		atCopy <- true
		<-copyOn
		return d, err
	}})
	compacted := make(chan error)
	go func() { compacted <- c.Compact() }()
	<-atCopy
	s = newSession(t, c, m)
	packWeight(t, s, 7, load(t, s, "w", PackedAs(packing.Opaque(nil))), 0, p)
	packWeight(t, s, 7, load(t, s, "w", PackedAs(packing.Opaque(nil))), 0, p) // tied
	finish(t, s)
	close(copyOn)
	require.NoError(t, <-compacted)
	s = newSession(t, c, m)
	packWeight(t, s, 7, load(t, s, "w", PackedAs(packing.Opaque(nil))), 0, p)
	_, hit := packWeight(t, s, 7, load(t, s, "w", PackedAs(packing.Opaque(nil))), 0, p)
	require.True(t, hit)
	finish(t, s)
	require.NoError(t, c.Close())
}

func TestAPanicOfTheHostsProgressFunctionHarmsNothing(t *testing.T) {
	var l listener
	o := l.options()
	o.Progress = func(Progress) { panic("x") }
	c := mustOpen(t, filepath.Join(t.TempDir(), "c"), o)
	s := newSession(t, c, map[string][]byte{"w": contentOf("w", 100)})
	b, _ := s.Load("w", Eager())
	space := s.reserve(100)        // blind: scratch
	var address = addressOf(space) // as xpwcLookUpOrInsert does
	func() {
		defer func() { recover() }()
		address = s.insert(lookUpKey{7, addressOf(b), 0, 0}, addressOf(space), 100)
	}()
	bytesAt(t, s, address, 100)
	require.Equal(t, []string{"the cache goes on after an error"}, l.messages(c))
	require.NoError(t, s.Finalize())
	require.ErrorContains(t, c.Stats().LastError, "panic in Options.Progress: x")
}

// A runtime whose creation failed has its reason in Finalize's error.
func TestWhyXNNPACKCouldNotCreateARuntimeIsFinalizesError(t *testing.T) {
	full := errors.New("the source's disk is gone")
	c := mustOpen(t, "", nil)
	s, err := c.NewSession(tensorMap{"w": {Size: 100, Fill: func([]byte) error { return full }}})
	require.NoError(t, err)
	require.Equal(t, notFound, s.lookUp(lookUpKey{7, load(t, s, "w"), 0, 0}))
	require.Nil(t, s.reserve(100))
	for range 2 {
		require.ErrorIs(t, s.Finalize(), full)
	}
	require.Empty(t, s.Names())
}

// A compaction does not put its file in the place of one it has not copied.
func TestACompactionLeavesAFileThatCameMeanwhile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	c := mustOpen(t, path, nil)
	open(t, c, someTensors(2, 1000)).close(t)
	require.NoError(t, c.Save())
	setFiles(c, wrappedFiles{osdisk.Files{}, func(d store.File, err error) (store.File, error) {
		require.NoError(t, os.Rename(path, path+".moved"))
		theirs := otherProcess(t, path)
		open(t, theirs, map[string][]byte{"theirs": contentOf("t", 100)}).close(t)
		require.NoError(t, theirs.Close())
		return d, err
	}})
	require.ErrorIs(t, c.Compact(), ErrReplaced)
	require.NoError(t, c.Close())
	require.NoFileExists(t, path+".compact")
	c = mustOpen(t, path, &Options{Strict: true})
	open(t, c, map[string][]byte{"theirs": contentOf("t", 100)}).close(t)
	require.EqualValues(t, 1, c.Stats().Hits.Entries)
	require.NoError(t, c.Close())
}

// A bias that XNNPACK will pack without naming it is computed by the look-up that misses.
func TestWhatMayBeAHiddenBiasIsComputed(t *testing.T) {
	c := mustOpen(t, "", nil)
	m := map[string][]byte{"w": contentOf("w", 1000), "v": contentOf("v", 1000), "b": contentOf("b", 100),
		"unlike a bias": contentOf("x", 1<<20)}
	s := newSession(t, c, m)
	load(t, s, "unlike a bias")
	b, err := s.Load("b", PackOnly())
	require.NoError(t, err)
	packWeight(t, s, 7, load(t, s, "w"), addressOf(b), make([]byte, 100))
	finish(t, s)

	s = newSession(t, c, m)
	big, err := s.Load("unlike a bias", Believe())
	require.NoError(t, err)
	b, err = s.Load("b", PackOnly())
	require.NoError(t, err)
	_, hit := packWeight(t, s, 7, load(t, s, "w"), addressOf(b), make([]byte, 100))
	require.True(t, hit)
	require.NotEqual(t, m["b"], b, "not for a hit")
	require.Equal(t, notFound, s.lookUp(lookUpKey{7, load(t, s, "v"), 0, 0}))
	require.Equal(t, m["b"], b)
	require.NotEqual(t, m["unlike a bias"], big)
	finish(t, s)
	require.NoError(t, c.Close())
}

// XNNPACK gives addresses. Formats that keep equal content once give two names the same.
func TestATensorIsNotTakenForOneThatBeginsAtItsAddress(t *testing.T) {
	for _, names := range [][]string{{"whole", "half"}, {"half", "whole"}} {
		t.Run(names[1]+" loaded last", func(t *testing.T) {
			memory, err := newAnonymousRegion(100)
			require.NoError(t, err)
			copy(memory.Data(), contentOf("w", 100))
			m := tensorMap{"whole": {Data: memory.Data()[:100]}, "half": {Data: memory.Data()[:50]}}
			c := mustOpen(t, filepath.Join(t.TempDir(), "cache"), nil)
			packed := func(bytes []byte) []byte {
				s, err := c.NewSession(m)
				require.NoError(t, err)
				load(t, s, names[0])
				got, _ := packWeight(t, s, 7, load(t, s, names[1]), 0, bytes)
				finish(t, s)
				return got
			}
			p1, p2 := bytes.Repeat([]byte{1}, 200), bytes.Repeat([]byte{2}, 200)
			require.Equal(t, p1, packed(p1))
			memory.Data()[99]++
			require.Equal(t, p2, packed(p2), "the whole has changed")
			require.NoError(t, c.Close())
		})
	}
}

func TestWhatIsToldOfOneNameCountsForAllAtItsAddress(t *testing.T) {
	memory, err := newAnonymousRegion(100)
	require.NoError(t, err)
	copy(memory.Data(), contentOf("w", 100))
	m := tensorMap{"a": {Data: memory.Data()[:100]}, "b": {Data: memory.Data()[:100]}}
	q1, q2 := []byte("scale 1"), []byte("scale 2")
	p1, p2 := bytes.Repeat([]byte{1}, 200), bytes.Repeat([]byte{2}, 200)
	for _, late := range []bool{false, true} { // given a, when b is loaded already
		c := mustOpen(t, filepath.Join(t.TempDir(), "cache"), nil)
		s, err := c.NewSession(m)
		require.NoError(t, err)
		if late {
			load(t, s, "a")
		} else {
			load(t, s, "a", PackedAs(packing.Opaque(q1)))
		}
		w := load(t, s, "b", PackedAs(packing.Opaque(q2)))
		load(t, s, "a", PackedAs(packing.Opaque(q1)))
		packWeight(t, s, 7, w, 0, p1) // the operator of a; creating the one of b fails
		finish(t, s)

		s, err = c.NewSession(m)
		require.NoError(t, err)
		got, _ := packWeight(t, s, 7, load(t, s, "b", PackedAs(packing.Opaque(q2))), 0, p2)
		require.Equal(t, p2, got)
		finish(t, s)
		require.NoError(t, c.Close())
	}
}

// What could not be said in the file at once, because another process was writing to it, is said when it has ended.
func TestANewStampIsCommittedWhenAnotherProcessHasEndedWriting(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	use := func(c *Cache, stamp string) (hit bool) {
		s, hit := useStamped(t, c, stamp)
		finish(t, s)
		return hit
	}
	c := mustOpen(t, path, nil)
	require.False(t, use(c, "old"))
	require.NoError(t, c.Save())

	theirs := otherProcess(t, path)
	packs := newSession(t, theirs, map[string][]byte{"b": contentOf("b", 3000)})
	space, err := beginPacking(packs, "b", 3000)
	require.NoError(t, err)
	require.True(t, use(c, "new"))
	require.NoError(t, c.Save())
	endPacking(packs, "b", space)
	finish(t, packs)
	require.NoError(t, theirs.Close())

	require.True(t, use(c, "new"))
	require.NoError(t, c.Save())
	require.EqualValues(t, 3, c.Stats().Generation)
	require.NoError(t, c.Close())
	c = mustOpen(t, path, nil)
	require.True(t, use(c, "new"))
	require.NoError(t, c.Save())
	require.Zero(t, c.Stats().WrittenBytes, "the file has the new stamp")
}

// Who gives the writer's lock up, as a look-up does that finds what another process packed, waits for no flush.
func TestNobodyWaitsForAFlushToStopWriting(t *testing.T) {
	c, h := openHooked(t, filepath.Join(t.TempDir(), "cache"), nil)
	o := open(t, c, someTensors(1, 3000))
	c.commitWithSave()
	s := newSession(t, c, nil)
	h.flush = func(string) error {
		require.True(t, s.startWriting())
		s.user.StopWriting()
		return nil
	}
	require.NoError(t, c.Save())
	h.flush = nil
	require.False(t, storeOf(c).Writing())
	o.close(t)
	require.NoError(t, s.Close())
}

// A session that waits for a compaction of its own process does not say that it waits for another one.
func TestNobodySaysThatACompactionIsAnotherProcess(t *testing.T) {
	var l listener
	o := l.options()
	o.WriterWait = 250 * time.Millisecond // longer than the first try takes on a slow machine
	path := filepath.Join(t.TempDir(), "cache")
	c, h := openHooked(t, path, o)
	open(t, c, someTensors(1, 3000)).close(t)
	require.NoError(t, c.Save())
	s := newSession(t, c, nil)
	h.flush = func(string) error {
		s.startWriting()
		return nil
	}
	require.NoError(t, c.Compact())
	require.Equal(t, ReasonBusy, s.noFile)
	const waiting = "waiting for another process that packs into the cache file"
	require.NotContains(t, l.messages(c), waiting)

	theirs := otherProcess(t, path)
	holding := newSession(t, theirs, someTensors(1, 50))
	for name := range someTensors(1, 50) {
		require.Equal(t, notFound, holding.lookUp(lookUpKey{1, load(t, holding, name), 0, 0}))
	}
	open(t, c, map[string][]byte{"new": contentOf("new", 100)}).close(t)
	require.Contains(t, l.messages(c), waiting, "nobody has waited for one so far")
}

// useStamped has a session find or pack a tensor whose stamp may be another each time.
func useStamped(t *testing.T, c *Cache, stamp string) (s *Session, hit bool) {
	t.Helper()
	content := contentOf("a", 3000)
	s, err := c.NewSession(tensorMap{"a": {Data: content, Identity: Identity{Source: "model", Stamp: stamp}}})
	require.NoError(t, err)
	_, hit = packWeight(t, s, 42, load(t, s, "a"), 0, packedFrom(content))
	return s, hit
}

// A process that uses an entry, and commits something else, leaves what another one has said of it since.
func TestACommitLeavesTheStampsOfAnotherProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	c := mustOpen(t, path, nil)
	s, _ := useStamped(t, c, "old")
	finish(t, s)
	require.NoError(t, c.Save())
	require.NoError(t, c.Close())
	c = mustOpen(t, path, nil)
	uses, hit := useStamped(t, c, "old")
	require.True(t, hit)
	require.NoError(t, uses.Finalize())

	theirs := otherProcess(t, path)
	s, hit = useStamped(t, theirs, "new")
	require.True(t, hit)
	finish(t, s)
	require.NoError(t, theirs.Close())

	open(t, c, map[string][]byte{"b": contentOf("b", 3000)}).close(t)
	require.NoError(t, c.Save())
	require.NoError(t, uses.Close())
	require.NoError(t, c.Close())
	c = mustOpen(t, path, nil)
	s, hit = useStamped(t, c, "new")
	require.True(t, hit)
	finish(t, s)
	require.NoError(t, c.Save())
	require.Zero(t, c.Stats().WrittenBytes, "the file has the new stamp")
}

// What changes while a commit is written is committed after it.
func TestANewStampIsCommittedThatComesDuringACommit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	c, h := openHooked(t, path, nil)
	s, _ := useStamped(t, c, "old")
	finish(t, s)
	require.NoError(t, c.Save())
	open(t, c, map[string][]byte{"b": contentOf("b", 3000)}).close(t)
	c.commitWithSave()
	h.flush = func(string) error {
		h.flush = nil
		s, _ := useStamped(t, c, "new")
		finish(t, s)
		return nil
	}
	require.NoError(t, c.Save())
	require.NoError(t, c.Close())
	c = mustOpen(t, path, nil)
	s, hit := useStamped(t, c, "new")
	require.True(t, hit)
	finish(t, s)
	require.NoError(t, c.Save())
	require.Zero(t, c.Stats().WrittenBytes, "the file has the new stamp")
}
