package safetensors

import (
	"fmt"
	"io"
	"maps"

	"xpwc"
)

// PackedName is the name of a tensor that holds packed weights next to their unpacked ones: U8 of one
// dimension, the bytes of a complete cache file. Pull request 23069 of ONNX Runtime has both in one file, mapped from
// there, too.
const PackedName = "xpwc.packed"

// EverySystem is an alignment that every system can map at: Windows' is the greatest.
const EverySystem = 64 << 10

// WritePacked writes a file with the tensors of f and, as the tensor PackedName, the bytes of a cache file, which
// begin at a multiple of the alignment (EverySystem, if it is 0) in the file. It replaces packed weights that f has
// already. The metadata is that of f and what is given. The order of the tensors may be another, see [Write]; their
// bytes are the same.
func (f *File) WritePacked(w io.Writer, cache []byte, alignment int, metadata map[string]string) error {
	if alignment == 0 {
		alignment = EverySystem
	}
	o := WriteOptions{Metadata: map[string]string{}, Alignment: alignment}
	maps.Copy(o.Metadata, f.metadata)
	maps.Copy(o.Metadata, metadata)
	tensors := []Tensor{{Name: PackedName, Dtype: U8, Shape: []int{len(cache)}, Data: cache}}
	for _, t := range f.Tensors() {
		if t.Name != PackedName {
			tensors = append(tensors, t)
		}
	}
	return Write(w, tensors, &o)
}

// Sharded reports whether the tensors are in several files.
func (f *File) Sharded() bool { return len(f.shards) > 1 }

// Section returns where the bytes of a tensor lie in its file. The error matches [xpwc.ErrUnknownTensor].
func (f *File) Section(name string) (offset, size int64, err error) {
	t, err := f.find(name)
	if err != nil {
		return 0, 0, err
	}
	return t.place.Offset, t.place.Size, nil
}

// OpenPacked opens the cache that lies in the file, as [xpwc.OpenSection] does. Sessions on it may use f as their
// data map: the packed weights are used as long as the tensors have the contents that they were packed from. To
// compare them, the tensors are read, since a copy of a file has another stamp. The error matches
// [xpwc.ErrUnknownTensor] if there are no packed weights in it.
func (f *File) OpenPacked(options *xpwc.Options) (*xpwc.Cache, error) {
	t, err := f.find(PackedName)
	if err != nil {
		return nil, fmt.Errorf("no packed weights: %w", err)
	}
	return xpwc.OpenSection(t.file.Path(), t.place.Offset, t.place.Size, options)
}
