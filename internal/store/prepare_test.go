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
	"time"

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
	reserved  []span // to be packed into
	ended     chan bool
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

func newPreparations() *preparations {
	return &preparations{room: 10 << 20, ended: make(chan bool, 10_000)}
}

// upTo returns up to where something was prepared.
func (p *preparations) upTo() (offset int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.done {
		offset = max(offset, s.to)
	}
	return offset
}

// begin forgets all, for another file.
func (p *preparations) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done, p.reserved, p.allocated = nil, nil, 0
	for len(p.ended) > 0 {
		<-p.ended
	}
}

func (d preparingDisk) Prepares() bool { return !d.refused }

func (d preparingDisk) Prepare(offset, size int64) error {
	s := span{offset, offset + size}
	d.mu.Lock()
	d.now = s
	for _, r := range d.reserved {
		if r.overlaps(s) {
			d.wrong = fmt.Errorf("%v is prepared, of which %v is reserved", s, r)
		}
	}
	if s.to > d.allocated {
		d.wrong = fmt.Errorf("%v is prepared, and there is space up to %d", s, d.allocated)
	}
	d.mu.Unlock()
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
	d.ended <- true
	return err
}

// leave notes that nothing of a part of the file may be prepared just now.
func (p *preparations) leave(what string, s span) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now.overlaps(s) {
		p.wrong = fmt.Errorf("%v is %s while %v is prepared", s, what, p.now)
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

// packAhead packs a payload, after which more follow.
func (w *writer) packAhead(t *testing.T, p *preparations, name string, payload []byte, following uint64) {
	t.Helper()
	r, err := w.Reserve(uint64(len(payload)), uint64(len(name)), following)
	require.NoError(t, err)
	from := int64(r.Offset())
	s := span{from, from + int64(len(payload))}
	p.leave("reserved", s)
	p.mu.Lock()
	p.reserved = append(p.reserved, s)
	p.mu.Unlock()
	copy(r.Data, payload)
	require.NoError(t, w.handIn(name, r))
}

func TestWhatIsReservedAndWhatFollowsIsPrepared(t *testing.T) {
	store.SetPatience(t, time.Hour)
	const mib = 1 << 20
	for name, c := range map[string]struct {
		reserved  int
		following uint64
		refused   bool
		room      int64
		want      int64 // offset up to which it is prepared, or a page more; 0: not at all
	}{
		"a small model":             {reserved: 44 << 10, following: 100 << 10},
		"no more than is expected":  {reserved: 3 * mib, following: mib / 2, want: 3*mib + mib/2},
		"what is expected":          {reserved: 3 * mib, following: 2 * mib, want: 5 * mib},
		"as much as there was":      {reserved: 3 * mib, following: 100 * mib, want: 6 * mib},
		"as much as there is space": {reserved: 3 * mib, following: 100 * mib, room: 5 * mib, want: 4 * mib},
		"where it does not pay":     {reserved: 3 * mib, following: 100 * mib, refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPreparations()
			p.refused = c.refused
			if c.room > 0 {
				p.room = c.room
			}
			dir := newDir(t)
			w := mustOpen(t, preparingFiles{dir.Process(), p})
			require.NoError(t, w.begin())
			want := map[string][]byte{"a": bytes.Repeat([]byte{1}, c.reserved)}
			w.packAhead(t, p, "a", want["a"], c.following)
			for p.upTo() < c.want {
				<-p.ended
			}
			require.NoError(t, w.commit(nil))
			require.NoError(t, w.Close())
			require.NoError(t, p.wrong)
			require.LessOrEqual(t, p.upTo(), c.want+2*4096*min(c.want, 1))
			for i, s := range p.done {
				require.True(t, i == 0 || s.from%store.PreparedAtOnce == 0)
				require.LessOrEqual(t, s.to-s.from, int64(store.PreparedAtOnce))
			}
			requireContent(t, dir, want)
		})
	}
}

