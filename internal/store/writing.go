package store

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"

	"xpwc/internal/format"
)

// How a process becomes the writer of the file, and how it gives that up.

// Writing reports whether this process is the writer of the file.
func (st *Store) Writing() bool { return st.access == writing }

// Begin makes this process the writer, creating the file if there is none. ok is false if another process is the
// writer. What others committed meanwhile is loaded first, so look-ups that missed before may now hit. ErrReplaced, and
// store.Reopen is to be called: another file is at the path, or none. ErrFlush: the file is to be ended.
func (st *Store) Begin() (ok bool, err error) {
	if st.access == writing {
		return true, nil
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
		if replaced, _ := st.disk.Replaced(); replaced { // its last writer has set it aside, and keeps the lock
			err = errors.Join(err, fmt.Errorf("cache %s: %w", st.path, ErrReplaced))
		}
		return false, err
	}
	st.beWriter()
	switch err := st.prepare(); {
	case err == nil:
		return true, nil
	case errors.Is(err, ErrFlush):
		return false, err
	default:
		return false, errors.Join(err, st.EndWriting())
	}
}

// beWriter records that this process is the writer.
func (st *Store) beWriter() {
	st.access = writing
	if _, ok := st.disk.File.(FailureTeller); ok { // a failure to open it shows at the flush
		st.written, _ = st.files.Open(st.path, false)
	}
	if asked, ok := st.written.(FailureTeller); ok {
		st.failed = &failures{teller: asked}
	}
}

func (st *Store) closeWritten() (err error) {
	if st.written != nil {
		err = st.written.Close()
	}
	st.written, st.failed = nil, nil
	return err
}

// openForWriting opens the file, which was loaded, for writing too.
func (st *Store) openForWriting() error {
	if st.access >= writable {
		return nil
	}
	d, err := st.openAgain(st.disk)
	if err != nil {
		return err
	}
	old := st.disk
	st.disk, st.access = opened(d), writable
	return old.Close()
}

// openAgain opens for writing what is open as loaded. ErrReplaced if that is not at the path any more.
func (st *Store) openAgain(loaded File) (File, error) {
	d, err := st.files.Open(st.path, true)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cache %s: %w", st.path, ErrReplaced)
	}
	if err != nil {
		return nil, fmt.Errorf("open cache for writing: %w", err)
	}
	for _, file := range []File{loaded, d} {
		if err := st.inPlace(file); err != nil {
			return nil, errors.Join(err, d.Close())
		}
	}
	return d, nil
}

// CopiesUp reports whether the system would copy all of the file in order to have it open for writing.
func (st *Store) CopiesUp() bool { return st.disk != nil && st.access == reading && st.disk.CopiesUp() }

// prepare brings the locked file into a state that can be appended to.
func (st *Store) prepare() error {
	if err := st.inPlace(st.disk); err != nil {
		return err
	}
	if err := st.reload(st.readers); err != nil {
		return err
	}
	st.listed = listing{}
	if st.index != nil { // the next generation is made of it
		names, err := st.index.NameBytes()
		if err = errors.Join(st.index.Check(), err); err != nil {
			return st.Damaged(err)
		}
		st.listed = listing{st.slot.Records, names + st.index.CopyBytes()}
	}
	if st.id == [16]byte{} {
		if err := st.writeHeader(); err != nil {
			return err
		}
	}
	size, err := st.disk.Size()
	if err != nil {
		return fmt.Errorf("cache %s: %w", st.path, err)
	}
	st.tail = max(st.slot.End, format.HeaderSize)
	st.backed, st.supplied = st.tail, 0
	// A killed writer left the bytes after the committed end. No process maps them.
	if uint64(size) > st.tail {
		return st.cut(st.tail)
	}
	return nil
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
	st.disk, st.access = opened(d), writable
	return nil
}

// writeHeader makes an empty file a cache. The first commit flushes the header: it takes long on a slow disk, and until
// then the file has nothing to lose. What a power failure leaves of the file before, format.DecodeForeign recognizes.
func (st *Store) writeHeader() error {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails (crypto/rand)
	if err := st.disk.Allocate(0, format.HeaderSize); err != nil {
		return err
	}
	if _, err := st.disk.WriteAt(format.NewHeader(id), 0); err != nil {
		return fmt.Errorf("cache: %w", err)
	}
	st.id, st.slot, st.index, st.torn = id, format.Slot{}, nil, false
	return st.dropBase()
}

// EndWriting gives the writer's lock to others, and what was reserved since the last commit back to the file system:
// nothing of it may be in use any more.
func (st *Store) EndWriting() error {
	if st.access != writing {
		return nil
	}
	st.access = writable
	errs := []error{st.retire(), st.closeWritten()}
	for _, r := range st.segments {
		errs = append(errs, r.Release())
	}
	st.segments, st.growth = nil, 0
	if st.grown { // what was reserved and not needed
		errs = append(errs, st.cut(max(st.slot.End, format.HeaderSize)))
		st.grown = false
	}
	return errors.Join(append(errs, st.disk.Unlock())...)
}

// End gives up the file, which this process writes to, for good: what was written since the last commit may be lost, or
// another file is at the path. If it is still there it is set aside, as a damaged one is, so that others begin a new
// one at once: newPath is its name then. Nothing of it is cut off, or given to others to write to: what is mapped
// of it keeps its bytes as well as the disk does, here and in processes that were forked. (So Linux keeps the lock as
// long as any of them maps it.)
func (st *Store) End() (newPath string, err error) {
	if st.disk == nil {
		return "", nil
	}
	if err = st.hold(); err == nil {
		defer st.letGo()
		if err = st.inPlace(st.disk); err == nil {
			newPath, err = st.setAside(isCache)
		}
	}
	if errors.Is(err, ErrReplaced) {
		err = nil
	}
	return newPath, errors.Join(err, st.Abandon())
}

// cut gives back the space after an end. Where a mapped file cannot be cut off it stays, and is reserved from next;
// Close or the next writer then gives it back.
func (st *Store) cut(end uint64) error {
	err := st.disk.Truncate(int64(end))
	st.backed = end
	if st.excess = errors.Is(err, ErrMapped); err != nil && !st.excess {
		return fmt.Errorf("cache %s: %w", st.path, err)
	}
	return nil
}
