package store

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"sync"

	"xpwc/internal/format"
)

// Space is preallocated and mapped in segments that double from the first size to the last, so that small models stay
// small and large ones do not pay a system call for each entry.
const (
	FirstSegment = 4 << 20
	LastSegment  = 64 << 20
)

// CheckedAtOnce is the size of an index, some 5,000 records, up to which it is checked completely when it is loaded.
// What a larger one says is checked when it is read, so that opening a file does not take longer the more it has.
const CheckedAtOnce = 1 << 20

// A Store is one cache file. It finds what was committed, reserves space to pack into, and commits. It knows bytes and
// records but no policy. Its methods must not be called at the same time, except for commit.Write and store.Rewrite.
type Store struct {
	path    string
	files   Files
	options Options

	disk     Disk // nil while there is no file
	writable bool // the disk is open for writing
	id       [16]byte
	slot     format.Slot   // the generation in force
	index    *format.Index // of the generation that was in force when the file was loaded; nil while there is none
	base     *Region       // the committed part of the file as it was loaded
	stale    bool          // the index lacks what must be in the next generation: it is to be loaded anew

	damagedIndex generation // turned out damaged after it was loaded: checked completely before it is loaded again

	locked  bool // we are the writer
	settled bool // the file's header and name are on stable storage
	held    bool // what counts as private memory is still the file's, so that others must not write to it: see Detach

	tail     uint64      // file offset after the last reservation
	backed   uint64      // up to where the file has disk space
	listed   listing     // what the next index has to list
	segment  *Region     // where the next reservation comes from, or nil
	segments []*Region   // those not yet read-only
	growth   uint64      // size of the next segment
	unsure   format.Slot // of a generation that failed to be committed but may be in force
	grown    bool        // the file has space after the committed end
	excess   bool        // and keeps it, because somebody has the file mapped: see cut

	foreign *foreignFile // ExecuTorch's file at the path, or one of an older format, until a native one replaces it
	beside  string       // where the file is that is to replace it with its first commit, or ""
}

// Options say how a store treats its file.
type Options struct {
	Insecure  bool       // it is opened whoever can change it
	Prefetch  bool       // all of it is read when it is loaded
	Condemned *Condemned // what all stores of this process share
}

// New returns a store that has not loaded its file.
func New(path string, files Files, o Options) *Store {
	return &Store{path: path, files: files, options: o}
}

// Intercept has the store use what files makes of its files, and disk of the disk that is open, if there is one. Either
// may be nil. It is the place for a test to put faults.
func (st *Store) Intercept(files func(Files) Files, disk func(Disk) Disk) {
	if files != nil {
		st.files = files(st.files)
	}
	if disk != nil && st.disk != nil {
		st.disk = disk(st.disk)
	}
}

// A generation of one file.
type generation struct {
	file [16]byte
	slot format.Slot
}

// ID returns the identity of the file that is open, zero if there is none.
func (st *Store) ID() [16]byte { return st.id }

// Slot returns the slot of the generation in force. Its number is 0 while there is none.
func (st *Store) Slot() format.Slot { return st.slot }

// Index returns the index of the generation that was in force when the file was loaded; nil while there is none.
// Another loaded generation has another.
func (st *Store) Index() *format.Index { return st.index }

// Payload returns the bytes of a record of the loaded index, and the region that they are in. They are there as long as
// that is retained.
func (st *Store) Payload(r *format.Record) ([]byte, *Region) {
	end := r.Offset + r.Size
	return st.base.data[r.Offset:end:end], st.base
}

// HasFile reports whether a cache file is open. A foreign one is none.
func (st *Store) HasFile() bool { return st.disk != nil }

// Writing reports whether this process is the writer of the file.
func (st *Store) Writing() bool { return st.locked }

// Reader opens the file once more, to be read whatever becomes of the store.
func (st *Store) Reader() (Reader, error) { return st.disk.Reader() }

