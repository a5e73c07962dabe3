package crash

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc"
	"xpwc/internal/digest"
	"xpwc/internal/format"
	"xpwc/internal/tests/harness"
	"xpwc/internal/tests/memdisk"
)

// These tests record the store's calls to its disk, and check the disk images that a power failure at any moment could
// leave: everything that was flushed, and any part of the rest. Each such image must open to a generation that was
// committed, not older than Save or Compact promised, with every byte as it was packed.

// powerPath is the cache file in the directory in memory.
const powerPath = "cache"

// A scenario is a recording, and the content that the file must hold.
type scenario struct {
	t      *testing.T
	random *rand.Rand
	dir    *memdisk.Dir
	states []state
}

// A state is what the file holds from the previous state's generation, exclusive, up to this one's.
type state struct {
	generation uint64
	slot       format.Slot // of that very generation
	packed     map[string][]byte
	promised   int // from this number of steps on, nothing older is acceptable

	// A file that is no cache of ours, or no longer: what it is refused with, and its bytes.
	refused error
	raw     []byte
	gone    bool // it may be set aside, or not be there
}

const never = math.MaxInt

func newScenario(t *testing.T, seed uint64) *scenario {
	s := &scenario{t: t, random: rand.New(rand.NewPCG(seed, 1)), dir: memdisk.New()}
	t.Cleanup(s.dir.Free)
	s.states = []state{{}}
	return s
}

func (s *scenario) last() state { return s.states[len(s.states)-1] }

// tensors returns n tensors of random content, of names that start at first.
func (s *scenario) tensors(first, n int) harness.OneModel {
	m := harness.OneModel{}
	for i := range n {
		b := make([]byte, 1+s.random.IntN(3000))
		for j := range b {
			b[j] = byte(s.random.Uint32())
		}
		if len(b) > 1 { // what is the same throughout is compared each time
			b[1] = b[0] ^ 1
		}
		m[fmt.Sprint("tensor ", first+i)] = b
	}
	return m
}

// openOn opens the cache as newCache does, in this directory. All reads of the disk are recorded.
func openOn(p *memdisk.Process, o *xpwc.Options) (*xpwc.Cache, error) {
	var v xpwc.Options
	if o != nil {
		v = *o
	}
	v.Verify = xpwc.VerifyStructure
	return harness.OpenAlone(powerPath, &v, p)
}

func (s *scenario) open(p *memdisk.Process) *xpwc.Cache {
	c, err := openOn(p, &xpwc.Options{WriterWait: -1})
	require.NoError(s.t, err)
	return c
}

// commit packs a model and waits until it is promised to stay.
func (s *scenario) commit(c *xpwc.Cache, m harness.OneModel) {
	s.t.Helper()
	session, err := harness.PackModel(c, m)
	require.NoError(s.t, err)
	require.NoError(s.t, c.Save())
	s.promise(c, m)
	require.NoError(s.t, session.Close())
}

// promise takes note that the file holds what it held before and the model.
func (s *scenario) promise(c *xpwc.Cache, m harness.OneModel) {
	require.Empty(s.t, c.Stats().Private)
	s.states = append(s.states, s.entry(m, c, s.dir.Steps()))
}

func (s *scenario) entry(m harness.OneModel, c *xpwc.Cache, promised int) state {
	packed := maps.Clone(s.last().packed)
	if packed == nil {
		packed = map[string][]byte{}
	}
	for name, content := range m {
		packed[name] = harness.PackedFrom(content)
	}
	return state{generation: harness.Store(c).Slot().Generation, slot: harness.Store(c).Slot(), packed: packed,
		promised: promised}
}

func (s *scenario) compact(c *xpwc.Cache) {
	require.NoError(s.t, c.Compact())
	s.promise(c, nil)
}

// minimum returns what was promised last after so many steps.
func (s *scenario) minimum(steps int) (minimum state) {
	for _, st := range s.states {
		if st.promised <= steps {
			minimum = st
		}
	}
	return minimum
}

// holding returns the state that a generation belongs to.
func (s *scenario) holding(generation uint64) (state, bool) {
	for _, st := range s.states {
		if st.refused == nil && generation <= st.generation {
			return st, true
		}
	}
	return state{}, false
}

