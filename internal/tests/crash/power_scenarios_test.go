package crash

import (
	"bytes"
	"fmt"
	"iter"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/format"
	"xpwc/internal/tests/harness"
	"xpwc/internal/tests/memdisk"
	"xpwc/internal/tests/testkit"
	"xpwc/internal/writer"
)

// The scenarios of one process.

func firstGeneration(s *scenario) {
	s.dir.Record()
	c := s.open(s.dir.Process())
	s.commit(c, s.tensors(0, 1+s.random.IntN(5)))
	require.NoError(s.t, c.Close())
}

func severalGenerations(s *scenario) {
	s.dir.Record()
	c := s.open(s.dir.Process())
	for range 4 {
		s.commit(c, s.tensors(s.random.IntN(4), 1+s.random.IntN(3)))
		if s.random.IntN(2) == 0 { // whether it is the same process or the next one
			require.NoError(s.t, c.Close())
			c = s.open(s.dir.Process())
		}
	}
	require.NoError(s.t, c.Close())
}

// One session packs slowly, also while others' commits are on their way to the disk.
func commitsWhilePacking(s *scenario) {
	s.dir.Record()
	p := s.dir.Process()
	c := s.open(p)
	slow := s.tensors(100, 2)
	session, err := c.NewSession(slow)
	require.NoError(s.t, err)
	for i, name := range slices.Sorted(maps.Keys(slow)) {
		packed := harness.PackedFrom(slow[name])
		space, err := harness.BeginPacking(session, name, len(packed))
		require.NoError(s.t, err)
		done := 0
		p.OnCall = func() {
			done += copy(space[done:], packed[done:min(len(packed), done+len(packed)/8)])
		}
		for j := range 2 {
			s.commit(c, s.tensors(3*i+j, 2))
		}
		p.OnCall = nil
		copy(space, packed)
		harness.EndPacking(session, name, space)
	}
	err = session.Finalize()
	require.NoError(s.t, err)
	require.NoError(s.t, c.Save())
	s.promise(c, slow)
	require.NoError(s.t, session.Close())
	require.NoError(s.t, c.Close())
}

func compaction(s *scenario) {
	s.dir.Record()
	c := s.open(s.dir.Process())
	for range 2 {
		s.commit(c, s.tensors(0, 3))
		s.commit(c, s.tensors(1, 2))
		s.compact(c)
	}
	s.commit(c, s.tensors(2, 2))
	require.NoError(s.t, c.Close())
}

func automaticCompaction(s *scenario) {
	c := s.open(s.dir.Process())
	for c.Stats().DeadBytes < writer.MinDeadBytes/2 { // what leads up to it need not be replayed
		s.commit(c, s.tensors(0, 2))
	}
	require.Zero(s.t, c.Stats().Compactions)
	require.NoError(s.t, c.Close())
	s.keepLast()
	s.dir.Record()
	c = s.open(s.dir.Process())
	for c.Stats().Compactions == 0 {
		s.commit(c, s.tensors(0, 5))
	}
	s.commit(c, s.tensors(1, 2))
	require.NoError(s.t, c.Close())
}

// keepLast forgets the states that led to the last one.
func (s *scenario) keepLast() {
	last := s.last()
	last.promised = 0
	s.states = []state{{}, last}
}

// startWithExecuTorch puts an ExecuTorch file at the path, with some of a model's packed weights.
func (s *scenario) startWithExecuTorch(m harness.OneModel) {
	var file []byte
	var entries []format.TrailerEntry
	for _, name := range slices.Sorted(maps.Keys(m)) {
		packed := harness.PackedFrom(m[name])
		file = append(file, make([]byte, format.AlignUp(uint64(len(file)), format.Alignment)-uint64(len(file)))...)
		entries = append(entries, format.TrailerEntry{Name: name, Offset: uint64(len(file)), Size: uint64(len(packed)),
			Seed: 42})
		file = append(file, packed...)
	}
	file = append(file, format.EncodeTrailer(entries, uint64(len(file)))...)
	s.dir.Put(powerPath, file, int64(len(file)))
	s.states = []state{{refused: xpwc.ErrForeign, raw: file, gone: true}}
}