// Where preparing takes longer than page faults do, who packs is not kept waiting again and again.
func TestWhatTakesTooLongToPrepareIsNotPreparedAnyMore(t *testing.T) {
	store.SetPatience(t, 0)
	p := newPreparations()
	dir := newDir(t)
	w := mustOpen(t, preparingFiles{dir.Process(), p})
	require.NoError(t, w.begin())
	want := map[string][]byte{}
	for i := range 3 {
		name := fmt.Sprint(i)
		want[name] = bytes.Repeat([]byte{byte(i + 1)}, 2<<20)
		w.packAhead(t, p, name, want[name], 100<<20)
		require.LessOrEqual(t, p.upTo(), int64(3<<20))
	}
	require.NoError(t, w.commit(nil))
	require.NoError(t, w.Close())
	require.NoError(t, p.wrong)
	requireContent(t, dir, want)
}

// Whatever is done meanwhile, what was packed and written stays.
func TestNothingThatIsUsedIsPrepared(t *testing.T) {
	store.SetPatience(t, time.Hour)
	p := newPreparations()
	steps := map[string]func(w *writer) error{
		"commit": func(w *writer) error { return w.commit(nil) },
		"end": func(w *writer) error {
			if err := w.commit(nil); err != nil {
				return err
			}
			return errors.Join(w.EndWriting(), w.begin())
		},
		"end of packing": func(w *writer) error { w.EndPreparing(); return nil },
	}
	rounds := 100
	if testing.Short() {
		rounds = 20
	}
	for round := range rounds {
		dir := newDir(t)
		w := mustOpen(t, preparingFiles{dir.Process(), p})
		require.NoError(t, w.begin())
		want := map[string][]byte{}
		for i := range 6 {
			name := fmt.Sprint(round, "-", i)
			want[name] = bytes.Repeat([]byte{byte(i + 1)}, 300_000+rand.IntN(900_000))
			w.packAhead(t, p, name, want[name], 100<<20)
			if i%2 == rand.IntN(2) {
				for step, do := range steps {
					require.NoError(t, do(w), step)
					break
				}
			}
		}
		require.NoError(t, w.commit(nil))
		require.NoError(t, w.Close())
		require.NoError(t, p.wrong)
		requireContent(t, dir, want)
		require.NotEmpty(t, p.done)
		p.begin()
	}
}

// A file's space is its own: where another file is replaced, nothing is prepared that the new one does not have.
func TestInPlaceOfAnotherFileOnlyItsOwnSpaceIsPrepared(t *testing.T) {
	store.SetPatience(t, time.Hour)
	const mib = 1 << 20
	s := newPreparations()
	s.room = 100 * mib
	dir := newDir(t)
	process := dir.Process()
	w := mustOpen(t, preparingFiles{process, s})
	require.NoError(t, w.begin())
	w.packAhead(t, s, "a", bytes.Repeat([]byte{1}, 7*mib), 0)
	require.NoError(t, w.commit(nil))
	require.NoError(t, w.EndWriting())

	foreign := bytes.Repeat([]byte{3}, 1000)
	entries := []format.TrailerEntry{{Name: "x", Offset: 0, Size: 1000}}
	foreign = append(foreign, format.EncodeTrailer(entries, uint64(len(foreign)))...)
	require.NoError(t, process.Remove(cachePath))
	dir.Put(cachePath, foreign, int64(len(foreign)))
	require.ErrorIs(t, w.Refresh(), format.ErrForeign)
	s.begin()
	w.packed = nil
	require.NoError(t, w.begin())
	want := map[string][]byte{"b": bytes.Repeat([]byte{2}, 3*mib)}
	w.packAhead(t, s, "b", want["b"], 3*mib)
	<-s.ended
	require.NoError(t, w.commit(nil))
	require.NoError(t, w.Close())
	require.NoError(t, s.wrong)
	requireContent(t, dir, want)
}
