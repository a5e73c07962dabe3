package executorch

import (
	"encoding/binary"
	"fmt"
	"math"

	"xpwc"
	"xpwc/internal/flatbuf"
)

// stored is where bytes lie: in one of the program's files.
type stored struct {
	file int
	at   flatbuf.Span
}

// constant is a tensor with a content, as XNNPACK sees it.
type constant struct {
	name string // in the data map
	stored
	// Where the method converts it, from which type to which, and how many elements. Both types are 0 otherwise.
	from, to ScalarType
	elements int
}

// nameOf returns what a content is called: the name the files give it, or else its place.
func nameOf(c *content, s stored) string {
	if c.name != "" {
		return c.name
	}
	return fmt.Sprintf("%s%d+%d", placed, s.at.Offset, s.at.Size)
}

// numbers read one element of a type as a number that single precision is made of.
var numbers = map[ScalarType]func(b []byte) float32{
	Byte:   func(b []byte) float32 { return float32(b[0]) },
	Char:   func(b []byte) float32 { return float32(int8(b[0])) },
	Short:  func(b []byte) float32 { return float32(int16(binary.LittleEndian.Uint16(b))) },
	Int:    func(b []byte) float32 { return float32(int32(binary.LittleEndian.Uint32(b))) },
	Long:   func(b []byte) float32 { return float32(int64(binary.LittleEndian.Uint64(b))) },
	Double: func(b []byte) float32 { return float32(math.Float64frombits(binary.LittleEndian.Uint64(b))) },
	Bool: func(b []byte) float32 {
		if b[0] != 0 {
			return 1
		}
		return 0
	},
}

// convertible reports whether constants and inputs of a type are converted here to another one.
func convertible(from, to ScalarType) bool { return numbers[from] != nil && to == Float }

func (c *constant) converts() bool { return c.from != c.to }

// fill computes the content as XNNPACK sees it from the file's bytes.
func (c *constant) fill(dst, file []byte) {
	if !c.converts() {
		copy(dst, file)
		return
	}
	toFloats(dst, file, c.from, c.elements)
}

// toFloats converts n elements of a type that is convertible to single precision.
func toFloats(dst, src []byte, from ScalarType, n int) {
	read, size := numbers[from], from.Size()
	for i := range n {
		binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(read(src[size*i:])))
	}
}

// tensor returns the constant as a data map does.
func (f *files) tensor(c *constant) (xpwc.Tensor, error) {
	t, err := f.all[c.file].tensor(c.at)
	if err != nil || !c.converts() {
		return t, err
	}
	conversion := fmt.Sprintf(":%d %v as %v", c.elements, c.from, c.to)
	id := t.Identity
	if id.Stamp != "" {
		id.Stamp += conversion
	}
	digest := id.Digest
	id.Digest = func() (xpwc.Digest, error) {
		of, err := digest()
		return xpwc.DigestOf(append([]byte(conversion), of[:]...)), err
	}
	return xpwc.Tensor{
		Identity: id,
		Evict:    t.Evict,
		Size:     4 * c.elements,
		Fill: func(dst []byte) error {
			if len(dst) != 4*c.elements {
				return fmt.Errorf("%d bytes of memory for a constant of %d", len(dst), 4*c.elements)
			}
			return f.read(c.stored, func(b []byte) { c.fill(dst, b) })
		},
	}, nil
}
