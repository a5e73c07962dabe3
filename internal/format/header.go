package format

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/zeebo/xxh3"
)

// The header block; docs/format.md has the table. The slots lie in disk sectors of their own: a torn write of one
// cannot touch the other.
const (
	magic          = "xpwc\r\n\x1a\x00"
	headerSumAt    = 32
	evenSlotOffset = 512
	oddSlotOffset  = 1024
	slotSize       = 128
	slotSumAt      = slotSize - 8
)

// lastGeneration is the greatest that can be in force. Nobody commits so often; and after the greatest number that a
// slot can hold comes zero, so that all later commits would be lost.
const lastGeneration = 1<<62 - 1

// A Header is a decoded header block.
type Header struct {
	// ID is the file's random identity.
	ID [16]byte
	// Current is the slot in force; the zero Slot (generation 0) when nothing was ever committed.
	Current Slot
	// Slots holds the slot of even generations and that of odd ones.
	Slots [2]StoredSlot
}

// A Slot locates the index of one generation. Its fields have the order that they have in the file.
type Slot struct {
	Generation   uint64 // from 1
	IndexOffset  uint64 // in the file
	IndexSize    uint64
	IndexSum     Digest // of the root of the index
	End          uint64 // the size of the file with this generation's trailer
	Records      uint64
	PayloadBytes uint64 // of all payloads, each counted once
	DeadBytes    uint64 // neither header, payload, index nor trailer of this generation, nor what aligns them
}

// NewHeader returns the header block of an empty file.
func NewHeader(id [16]byte) []byte {
	b := make([]byte, HeaderSize)
	copy(b, magic)
	le.PutUint32(b[8:], Version)
	le.PutUint32(b[12:], HeaderSize)
	copy(b[16:32], id[:])
	le.PutUint64(b[headerSumAt:], xxh3.Hash(b[:headerSumAt]))
	return b
}

// Encode returns the slot's bytes and the file offset they belong at.
func (s Slot) Encode(id [16]byte) (b []byte, offset int64) {
	b = make([]byte, slotSize)
	_, _ = binary.Encode(b, le, s) // which there is room for
	le.PutUint64(b[slotSumAt:], slotSum(id, b))
	if s.Generation%2 == 0 {
		return b, evenSlotOffset
	}
	return b, oddSlotOffset
}

// Blank reports whether all bytes are zero, as those of a header that was not written.
func Blank(b []byte) bool { return !slices.ContainsFunc(b, func(b byte) bool { return b != 0 }) }

// DecodeHeader reads a header block. It returns ErrNotCache for bytes that do not begin as a native file does
// (ExecuTorch's do not: DecodeTrailer), ErrVersion for another format version, ErrOlder if that is an older one, and
// ErrDamaged for a damaged header, or one in which a generation is in force that no other can follow. A slot with a
// wrong checksum is ignored, as a crash while it is written leaves one. The index is not looked at.
func DecodeHeader(b []byte) (Header, error) {
	if len(b) < len(magic) || string(b[:len(magic)]) != magic {
		return Header{}, ErrNotCache
	}
	if len(b) < HeaderSize {
		return Header{}, damaged("the file ends within its header")
	}
	if xxh3.Hash(b[:headerSumAt]) != le.Uint64(b[headerSumAt:]) {
		return Header{}, damaged("the header's checksum is wrong")
	}
	if v := le.Uint32(b[8:]); v != Version {
		err := ErrVersion
		if v < Version {
			err = ErrOlder
		}
		return Header{}, fmt.Errorf("version %d, not %d: %w", v, Version, err)
	}
	if le.Uint32(b[12:]) != HeaderSize {
		return Header{}, damaged("the header's size is wrong")
	}
	h := Header{ID: [16]byte(b[16:32])}
	for parity, offset := range []uint64{evenSlotOffset, oddSlotOffset} {
		stored := &h.Slots[parity]
		stored.Offset = offset
		raw := b[offset : offset+slotSize]
		if Blank(raw) {
			continue
		}
		s, ok := decodeSlot(h.ID, raw, uint64(parity))
		stored.Slot, stored.Torn = s, !ok
		if stored.Generation > h.Current.Generation {
			h.Current = stored.Slot
		}
	}
	if h.Current.Generation > lastGeneration {
		return Header{}, damaged("generation %d is in force: after it there is no room for others",
			h.Current.Generation)
	}
	return h, nil
}

// A StoredSlot is a slot at its place in the header.
type StoredSlot struct {
	Slot          // zero where none was written, or it is torn
	Torn   bool   // it has a wrong checksum: a crash while it was written leaves it so, or damage
	Offset uint64 // in the file
}

func decodeSlot(id [16]byte, b []byte, parity uint64) (Slot, bool) {
	if le.Uint64(b[slotSumAt:]) != slotSum(id, b) {
		return Slot{}, false
	}
	var s Slot
	_, err := binary.Decode(b, le, &s)
	ok := err == nil && s.Generation != 0 && s.Generation%2 == parity &&
		s.IndexOffset >= HeaderSize && s.IndexOffset%Alignment == 0 &&
		span(s.IndexOffset, s.IndexSize, s.End) && s.End < 1<<62
	if !ok {
		return Slot{}, false
	}
	return s, true
}

func slotSum(id [16]byte, b []byte) uint64 {
	return xxh3.HashSeed(b[:slotSumAt], le.Uint64(id[:]))
}
