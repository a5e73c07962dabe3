package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/digest"
	"xpwc/internal/format"
	"xpwc/internal/store"
	"xpwc/internal/tests/memdisk"
	"xpwc/internal/tests/testkit"
)

// These tests record the store's calls to its disk, and check the images that a power failure at any moment could
// leave: all flushed bytes, and any of the unflushed. Each image must open to a committed generation, not older than
// the promised one, with every byte as it was packed.

// cachePath is the cache file in the directory in memory.
const cachePath = "cache"

// testLayout is the layout that everything is packed for.
var testLayout = format.Layout{Fingerprint: digest.Of([]byte("layout")), Description: "test"}

// A writer commits payloads to a store, under names, and no more.
type writer struct {
	*store.Store
	packed map[string]format.Record // what the generation in force has
}

func openOn(files store.Files) (*writer, error) {
	w := &writer{store.New(cachePath, files, 0), nil}
	return w, w.Load()
}

// content returns what the loaded generation has, by name.
func (w *writer) content() (map[string][]byte, error) {
	payloads := map[string][]byte{}
	if w.Index() == nil {
		return payloads, nil
	}
	for i := range w.Index().Len() {
		r, err := w.Index().Record(i)
		if err != nil {
			return nil, err
		}
		b := w.Payload(&r)
		if digest.Of(b) != r.Sum {
			return nil, fmt.Errorf("the payload of %s has another sum", r.Kernel)
		}
		payloads[r.Kernel] = bytes.Clone(b)
	}
	return payloads, nil
}

// begin makes this process the writer.
func (w *writer) begin() error {
	ok, err := w.Begin()
	switch {
	case errors.Is(err, format.ErrDamaged), errors.Is(err, format.ErrForeign):
		if _, ok, err := w.MakeWay(err); err != nil || !ok {
			return errors.Join(err, errors.New("nothing makes way"))
		}
		return w.begin()
	case err == nil && !ok:
		err = errors.New("another process is the writer")
	}
	if err != nil || w.packed != nil {
		return err
	}
	w.packed = map[string]format.Record{}
	if w.Index() == nil {
		return nil
	}
	for i := range w.Index().Len() {
		r, err := w.Index().Record(i)
		if err != nil {
			return err
		}
		w.packed[r.Kernel] = r
	}
	return nil
}

// reserve returns space for a payload.
func (w *writer) reserve(name string, size int) (store.Reservation, error) {
	return w.Reserve(uint64(size), uint64(len(name)))
}

// handIn completes a reservation.
func (w *writer) handIn(name string, r store.Reservation) error {
	store.Filled(r)
	w.packed[name] = format.Record{
		Key: format.Key{Layout: testLayout.Fingerprint, Kernel: name}, Seed: 42,
		Offset: r.Offset(), Size: uint64(len(r.Data)), Sum: digest.Of(r.Data),
	}
	return r.Region.Release()
}

// commit packs payloads and commits them. They replace earlier payloads of the same names.
func (w *writer) commit(payloads map[string][]byte) error {
	if err := w.begin(); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(payloads)) {
		r, err := w.reserve(name, len(payloads[name]))
		if err != nil {
			return err
		}
		copy(r.Data, payloads[name])
		if err := w.handIn(name, r); err != nil {
			return err
		}
	}
	records := slices.Collect(maps.Values(w.packed))
	plan, err := w.PrepareCommit([]format.Layout{testLayout}, records)
	if err != nil {
		return err
	}
	inForce, err := w.Conclude(plan, plan.Write())
	if err == nil && !inForce {
		err = errors.New("the commit is not in force")
	}
	return err
}

// rewrite compacts the generation in force into a new file.
func (w *writer) rewrite() error {
	if err := w.Relist(); err != nil {
		return err
	}
	var records []format.Record
	for i := range w.Index().Len() {
		r, err := w.Index().Record(i)
		if err != nil {
			return err
		}
		records = append(records, r)
	}
	rewriting, err := w.Rewrite(records, func([]format.Record) []format.Layout { return []format.Layout{testLayout} })
	if err != nil {
		return err
	}
	w.packed = nil
	return errors.Join(rewriting.TakePlace(), rewriting.Follow())
}

