package executorch

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"xpwc"
	"xpwc/internal/flatbuf"
	"xpwc/internal/mapped"
	"xpwc/internal/output"
	"xpwc/internal/tensorfile"
	"xpwc/models"
)

// alignment is what ExecuTorch aligns tensors to, whatever their type, which a .pte lacks.
const alignment = 16

// File is a .ptd or .pte file mapped read-only and checked. It is an [xpwc.DataMap]. Its methods may be called from
// many goroutines.
type File struct {
	file     *mapped.File
	data     []byte // of the mapping, to be read within view
	contents contents
}

// NamedData is one piece of named data.
type NamedData struct {
	Name string
	// Meta describes the data if it is a tensor and the file has a description; otherwise it is nil.
	Meta *TensorMeta
	// Data lies in the file's mapping: it can be read until Close, and must not be written to.
	Data []byte
}

// TensorMeta is a tensor's type and shape: TensorLayout in ExecuTorch's schema.
type TensorMeta struct {
	Type  ScalarType
	Sizes []int
	// DimOrder names the dimensions in the order of memory, the outermost first: 0, 1, 2 and so on for elements that
	// lie row by row.
	DimOrder []int
}

// OpenFile maps a .ptd or a .pte read-only and checks its named data; its identifier shows which it is. Tensors'
// bytes are not read. The error matches [ErrMalformed], [ErrUnsupported], [ErrSkeleton] or what the operating system
// returned, and names the file. The file must not be changed in place while it is open, as for any mapping; replacing
// it by another is harmless. The caller closes the file when everything that uses its data is closed.
func OpenFile(path string) (*File, error) {
	m, err := mapped.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open ExecuTorch file: %w", err)
	}
	return newFile(m, path)
}

// openSource is OpenFile for what is not in a file of its own.
func openSource(s models.Source) (*File, error) {
	m, err := s.Open()
	if errors.Is(err, mapped.ErrOutside) {
		err = fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if err != nil {
		return nil, fmt.Errorf("open ExecuTorch file: %w", err)
	}
	return newFile(m, s.Name())
}

// newFile checks a file. It takes the mapping over.
func newFile(m *mapped.File, name string) (*File, error) {
	c, err := parse(m.Data())
	if output.IsSkeleton(m.Data()) {
		err = ErrSkeleton
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open ExecuTorch file %s: %w", name, err), m.Close())
	}
	return &File{file: m, data: m.Data(), contents: c}, nil
}

// Path returns the file's absolute path.
func (f *File) Path() string { return f.file.Path() }

// NamedData returns all named data in the order the file lists it. After Close it has no Data.
func (f *File) NamedData() []NamedData {
	out := make([]NamedData, len(f.contents.named))
	for i, e := range f.contents.named {
		out[i] = f.dataOf(e)
	}
	return out
}

// Lookup returns the named data of that name, and whether there is any.
func (f *File) Lookup(name string) (NamedData, bool) {
	e, ok := f.contents.find(name)
	if !ok {
		return NamedData{}, false
	}
	return f.dataOf(e), true
}

func (f *File) dataOf(e entry) NamedData {
	d := NamedData{Name: e.name, Data: placeOf(e.span).In(f.file.Data())}
	if e.meta != nil {
		d.Meta = &TensorMeta{Type: e.meta.Type, Sizes: slices.Clone(e.meta.Sizes),
			DimOrder: slices.Clone(e.meta.DimOrder)}
	}
	return d
}

func placeOf(span flatbuf.Span) tensorfile.Place {
	return tensorfile.Place{Offset: span.Offset, Size: span.Size, Alignment: alignment}
}

// Tensor implements [xpwc.DataMap]. The content lies in the mapping, as the file has it, whatever the order of the
// dimensions. It is copied, when it is asked for, only if its address is no multiple of 16 or fewer than 128 bytes of
// the mapping follow its end, where C code may read. The error matches [xpwc.ErrUnknownTensor] or [xpwc.ErrClosed].
func (f *File) Tensor(name string) (xpwc.Tensor, error) {
	e, ok := f.contents.find(name)
	if !ok {
		return xpwc.Tensor{}, fmt.Errorf("%s: tensor %q: %w", f.Path(), name, xpwc.ErrUnknownTensor)
	}
	return f.tensor(e.span)
}

func (f *File) tensor(span flatbuf.Span) (xpwc.Tensor, error) {
	return tensorfile.Tensor(f.file, placeOf(span))
}

// read calls do with the file's bytes, which it must not keep. Until its end the file is not closed.
func (f *File) read(do func(file []byte)) error {
	err := f.file.View(func(file []byte) error { do(file); return nil })
	if errors.Is(err, fs.ErrClosed) {
		return fmt.Errorf("%s: %w", f.Path(), xpwc.ErrClosed)
	}
	return err
}

// Close unmaps the file. Sessions, and runtimes that read its data at inference, must be gone before; what asks for
// the file's bytes afterwards is an error that matches [xpwc.ErrClosed]. Closing twice is harmless.
func (f *File) Close() error { return f.file.Close() }