func replacingExecuTorchs(s *scenario) {
	m := s.tensors(0, 4)
	s.startWithExecuTorch(m)
	s.dir.Record()
	c := s.open(s.dir.Process())
	s.commit(c, m)
	s.commit(c, s.tensors(2, 3))
	require.NoError(s.t, c.Close())
}

func settingADamagedFileAside(s *scenario) {
	c := s.open(s.dir.Process())
	s.commit(c, s.tensors(0, 4))
	indexAt := harness.Store(c).Slot().IndexOffset
	require.NoError(s.t, c.Close())
	content := s.dir.Content(powerPath)
	content[indexAt+uint64(s.random.IntN(64))] ^= 1
	s.states = []state{{refused: xpwc.ErrDamaged, raw: bytes.Clone(content), gone: true}}
	s.dir.Record()
	c = s.open(s.dir.Process())
	s.commit(c, s.tensors(0, 4))
	require.NoError(s.t, c.Close())
}

// What a process is killed at.
var interrupted = map[string]struct {
	start   func(s *scenario)
	compact bool
}{
	"the first packing":           {start: func(*scenario) {}},
	"a later packing":             {start: startWithACommit},
	"compacting":                  {start: startWithACommit, compact: true},
	"replacing ExecuTorch's file": {start: func(s *scenario) { s.startWithExecuTorch(s.tensors(0, 3)) }},
}

func startWithACommit(s *scenario) {
	c := s.open(s.dir.Process())
	s.commit(c, s.tensors(0, 3))
	require.NoError(s.t, c.Close())
	s.keepLast()
}

// recordKilled has one process killed at one of its calls and another go on. It reports whether there was such a call.
func recordKilled(s *scenario, start func(*scenario), compact bool, call int) bool {
	start(s)
	s.dir.Record()
	count := s.last().generation
	killed := s.dir.Process()
	killed.KillAt = call
	m := s.tensors(1, 3)
	if c, err := openOn(killed, &xpwc.Options{WriterWait: -1}); err == nil {
		session, err := harness.PackModel(c, m)
		_ = c.Save()
		if compact {
			_ = c.Compact()
		}
		if err == nil {
			_ = session.Close()
		}
		_ = c.Close() // gives back its memory; the directory no longer hears of it
	}
	c := s.open(s.dir.Process())
	if got := c.Stats().Generation; got > count { // nobody was promised it
		s.states = append(s.states, s.entry(m, c, never))
	}
	s.commit(c, s.tensors(2, 3))
	s.commit(c, s.tensors(3, 1))
	require.NoError(s.t, c.Close())
	return killed.Killed()
}

// recordNext has the next process write to an image.
func recordNext(t *testing.T, image *memdisk.Dir, recovered state, seed uint64) *scenario {
	s := &scenario{t: t, random: rand.New(rand.NewPCG(seed, 2)), dir: image, states: []state{{}}}
	switch recovered.promised = 0; {
	case recovered.refused != nil:
		s.states = []state{recovered}
	case recovered.generation > 0:
		s.states = append(s.states, recovered)
	}
	s.dir.Record()
	c := s.open(image.Process())
	s.commit(c, s.tensors(1, 3))
	if s.random.IntN(2) == 0 {
		s.compact(c)
	}
	require.NoError(t, c.Close())
	return s
}

// About so many images are looked at; with -short or the race detector, a tenth.
const powerImages = 100_000