// Condemned are the files, by identity, that this process does not commit to any more: a flush of them failed. Linux
// marks the pages that it could not write as clean, so that the next flush succeeds and the disk has something else.
// Others, and the next process, may write to them.
type Condemned struct {
	mu    sync.Mutex
	files map[[16]byte]bool
}

func NewCondemned() *Condemned { return &Condemned{files: map[[16]byte]bool{}} }

func (st *Store) condemn() {
	all := st.options.Condemned
	all.mu.Lock()
	defer all.mu.Unlock()
	all.files[st.id] = true
}

// Condemned reports whether a flush of the file that is open has failed in this process.
func (st *Store) Condemned() bool {
	all := st.options.Condemned
	all.mu.Lock()
	defer all.mu.Unlock()
	return st.disk != nil && all.files[st.id]
}

// flush returns when all that was written to the file is on stable storage. If that fails, the file is condemned.
func (st *Store) flush() error {
	err := st.disk.Flush()
	if err != nil {
		st.condemn()
	}
	return err
}

// Load opens the file for reading and reads the generation in force: to open it for writing can be dear, and most
// processes never write. It leaves the store empty, without an error, when there is no file. format.ErrDamaged,
// format.ErrVersion, format.ErrNotCache and format.ErrForeign say what else there is.
func (st *Store) Load() error {
	d, err := st.files.Open(st.path, false, st.options.Insecure)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open cache: %w", err)
	}
	st.disk, st.writable = d, false
	if err := st.reload(); err != nil {
		st.disk = nil
		if st.foreign == nil {
			_ = d.Close()
		}
		return err
	}
	return nil
}

// reload reads the header and, if another generation is in force than the one loaded, maps and checks that one. What
// was mapped before stays mapped for whoever uses it.
func (st *Store) reload() error {
	size, err := st.disk.Size()
	if err != nil {
		return fmt.Errorf("cache %s: %w", st.path, err)
	}
	block := make([]byte, min(size, format.HeaderSize))
	if _, err := st.disk.ReadAt(block, 0); err != nil {
		return fmt.Errorf("read the header of cache %s: %w", st.path, err)
	}
	h, err := format.DecodeHeader(block)
	switch {
	case notBegun(block, size):
		if st.id != [16]byte{} {
			return fmt.Errorf("%s: it was emptied: %w", st.path, format.ErrDamaged)
		}
		return nil
	case errors.Is(err, format.ErrNotCache):
		return st.notOurs(size)
	case errors.Is(err, format.ErrOlder): // as good as one of ExecuTorch's without entries
		st.foreign, st.disk = &foreignFile{disk: st.disk}, nil
		return fmt.Errorf("%s: %w", st.path, format.ErrVersion)
	case errors.Is(err, format.ErrVersion):
		return fmt.Errorf("%s: %w", st.path, format.ErrVersion)
	case err != nil:
		return fmt.Errorf("%s: %w: %w", st.path, err, format.ErrDamaged)
	}
	if h.ID == st.id && h.Current == st.slot && !st.stale {
		if uint64(size) < st.slot.End {
			return fmt.Errorf("%s: it was truncated to %d bytes of %d: %w",
				st.path, size, st.slot.End, format.ErrDamaged)
		}
		return nil
	}
	if st.id != [16]byte{} && h.ID != st.id {
		return fmt.Errorf("%s: another cache was written over it: %w", st.path, format.ErrDamaged)
	}
	slot := h.Current
	if slot.Generation == 0 {
		st.id, st.slot, st.index = h.ID, slot, nil
		return st.dropBase()
	}
	if slot.End > uint64(size) {
		return fmt.Errorf("%s: it has %d bytes of %d: %w", st.path, size, slot.End, format.ErrDamaged)
	}
	if slot.End > math.MaxInt {
		return fmt.Errorf("%s: its %d bytes cannot be mapped: %w", st.path, slot.End, format.ErrDamaged)
	}
	data, err := st.disk.Map(0, int(slot.End), false)
	if err != nil {
		return fmt.Errorf("cache: %w", err)
	}
	if st.options.Prefetch {
		if err := st.prefetch(data); err != nil {
			_ = st.disk.Unmap(data)
			return err
		}
	}
	index, err := format.DecodeIndex(data[slot.IndexOffset:slot.IndexOffset+slot.IndexSize], slot)
	if err == nil && (slot.IndexSize <= CheckedAtOnce || st.damagedIndex == generation{h.ID, slot}) {
		err = index.Check()
	}
	if err != nil {
		_ = st.disk.Unmap(data)
		return fmt.Errorf("%s: %w: %w", st.path, err, format.ErrDamaged)
	}
	if err := st.dropBase(); err != nil {
		return err
	}
	st.id, st.slot, st.index, st.stale = h.ID, slot, index, false
	st.base = &Region{data: data, file: h.ID, unmap: st.disk.Unmap, refs: 1, sealed: true}
	return nil
}