// A scenario is a recording and the expected contents of the file.
type scenario struct {
	t      *testing.T
	random *rand.Rand
	dir    *memdisk.Dir
	states []state
}

// A state is what the file holds from the previous state's generation, exclusive, up to this one's.
type state struct {
	generation uint64
	payloads   map[string][]byte
	promised   int // from this number of steps on, nothing older is acceptable

	refused error  // a file that is no cache of ours, or no longer: what it is refused with
	raw     []byte // its bytes
	gone    bool   // it may be set aside, or not be there
}

const never = math.MaxInt

func newScenario(t *testing.T, seed uint64) *scenario {
	s := &scenario{t: t, random: rand.New(rand.NewPCG(seed, 1)), dir: memdisk.New(), states: []state{{}}}
	t.Cleanup(s.dir.Free)
	return s
}

func (s *scenario) last() state { return s.states[len(s.states)-1] }

func (s *scenario) open(p *memdisk.Process) *writer {
	w, err := openOn(p)
	if err != nil && s.last().refused != nil {
		require.ErrorIs(s.t, err, s.last().refused)
		return w
	}
	require.NoError(s.t, err)
	return w
}

// payloads returns n payloads of random bytes, of names that start at first.
func (s *scenario) payloads(first, n int) map[string][]byte {
	payloads := map[string][]byte{}
	for i := range n {
		b := make([]byte, 1+s.random.IntN(3000))
		for j := range b {
			b[j] = byte(s.random.Uint32())
		}
		payloads[fmt.Sprint("payload ", first+i)] = b
	}
	return payloads
}

// commit has payloads committed, and notes that they are promised to stay.
func (s *scenario) commit(w *writer, payloads map[string][]byte) {
	s.t.Helper()
	require.NoError(s.t, w.commit(payloads))
	s.note(w, payloads, s.dir.Steps())
}

// note adds a state: what the last one had, and payloads.
func (s *scenario) note(w *writer, payloads map[string][]byte, promised int) {
	merged := map[string][]byte{}
	maps.Copy(merged, s.last().payloads)
	maps.Copy(merged, payloads)
	s.states = append(s.states, state{generation: w.Slot().Generation, payloads: merged, promised: promised})
}

func (s *scenario) close(w *writer) { require.NoError(s.t, w.Close()) }

// oldest returns what was promised last after so many steps.
func (s *scenario) oldest(steps int) (oldest state) {
	for _, st := range s.states {
		if st.promised <= steps {
			oldest = st
		}
	}
	return oldest
}

// check opens an image of the disk after so many steps.
func (s *scenario) check(image *memdisk.Dir, steps int) error {
	oldest := s.oldest(steps)
	w, err := openOn(image.Process())
	if errors.Is(err, format.ErrDamaged) && oldest.generation == 0 && (oldest.refused == nil || oldest.gone) &&
		lostHeader(image) {
		return w.Close() // the next process sets the new file aside
	}
	if err != nil {
		if oldest.refused == nil || !errors.Is(err, oldest.refused) || !image.HasContent(cachePath, oldest.raw) {
			err = fmt.Errorf("does not open: %w", err)
		} else {
			err = nil
		}
		return errors.Join(err, w.Close())
	}
	defer func() { _ = w.Close() }()
	if errors.Is(oldest.refused, format.ErrDamaged) && !image.HasContent(cachePath+".damaged", oldest.raw) {
		return errors.New("the damaged file was lost")
	}
	generation := w.Slot().Generation
	if generation < oldest.generation || generation == 0 && oldest.refused != nil && !oldest.gone {
		return fmt.Errorf("generation %d is in force, but %d was promised", generation, oldest.generation)
	}
	got, err := w.content()
	if err != nil || generation == 0 {
		return err
	}
	for _, st := range s.states {
		if st.refused == nil && generation <= st.generation {
			if !maps.EqualFunc(got, st.payloads, bytes.Equal) {
				return fmt.Errorf("generation %d has %d payloads, and not those that were committed",
					generation, len(got))
			}
			return nil
		}
	}
	return fmt.Errorf("generation %d, which nobody committed", generation)
}

// lostHeader reports whether the cache file begins with a header's zeros.
func lostHeader(image *memdisk.Dir) bool {
	content := image.Content(cachePath)
	return image.Size(cachePath) > format.HeaderSize &&
		len(bytes.Trim(content[:min(len(content), format.HeaderSize)], "\x00")) == 0
}

