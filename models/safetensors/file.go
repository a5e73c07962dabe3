package safetensors

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"xpwc"
	"xpwc/internal/mapped"
	"xpwc/internal/tensorfile"
)

// File is a safetensors file, or all files of a sharded model, mapped read-only and checked. It is an [xpwc.DataMap].
// Its methods may be called from many goroutines.
type File struct {
	path     string
	shards   []*mapped.File
	tensors  []*located // by file, then by position
	byName   map[string]*located
	metadata map[string]string
}

// located is a tensor in the file that has it.
type located struct {
	entry
	file  *mapped.File
	place tensorfile.Place
}

// Tensor is a tensor as a file has it, or as Write is given it.
type Tensor struct {
	Name  string
	Dtype Dtype
	// Shape is empty for a scalar. Elements lie row by row, little-endian.
	Shape []int
	// Data is the content. That of an open File lies in its mapping: it can be read until Close, and must not be
	// written to.
	Data []byte
}

// Open maps a safetensors file read-only and checks its header against it; a path that ends in .json is the index of
// a sharded model (model.safetensors.index.json), all of whose files are opened. Tensors' bytes are not read. The
// error matches [ErrMalformed] or what the operating system returned, and names the file. Files must not be changed
// in place while they are open, as for any mapping; replacing one by another is harmless. The caller closes the file
// when everything that uses its tensors is closed.
func Open(path string) (*File, error) {
	open := openFile
	if strings.EqualFold(filepath.Ext(path), ".json") {
		open = openIndex
	}
	f, err := open(path)
	if err != nil {
		return nil, fmt.Errorf("open safetensors file: %w", err)
	}
	return f, nil
}

func openFile(path string) (*File, error) {
	f := &File{byName: map[string]*located{}}
	h, err := f.addShard(path, func(string) bool { return true })
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	f.path, f.metadata = f.shards[0].Path(), h.metadata
	return f, nil
}

// addShard opens a file, and takes over its tensors that are wanted.
func (f *File) addShard(path string, wanted func(name string) bool) (*header, error) {
	m, err := mapped.Open(path)
	if err != nil {
		return nil, err
	}
	f.shards = append(f.shards, m)
	h, err := parse(m, int64(len(m.Data())))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, e := range h.tensors {
		if !wanted(e.name) {
			continue
		}
		t := &located{entry: e, file: m, place: tensorfile.Place{
			Offset: h.data + e.begin, Size: e.end - e.begin, Alignment: e.dtype.alignment(),
		}}
		f.byName[e.name], f.tensors = t, append(f.tensors, t)
	}
	return h, nil
}

// Path returns the absolute path of the opened file.
func (f *File) Path() string { return f.path }

// Metadata returns a copy of the file's free text, __metadata__. A sharded model has none.
func (f *File) Metadata() map[string]string { return maps.Clone(f.metadata) }

// Tensors returns all tensors in the order they lie in the file; a sharded model's files come by name. After Close
// they have no Data.
func (f *File) Tensors() []Tensor {
	out := make([]Tensor, len(f.tensors))
	for i, t := range f.tensors {
		out[i] = t.tensor()
	}
	return out
}

// Lookup returns the tensor of that name, and whether there is one.
func (f *File) Lookup(name string) (Tensor, bool) {
	t, err := f.find(name)
	if err != nil {
		return Tensor{}, false
	}
	return t.tensor(), true
}

func (f *File) find(name string) (*located, error) {
	if t := f.byName[name]; t != nil {
		return t, nil
	}
	return nil, fmt.Errorf("%s: tensor %q: %w", f.path, name, xpwc.ErrUnknownTensor)
}

func (t *located) tensor() Tensor {
	return Tensor{Name: t.name, Dtype: t.dtype, Shape: slices.Clone(t.shape), Data: t.place.In(t.file.Data())}
}

// Tensor implements [xpwc.DataMap]. The content lies in the mapping and is never copied, except what C code could
// not read there: an address that is no multiple of an element's size, or fewer than 128 bytes of the mapping after
// the end. Those are copied when their content is asked for. The error matches [xpwc.ErrUnknownTensor] or
// [xpwc.ErrClosed].
func (f *File) Tensor(name string) (xpwc.Tensor, error) {
	t, err := f.find(name)
	if err != nil {
		return xpwc.Tensor{}, err
	}
	return tensorfile.Tensor(t.file, t.place)
}

// Close unmaps the file. Sessions, and runtimes that read tensors at inference, must be gone before; what asks for
// the file's bytes afterwards is an error that matches [xpwc.ErrClosed]. Closing twice is harmless.
func (f *File) Close() error {
	var errs []error
	for _, m := range f.shards {
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}