// Damaged returns the error for something in the loaded index that turned out damaged.
func (st *Store) Damaged(err error) error {
	st.damagedIndex = generation{st.id, st.slot}
	return fmt.Errorf("%s: %w: %w", st.path, err, format.ErrDamaged)
}

func (st *Store) dropBase() error {
	if st.base == nil {
		return nil
	}
	r := st.base
	st.base = nil
	return r.Release()
}

// ReloadCommitted loads the generation that this process committed last, which it otherwise knows without.
func (st *Store) ReloadCommitted() error {
	st.stale = true
	return st.reload()
}

// Outdated reports whether this process is the writer, and ReloadCommitted failed: the next generation can be made only
// after CatchUp.
func (st *Store) Outdated() bool { return st.locked && st.stale }

// CatchUp loads the generation that is in force.
func (st *Store) CatchUp() error { return st.reload() }

// Refresh picks up what other processes committed since.
func (st *Store) Refresh() error {
	if st.locked {
		return nil // nobody else writes
	}
	if st.disk == nil {
		if st.foreign == nil {
			return st.Load()
		}
		replaced, err := st.foreign.disk.Replaced()
		if err == nil && replaced {
			err = st.Reopen()
		}
		return err
	}
	replaced, err := st.disk.Replaced()
	if err != nil {
		return fmt.Errorf("cache %s: %w", st.path, err)
	}
	if replaced {
		return st.Reopen()
	}
	return st.reload()
}

// Reopen follows the path to the file that is there now. Mappings of the old one stay for whoever uses them.
func (st *Store) Reopen() error {
	foreign := st.foreign
	st.foreign = nil
	if err := errors.Join(foreign.close(), st.Abandon()); err != nil {
		return err
	}
	return st.Load()
}

// Abandon forgets the file. Mappings of it stay for whoever uses them.
func (st *Store) Abandon() error {
	var errs []error
	if st.locked { // the lock goes with the disk
		st.locked, st.grown, st.growth = false, false, 0
		errs = append(errs, st.leaveSegment(st.segment))
		for _, r := range st.segments {
			errs = append(errs, r.Release())
		}
		st.segments = nil
	}
	if st.disk != nil {
		errs = append(errs, st.disk.Close())
	}
	st.unsure, st.excess, st.held, st.stale = format.Slot{}, false, false, false
	st.disk, st.settled, st.id, st.slot, st.index = nil, false, [16]byte{}, format.Slot{}, nil
	if err := errors.Join(append(errs, st.dropBase())...); err != nil {
		return fmt.Errorf("cache %s: %w", st.path, err)
	}
	return nil
}