// next has another process commit to a copy of an image, and one more find it all.
func (s *scenario) next(image *memdisk.Dir) error {
	dir := image.Copy()
	defer dir.Free()
	w, err := openOn(dir.Process())
	if err != nil && !errors.Is(err, format.ErrForeign) && !errors.Is(err, format.ErrDamaged) {
		return err
	}
	want, err := w.content()
	if err != nil {
		return err
	}
	added := s.payloads(1, 2)
	maps.Copy(want, added)
	if err := errors.Join(w.commit(added), w.Close()); err != nil {
		return fmt.Errorf("the next process: %w", err)
	}
	w, err = openOn(dir.Process())
	if err != nil {
		return fmt.Errorf("does not open after the next process: %w", err)
	}
	got, err := w.content()
	if err == nil && !maps.EqualFunc(got, want, bytes.Equal) {
		err = errors.New("after the next process the file has other payloads")
	}
	return errors.Join(err, w.Close())
}

func (s *scenario) replay(seed uint64, perMoment int) (images int, err error) {
	return s.dir.Replay(seed, perMoment, func(image *memdisk.Dir, steps, images int) error {
		err := s.check(image, steps)
		if err == nil && images%20 == 0 {
			err = s.next(image)
		}
		return err
	})
}

func severalGenerations(s *scenario) {
	s.dir.Record()
	w := s.open(s.dir.Process())
	for range 4 {
		s.commit(w, s.payloads(s.random.IntN(4), 1+s.random.IntN(3)))
		if s.random.IntN(2) == 0 { // whether it is the same process or the next one
			s.close(w)
			w = s.open(s.dir.Process())
		}
	}
	s.close(w)
}

// Something is packed slowly, also while commits are on their way to the disk.
func commitsWhilePacking(s *scenario) {
	s.dir.Record()
	p := s.dir.Process()
	w := s.open(p)
	slow := s.payloads(100, 1)
	for name, payload := range slow {
		require.NoError(s.t, w.begin())
		r, err := w.reserve(name, len(payload))
		require.NoError(s.t, err)
		done := 0
		p.OnCall = func() { done += copy(r.Data[done:], payload[done:min(len(payload), done+len(payload)/8)]) }
		for i := range 3 {
			s.commit(w, s.payloads(2*i, 2))
		}
		p.OnCall = nil
		copy(r.Data, payload)
		require.NoError(s.t, w.handIn(name, r))
	}
	require.NoError(s.t, w.commit(nil))
	s.note(w, slow, s.dir.Steps())
	s.close(w)
}

func rewriting(s *scenario) {
	s.dir.Record()
	w := s.open(s.dir.Process())
	for range 2 {
		s.commit(w, s.payloads(0, 3))
		s.commit(w, s.payloads(1, 2))
		require.NoError(s.t, w.rewrite())
		s.note(w, nil, s.dir.Steps())
	}
	s.commit(w, s.payloads(2, 2))
	s.close(w)
}

// startWithExecuTorch puts a file as ExecuTorch writes it at the path.
func startWithExecuTorch(s *scenario) {
	file := bytes.Repeat([]byte{1}, 1000)
	entries := []format.TrailerEntry{{Name: "payload 0", Size: uint64(len(file)), Seed: 42}}
	file = append(file, format.EncodeTrailer(entries, uint64(len(file)))...)
	s.dir.Put(cachePath, file, int64(len(file)))
	s.states = []state{{refused: format.ErrForeign, raw: file, gone: true}}
}

func replacingExecuTorchs(s *scenario) {
	startWithExecuTorch(s)
	s.dir.Record()
	w := s.open(s.dir.Process())
	s.commit(w, s.payloads(0, 4))
	s.commit(w, s.payloads(2, 3))
	s.close(w)
}

func settingADamagedFileAside(s *scenario) {
	w := s.open(s.dir.Process())
	s.commit(w, s.payloads(0, 4))
	indexAt := w.Slot().IndexOffset
	s.close(w)
	content := s.dir.Content(cachePath)
	content[indexAt+uint64(s.random.IntN(64))] ^= 1
	s.states = []state{{refused: format.ErrDamaged, raw: bytes.Clone(content), gone: true}}
	s.dir.Record()
	w = s.open(s.dir.Process())
	require.NoError(s.t, setAside(w))
	s.commit(w, s.payloads(0, 4))
	s.close(w)
}

