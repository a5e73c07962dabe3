//go:build unix

package mapped

import "os"

// held is the descriptor of a file that is mapped, by which it is found wherever its name went.
type held struct{ file *os.File }

func (h *held) take(f *os.File) error {
	h.file = f
	return nil
}

func (h *held) changedSince(_ string, before State) (bool, error) {
	return ChangedSince(h.file.Fd(), before)
}

func (h *held) close() error {
	if h.file == nil {
		return nil
	}
	f := h.file
	h.file = nil
	return f.Close()
}
