package flatbuf

import (
	"bytes"
	"encoding/binary"
	"math"
)

// The types of a FlexBuffer's values that are numbers.
const (
	flexInt, flexUint, flexFloat                         = 1, 2, 3
	flexIndirectInt, flexIndirectUint, flexIndirectFloat = 6, 7, 8
	flexMap, flexBool                                    = 9, 26
)

// FlexNumbers returns the numbers and booleans of a FlexBuffer that is a map, by their keys; false if it is none, or
// points outside of its bytes.
func FlexNumbers(b []byte) (numbers map[string]float64, ok bool) {
	if len(b) < 3 {
		return nil, false
	}
	f := flexBuffer{b: b, valid: true}
	kind, rootWidth := b[len(b)-2], int(b[len(b)-1])
	root := f.follow(len(b)-2-rootWidth, rootWidth)
	width := 1 << (kind & 3)
	size, keyWidth := int(f.unsigned(root-width, width)), int(f.unsigned(root-2*width, width))
	keys := f.follow(root-3*width, width)
	if !f.valid || kind>>2 != flexMap || size > len(b) {
		return nil, false
	}
	numbers = map[string]float64{}
	for i := range size {
		key := f.follow(keys+i*keyWidth, keyWidth)
		place, kind := root+i*width, f.unsigned(root+size*width+i, 1)
		if !f.valid {
			return nil, false
		}
		name, _, terminated := bytes.Cut(b[key:], []byte{0})
		if !terminated {
			return nil, false
		}
		valueWidth := width
		switch kind >> 2 {
		case flexIndirectInt, flexIndirectUint, flexIndirectFloat:
			place, valueWidth = f.follow(place, width), 1<<(kind&3)
		}
		switch kind >> 2 {
		case flexInt, flexIndirectInt:
			unused := 64 - 8*valueWidth
			numbers[string(name)] = float64(int64(f.unsigned(place, valueWidth)<<unused) >> unused)
		case flexUint, flexIndirectUint, flexBool:
			numbers[string(name)] = float64(f.unsigned(place, valueWidth))
		case flexFloat, flexIndirectFloat:
			numbers[string(name)] = f.float(place, valueWidth)
		}
	}
	return numbers, f.valid
}

// flexBuffer reads numbers of a FlexBuffer. It is valid until one lies outside.
type flexBuffer struct {
	b     []byte
	valid bool
}

// unsigned reads a number of 1, 2, 4 or 8 bytes.
func (f *flexBuffer) unsigned(place, width int) uint64 {
	if place < 0 || width < 1 || width > 8 || width&(width-1) != 0 || place > len(f.b)-width {
		f.valid = false
		return 0
	}
	var word [8]byte
	copy(word[:], f.b[place:place+width])
	return binary.LittleEndian.Uint64(word[:])
}

// follow returns where the value is that an offset, which counts backward, points to.
func (f *flexBuffer) follow(place, width int) int {
	offset := f.unsigned(place, width)
	if offset > uint64(len(f.b)) || int(offset) > place {
		f.valid = false
		return 0
	}
	return place - int(offset)
}

func (f *flexBuffer) float(place, width int) float64 {
	switch bits := f.unsigned(place, width); width {
	case 4:
		return float64(math.Float32frombits(uint32(bits)))
	case 8:
		return math.Float64frombits(bits)
	}
	f.valid = false
	return 0
}
