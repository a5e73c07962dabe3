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
	var e encoder
	id.encode(&e)
	return e.digest()
}

// An encoder computes the digest of what is written to it, with little memory of its own: scales may be many.
type encoder struct {
	n      int // bytes of buffer that hash was not given yet
	hashed bool
	buffer [2048]byte
	hash   digest.Hash
}

// flush makes room in the buffer.
func (e *encoder) flush() {
	_, _ = e.hash.Write(e.buffer[:e.n]) // which never fails
	e.n, e.hashed = 0, true
}

func (e *encoder) digest() Digest {
	if !e.hashed {
		return digest.Of(e.buffer[:e.n])
	}
	e.flush()
	return e.hash.Sum()
}

// take returns the place of n bytes, which are few.
func (e *encoder) take(n int) []byte {
	if e.n+n > len(e.buffer) {
		e.flush()
	}
	e.n += n
	return e.buffer[e.n-n : e.n]
}

func (e *encoder) bytes(b ...byte) {
	if len(b) > len(e.buffer)-e.n {
		e.flush()
	}
	if len(b) > len(e.buffer) {
		_, _ = e.hash.Write(b) // which never fails
		return
	}
	e.n += copy(e.buffer[e.n:], b)
}

func (e *encoder) uint32(n uint32) { binary.LittleEndian.PutUint32(e.take(4), n) }

// scales writes numbers, as many at once as there is room for.
func (e *encoder) scales(numbers []float32) {
	for len(numbers) > 0 {
		some := numbers[:min(len(numbers), max((len(e.buffer)-e.n)/4, 1))]
		numbers = numbers[len(some):]
		b := e.take(4 * len(some))
		for len(some) >= 4 && len(b) >= 16 { // there may be hundreds of thousands, and this takes a third of the time
			binary.LittleEndian.PutUint32(b[:4], math.Float32bits(some[0]))
			binary.LittleEndian.PutUint32(b[4:8], math.Float32bits(some[1]))
			binary.LittleEndian.PutUint32(b[8:12], math.Float32bits(some[2]))
			binary.LittleEndian.PutUint32(b[12:16], math.Float32bits(some[3]))
			some, b = some[4:], b[16:]
		}
		for i, s := range some {
			binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(s))
		}
	}
}

// blockScales writes numbers, as many at once as there is room for.
func (e *encoder) blockScales(numbers []uint16) {
	for len(numbers) > 0 {
		some := numbers[:min(len(numbers), max((len(e.buffer)-e.n)/2, 1))]
		b := e.take(2 * len(some))
		for i, s := range some {
			binary.LittleEndian.PutUint16(b[2*i:2*i+2], s)
		}
		numbers = numbers[len(some):]
	}
}

func (e *encoder) ints(numbers ...int) {
	for _, n := range numbers {
		binary.LittleEndian.PutUint64(e.take(8), uint64(int64(n)))
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
	kind := o.Type.quantization()
	is := func(kinds ...quantization) bool { return slices.Contains(kinds, kind) }
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
		e.scales(o.Scales)
	}
	if is(blockwise, unknown) {
		e.ints(o.BlockSize, len(o.BlockScales))
		e.blockScales(o.BlockScales)
	}
	if is(dynamic, unknown) {
		e.ints(o.NonBatchDims)
	}
}