// Begin makes this process the writer, creating the file if there is none. ok is false if another process is the
// writer. What others committed meanwhile is loaded first, so look-ups that missed before may now hit.
func (st *Store) Begin() (ok bool, err error) {
	if st.Condemned() { // also if something that cannot leave it keeps this process its writer
		return false, fmt.Errorf("cache %s: %w", st.path, ErrCondemned)
	}
	if st.locked {
		return true, nil
	}
	if st.foreign != nil {
		return st.beginReplacement()
	}
	if st.disk == nil {
		if err := st.create(); err != nil {
			return false, err
		}
	}
	if err := st.openForWriting(); err != nil {
		return false, err
	}
	if ok, err := st.disk.TryLock(); err != nil || !ok {
		return false, err
	}
	st.locked = true
	if err := st.prepare(); err != nil {
		if st.foreign != nil { // whose disk it is now
			st.locked = false
			return false, errors.Join(err, st.foreign.disk.Unlock())
		}
		return false, errors.Join(err, st.end())
	}
	return true, nil
}

// openForWriting opens the file, which was loaded, for writing too.
func (st *Store) openForWriting() error {
	if st.writable {
		return nil
	}
	d, err := st.openAgain(st.disk)
	if err != nil {
		return err
	}
	old := st.disk
	st.disk, st.writable = d, true
	return old.Close()
}

// openAgain opens for writing what is open as loaded. ErrReplaced if that is not at the path any more.
func (st *Store) openAgain(loaded Disk) (Disk, error) {
	d, err := st.files.Open(st.path, true, st.options.Insecure)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cache %s: %w", st.path, ErrReplaced)
	}
	if err != nil {
		return nil, fmt.Errorf("open cache for writing: %w", err)
	}
	for _, same := range []Disk{loaded, d} {
		replaced, err := same.Replaced()
		if err == nil && replaced {
			err = ErrReplaced
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("cache %s: %w", st.path, err), d.Close())
		}
	}
	return d, nil
}

// CopiesUp reports whether the system would copy all of the file in order to have it open for writing.
func (st *Store) CopiesUp() bool { return st.disk != nil && !st.writable && st.disk.CopiesUp() }

// BeginRenewal makes this process the writer of a condemned file, only to put another in its place. ok is false if
// another process is the writer.
func (st *Store) BeginRenewal() (ok bool, err error) {
	if err := st.openForWriting(); err != nil {
		return false, err
	}
	if !st.locked {
		if ok, err := st.disk.TryLock(); err != nil || !ok {
			return false, err
		}
		st.locked = true
	}
	replaced, err := st.disk.Replaced()
	if err == nil && replaced {
		err = fmt.Errorf("cache %s: %w", st.path, ErrReplaced)
	}
	if err == nil {
		err = st.reload()
	}
	if err != nil {
		err = errors.Join(err, st.EndWriting())
	}
	return err == nil, err
}

// prepare brings the locked file into a state that can be appended to.
func (st *Store) prepare() error {
	replaced, err := st.disk.Replaced()
	if err != nil {
		return fmt.Errorf("cache %s: %w", st.path, err)
	}
	if replaced {
		return fmt.Errorf("cache %s: %w", st.path, ErrReplaced)
	}
	if err := st.reload(); err != nil {
		return err
	}
	st.listed = listing{}
	if st.index != nil { // the next generation is made of it
		if err := st.index.Check(); err != nil {
			return st.Damaged(err)
		}
		st.listed = listing{st.slot.Records, st.index.NameBytes()}
	}
	if st.id == [16]byte{} {
		if err := st.writeHeader(); err != nil {
			return err
		}
	}
	// Whoever wrote the header, or renamed the file into place, may have been killed before that was on stable storage.
	if !st.settled {
		if err := errors.Join(st.flush(), st.files.SyncDir(st.path)); err != nil {
			return fmt.Errorf("cache %s: %w", st.path, err)
		}
		st.settled = true
	}
	size, err := st.disk.Size()
	if err != nil {
		return fmt.Errorf("cache %s: %w", st.path, err)
	}
	st.tail = max(st.slot.End, format.HeaderSize)
	st.backed = st.tail
	// What lies behind the committed end is what a killed writer left: nobody maps it.
	if uint64(size) > st.tail {
		return st.cut(st.tail)
	}
	return nil
}

