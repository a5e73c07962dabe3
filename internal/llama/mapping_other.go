//go:build !unix

package llama

import (
	"fmt"
	"io"
	"os"

	"xpwc/xnnpack"
)

// mapping is a file read into C memory, where there is no mmap.
type mapping struct {
	data   []byte
	buffer *xnnpack.Buffer
}

func mapFile(f *os.File, size int) (*mapping, error) {
	buffer, err := xnnpack.NewBuffer(size)
	if err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(io.NewSectionReader(f, 0, int64(size)), buffer.Bytes()); err != nil {
		buffer.Free()
		return nil, err
	}
	return &mapping{buffer.Bytes(), buffer}, nil
}

func (m *mapping) close() error {
	m.data = nil
	m.buffer.Free()
	return nil
}

// drop does nothing: the memory is the only copy.
func (m *mapping) drop([]byte) {}

// fileStamp changes whenever the file's content does.
func fileStamp(f *os.File) (string, error) {
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d:%d", info.Size(), info.ModTime().UnixNano()), nil
}
