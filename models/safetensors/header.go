package safetensors

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"
)

var (
	// ErrMalformed is matched by every error about a file that is no well-formed safetensors file, or an index of
	// sharded files does not fit them. The file is damaged or was not downloaded whole: get it again from its source.
	ErrMalformed = errors.New("malformed safetensors file")

	// ErrInvalid is matched by what Write refuses to write.
	ErrInvalid = errors.New("cannot be written as safetensors")
)

const (
	// lengthSize is the size of the number before the header, which is the header's length.
	lengthSize = 8
	// maxHeader is the longest header that the reference reads.
	maxHeader = 100_000_000
	// metadataName is the header's one member that is no tensor.
	metadataName = "__metadata__"
)

// header is a file's description of its tensors.
type header struct {
	metadata map[string]string
	tensors  []entry // by position
	data     int64   // where in the file the tensors' bytes begin
}

// entry is one tensor; begin and end are relative to where the tensors' bytes begin.
type entry struct {
	name       string
	dtype      Dtype
	shape      []int
	begin, end int64
}

// headerJSON is the header as a file has it: each member is a tensor, except the metadata.
type headerJSON struct {
	Metadata map[string]*string      `json:"__metadata__,omitempty"`
	Tensors  map[string]tensorHeader `json:",embed"`
}

type tensorHeader struct {
	Dtype   Dtype   `json:"dtype"`
	Shape   []int   `json:"shape"`
	Offsets []int64 `json:"data_offsets"`
}

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
}

// parse reads the header of a file of so many bytes, and checks it against them.
func parse(file io.ReaderAt, size int64) (*header, error) {
	if size < lengthSize {
		return nil, malformed("%d bytes are no header", size)
	}
	var start [lengthSize + 1]byte
	if _, err := file.ReadAt(start[:min(size, lengthSize+1)], 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	n := binary.LittleEndian.Uint64(start[:])
	switch {
	case n > maxHeader:
		return nil, malformed("a header of %d bytes, more than %d", n, maxHeader)
	case n > uint64(size-lengthSize):
		return nil, malformed("a header of %d bytes in a file of %d", n, size)
	case n == 0 || start[lengthSize] != '{':
		return nil, malformed("the header does not begin with '{'")
	}
	text := make([]byte, n)
	if _, err := file.ReadAt(text, lengthSize); err != nil {
		return nil, err
	}
	h, err := decode(text)
	if err != nil {
		return nil, err
	}
	h.data = lengthSize + int64(n)
	return h, h.check(size - h.data)
}

// decode reads the header's JSON. It accepts what the format's JSON schema allows, except names that come twice.
func decode(text []byte) (*header, error) {
	var raw headerJSON
	if err := json.Unmarshal(text, &raw, json.RejectUnknownMembers(true)); err != nil {
		return nil, malformed("header: %v", err)
	}
	h := &header{metadata: map[string]string{}}
	for name, value := range raw.Metadata {
		if value == nil {
			return nil, malformed("header: %s: %q is no string", metadataName, name)
		}
		h.metadata[name] = *value
	}
	for _, name := range slices.Sorted(maps.Keys(raw.Tensors)) {
		t := raw.Tensors[name]
		if t.Shape == nil || len(t.Offsets) != 2 {
			return nil, malformed("header: tensor %q: dtype, shape and two data_offsets are needed", name)
		}
		h.tensors = append(h.tensors, entry{name, t.Dtype, t.Shape, t.Offsets[0], t.Offsets[1]})
	}
	return h, nil
}

// check orders the tensors by position and sees that they cover the size bytes that follow the header: each begins
// where the one before ends, as the reference demands, so that nothing else can hide in a file.
func (h *header) check(size int64) error {
	slices.SortFunc(h.tensors, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end), cmp.Compare(a.name, b.name))
	})
	offset := int64(0)
	for _, e := range h.tensors {
		if e.begin != offset || e.end < e.begin {
			return malformed("tensor %q: bytes %d to %d, where the tensor before ends at %d", e.name, e.begin, e.end,
				offset)
		}
		if e.end > size {
			return malformed("tensor %q: bytes %d to %d of %d", e.name, e.begin, e.end, size)
		}
		want, err := byteSize(e.dtype, e.shape)
		if err != nil {
			return malformed("tensor %q: %v", e.name, err)
		}
		if e.end-e.begin != want {
			return malformed("tensor %q: %d bytes for shape %v of %s, which has %d", e.name, e.end-e.begin, e.shape,
				e.dtype, want)
		}
		offset = e.end
	}
	if offset != size {
		return malformed("%d bytes follow the last tensor", size-offset)
	}
	return nil
}
