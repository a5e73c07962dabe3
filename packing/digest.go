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
	e := encoder{b: buf[:0]}
	id.encode(&e)
	return e.digest()
}

// An encoder computes the digest of what is written to it, with little memory of its own: scales may be many.
type encoder struct {
	b    []byte       // what hash was not given yet
	hash *digest.Hash // nil as long as b has all
}

// flush makes room in b.
func (e *encoder) flush() {
	if e.hash == nil {
		e.hash = &digest.Hash{}
	}
	_, _ = e.hash.Write(e.b) // which never fails
	e.b = e.b[:0]
}

func (e *encoder) digest() Digest {
	if e.hash == nil {
		return digest.Of(e.b)
	}
	e.flush()
	return e.hash.Sum()
}

// room makes place for n bytes, which are few.
func (e *encoder) room(n int) {
	if len(e.b)+n > cap(e.b) {
		e.flush()
	}
}

func (e *encoder) bytes(b ...byte) {
	for len(b) > 0 {
		e.room(1)
		n := min(len(b), cap(e.b)-len(e.b))
		e.b, b = append(e.b, b[:n]...), b[n:]
	}
}

func (e *encoder) uint16(n uint16) {
	e.room(2)
	e.b = binary.LittleEndian.AppendUint16(e.b, n)
}

func (e *encoder) uint32(n uint32) {
	e.room(4)
	e.b = binary.LittleEndian.AppendUint32(e.b, n)
}

func (e *encoder) ints(numbers ...int) {
	for _, n := range numbers {
		e.room(8)
		e.b = binary.LittleEndian.AppendUint64(e.b, uint64(int64(n)))
	}
}

// encode writes what the identity consists of. Everything of variable length has its length before it, and what follows
// is decided by what came before, so that no two identities read alike.
func (id *Identity) encode(e *encoder) {
	e.bytes(version, byte(id.Operator))
	if id.opaque != nil {
		e.bytes(id.opaque...)
		return
	}
	e.uint32(uint32(id.Flags))
	e.ints(len(id.Shape))
	e.ints(id.Shape...)
	stride, dilation := id.Stride.orOne(), id.Dilation.orOne()
	e.ints(orOne(id.Groups), stride.Height, stride.Width, dilation.Height, dilation.Width)
	for _, o := range []*Operand{&id.Input, &id.Kernel, &id.Bias, &id.Output} {
		o.encode(e)
	}
	if id.HiddenBias == nil {
		e.bytes(0)
		return
	}
	e.bytes(1)
	e.ints(len(id.HiddenBias))
	e.bytes(id.HiddenBias...)
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

func (o *Operand) encode(e *encoder) {
	e.bytes(byte(o.Type))
	is := func(kinds ...quantization) bool { return slices.Contains(kinds, o.Type.quantization()) }
	if is(one, unknown) {
		e.uint32(math.Float32bits(o.Scale))
	}
	if is(one, channelwise, blockwise, unknown) {
		e.ints(int(o.ZeroPoint))
	}
	if is(channelwise, blockwise, unknown) {
		e.ints(o.ChannelDim)
	}
	if is(channelwise, unknown) {
		e.ints(len(o.Scales))
		for _, s := range o.Scales {
			e.uint32(math.Float32bits(s))
		}
	}
	if is(blockwise, unknown) {
		e.ints(o.BlockSize, len(o.BlockScales))
		for _, s := range o.BlockScales {
			e.uint16(s)
		}
	}
	if is(dynamic, unknown) {
		e.ints(o.NonBatchDims)
	}
}
