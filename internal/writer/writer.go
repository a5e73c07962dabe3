// Package writer is shared by all handles of one cache in a process. It has the entries in memory and is the only owner
// of the file, which it commits, compacts and reloads. A session uses it through its [User].
//
// There are two locks. The file's lock is held during system calls on the file: the holder has exclusive use of the
// store. mu guards the entries and figures, and may be taken while the file is. It is held for moments: no code of the
// host runs, nothing is hashed, compared or waited for, and no system call is made. Methods lock for themselves.
// Functions with a parameter of type *store.Store are called with the file taken, functions whose names end in Locked
// with mu held.
package writer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"xpwc/internal/entries"
	"xpwc/internal/format"
	"xpwc/internal/store"
)

// Options configure a writer.
type Options struct {
	Path     string        // what the cache is called; without files it is in memory
	ReadOnly bool          // nothing is written
	Strict   bool          // what is wrong with the file is an error
	MaxBytes int64         // of the file, or 0
	Wait     time.Duration // for another process that writes
	Verify   bool          // payloads are verified in the background
	Readers  int           // of all of the file when it is loaded, or 0

	// Report is given events. It must not wait.
	Report func(level slog.Level, message string, attributes ...slog.Attr)
}

// A Writer is one cache in this process.
type Writer struct {
	options Options
	file    file

	mu      sync.Mutex      // guards the fields below
	changed *sync.Cond      // a commit, a compaction, a session's packing or a checksum ended
	freed   []*store.Region // unlock releases them

	handles map[*Handle]bool
	users   map[*User]bool
	phase   phase
	entries *entries.Set
	fileState
	schedule
	figures  Figures
	verifier verifier

	working context.Context // of background reads, until stop
	stop    context.CancelFunc
	clock   func() int64 // seconds since 1970
}

// fileState is the writer's copy of the file's state, for use without the file's lock.
type fileState struct {
	loaded         loaded
	access         access
	cause          error           // why the file is unusable, or nil
	damage         map[uint64]bool // offsets of damaged payloads of the loaded file
	dirty          bool            // an entry of the file changed its flags or stamps, or is damaged
	layout         format.Digest   // of this machine, zero until it is known: see SetLayout
	duplicateBytes uint64          // of payloads of the loaded file that it has under other keys too

	busyUntil  time.Time // until then no session waits for another process
	ended      error     // why the file ended that this process wrote last
	endedUntil time.Time // until then this process does not write another
}

// A schedule is when a writer packs, commits and compacts.
type schedule struct {
	activity activity
	packing  int         // users that pack into the file, or a compaction
	waiting  int         // users that wait until they may pack
	timer    *time.Timer // of a scheduled commit
	next     *round      // after the current one, or nil

	sums    Tasks
	summing map[*entries.Entry]bool // whose checksums are not computed yet
}

// A phase is where a writer is in its life.
type phase uint8

const (
	open    phase = iota
	closing       // no session can begin any more
	closed
)

// An activity is what a writer does with its file.
type activity uint8

const (
	idle      activity = iota
	scheduled          // a commit begins in a moment
	committing
	compacting // no user becomes one that packs
)

// An access is whether this process may write to the file, apart from other writers.
type access uint8

const (
	writable  access = iota
	unusable         // it makes way before anything is written
	forbidden        // the system does not let this process
	newer            // it is of a newer version, of programs that are to go on with it
	unmappable
)

// The reasons for private memory: see package xpwc.
const (
	ReasonUnnamed  = "unnamed"
	ReasonReadOnly = "read-only"
	ReasonBusy     = "busy"
	ReasonVersion  = "version"
	ReasonDisk     = "disk"
)

// Errors that package xpwc hands on: see there.
var (
	ErrBusy     = errors.New("the file is being written to; try again later")
	ErrClosed   = errors.New("already closed")
	ErrInUse    = errors.New("sessions are still open; close them first")
	ErrReadOnly = errors.New("the cache is read-only")
	ErrLost     = errors.New("packed weights in use were lost; load the model again, with a cache on another disk if " +
		"this one fails")
)

