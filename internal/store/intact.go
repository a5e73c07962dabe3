package store

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"xpwc/internal/format"
)

// A Loaded is what was loaded of a file, to be asked whether it is still there. It may be asked beside everything else.
type Loaded struct {
	path       string
	disk       File
	generation generation
	failed     *failures
}

// A FailureTeller is a disk that knows whether the system has failed to write some of its file. Not every system says.
type FailureTeller interface {
	// Failed returns the error of a write that has failed since the disk was opened, once. It waits for nothing.
	Failed() error
}

// A failures has those of a file that is written to. The system reports one once, and several may ask: the first is
// kept.
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

// Check returns ErrOverwritten if the file is not the one any more that was loaded, and ErrFlush if the disk may have
// lost what was written to it: then what is mapped of it may have other bytes. What a commit has added is no change,
// and a header that cannot be read says nothing. A file that was overwritten with its like, and with itself before it
// is asked, is not found out.
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
	// Another process has committed: nothing of what there was before changes.
	_, err = format.LoadIndex(l.disk, slot)
	if h.Current.Generation <= slot.Generation || errors.Is(err, format.ErrDamaged) {
		return fmt.Errorf("%s: %w", l.path, ErrOverwritten)
	}
	return nil
}
