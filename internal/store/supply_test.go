package store_test

import (
	"fmt"
	"reflect"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/format"
	"xpwc/internal/store"
)

// supplies are what a disk was asked to supply.
type supplies struct {
	mu    sync.Mutex
	now   []byte // what is being supplied
	total int
	end   uintptr // of what was supplied last
	began chan bool
	calls chan int
	wrong error // something was supplied where nothing may be
	gone  map[uintptr]int
}

// supplyingDisk notes what is supplied, and whether that is still the segment's.
type supplyingDisk struct {
	store.File
	*supplies
}

type supplyingFiles struct {
	store.Files
	*supplies
}

func (f supplyingFiles) Create(path string) (store.File, error) {
	d, err := f.Files.Create(path)
	return supplyingDisk{d, f.supplies}, err
}

func (f supplyingFiles) Open(path string, writable bool) (store.File, error) {
	d, err := f.Files.Open(path, writable)
	return supplyingDisk{d, f.supplies}, err
}

func newSupplies(t *testing.T) *supplies {
	if runtime.GOMAXPROCS(0) == 1 {
		t.Skip("nothing is supplied where there is only one processor")
	}
	return &supplies{began: make(chan bool, 10_000), calls: make(chan int, 10_000), gone: map[uintptr]int{}}
}

func drain[T any](c chan T) {
	for len(c) > 0 {
		<-c
	}
}

func start(b []byte) uintptr { return reflect.ValueOf(b).Pointer() }

func overlaps(a, b []byte) bool {
	return len(a) > 0 && len(b) > 0 && start(a) < start(b)+uintptr(len(b)) && start(b) < start(a)+uintptr(len(a))
}

func (d supplyingMapping) Supply(from, to int) error {
	b := d.Data()[from:to]
	d.mu.Lock()
	d.now = b
	for at, size := range d.gone {
		if start(b) < at+uintptr(size) && at < start(b)+uintptr(len(b)) {
			d.wrong = fmt.Errorf("%d bytes were supplied that were given up before", len(b))
		}
	}
	d.mu.Unlock()
	d.began <- true
	for range 100 { // others come to their turn
		runtime.Gosched()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now = nil
	d.total += len(b)
	d.end = start(b) + uintptr(len(b))
	d.calls <- len(b)
	return nil
}

// leave notes that nothing may be supplied to some memory just now, or to any. It is for good if it is gone.
func (d *supplies) leave(what string, b []byte, gone bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if overlaps(d.now, b) || b == nil && d.now != nil {
		d.wrong = fmt.Errorf("%s while pages are supplied", what)
	}
	if gone {
		d.gone[start(b)] = len(b)
	}
}

func (d supplyingDisk) Map(offset int64, size int, writable bool) (store.Mapping, error) {
	m, err := d.File.Map(offset, size, writable)
	if err != nil {
		return nil, err
	}
	b := m.Data()
	d.mu.Lock()
	defer d.mu.Unlock()
	for at, size := range d.gone { // the memory disk maps a file where it was before
		if at < start(b)+uintptr(len(b)) && start(b) < at+uintptr(size) {
			delete(d.gone, at)
		}
	}
	return supplyingMapping{m, d.supplies}, nil
}

type supplyingMapping struct {
	store.Mapping
	*supplies
}

func (d supplyingMapping) Seal(from int) error {
	d.leave("sealed", d.Data()[from:], false) // the next segment may begin in it
	return d.Mapping.Seal(from)
}

func (d supplyingMapping) Unmap() error {
	d.leave("unmapped", d.Data(), true)
	return d.Mapping.Unmap()
}

func (d supplyingDisk) Truncate(size int64) error {
	d.leave("cut off", nil, false)
	return d.File.Truncate(size)
}

func TestPagesAreSuppliedOnlyWhereTheyMayBe(t *testing.T) {
	const size = 700_000
	s := newSupplies(t)
	reserve := func(w *writer) store.Reservation {
		r, err := w.Reserve(size, 1)
		require.NoError(t, err)
		w.Supply(100 << 20)
		return r
	}
	give := func(w *writer, r store.Reservation) {
		store.Filled(r)
		require.NoError(t, r.Region.Release())
	}
	for ending, end := range map[string]func(w *writer, r store.Reservation){
		"closed": func(w *writer, r store.Reservation) { give(w, r) },
		"ended": func(w *writer, r store.Reservation) {
			give(w, r)
			require.NoError(t, w.EndWriting())
		},
		"committed": func(w *writer, r store.Reservation) {
			give(w, r)
			c, err := w.PrepareCommit(nil, nil)
			require.NoError(t, err)
			_, err = w.Conclude(c, c.Write())
			require.NoError(t, err)
		},
		"given up": func(w *writer, r store.Reservation) {
			give(w, r)
			_, err := w.End()
			require.NoError(t, err)
		},
		"continued": func(w *writer, r store.Reservation) {
			give(w, r)
			for range 6 { // in another segment
				give(w, reserve(w))
			}
		},
	} {
		for range 20 {
			w := mustOpen(t, supplyingFiles{newDir(t).Process(), s})
			require.NoError(t, w.begin())
			give(w, reserve(w))
			drain(s.began)
			r := reserve(w)
			<-s.began // most likely that is still under way
			end(w, r)
			require.NoError(t, w.Close())
			require.NoError(t, s.wrong, ending)
			clear(s.gone)
			drain(s.calls)
			drain(s.began)
		}
	}
	require.Positive(t, s.total)
}

func TestNoMoreIsSuppliedThanWillLikelyBeUsed(t *testing.T) {
	const mib = 1 << 20
	for name, c := range map[string]struct {
		reserved  uint64
		following uint64
		ahead     uint64
	}{
		"a small model":           {44 << 10, 0, 0},
		"what there was so far":   {mib, 100 * mib, mib},
		"what is expected":        {2 * mib, 300_000, 300_000},
		"nothing more":            {2 * mib, 0, 0},
		"not beyond the segment":  {3 * mib, 100 * mib, mib},
		"nor beyond a larger one": {5 * mib, 100 * mib, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSupplies(t)
			w := mustOpen(t, supplyingFiles{newDir(t).Process(), s})
			require.NoError(t, w.begin())
			r, err := w.Reserve(c.reserved, 1)
			require.NoError(t, err)
			w.Supply(c.following)
			want := uint64(0)
			if c.reserved >= mib {
				want = c.reserved + c.ahead
			}
			const pages = format.HeaderSize + 8<<10 // which a part is used of
			for got := uint64(0); got+pages < want; {
				got += uint64(<-s.calls)
			}
			store.Filled(r)
			region := r.Region.Data()
			require.NoError(t, r.Region.Release())
			require.NoError(t, w.Close())
			require.LessOrEqual(t, uint64(s.total), want+pages)
			if s.total > 0 {
				require.LessOrEqual(t, s.end, start(region)+uintptr(len(region)))
			}
		})
	}
}

func TestNothingIsSuppliedAfterTheEnd(t *testing.T) {
	s := newSupplies(t)
	w := mustOpen(t, supplyingFiles{newDir(t).Process(), s})
	w.EndSupply() // which is nothing yet
	require.NoError(t, w.begin())
	r, err := w.Reserve(3<<20, 1)
	require.NoError(t, err)
	w.Supply(1 << 20)
	w.EndSupply()
	s.mu.Lock()
	s.total = 0
	s.mu.Unlock()
	store.Filled(r)
	require.NoError(t, r.Region.Release())
	require.NoError(t, w.Close())
	require.LessOrEqual(t, s.total, 1<<20, "what was being supplied")
}
