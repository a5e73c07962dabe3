// Package store is the cache file. It loads what was committed, reserves space to pack into, commits, makes a new file
// of the entries that are kept, and reads the files of other programs. It knows bytes and records. Its user decides
// what is packed, when it is committed, and what is done about errors. All that the store asks of the system is in its
// interfaces [Files], [File] and [Mapping].
package store

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"sync/atomic"

	"xpwc/internal/format"
)

// CheckedAtOnce is the size of an index, some 5,000 records, up to which it is checked completely when it is loaded.
// A larger index is checked as it is read, so that the time of opening does not grow with the file.
const CheckedAtOnce = 1 << 20

// A Store is one cache file. It finds what was committed, reserves space to pack into, and commits. It knows bytes and
// records but no policy. Its methods must not be called at the same time, except for Commit.Write and Rewrite.
type Store struct {
	path    string
	files   Files
	readers int // number of goroutines that preload the file, or 0

	disk   *openFile // nil while there is no file
	access access    // of this process
	id     [16]byte
	slot   format.Slot   // the generation in force
	index  *format.Index // of a generation that was in force when it was loaded, see Relist; nil while there is none
	base   *Region       // the committed part of the file as it was loaded

	damagedIndex generation // turned out damaged after it was loaded: checked completely before it is loaded again

	written File      // of a writer: a second descriptor, which reports write errors
	failed  *failures // of that descriptor
	settled bool      // the file's name is on stable storage

	torn     bool      // a slot of the file has a wrong checksum
	tail     uint64    // file offset after the last reservation
	backed   uint64    // up to where the file has disk space
	listed   listing   // what the next index has to list
	segment  *Region   // where the next reservation comes from, or nil
	segments []*Region // those not yet read-only
	supplied uint64    // up to where the segment's pages are in memory
	growth   uint64    // size of the next segment
	grown    bool      // the file has space after the committed end
	excess   bool      // and keeps it, because somebody has the file mapped: see cut

	release func() // lets go of the directory, if it is held
}

// An access is what this process may do with the file.
type access uint8

const (
	reading  access = iota
	writable        // the disk is open for writing
	writing         // and we are the writer
)

// New returns a store that has not loaded its file. Load then preloads the file with that number of goroutines; with 0
// it reads the index alone.
func New(path string, files Files, readers int) *Store {
	return &Store{path: path, files: files, readers: readers}
}

// Intercept replaces the store's files and its open disk, if there is one, by the results of the functions. Either may
// be nil. Tests inject faults with it.
func (st *Store) Intercept(files func(Files) Files, disk func(File) File) {
	if files != nil {
		st.files = files(st.files)
	}
	if disk != nil && st.disk != nil {
		st.disk.File = disk(st.disk.File)
	}
}

// An openFile is a file that is open as long as somebody needs it: the store, or a region that was loaded from it.
type openFile struct {
	File
	users atomic.Int32
}

// opened returns an open file with one user.
func opened(f File) *openFile {
	o := &openFile{File: f}
	return o.share()
}

func (o *openFile) share() *openFile { o.users.Add(1); return o }