func setAside(w *writer) error {
	_, _, err := w.MakeWay(nil)
	return err
}

func startWithACommit(s *scenario) {
	w := s.open(s.dir.Process())
	s.commit(w, s.payloads(0, 3))
	s.close(w)
	last := s.last()
	last.promised = 0
	s.states = []state{{}, last}
}

// recordKilled has one process killed at one of its calls and another go on. It reports whether there was such a call.
func recordKilled(s *scenario, start func(*scenario), rewrites bool, call int) bool {
	start(s)
	s.dir.Record()
	committed := s.last().generation
	killed := s.dir.Process()
	killed.KillAt = call
	payloads := s.payloads(1, 3)
	if w, err := openOn(killed); err == nil || errors.Is(err, format.ErrForeign) {
		err := w.commit(payloads)
		if err == nil && rewrites {
			_ = w.rewrite()
		}
		_ = w.Close() // gives back its memory; the directory no longer hears of it
	}
	w := s.open(s.dir.Process())
	if !rewrites {
		require.Subset(s.t, []string{cachePath}, s.dir.Names(), "no file stays next to the cache")
	}
	if w.Slot().Generation > committed { // nobody was promised it
		s.note(w, payloads, never)
	}
	s.commit(w, s.payloads(2, 3))
	s.commit(w, s.payloads(3, 1))
	s.close(w)
	return killed.Killed()
}

func TestPowerFailsAtAnyMoment(t *testing.T) {
	runs := uint64(10)
	if testing.Short() {
		runs = 1
	}
	first := testkit.Seed(t)
	for name, record := range map[string]func(*scenario){
		"several generations":          severalGenerations,
		"commits while another packs":  commitsWhilePacking,
		"rewriting":                    rewriting,
		"replacing ExecuTorch's file":  replacingExecuTorchs,
		"setting a damaged file aside": settingADamagedFileAside,
	} {
		for _, granularity := range []uint64{4 << 10, 16 << 10, 64 << 10} {
			t.Run(fmt.Sprintf("%s, pages of %d KiB", name, granularity>>10), func(t *testing.T) {
				t.Parallel()
				for seed := first; seed < first+runs; seed++ {
					s := newScenario(t, seed)
					s.dir.Granularity = granularity
					record(s)
					images, err := s.replay(seed, 5)
					require.NoError(t, err, "seed %d", seed)
					require.Greater(t, images, 50)
					s.dir.Free()
				}
			})
		}
	}
}

func TestPowerFailsAfterAProcessWasKilled(t *testing.T) {
	perMoment := 5
	if testing.Short() {
		perMoment = 1
	}
	seed := testkit.Seed(t)
	for name, work := range map[string]struct {
		start    func(*scenario)
		rewrites bool
	}{
		"the first packing":           {start: func(*scenario) {}},
		"a later packing":             {start: startWithACommit},
		"rewriting":                   {start: startWithACommit, rewrites: true},
		"replacing ExecuTorch's file": {start: startWithExecuTorch},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			calls := 0
			for killed := true; killed; calls++ {
				s := newScenario(t, seed+uint64(calls))
				killed = recordKilled(s, work.start, work.rewrites, calls+1)
				_, err := s.replay(seed+uint64(calls), perMoment)
				require.NoError(t, err, "killed at call %d", calls+1)
				s.dir.Free()
			}
			require.Greater(t, calls, 10)
		})
	}
}

// Were a flush left out, an image would show it.
func TestPowerFailureShowsAMissingFlush(t *testing.T) {
	memdisk.CheckFlushes(t, cachePath, func(forgets func(flush, prev string) bool) error {
		s := newScenario(t, 1)
		s.dir.Record()
		p := s.dir.Process()
		p.Forgets = forgets
		w := s.open(p)
		s.commit(w, s.payloads(0, 3))
		s.commit(w, s.payloads(1, 3))
		require.NoError(t, w.rewrite())
		s.note(w, nil, s.dir.Steps())
		s.close(w)
		_, err := s.replay(1, 20)
		return err
	})
}
