package models

import (
	"bytes"
	"errors"
	"io"
	"os"

	"xpwc/internal/mapped"
)

// A Source is where a model's bytes are, for models that are not in a file of their own: embedded in the program,
// decrypted in memory, or a section of another file.
//
// Content that is read has no stamp. Its digest identifies it, which each start computes, so a cache never takes
// packed weights for those of other content. It is copied once, into private memory outside the Go heap.
type Source struct {
	name string
	open func(name string) (*mapped.File, error)
}

// errNoSource: the zero Source.
var errNoSource = errors.New("a models.Source is made by models.Bytes, models.Reader or models.Section")

// Bytes is a model in memory, such as a file that go:embed embedded. The name is for people: errors and the cache file
// have it. The content may change once the model is open.
func Bytes(name string, content []byte) Source {
	return Reader(name, bytes.NewReader(content), int64(len(content)))
}

// Reader is a model of size bytes that a reader has. It is read once, when the model is opened.
func Reader(name string, r io.ReaderAt, size int64) Source {
	return Source{name, func(name string) (*mapped.File, error) { return mapped.Read(name, r, size) }}
}

// Section is a model of size bytes at an offset of an open file: an asset of Android by its descriptor, or a member of
// a zip that is stored without compression. It is mapped, and identified as a file is: a start reads it only if its
// stamp is not known. The file stays the caller's, who may close it when the model is open. As of a path, it must not
// be changed in place while the model is open.
func Section(f *os.File, offset, size int64) Source {
	section := mapped.Section{Offset: offset, Size: size}
	return Source{f.Name(), func(name string) (*mapped.File, error) {
		if section == (mapped.Section{}) { // which is the whole file in package mapped, and no bytes here
			return mapped.Read(name, f, 0)
		}
		return mapped.OpenFileSection(f, section)
	}}
}

// Name returns the name that errors have.
func (s Source) Name() string { return s.name }

// Open is for the packages that make models of it.
func (s Source) Open() (*mapped.File, error) {
	if s.open == nil {
		return nil, errNoSource
	}
	return s.open(s.name)
}