// Close is for one user; the last one closes the file.
func (o *openFile) Close() error {
	if o.users.Add(-1) > 0 {
		return nil
	}
	return o.File.Close()
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

// Torn reports whether no generation of the file is in force because its slot has a wrong checksum.
func (st *Store) Torn() bool { return st.torn && st.slot.Generation == 0 }

// Index returns the index of the generation that was loaded last; nil while there is none. Another one has another.
func (st *Store) Index() *format.Index { return st.index }

// Payload returns the bytes of a record of the loaded index, which are there as long as Base is retained.
func (st *Store) Payload(r *format.Record) []byte {
	end := r.Offset + r.Size
	return st.base.data[r.Offset:end:end]
}

// Base returns the region that the payloads of the loaded index are in, nil while there is none.
func (st *Store) Base() *Region { return st.base }

// Load opens the file for reading and reads the generation in force: to open it for writing can be dear, and most
// processes never write. It leaves the store empty, without an error, when there is no file. format.ErrDamaged,
// format.ErrVersion, format.ErrNotCache and format.ErrForeign are the errors of other content.
func (st *Store) Load() error {
	d, err := st.files.Open(st.path, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open cache: %w", err)
	}
	st.disk, st.access = opened(d), reading
	if err := st.reload(st.readers); err != nil {
		st.disk = nil
		_ = d.Close()
		return err
	}
	return nil
}

// reload reads the header and, if another generation is in force than the one loaded, maps and checks that one. What
// was mapped before stays mapped for its users. readers goroutines preload the new mapping.
func (st *Store) reload(readers int) error {
	if l := st.Loaded(); l != nil {
		if err := l.Check(); err != nil {
			return err
		}
	}
	size, err := st.disk.Size()
	if err != nil {
		return st.unmappable(err)
	}
	block := make([]byte, min(size, format.HeaderSize))
	if _, err := st.disk.ReadAt(block, 0); err != nil {
		return fmt.Errorf("%s: its header cannot be read: %w: %w", st.path, err, format.ErrDamaged)
	}
	h, err := format.DecodeHeader(block)
	switch {
	case notBegun(block, size):
		return nil
	case errors.Is(err, format.ErrNotCache):
		return st.notOurs(block, size)
	case errors.Is(err, format.ErrVersion):
		return fmt.Errorf("%s: %w", st.path, err)
	case err != nil:
		return fmt.Errorf("%s: %w: %w", st.path, err, format.ErrDamaged)
	}
	// Another process may have made the file longer, and committed, since the size was asked.
	if size, err = st.disk.Size(); err != nil {
		return st.unmappable(err)
	}
	if h.ID == st.id && h.Current == st.slot {
		return nil
	}
	slot := h.Current
	st.torn = h.Slots[0].Torn || h.Slots[1].Torn
	if slot.Generation == 0 {
		err := st.dropBase()
		st.id, st.slot = h.ID, slot
		return err
	}
	if slot.End > uint64(size) {
		return fmt.Errorf("%s: it has %d bytes of %d: %w", st.path, size, slot.End, ErrShort)
	}
	if slot.End > math.MaxInt {
		return fmt.Errorf("%s: its %d bytes cannot be mapped: %w", st.path, slot.End, format.ErrDamaged)
	}
	m, err := st.disk.Map(0, int(slot.End), false)
	if err != nil {
		return st.unmappable(err)
	}
	if readers > 0 {
		if err := st.readAll(m, readers); err != nil {
			_ = m.Unmap()
			return err
		}
	}
	index, err := st.loadIndex(slot, st.damagedIndex == generation{h.ID, slot})
	if err != nil {
		_ = m.Unmap()
		return err
	}
	if err := st.dropBase(); err != nil {
		return err
	}
	st.id, st.slot, st.index = h.ID, slot, index
	st.base = newRegion(m, 0, h.ID)
	st.base.sealed, st.base.disk = true, st.disk.share()
	return nil
}

// Relist loads the generation in force, unless it is loaded. After a commit of this process it is not: most end after
// their first one. Its payloads are not read: they were when they were packed, or when the file was loaded. If Relist
// fails, the store is as it was.
func (st *Store) Relist() error {
	prev := st.slot
	if st.index == nil || st.index.Generation() != prev.Generation {
		st.slot = format.Slot{} // as if another process had committed it
	}
	err := st.reload(0)
	if err != nil {
		st.slot = prev
	}
	return err
}

func (st *Store) unmappable(err error) error {
	return fmt.Errorf("cache %s: %w: %w", st.path, ErrUnmappable, err)
}

// loadIndex reads an index, and checks it completely unless it is large. It is read and not mapped: what the disk
// cannot give, or somebody has cut off, is an error then, and no signal.
func (st *Store) loadIndex(slot format.Slot, whole bool) (*format.Index, error) {
	x, err := format.LoadIndex(st.disk, slot) // which is open as long as the region that is loaded with the index
	if err == nil && (whole || slot.IndexSize <= CheckedAtOnce) {
		err = x.Check()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: its index: %w: %w", st.path, err, format.ErrDamaged)
	}
	return x, nil
}

// Damaged returns the error for something in the loaded index that turned out damaged.
func (st *Store) Damaged(err error) error {
	st.damagedIndex = generation{st.id, st.slot}
	return fmt.Errorf("%s: %w: %w", st.path, err, format.ErrDamaged)
}

// dropBase drops the loaded generation. Its mapping stays for its users.
func (st *Store) dropBase() (err error) {
	if st.base != nil {
		err = st.base.Release()
	}
	st.index, st.base = nil, nil
	return err
}

// Refresh picks up what other processes committed since.
func (st *Store) Refresh() error {
	if st.access == writing {
		return nil // nobody else writes
	}
	if st.disk == nil {
		return st.Load()
	}
	replaced, err := st.disk.Replaced()
	if err != nil {
		return fmt.Errorf("cache %s: %w", st.path, err)
	}
	if replaced {
		return st.Reopen()
	}
	return st.reload(st.readers)
}

// Reopen opens the file that is at the path now. Mappings of the old one stay for their users.
func (st *Store) Reopen() error {
	if err := st.Abandon(); err != nil {
		return err
	}
	return st.Load()
}

// Abandon closes the file without truncating it. Its mappings stay for their users.
func (st *Store) Abandon() error {
	var errs []error
	if st.access == writing { // the lock goes with the disk, on Linux when nothing of it is mapped any more
		st.grown, st.growth = false, 0
		if st.segment != nil {
			errs = append(errs, st.segment.Release())
		}
		for _, r := range st.segments {
			errs = append(errs, r.Release())
		}
		st.segment, st.segments = nil, nil
	}
	errs = append(errs, st.closeWritten())
	if st.disk != nil {
		errs = append(errs, st.disk.Close())
	}
	st.access, st.excess = reading, false
	st.disk, st.settled, st.id, st.slot, st.index, st.torn = nil, false, [16]byte{}, format.Slot{}, nil, false
	if err := errors.Join(append(errs, st.dropBase())...); err != nil {
		return fmt.Errorf("cache %s: %w", st.path, err)
	}
	return nil
}

// Close gives up the file. Regions that entries refer to stay mapped until those are released.
func (st *Store) Close() error {
	err := st.EndWriting()
	if st.excess { // whoever begins to write gives it back, unless the file is still mapped
		err = errors.Join(err, st.dropBase())
		if ok, _ := st.Begin(); ok {
			err = errors.Join(err, st.EndWriting())
		}
	}
	return errors.Join(err, st.Abandon())
}