// loaded is a copy of the store's state, for use without the file's lock.
type loaded struct {
	id      [16]byte // of the file, zero if there is none
	slot    format.Slot
	torn    bool          // no generation is in force: its slot is damaged
	index   *format.Index // nil if there is none
	base    *store.Region // that the index' payloads are in, with a reference to it
	file    *store.Loaded // to be asked whether it is still there, or nil
	written bool          // this process is its writer
}

// A file is the store with its lock: the holder has exclusive use of the store.
type file struct {
	mu     sync.Mutex
	st     *store.Store // nil for a cache in memory
	stored sync.Cond
	// storing: a commit or a compaction is being written while others may take the file. It stays this file meanwhile.
	storing bool
}

func (f *file) take() *store.Store {
	f.mu.Lock()
	return f.st
}

func (f *file) give() { f.mu.Unlock() }

// takeStill takes the file while no commit or compaction is being written.
func (f *file) takeStill() *store.Store {
	f.mu.Lock()
	for f.storing {
		f.stored.Wait()
	}
	return f.st
}

// whileStoring releases the file during a write of the store, and takes it again.
func (f *file) whileStoring(write func() error) error {
	f.storing = true
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		f.storing = false
		f.stored.Broadcast()
	}()
	return write()
}

// New makes the writer of a cache and loads its file. Without files it is a cache in memory.
func New(files store.Files, o Options) (*Writer, error) {
	w := &Writer{
		options: o,
		handles: map[*Handle]bool{},
		users:   map[*User]bool{},
		entries: entries.NewSet(),
		clock:   func() int64 { return time.Now().Unix() },
	}
	w.summing, w.damage = map[*entries.Entry]bool{}, map[uint64]bool{}
	w.working, w.stop = context.WithCancel(context.Background())
	w.changed = sync.NewCond(&w.mu)
	w.file.stored.L = &w.file.mu
	w.verifier.pause = verifyPause
	w.figures.Private = map[string]Count{}
	if files == nil {
		return w, nil
	}
	w.file.st = store.New(o.Path, files, o.Readers)
	st := w.file.take()
	defer w.file.give()
	if err := w.accept(st, st.Load()); err != nil {
		return nil, err
	}
	return w, nil
}

// name is what error messages call the cache.
func (w *Writer) name() string { return cmp.Or(w.options.Path, "in memory") }

// inMemory reports whether the cache has no file.
func (w *Writer) inMemory() bool { return w.file.st == nil }

// unlock releases mu, and then the regions in freed.
func (w *Writer) unlock() {
	freed := w.freed
	w.freed = nil
	w.mu.Unlock()
	for _, r := range freed {
		w.Note(r.Release())
	}
}

// locked calls do with mu held.
func (w *Writer) locked(do func()) {
	w.mu.Lock()
	defer w.unlock()
	do()
}

// underLock returns what a function returns with mu held.
func underLock[T any](w *Writer, read func() T) T {
	w.mu.Lock()
	defer w.unlock()
	return read()
}

// noteLocked records and reports an error that does not concern the caller.
func (w *Writer) noteLocked(err error) {
	if err != nil {
		w.figures.LastError = err
		w.options.Report(slog.LevelWarn, "the cache goes on after an error", slog.Any("error", err))
	}
}

// Note records and reports an error that does not concern the caller, if there is one.
func (w *Writer) Note(err error) {
	if err != nil {
		w.locked(func() { w.noteLocked(err) })
	}
}

// remember records an error that the caller reports.
func (w *Writer) remember(err error) {
	w.locked(func() { w.figures.LastError = err })
}

// A Handle is one opening of a cache.
type Handle struct {
	w    *Writer
	lost error // something packed is in a file that is no longer in place; Save reports it once
	open bool
}

// Open returns one more handle, or refusal if it is not nil. If the cache is being closed it waits, and returns neither
// a handle nor an error: the caller makes another writer.
func (w *Writer) Open(refusal error) (*Handle, error) {
	w.mu.Lock()
	defer w.unlock()
	if w.phase != open {
		for w.phase != closed {
			w.changed.Wait()
		}
		return nil, nil
	}
	if refusal != nil {
		return nil, refusal
	}
	h := &Handle{w: w, open: true}
	w.handles[h] = true
	return h, nil
}

