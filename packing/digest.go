package packing

import (
	"encoding/binary"
	"math"
	"slices"

	"xpwc/internal/digest"
)

// A Digest is a 128-bit XXH3 hash, most significant byte first: of an identity. As text it is 32 hexadecimal digits.
type Digest = digest.Digest

// version is that of the encoding: packed weights of another one are not found.
const version = 1

// Digest returns the identity's digest, zero if it says nothing. Two identities have the same digest exactly if all
// that their datatypes let count is the same, scales bit by bit. It reads all scales and the hidden bias.
func (id *Identity) Digest() Digest {
	if id.Zero() {
		return Digest{}
	}
	var buf [1024]byte
	return digest.Of(id.encode(buf[:0]))
}

// encode appends what the identity consists of. Everything of variable length has its length before it, and what
// follows is decided by what came before, so that no two identities read alike.
func (id *Identity) encode(b []byte) []byte {
	b = append(b, version, byte(id.Operator))
	if id.opaque != nil {
		return append(b, id.opaque...)
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(id.Flags))
	b = appendInts(b, len(id.Shape))
	b = appendInts(b, id.Shape...)
	stride, dilation := id.Stride.orOne(), id.Dilation.orOne()
	b = appendInts(b, orOne(id.Groups), stride.Height, stride.Width, dilation.Height, dilation.Width)
	for _, o := range []*Operand{&id.Input, &id.Kernel, &id.Bias, &id.Output} {
		b = o.encode(b)
	}
	if id.HiddenBias == nil {
		return append(b, 0)
	}
	b = appendInts(append(b, 1), len(id.HiddenBias))
	return append(b, id.HiddenBias...)
}

// How the quantisation of a datatype is described.
type quantization int

const (
	none quantization = iota
	one
	channelwise
	blockwise
	dynamic
	unknown // all of it counts
)

func (d Datatype) quantization() quantization {
	switch d {
	case qInt8, qUint8, qInt32:
		return one
	case channelQInt8, channelQInt32, channelQInt4, channelQInt2:
		return channelwise
	case blockQInt4:
		return blockwise
	case dynamicQInt8, packedQInt8, dynamicQUint8:
		return dynamic
	case 0, int32s:
		return none
	}
	if d.float() {
		return none
	}
	return unknown
}

func (o *Operand) encode(b []byte) []byte {
	b = append(b, byte(o.Type))
	is := func(kinds ...quantization) bool { return slices.Contains(kinds, o.Type.quantization()) }
	if is(one, unknown) {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(o.Scale))
	}
	if is(one, channelwise, blockwise, unknown) {
		b = appendInts(b, int(o.ZeroPoint))
	}
	if is(channelwise, blockwise, unknown) {
		b = appendInts(b, o.ChannelDim)
	}
	if is(channelwise, unknown) {
		b = appendInts(b, len(o.Scales))
		for _, s := range o.Scales {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(s))
		}
	}
	if is(blockwise, unknown) {
		b = appendInts(b, o.BlockSize, len(o.BlockScales))
		for _, s := range o.BlockScales {
			b = binary.LittleEndian.AppendUint16(b, s)
		}
	}
	if is(dynamic, unknown) {
		b = appendInts(b, o.NonBatchDims)
	}
	return b
}

func appendInts(b []byte, numbers ...int) []byte {
	for _, n := range numbers {
		b = binary.LittleEndian.AppendUint64(b, uint64(int64(n)))
	}
	return b
}
