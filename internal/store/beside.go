package store

import (
	"errors"
	"fmt"
	"io/fs"

	"xpwc/internal/format"
)

// namesBeside is the number of names that are tried for a file next to the cache.
const namesBeside = 9

// hold resolves names next to the cache in one directory until letGo. Otherwise a renamed directory could make the
// store replace or remove a file of another directory.
func (st *Store) hold() (err error) {
	st.letGo()
	if h, ok := st.files.(Holder); ok {
		st.release, err = h.Hold(st.path)
	}
	return err
}

// letGo ends what hold began, if it did.
func (st *Store) letGo() {
	if st.release != nil {
		st.release()
		st.release = nil
	}
}

// inPlace returns an error unless the path leads to an open file: ErrReplaced if it leads elsewhere.
func (st *Store) inPlace(d File) error {
	replaced, err := d.Replaced()
	if err == nil && replaced {
		err = ErrReplaced
	}
	if err != nil {
		return fmt.Errorf("cache %s: %w", st.path, err)
	}
	return nil
}

// vacant returns an unused name next to the cache: NAME.compact for example, else NAME.compact-2 and so on. It removes
// a file that a killed process left there if the content is that of a cache file. It keeps all other files.
func (st *Store) vacant(suffix string) (path string, err error) { return st.vacantBut(suffix, isCache) }

// vacantBut is vacant for files with another content.
func (st *Store) vacantBut(suffix string, removes func(File) (bool, error)) (path string, err error) {
	for n := 1; n <= namesBeside; n++ {
		path := st.path + suffix
		if n > 1 {
			path = fmt.Sprintf("%s-%d", path, n)
		}
		ours, err := st.hasContent(path, removes)
		if err == nil && ours {
			if err := st.files.Remove(path); err != nil {
				return "", err
			}
			_, err = st.hasContent(path, removes) // before Windows 10 the name goes with the last mapping
		}
		if errors.Is(err, fs.ErrNotExist) {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s%s and %d more: %w: other files are there", st.path, suffix, namesBeside-1, fs.ErrExist)
}

// hasContent reports whether the file at a path has a content.
func (st *Store) hasContent(path string, content func(File) (bool, error)) (bool, error) {
	d, err := st.files.Open(path, false)
	if err != nil {
		return false, err
	}
	defer func() { _ = d.Close() }()
	return content(d)
}

// isCache reports whether a file begins as a cache file does, or as one that was created and not begun.
func isCache(d File) (bool, error) {
	block, size, err := firstBlock(d)
	if err != nil {
		return false, err
	}
	_, err = format.DecodeHeader(block)
	return !errors.Is(err, format.ErrNotCache) || notBegun(block, size), nil
}

// isUncommitted is isCache, also for what a power failure before the first commit leaves of a file.
func isUncommitted(d File) (bool, error) {
	block, size, err := firstBlock(d)
	if err != nil {
		return false, err
	}
	if _, _, err = format.DecodeForeign(block, d, uint64(size)); errors.Is(err, format.ErrEmptyHeader) {
		return true, nil
	}
	return isCache(d)
}

// firstBlock returns the bytes in the place of a header, and the file's size.
func firstBlock(d File) (block []byte, size int64, err error) {
	if size, err = d.Size(); err != nil {
		return nil, 0, err
	}
	block = make([]byte, min(size, format.HeaderSize))
	_, err = d.ReadAt(block, 0)
	return block, size, err
}

// notBegun reports whether a file of some size, which begins with a block, is what a crash between creating a cache
// and writing its header leaves.
func notBegun(block []byte, size int64) bool {
	return size <= format.HeaderSize && format.Blank(block)
}
