package safetensors

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"xpwc"
)

// PackedName is the name of a tensor that holds packed weights beside those that they were packed from: U8 of one
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
	o := WriteOptions{Metadata: f.Metadata(), Alignment: alignment}
	if o.Metadata == nil {
		o.Metadata = map[string]string{}
	}
	maps.Copy(o.Metadata, metadata)
	var err error
	if o.Metadata[SealName], err = f.seal(); err != nil {
		return err
	}
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
	i, ok := f.byName[name]
	if !ok {
		return 0, 0, fmt.Errorf("%s: tensor %q: %w", f.path, name, xpwc.ErrUnknownTensor)
	}
	return f.tensors[i].place.Offset, f.tensors[i].place.Size, nil
}

// OpenPacked opens the cache that lies in the file, as [xpwc.OpenSection] does. Sessions on it may use f as their
// data map: the packed weights are used as long as the tensors have the contents that they were packed from. To
// compare them, the tensors are read, since a copy of a file has another stamp. A program that knows that nobody
// changes the file may use f.Trusted. The error matches [xpwc.ErrUnknownTensor] if there are no packed weights in it.
func (f *File) OpenPacked(options *xpwc.Options) (*xpwc.Cache, error) {
	offset, size, err := f.Section(PackedName)
	if err != nil {
		return nil, fmt.Errorf("no packed weights: %w", err)
	}
	return xpwc.OpenSection(f.tensors[f.byName[PackedName]].file.Path(), offset, size, options)
}

// SealName is where the metadata has the seal of a file that WritePacked wrote: a digest of the names and contents of
// all tensors but the packed weights.
const SealName = "xpwc.seal"

// Sealed returns the tensors with an identity made of all contents, and not of the file: it reads every tensor. What
// was packed from such a map is found again in any copy of the file, see [File.Trusted]. The error matches
// [xpwc.ErrClosed].
func (f *File) Sealed() (xpwc.DataMap, error) {
	seal, err := f.seal()
	return sealed{f, seal}, err
}

// Trusted is Sealed without reading anything: it trusts the seal that WritePacked wrote. With it, and the packed
// weights in the file, a program maps them without reading a byte of the original tensors. It is for files that
// nobody changes: where somebody changed a tensor in place and left seal and packed weights as they were, the old
// packed weights are used. The error matches [ErrMalformed] if the file has no seal.
func (f *File) Trusted() (xpwc.DataMap, error) {
	seal := f.metadata[SealName]
	if seal == "" {
		return nil, fmt.Errorf("%s: %w", f.path, malformed("there is no seal (%s) in its metadata", SealName))
	}
	return sealed{f, seal}, nil
}

// seal reads all tensors.
func (f *File) seal() (string, error) {
	var all []string
	for _, t := range f.tensors {
		if t.name == PackedName || strings.HasPrefix(t.name, PaddingPrefix) {
			continue
		}
		tensor, err := f.Tensor(t.name)
		if err != nil {
			return "", err
		}
		digest, err := tensor.Identity.Digest()
		if err != nil {
			return "", err
		}
		tensor.Evict()
		all = append(all, fmt.Sprintf("%q %s %v %x\n", t.name, t.dtype, t.shape, digest))
	}
	slices.Sort(all)
	return fmt.Sprintf("%x", xpwc.DigestOf([]byte(strings.Join(all, "")))), nil
}

type sealed struct {
	file *File
	seal string
}

// Tensor implements [xpwc.DataMap].
func (s sealed) Tensor(name string) (xpwc.Tensor, error) {
	t, err := s.file.Tensor(name)
	t.Identity.Source, t.Identity.Stamp = "sealed "+s.seal, "tensor "+name
	return t, err
}