func TestPowerFailsAtAnyMoment(t *testing.T) {
	fewer := 1
	if testing.Short() || testkit.Race() {
		fewer = 10
	}
	const goOnEvery = 20
	seed := testkit.Seed(t)
	var images, nextSessions atomic.Int64
	look := func(s *scenario, seed uint64, perMoment int) {
		s.t.Helper()
		n, err := s.replay(imaging{seed: seed, perMoment: perMoment, goOnEvery: goOnEvery})
		images.Add(int64(n))
		nextSessions.Add(int64(n / goOnEvery))
		require.NoError(s.t, err, "seed %d", seed)
		s.dir.Free()
	}
	records := map[string]func(*scenario){
		"the first generation":         firstGeneration,
		"several generations":          severalGenerations,
		"commits while another packs":  commitsWhilePacking,
		"compaction":                   compaction,
		"automatic compaction":         automaticCompaction,
		"replacing ExecuTorch's file":  replacingExecuTorchs,
		"setting a damaged file aside": settingADamagedFileAside,
	}
	t.Run("during", func(t *testing.T) { // returns when its parallel tests have ended
		for name, record := range records {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				for seed := range seeds(seed, 20/fewer) {
					s := newScenario(t, seed)
					record(s)
					look(s, seed, 20)
				}
			})
			t.Run(name+", and again after it", func(t *testing.T) {
				t.Parallel()
				s := newScenario(t, seed)
				record(s)
				sameSeed := seed
				_, err := s.replay(imaging{seed: seed, perMoment: 2, goOnEvery: 5 * fewer,
					visit: func(image *memdisk.Dir, recovered state) {
						sameSeed++
						look(recordNext(t, image, recovered, sameSeed), sameSeed, 2)
					}})
				require.NoError(t, err)
			})
		}
		for name, k := range interrupted {
			t.Run(name+" by a process that was killed", func(t *testing.T) {
				t.Parallel()
				for call, remaining := 1, true; remaining; call++ {
					seed := seed + uint64(call)
					s := newScenario(t, seed)
					remaining = recordKilled(s, k.start, k.compact, call)
					look(s, seed, 10/fewer)
				}
			})
		}
	})
	t.Logf("%d images, %d of them written to by a next session", images.Load(), nextSessions.Load())
	require.GreaterOrEqual(t, images.Load(), int64(powerImages/fewer/2))
}

// Systems differ in the size of a page: 16 KiB on Apple's, up to 64 KiB on Linux for arm64. Page size may affect the
// store's mappings, and nothing else that it does.
func TestPagesMayBeOfAnySize(t *testing.T) {
	for _, granularity := range []uint64{4 << 10, 16 << 10, 64 << 10} {
		for name, record := range map[string]func(*scenario){
			"several generations":         severalGenerations,
			"commits while another packs": commitsWhilePacking,
			"compaction":                  compaction,
			"automatic compaction":        automaticCompaction,
		} {
			t.Run(fmt.Sprintf("%d KiB, %s", granularity>>10, name), func(t *testing.T) {
				t.Parallel()
				for seed := range seeds(testkit.Seed(t), 4) {
					s := newScenario(t, seed)
					s.dir.Granularity = granularity
					record(s)
					images, err := s.replay(imaging{seed: seed, perMoment: 2, goOnEvery: 10})
					require.NoError(t, err, "seed %d", seed)
					require.Greater(t, images, 100)
					s.dir.Free()
				}
			})
		}
	}
}

func seeds(first uint64, n int) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for i := range uint64(n) {
			if !yield(first + i) {
				return
			}
		}
	}
}

// Were a flush left out, an image would show it.
func TestPowerFailureShowsAMissingFlush(t *testing.T) {
	memdisk.CheckFlushes(t, powerPath, func(forgets func(flush, step string) bool) error {
		s := newScenario(t, 1)
		s.dir.Record()
		p := s.dir.Process()
		p.Forgets = forgets
		c := s.open(p)
		s.commit(c, s.tensors(0, 3))
		s.commit(c, s.tensors(1, 3))
		s.compact(c)
		require.NoError(t, c.Close())
		_, err := s.replay(imaging{seed: 1, perMoment: 20, goOnEvery: math.MaxInt})
		return err
	})
}
