package packing

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"

	"xpwc/internal/digest"
)

// A Digest is a 128-bit XXH3 hash, most significant byte first: of an identity. As text it is 32 hexadecimal digits.
type Digest = digest.Digest

// version is that of the encoding: packed weights of another one are not found.
const version = 1

// Digest returns the identity's digest, zero for the zero Identity. Two identities have the same digest exactly if all
// that their datatypes let count is the same, scales bit by bit. It reads all scales and the hidden bias.
func (id *Identity) Digest() Digest {
	if id.Zero() {
		return Digest{}
	}
	var e encoder
	id.encode(&e)
	return e.Sum()
}

// An encoder computes the digest of the bytes written to it.
type encoder struct{ digest.Hash }

func (e *encoder) bytes(b ...byte) { _, _ = e.Write(b) } // which never fails

func (e *encoder) uint32(n uint32) {
	var b [4]byte
	binary.LittleEndian.PutUint32(b[:], n)
	e.bytes(b[:]...)
}

func (e *encoder) ints(numbers ...int) {
	for _, n := range numbers {
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], uint64(int64(n)))
		e.bytes(b[:]...)
	}
}

// scales writes numbers, many at once: there may be hundreds of thousands.
func (e *encoder) scales(numbers []float32) {
	var b [1 << 10]byte
	for chunk := range slices.Chunk(numbers, len(b)/4) {
		for i, s := range chunk {
			binary.LittleEndian.PutUint32(b[4*i:4*i+4], math.Float32bits(s))
		}
		e.bytes(b[:4*len(chunk)]...)
	}
}

// blockScales writes numbers as scales does.
func (e *encoder) blockScales(numbers []uint16) {
	var b [1 << 10]byte
	for chunk := range slices.Chunk(numbers, len(b)/2) {
		for i, s := range chunk {
			binary.LittleEndian.PutUint16(b[2*i:2*i+2], s)
		}
		e.bytes(b[:2*len(chunk)]...)
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
	stride, dilation := cmp.Or(id.Stride, pixel), cmp.Or(id.Dilation, pixel)
	e.ints(cmp.Or(id.Groups, 1), stride.Height, stride.Width, dilation.Height, dilation.Width)
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

func (o *Operand) encode(e *encoder) {
	e.bytes(byte(o.Type))
	kind := o.Type.quantization()
	in := func(kinds ...quantization) bool { return slices.Contains(kinds, kind) }
	if in(perTensor, unknown) {
		e.uint32(math.Float32bits(o.Scale))
	}
	if in(perTensor, channelwise, blockwise, unknown) {
		e.ints(int(o.ZeroPoint))
	}
	if in(channelwise, blockwise, unknown) {
		e.ints(o.ChannelDim)
	}
	if in(channelwise, unknown) {
		e.ints(len(o.Scales))
		e.scales(o.Scales)
	}
	if in(blockwise, unknown) {
		e.ints(o.BlockSize, len(o.BlockScales))
		e.blockScales(o.BlockScales)
	}
	if in(dynamic, unknown) {
		e.ints(o.NonBatchDims)
	}
}
