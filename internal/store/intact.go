package store

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"xpwc/internal/format"
)

// A Loaded identifies the loaded generation of a file, for a later check. Its methods are safe for concurrent use.
type Loaded struct {
	path       string
	disk       File
	generation generation
	failed     *failures
}

// A FailureTeller is a disk that can report failed writes of its file. Not every system reports them.
type FailureTeller interface {
	// Failed returns the error of a write that has failed since the disk was opened, once. It waits for nothing.
	Failed() error
}

// failures remembers the first write error of a file. The system reports an error once, and several goroutines need it.
type failures struct {
	teller FailureTeller

	mu  sync.Mutex // nothing else is locked while it is held
	err error
}

// first returns the first failure, or nil. Of nil there is none.
func (f *failures) first() error {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = f.teller.Failed()
	}
	return f.err
}

// Loaded returns what is loaded, nil while there is nothing.
func (st *Store) Loaded() *Loaded {
	if st.disk == nil || st.id == [16]byte{} {
		return nil
	}
	return &Loaded{st.path, st.disk.File, generation{st.id, st.slot}, st.failed}
}

// File returns the identity of the file.
func (l *Loaded) File() [16]byte { return l.generation.file }

// Check returns ErrOverwritten if the file is no longer the loaded one, and ErrFlush if the disk may have lost written
// bytes: mapped pages may then have other bytes. A later commit is no change, and an unreadable header is no evidence.
// Check does not detect a file that was overwritten and then restored.
func (l *Loaded) Check() error {
	if err := l.failed.first(); err != nil {
		return fmt.Errorf("%s: %w: %w", l.path, ErrFlush, err)
	}
	block := make([]byte, format.HeaderSize)
	if _, err := l.disk.ReadAt(block, 0); errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: %w: %w", l.path, ErrShort, ErrOverwritten)
	} else if err != nil {
		return nil
	}
	h, err := format.DecodeHeader(block)
	slot := l.generation.slot
	switch {
	case err != nil || h.ID != l.generation.file:
		return fmt.Errorf("%s: %w", l.path, ErrOverwritten)
	case slot.Generation == 0:
		return nil
	}
	if size, err := l.disk.Size(); err != nil {
		return nil
	} else if uint64(size) < slot.End {
		return fmt.Errorf("%s: %w: %w", l.path, ErrShort, ErrOverwritten)
	}
	if h.Current == slot {
		return nil
	}
	// Another process has committed. A commit changes no older bytes.
	_, err = format.LoadIndex(l.disk, slot)
	if h.Current.Generation <= slot.Generation || errors.Is(err, format.ErrDamaged) {
		return fmt.Errorf("%s: %w", l.path, ErrOverwritten)
	}
	return nil
}