// Save waits until the entries of finalized sessions are on stable storage. It returns an error once.
func (h *Handle) Save() error {
	w := h.w
	w.mu.Lock()
	defer w.unlock()
	return h.saveLocked()
}

func (h *Handle) saveLocked() error {
	err := h.w.awaitCommitLocked()
	err = cmp.Or(err, h.lost)
	h.lost = nil
	return err
}

// Close saves, and gives the handle up. last: it was the last one, and the file is closed. ErrInUse, and the handle
// stays open, while sessions of it are.
func (h *Handle) Close() (last bool, err error) {
	last, err = h.leave()
	if last {
		err = errors.Join(err, h.w.close())
	}
	return last, err
}

func (h *Handle) leave() (last bool, err error) {
	w := h.w
	w.mu.Lock()
	defer w.unlock()
	if !h.open {
		for w.handles[h] || w.phase == closing { // another call closes it
			w.changed.Wait()
		}
		return false, nil
	}
	n := 0
	for u := range w.users {
		if u.handle == h {
			n++
		}
	}
	if n > 0 {
		return false, fmt.Errorf("cache %s: %d %w", w.name(), n, ErrInUse)
	}
	h.open, last = false, true
	for handle := range w.handles {
		last = last && !handle.open
	}
	if last {
		w.phase = closing
	}
	err = h.saveLocked()
	delete(w.handles, h) // until then it is to know what is lost
	w.changed.Broadcast()
	return last, err
}

// close releases everything. There are neither sessions nor commits.
func (w *Writer) close() error {
	w.stop()
	w.stopVerifying()
	w.dropAll()
	st := w.file.takeStill()
	defer w.file.give()
	var err error
	if st != nil {
		err = st.Close()
	}
	w.mu.Lock()
	defer w.unlock()
	w.dropBaseLocked() // a commit that the verifier began may have noticed it since
	w.phase = closed
	w.changed.Broadcast()
	return err
}

// dropAll releases all entries.
func (w *Writer) dropAll() {
	w.mu.Lock()
	defer w.unlock()
	w.describeLocked()
	w.dropWhereLocked(func(*entries.Entry) bool { return true })
	w.entries.Packed = nil
	w.dropBaseLocked()
}

// dropWhereLocked releases the named entries that match. No session uses them.
func (w *Writer) dropWhereLocked(match func(*entries.Entry) bool) {
	w.entries.RemoveWhere(func(e *entries.Entry) bool {
		if !match(e) {
			return false
		}
		e.State = entries.Dropped
		w.freed = append(w.freed, e.Region)
		return true
	})
}

func (w *Writer) hasUncommittedLocked() bool {
	return slices.ContainsFunc(w.entries.Packed, (*entries.Entry).Uncommitted)
}

// loseLocked makes each handle's next Save return an error.
func (w *Writer) loseLocked(err error) {
	for h := range w.handles {
		h.lost = err
	}
}

// Forget releases the unused entries of a cache in memory.
func (w *Writer) Forget() {
	w.locked(func() { w.dropWhereLocked(func(e *entries.Entry) bool { return e.Sessions == 0 }) })
}

// Index returns the loaded index, nil if there is none.
func (w *Writer) Index() *format.Index {
	return underLock(w, func() *format.Index { return w.loaded.index })
}

// Names returns the names of usable entries in memory, and of the loaded index' records of a layout, up to a damaged
// one. They are not sorted, and may repeat.
func (w *Writer) Names(layout format.Digest) (names []string) {
	listed := w.listedNow()
	w.mu.Lock()
	defer w.unlock()
	for e := range w.entries.Entries() {
		if e.Usable(w.loaded.id) {
			names = append(names, e.Name())
		}
	}
	for i := range listed {
		if r := &listed[i]; r.Layout == layout && !w.damage[r.Offset] {
			names = append(names, r.Kernel+r.Bias)
		}
	}
	return names
}

// listedNow returns the records of the loaded index, once nothing is being written.
func (w *Writer) listedNow() []format.Record {
	if w.inMemory() {
		return nil
	}
	st := w.file.takeStill()
	defer w.file.give()
	records, _ := w.listed(st) // it has recorded the error
	return records
}
