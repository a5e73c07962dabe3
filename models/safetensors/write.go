package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
)

// PaddingPrefix begins the names of tensors that Write puts in for alignment: the format has no room for bytes of no
// tensor. They are U8 of one dimension, all zero, and mean nothing; Write leaves out any it is given.
const PaddingPrefix = "__padding__."

const (
	// minAlignment is what the reference aligns the tensors' bytes to.
	minAlignment = 8
	maxAlignment = 64 << 20
)

// WriteOptions of [Write]; nil and the zero value mean the defaults.
type WriteOptions struct {
	// Metadata is free text, which becomes __metadata__.
	Metadata map[string]string

	// Alignment, if it is not 0, is a power of two up to 64 MiB, for instance the granularity that a system maps files
	// in (65,536 on Windows): the first tensor given comes first, at a multiple of it in the file.
	Alignment int
}

// Write writes a safetensors file that the reference implementation reads: header, then the tensors' bytes, without
// holes. Tensors come by the alignment of their elements, greatest first, else in the order given, so that every
// element is aligned in the file. Where the bytes before a tensor do not end at a multiple of its alignment, a tensor
// of [PaddingPrefix] goes between. The same arguments give the same file. What cannot be written is an error that
// matches [ErrInvalid], before anything is written; other errors are w's.
func Write(w io.Writer, tensors []Tensor, options *WriteOptions) error {
	var o WriteOptions
	if options != nil {
		o = *options
	}
	arranged, err := o.arrange(tensors)
	if err != nil {
		return err
	}
	head, err := o.header(arranged)
	if err != nil {
		return err
	}
	if _, err := w.Write(head); err != nil {
		return err
	}
	for _, t := range arranged {
		if _, err := w.Write(t.Data); err != nil {
			return err
		}
	}
	return nil
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}

// arrange returns the tensors in the order of the file, padding among them.
func (o *WriteOptions) arrange(tensors []Tensor) ([]Tensor, error) {
	if n := o.Alignment; n < 0 || n > maxAlignment || bits.OnesCount(uint(n)) > 1 {
		return nil, invalid("alignment %d is no power of two up to %d", n, maxAlignment)
	}
	seen := make(map[string]bool, len(tensors))
	var list []Tensor
	for _, t := range tensors {
		if strings.HasPrefix(t.Name, PaddingPrefix) {
			continue
		}
		if err := t.check(); err != nil {
			return nil, err
		}
		if seen[t.Name] {
			return nil, invalid("tensor %q comes twice", t.Name)
		}
		seen[t.Name] = true
		list = append(list, t)
	}
	ordered := list
	if o.Alignment > 0 && len(list) > 0 {
		ordered = list[1:]
	}
	slices.SortStableFunc(ordered, func(a, b Tensor) int {
		return cmp.Compare(b.Dtype.alignment(), a.Dtype.alignment())
	})
	var out []Tensor
	offset, paddings := 0, 0
	for _, t := range list {
		if n := -offset & int(t.Dtype.alignment()-1); n > 0 {
			name := PaddingPrefix + strconv.Itoa(paddings)
			out = append(out, Tensor{Name: name, Dtype: U8, Shape: []int{n}, Data: make([]byte, n)})
			paddings++
			offset += n
		}
		out = append(out, t)
		offset += len(t.Data)
	}
	return out, nil
}

// check sees that a tensor can be written.
func (t *Tensor) check() error {
	if t.Name == metadataName || !utf8.ValidString(t.Name) {
		return invalid("a tensor cannot have the name %q", t.Name)
	}
	size, err := byteSize(t.Dtype, t.Shape)
	if err != nil {
		return invalid("tensor %q: %v", t.Name, err)
	}
	if int64(len(t.Data)) != size {
		return invalid("tensor %q: %d bytes for shape %v of %s, which has %d", t.Name, len(t.Data), t.Shape, t.Dtype,
			size)
	}
	return nil
}

// header returns the length, the JSON and the spaces that align what follows.
func (o *WriteOptions) header(tensors []Tensor) ([]byte, error) {
	h := headerJSON{Metadata: map[string]*string{}, Tensors: map[string]tensorHeader{}}
	for name, value := range o.Metadata {
		h.Metadata[name] = &value
	}
	offset := int64(0)
	for _, t := range tensors {
		end := offset + int64(len(t.Data))
		h.Tensors[t.Name] = tensorHeader{t.Dtype, t.Shape, []int64{offset, end}}
		offset = end
	}
	text, err := json.Marshal(h, json.Deterministic(true))
	if err != nil {
		return nil, invalid("header: %v", err)
	}
	alignment := max(o.Alignment, minAlignment)
	n := (lengthSize+len(text)+alignment-1)&^(alignment-1) - lengthSize
	if n > maxHeader {
		return nil, invalid("a header of %d bytes, more than %d", n, maxHeader)
	}
	head := append(binary.LittleEndian.AppendUint64(nil, uint64(n)), text...)
	return append(head, bytes.Repeat([]byte{' '}, n-len(text))...), nil
}
