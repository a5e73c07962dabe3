package store

import (
	"errors"
	"fmt"
	"runtime"

	"xpwc/internal/format"
)

// What is at the path but is no cache of ours, or no longer.

// notOurs returns the error for a file that begins with these bytes, which are no header of ours: ExecuTorch wrote it,
// or its header was lost, or it is no cache at all.
func (st *Store) notOurs(block []byte, size int64) error {
	_, version, err := format.DecodeForeign(block, st.disk, uint64(size))
	switch {
	case errors.Is(err, format.ErrEmptyHeader) && !st.private():
		return fmt.Errorf("%s: it begins with zeros: %w", st.path, format.ErrNotCache)
	case errors.Is(err, format.ErrVersion):
		return fmt.Errorf("%s: ExecuTorch's format, version %d: %w", st.path, version, err)
	case errors.Is(err, format.ErrDamaged):
		return fmt.Errorf("%s: %w", st.path, err)
	case err != nil:
		return fmt.Errorf("%s: %w", st.path, format.ErrNotCache)
	}
	return fmt.Errorf("%s: %w", st.path, format.ErrForeign)
}

// private reports whether only its owner may use the file, as Files.Create makes it. Disk images and downloads that
// begin with zeros mostly differ. Windows has no such permissions.
func (st *Store) private() bool {
	mode, err := st.disk.Mode()
	return err == nil && (mode.Perm()&0o077 == 0 || runtime.GOOS == "windows")
}

// MakeWay clears the path of a file of which nothing can be used, so that a new one can be made there. A damaged file
// is renamed to newPath: PATH.damaged, or another name if that is in use. A user can examine it there. A file of
// ExecuTorch or of an older version of the format records neither layouts nor sources. It is removed; existing mappings
// stay. If another process has put a usable file there, MakeWay loads it. If the file has become too short, and cause
// is not ErrShort, it may still be being copied here: the error is ErrShort. ok is false if another process writes to
// the file.
func (st *Store) MakeWay(cause error) (newPath string, ok bool, err error) {
	if err := st.Abandon(); err != nil {
		return "", false, err
	}
	err = st.Load()
	if err == nil && st.disk != nil && st.id == [16]byte{} { // emptied: others may still have mapped what was in it
		err = errors.Join(format.ErrDamaged, st.Abandon())
	}
	others := errors.Is(err, format.ErrForeign) || errors.Is(err, format.ErrOlder)
	if !others && !errors.Is(err, format.ErrDamaged) || errors.Is(err, ErrShort) && !errors.Is(cause, ErrShort) {
		return "", err == nil, err
	}
	removes := isCache
	if errors.Is(err, format.ErrEmptyHeader) { // a device whose power often fails would soon have used up all names
		removes = isUncommitted
	}
	if err := st.hold(); err != nil {
		return "", false, err
	}
	defer st.letGo()
	d, err := st.files.Open(st.path, true)
	if err != nil {
		return "", false, fmt.Errorf("open the cache that is in the way: %w", err)
	}
	defer func() { _ = d.Close() }()
	if ok, err := d.TryLock(); err != nil || !ok {
		return "", false, err
	}
	if err := st.inPlace(d); err != nil {
		return "", false, err
	}
	if others && st.files.Remove(st.path) == nil {
		return "", true, nil
	}
	newPath, err = st.setAside(removes)
	return newPath, err == nil, err
}

// setAside renames the file at the path to PATH.damaged, or a name as vacantBut returns it: newPath.
func (st *Store) setAside(removes func(File) (bool, error)) (newPath string, err error) {
	if newPath, err = st.vacantBut(".damaged", removes); err != nil {
		return "", fmt.Errorf("set the cache aside: %w", err)
	}
	if err := st.files.Rename(st.path, newPath); err != nil {
		return "", fmt.Errorf("set the cache aside: %w", err)
	}
	return newPath, st.files.SyncDir(st.path)
}
