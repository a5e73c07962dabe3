package store

import (
	"errors"
	"fmt"

	"xpwc/internal/format"
)

// What is at the path but is no cache of ours, or no longer.

// notOurs loads a file that ExecuTorch has written, and returns the error for it, or for one that is no cache at all.
func (st *Store) notOurs(size int64) error {
	_, version, err := format.DecodeTrailer(uint64(size), func(b []byte, offset uint64) error {
		_, err := st.disk.ReadAt(b, int64(offset))
		return err
	})
	switch {
	case errors.Is(err, format.ErrVersion):
		return fmt.Errorf("%s: ExecuTorch's format, version %d: %w", st.path, version, format.ErrVersion)
	case errors.Is(err, format.ErrDamaged):
		return fmt.Errorf("%s: its trailer: %w: %w", st.path, err, format.ErrDamaged)
	case err != nil:
		return fmt.Errorf("%s: %w", st.path, format.ErrNotCache)
	}
	st.foreign, st.disk = &foreignFile{disk: st.disk}, nil
	return fmt.Errorf("%s: %w", st.path, format.ErrForeign)
}

// A foreignFile is ExecuTorch's cache file, or one of an older version of our format. It says neither for which layout
// its entries were packed nor from what, so nothing of it is used.
type foreignFile struct {
	disk     File
	writable bool // the disk is open for writing
}

// Foreign reports whether the file at the path is ExecuTorch's, or one of an older version of our format.
func (st *Store) Foreign() bool { return st.foreign != nil }

func (f *foreignFile) close() error {
	if f == nil {
		return nil
	}
	return f.disk.Close()
}

// openForWriting opens ExecuTorch's file, which was loaded, for writing too: who may not write to it must not replace
// it either.
func (f *foreignFile) openForWriting(st *Store) error {
	if f.writable {
		return nil
	}
	d, err := st.openAgain(f.disk)
	if err != nil {
		return err
	}
	old := f.disk
	f.disk, f.writable = d, true
	return old.Close()
}

// beginReplacement begins a native file beside a foreign one, which it takes the place of with its first commit. ok
// is false if another process is the writer of that.
func (st *Store) beginReplacement() (ok bool, err error) {
	if err := st.hold(); err != nil {
		return false, err
	}
	defer func() {
		if !ok {
			st.letGo()
		}
	}()
	if err := st.foreign.openForWriting(st); err != nil {
		return false, err
	}
	if ok, err := st.foreign.disk.TryLock(); err != nil || !ok {
		return false, err
	}
	if err := st.inPlace(st.foreign.disk); err != nil {
		return false, errors.Join(err, st.foreign.disk.Unlock())
	}
	beside, err := st.vacant(".native") // what is there a killed process left: its lock was ours to get
	if err == nil {
		st.disk, err = st.files.Create(beside)
	}
	if err != nil {
		st.disk = nil
		return false, errors.Join(fmt.Errorf("create cache: %w", err), st.foreign.disk.Unlock())
	}
	st.access, st.beside = writable, beside
	st.beWriter()
	ok, err = st.disk.TryLock()
	if err == nil && ok {
		err = st.writeHeader()
	}
	if err == nil && ok {
		err = st.flush() // whatever a power failure leaves of it says whose it is
	}
	if err != nil || !ok {
		return false, errors.Join(err, st.EndWriting())
	}
	st.tail, st.backed = format.HeaderSize, format.HeaderSize
	return true, nil
}

// giveUpReplacement leaves the file at the path where it is.
func (st *Store) giveUpReplacement() error {
	defer st.letGo()
	beside := st.beside
	st.beside = ""
	return errors.Join(st.Abandon(), st.files.Remove(beside), st.foreign.disk.Unlock())
}

// takePlace puts the file that was just committed first in the place of the one at the path.
func (st *Store) takePlace() error {
	if err := st.inPlace(st.foreign.disk); err != nil {
		return err
	}
	if err := st.files.Rename(st.beside, st.path); err != nil {
		return fmt.Errorf("replace cache %s: %w", st.path, err)
	}
	st.disk.Moved(st.path)
	foreign := st.foreign
	st.beside, st.foreign = "", nil
	defer st.letGo()
	return errors.Join(st.files.SyncDir(st.path), foreign.close())
}

// SetAsideDamaged renames a damaged file to PATH.damaged, or what is vacant, so that a new one can take its place and
// the old one can be looked at: as is what it is called then. If another process has put a good file there since, it
// is loaded instead.
func (st *Store) SetAsideDamaged() (as string, err error) {
	if err := st.Abandon(); err != nil {
		return "", err
	}
	err = st.Load()
	if err == nil && st.disk != nil && st.id == [16]byte{} { // emptied: others may still have mapped what was in it
		err = errors.Join(format.ErrDamaged, st.Abandon())
	}
	if !errors.Is(err, format.ErrDamaged) {
		return "", err
	}
	if err := st.hold(); err != nil {
		return "", err
	}
	defer st.letGo()
	d, err := st.files.Open(st.path, true)
	if err != nil {
		return "", fmt.Errorf("open the damaged cache: %w", err)
	}
	defer func() { _ = d.Close() }()
	if ok, err := d.TryLock(); err != nil || !ok {
		return "", errors.Join(err, fmt.Errorf("%s: %w", st.path, ErrReplaced))
	}
	if err := st.inPlace(d); err != nil {
		return "", err
	}
	return st.setAside()
}

// setAside renames the file at the path to PATH.damaged, or what is vacant: as.
func (st *Store) setAside() (as string, err error) {
	if as, err = st.vacant(".damaged"); err != nil {
		return "", fmt.Errorf("set the cache aside: %w", err)
	}
	if err := st.files.Rename(st.path, as); err != nil {
		return "", fmt.Errorf("set the cache aside: %w", err)
	}
	return as, st.files.SyncDir(st.path)
}
