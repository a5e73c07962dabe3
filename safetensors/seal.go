package safetensors

import (
	"fmt"
	"slices"
	"strings"

	"xpwc"
)

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
