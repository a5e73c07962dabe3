//go:build unix

package mapped

import (
	"errors"
	"io/fs"
	"os"
)

// held is the descriptor of a file that is mapped, by which it is found wherever its name went.
type held struct{ file *os.File }

func (h *held) take(f *os.File) error {
	h.file = f
	return nil
}

func (h *held) changedSince(_ string, before State) (bool, error) {
	return ChangedSince(h.file.Fd(), before)
}

// readAt fills b with the file's bytes from offset on.
func (h *held) readAt(b, _ []byte, offset int64) (int, error) {
	n, err := h.file.ReadAt(b, offset)
	if at := (*fs.PathError)(nil); errors.As(err, &at) {
		err = at.Err
	}
	return n, err
}

func (h *held) close() error {
	if h.file == nil {
		return nil
	}
	f := h.file
	h.file = nil
	return f.Close()
}