// check opens the directory as an image of the disk after so many steps.
func (s *scenario) check(image *memdisk.Dir, steps int) (recovered state, err error) {
	minimum := s.minimum(steps)
	c, err := openOn(image.Process(), &xpwc.Options{Strict: true})
	if err != nil {
		return minimum, s.checkRefused(image, minimum, err)
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	slot := harness.Store(c).Slot()
	if minimum.refused != nil && !minimum.gone && slot.Generation == 0 || slot.Generation < minimum.generation {
		return state{}, fmt.Errorf("generation %d is in force, but %d was promised", slot.Generation,
			minimum.generation)
	}
	if slot.Generation == 0 {
		return state{}, s.checkSetAside(image, minimum)
	}
	recovered, ok := s.holding(slot.Generation)
	if !ok {
		return state{}, fmt.Errorf("generation %d, which nobody committed", slot.Generation)
	}
	if recovered.generation == slot.Generation && recovered.slot != slot {
		return state{}, fmt.Errorf("generation %d has the slot %+v instead of %+v", slot.Generation, slot,
			recovered.slot)
	}
	recovered.generation, recovered.slot = slot.Generation, slot
	if n := harness.Store(c).Index().Len(); n != len(recovered.packed) {
		return state{}, fmt.Errorf("generation %d has %d records instead of %d", slot.Generation, n,
			len(recovered.packed))
	}
	for i := range harness.Store(c).Index().Len() {
		r, err := harness.Store(c).Index().Record(i)
		if err != nil {
			return state{}, err
		}
		b := harness.Store(c).Payload(&r)
		if !bytes.Equal(b, recovered.packed[r.Kernel]) || digest.Of(b) != r.Sum {
			return state{}, fmt.Errorf("generation %d: wrong bytes in the payload of %s", slot.Generation, r.Kernel)
		}
	}
	return recovered, s.checkSetAside(image, minimum)
}

// checkRefused accepts a file that was not of ours before, as long as nothing of it was lost.
func (s *scenario) checkRefused(image *memdisk.Dir, minimum state, err error) error {
	if minimum.refused == nil || !errors.Is(err, minimum.refused) {
		return fmt.Errorf("does not open: %w", err)
	}
	if !image.HasContent(powerPath, minimum.raw) {
		return errors.New("the file that was there before has changed")
	}
	return nil
}

// checkSetAside expects a damaged file not to be lost when it is no longer at the path.
func (s *scenario) checkSetAside(image *memdisk.Dir, minimum state) error {
	if errors.Is(minimum.refused, xpwc.ErrDamaged) && !image.HasContent(powerPath+".damaged", minimum.raw) {
		return errors.New("the damaged file was lost")
	}
	return nil
}

// nextSession has the next process pack into an image, commit, and another one find it all.
func nextSession(image *memdisk.Dir, recovered state, m harness.OneModel) error {
	c, err := openOn(image.Process(), nil)
	if err != nil {
		return err
	}
	session, err := harness.PackModel(c, m)
	if err != nil {
		return err
	}
	err = errors.Join(c.Save(), session.Close(), c.Close())
	stats := c.Stats()
	if err = errors.Join(err, stats.LastError); err != nil {
		return fmt.Errorf("the next session: %w", err)
	}
	if len(stats.Private) > 0 || stats.Generation <= recovered.generation {
		return fmt.Errorf("the next session committed nothing: generation %d, private %v",
			stats.Generation, stats.Private)
	}
	c, err = openOn(image.Process(), &xpwc.Options{Strict: true})
	if err != nil {
		return fmt.Errorf("does not open after the next session: %w", err)
	}
	for i := range harness.Store(c).Index().Len() {
		r, err := harness.Store(c).Index().Record(i)
		if err != nil {
			return err
		}
		want := recovered.packed[r.Kernel]
		if content, changed := m[r.Kernel]; changed {
			want = harness.PackedFrom(content)
		}
		if b := harness.Store(c).Payload(&r); !bytes.Equal(b, want) {
			return fmt.Errorf("%s is wrong after the next session", r.Kernel)
		}
	}
	session, err = harness.PackModel(c, m)
	if err != nil {
		return err
	}
	err = errors.Join(session.Close(), c.Close())
	if stats := c.Stats(); stats.Misses != 0 {
		err = errors.Join(err, fmt.Errorf("%d look-ups missed after the next session", stats.Misses))
	}
	return err
}

// An imaging is how many images are made of a recording.
type imaging struct {
	seed      uint64
	perMoment int                                       // with each granularity, besides the extremes
	goOnEvery int                                       // one in so many images is written to by a next session
	visit     func(image *memdisk.Dir, recovered state) // what is done with these, instead of a next session
}

// replay looks at images of every moment of the recording. It returns how many different ones it looked at.
func (s *scenario) replay(im imaging) (images int, err error) {
	return s.dir.Replay(im.seed, im.perMoment, func(image *memdisk.Dir, steps, images int) error {
		recovered, err := s.check(image, steps)
		if err == nil && images%im.goOnEvery == 0 {
			err = s.goOn(image, recovered, im.visit)
		}
		return err
	})
}

// goOn writes to an image.
func (s *scenario) goOn(image *memdisk.Dir, recovered state, visit func(*memdisk.Dir, state)) error {
	d := image.Copy()
	defer d.Free()
	if visit != nil {
		visit(d, recovered)
		return nil
	}
	return nextSession(d, recovered, s.tensors(1, 2))
}
