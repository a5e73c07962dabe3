package store

import "sync"

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