// cut gives back the space behind an end. Where a mapped file cannot be cut off it stays, and is reserved from next;
// Close or the next writer then gives it back.
func (st *Store) cut(end uint64) error {
	err := st.disk.Truncate(int64(end))
	st.backed = end
	if st.excess = errors.Is(err, ErrMapped); err != nil && !st.excess {
		return fmt.Errorf("cache %s: %w", st.path, err)
	}
	return nil
}

// cutExcess cuts off what cut had to leave, now that nothing here maps the file. While others do, or write, it is
// theirs.
func (st *Store) cutExcess() error {
	d, err := st.files.Open(st.path, true, st.options.Insecure)
	if err != nil {
		return nil // whatever is at the path now
	}
	defer func() { _ = d.Close() }()
	if ok, err := d.TryLock(); err != nil || !ok {
		return err
	}
	block := make([]byte, format.HeaderSize)
	if _, err := d.ReadAt(block, 0); err != nil {
		return fmt.Errorf("read the header of cache %s: %w", st.path, err)
	}
	h, err := format.DecodeHeader(block)
	if err != nil {
		return nil // for whoever loads it to say
	}
	if err := d.Truncate(int64(max(h.Current.End, format.HeaderSize))); err != nil && !errors.Is(err, ErrMapped) {
		return fmt.Errorf("cache %s: %w", st.path, err)
	}
	return d.Unlock()
}

func (st *Store) create() error {
	d, err := st.files.Create(st.path)
	if errors.Is(err, fs.ErrExist) {
		if err := st.Load(); err != nil {
			return err
		}
		if st.disk == nil {
			return fmt.Errorf("cache %s: %w", st.path, ErrReplaced)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("create cache: %w", err)
	}
	st.disk, st.writable = d, true
	return nil
}

// writeHeader makes an empty file a cache. In place at its path, the header must be flushed before the file grows:
// without it, nobody would know after a power failure whose file this is.
func (st *Store) writeHeader() error {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails (crypto/rand)
	if err := st.disk.Allocate(0, format.HeaderSize); err != nil {
		return err
	}
	if _, err := st.disk.WriteAt(format.NewHeader(id), 0); err != nil {
		return fmt.Errorf("cache: %w", err)
	}
	st.id, st.slot, st.index = id, format.Slot{}, nil
	return st.dropBase()
}

// EndWriting gives the writer's lock to others, and what was reserved since the last commit back to the file system:
// nothing of it may be in use any more. Where what counts as private memory is still the file's it does nothing.
func (st *Store) EndWriting() error {
	if st.held {
		return nil
	}
	return st.end()
}

// Leave gives the lock of a file up that is no longer at the path. Nothing of it is cut off: sessions may still pack
// into what lies after its end.
func (st *Store) Leave() error {
	st.grown = false
	return st.end()
}

func (st *Store) end() error {
	if !st.locked {
		return nil
	}
	st.locked = false
	errs := []error{st.retire()}
	for _, r := range st.segments {
		errs = append(errs, r.Release())
	}
	st.segments, st.growth = nil, 0
	if st.grown { // what was reserved and not needed
		errs = append(errs, st.cut(max(st.slot.End, st.unsure.End, format.HeaderSize)))
		st.grown = false
	}
	errs = append(errs, st.disk.Unlock())
	if st.beside != "" { // nothing was committed: the file at the path stays
		errs = append(errs, st.giveUpReplacement())
	}
	return errors.Join(errs...)
}

// Close gives up the file. Regions that entries refer to stay mapped until those are released.
func (st *Store) Close() error {
	errs := []error{st.end(), st.foreign.close()}
	st.foreign = nil
	excess := st.excess
	errs = append(errs, st.Abandon())
	if excess {
		errs = append(errs, st.cutExcess())
	}
	return errors.Join(errs...)
}
