package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/format"
	"xpwc/internal/store"
)

// A span is a part of a file.
type span struct{ from, to int64 }

func (s span) overlaps(other span) bool { return s.from < other.to && other.from < s.to }

// preparations are what a disk was asked to prepare, and what must not be prepared.
type preparations struct {
	mu        sync.Mutex
	refused   bool // the disk does not prepare
	now       span // what is being prepared
	done      []span
	allocated int64 // up to where there is space; beyond room there is none
	room      int64
	mapped    map[uintptr]span // that can be written to
	began     chan bool
	wrong     error
}

// preparingDisk writes zeros, as that of the system does.
type preparingDisk struct {
	store.File
	*preparations
}

type preparingFiles struct {
	store.Files
	*preparations
}

func (f preparingFiles) Create(path string) (store.File, error) {
	d, err := f.Files.Create(path)
	return preparingDisk{d, f.preparations}, err
}

func (f preparingFiles) Open(path string, writable bool) (store.File, error) {
	d, err := f.Files.Open(path, writable)
	return preparingDisk{d, f.preparations}, err
}

func newPreparations(t *testing.T) *preparations {
	if runtime.GOMAXPROCS(0) == 1 {
		t.Skip("nothing is prepared where there is only one processor")
	}
	return &preparations{room: 10 << 20, mapped: map[uintptr]span{}, began: make(chan bool, 10_000)}
}

func (d preparingDisk) Prepares() bool { return !d.refused }

func (d preparingDisk) Prepare(offset, size int64) error {
	s := span{offset, offset + size}
	d.mu.Lock()
	d.now = s
	for _, m := range d.mapped {
		if m.overlaps(s) {
			d.wrong = fmt.Errorf("%v is prepared, of which %v is mapped", s, m)
		}
	}
	if s.to > d.allocated {
		d.wrong = fmt.Errorf("%v is prepared, and there is space up to %d", s, d.allocated)
	}
	d.mu.Unlock()
	d.began <- true
	for range 100 { // others come to their turn
		runtime.Gosched()
	}
	zeros, there := make([]byte, size), make([]byte, size)
	_, err := d.File.ReadAt(there, offset)
	if err == nil {
		_, err = d.File.WriteAt(zeros, offset)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !bytes.Equal(there, zeros) {
		d.wrong = fmt.Errorf("%v is prepared and has something", s)
	}
	d.now = span{}
	d.done = append(d.done, s)
	return err
}

// leave notes that nothing of a part of the file may be prepared just now.
func (d preparingDisk) leave(what string, s span) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.now.overlaps(s) {
		d.wrong = fmt.Errorf("%v is %s while %v is prepared", s, what, d.now)
	}
}

func (d preparingDisk) Allocate(offset, size int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if offset+size > d.room {
		return syscall.ENOSPC
	}
	err := d.File.Allocate(offset, size)
	if err == nil {
		d.allocated = max(d.allocated, offset+size)
	}
	return err
}

func (d preparingDisk) Map(offset int64, size int, writable bool) (store.Mapping, error) {
	s := span{offset, offset + int64(size)}
	m, err := d.File.Map(offset, size, writable)
	if writable && err == nil {
		d.leave("mapped", s)
		d.mu.Lock()
		defer d.mu.Unlock()
		d.mapped[start(m.Data())] = s
	}
	return preparedMapping{m, d.preparations}, err
}

type preparedMapping struct {
	store.Mapping
	*preparations
}

func (m preparedMapping) Unmap() error {
	m.mu.Lock()
	delete(m.mapped, start(m.Data()))
	m.mu.Unlock()
	return m.Mapping.Unmap()
}

func (d preparingDisk) WriteAt(b []byte, offset int64) (int, error) {
	d.leave("written", span{offset, offset + int64(len(b))})
	return d.File.WriteAt(b, offset)
}

func (d preparingDisk) Truncate(size int64) error {
	d.leave("cut off", span{0, 1 << 40})
	d.mu.Lock()
	d.allocated = size
	d.mu.Unlock()
	return d.File.Truncate(size)
}

func (d preparingDisk) Unlock() error {
	d.leave("unlocked", span{0, 1 << 40})
	return d.File.Unlock()
}

// Packs a payload, of which more follow.
func (w *writer) packAhead(t *testing.T, name string, payload []byte, following uint64) {
	t.Helper()
	r, err := w.reserve(name, len(payload))
	require.NoError(t, err)
	w.Supply(following)
	copy(r.Data, payload)
	require.NoError(t, w.handIn(name, r))
}

func TestWhatComesAfterASegmentIsPrepared(t *testing.T) {
	const mib = 1 << 20
	const first = 4096 + store.FirstSegment // where the first segment ends, or a page before
	for name, c := range map[string]struct {
		reserved  int
		following uint64
		refused   bool
		room      int64
		want      int64 // offset up to which it is prepared; 0: not at all
	}{
		"a small model":             {reserved: 44 << 10, following: 100 << 10},
		"no more than the segment":  {reserved: 3 * mib, following: mib / 2},
		"what is expected":          {reserved: 3 * mib, following: 2 * mib, want: 5 * mib},
		"as much as there was":      {reserved: 3 * mib, following: 100 * mib, want: 6 * mib},
		"as much as there is space": {reserved: 3 * mib, following: 100 * mib, room: 5 * mib},
		"where it does not pay":     {reserved: 3 * mib, following: 100 * mib, refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newPreparations(t)
			s.refused = c.refused
			if c.room > 0 {
				s.room = c.room
			}
			dir := newDir(t)
			w := mustOpen(t, preparingFiles{dir.Process(), s})
			require.NoError(t, w.begin())
			want := map[string][]byte{"a": bytes.Repeat([]byte{1}, c.reserved)}
			w.packAhead(t, "a", want["a"], c.following)
			for at := int64(first); at < c.want; {
				<-s.began
				s.mu.Lock()
				at = s.now.to
				if n := len(s.done); at == 0 {
					at = s.done[n-1].to
				}
				s.mu.Unlock()
			}
			require.NoError(t, w.commit(nil))
			require.NoError(t, w.Close())
			require.NoError(t, s.wrong)
			if c.want == 0 {
				require.Empty(t, s.done)
			}
			for i, p := range s.done {
				require.LessOrEqual(t, p.to, c.want+2*4096)
				require.True(t, i == 0 || p.from%store.PreparedAtOnce == 0)
				require.LessOrEqual(t, p.to-p.from, int64(store.PreparedAtOnce))
			}
			requireContent(t, dir, want)
		})
	}
}

// Whatever is done meanwhile, what was packed and written stays.
func TestNothingThatIsUsedIsPrepared(t *testing.T) {
	s := newPreparations(t)
	steps := map[string]func(w *writer) error{
		"commit": func(w *writer) error { return w.commit(nil) },
		"end": func(w *writer) error {
			if err := w.commit(nil); err != nil {
				return err
			}
			return errors.Join(w.EndWriting(), w.begin())
		},
		"end of packing": func(w *writer) error { w.EndSupply(); return nil },
	}
	rounds := 100
	if testing.Short() {
		rounds = 20
	}
	for round := range rounds {
		dir := newDir(t)
		w := mustOpen(t, preparingFiles{dir.Process(), s})
		require.NoError(t, w.begin())
		want := map[string][]byte{}
		for i := range 6 {
			name := fmt.Sprint(round, "-", i)
			want[name] = bytes.Repeat([]byte{byte(i + 1)}, 300_000+rand.IntN(900_000))
			w.packAhead(t, name, want[name], 100<<20)
			if i%2 == rand.IntN(2) {
				for step, do := range steps {
					require.NoError(t, do(w), step)
					break
				}
			}
		}
		require.NoError(t, w.commit(nil))
		require.NoError(t, w.Close())
		require.NoError(t, s.wrong)
		requireContent(t, dir, want)
		drain(s.began)
		clear(s.mapped)
		s.allocated = 0
	}
	require.NotEmpty(t, s.done)
}

// A file's space is its own: where another file is replaced, nothing is prepared that the new one does not have.
func TestInPlaceOfAnotherFileOnlyItsOwnSpaceIsPrepared(t *testing.T) {
	const mib = 1 << 20
	s := newPreparations(t)
	s.room = 100 * mib
	dir := newDir(t)
	p := dir.Process()
	w := mustOpen(t, preparingFiles{p, s})
	require.NoError(t, w.begin())
	w.packAhead(t, "a", bytes.Repeat([]byte{1}, 7*mib), 0)
	require.NoError(t, w.commit(nil))
	require.NoError(t, w.EndWriting())

	foreign := bytes.Repeat([]byte{3}, 1000)
	entries := []format.TrailerEntry{{Name: "x", Offset: 0, Size: 1000}}
	foreign = append(foreign, format.EncodeTrailer(entries, uint64(len(foreign)))...)
	require.NoError(t, p.Remove(cachePath))
	dir.Put(cachePath, foreign, int64(len(foreign)))
	require.ErrorIs(t, w.Refresh(), format.ErrForeign)
	s.mu.Lock()
	s.allocated, s.done = 0, nil
	s.mu.Unlock()
	drain(s.began)
	w.packed = nil
	require.NoError(t, w.begin())
	want := map[string][]byte{"b": bytes.Repeat([]byte{2}, 3*mib)}
	w.packAhead(t, "b", want["b"], 3*mib)
	<-s.began
	require.NoError(t, w.commit(nil))
	require.NoError(t, w.Close())
	require.NoError(t, s.wrong)
	requireContent(t, dir, want)
}
