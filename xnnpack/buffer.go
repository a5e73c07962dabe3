package xnnpack

import "fmt"

// ExtraBytes is how many bytes past the end of an array XNNPACK may read (XNN_EXTRA_BYTES).
const ExtraBytes = 16

// Buffer is C memory for inputs, outputs and static tensors: aligned to 64 bytes, zeroed when it is made, with slack
// of at least ExtraBytes after its end, which XNNPACK may read. It never moves. The caller frees it.
type Buffer struct {
	m cMemory
}

// NewBuffer allocates n bytes. The error matches OutOfMemory, or InvalidParameter if n is negative.
func NewBuffer(n int) (*Buffer, error) {
	if n < 0 {
		return nil, reject(InvalidParameter, "allocate buffer", fmt.Sprint(n, " bytes"), "negative size")
	}
	m, ok := cAllocate(n)
	if !ok {
		return nil, reject(OutOfMemory, "allocate buffer", fmt.Sprint(n, " bytes"), "out of memory")
	}
	return &Buffer{m}, nil
}

// Bytes returns the memory, as many bytes as NewBuffer was asked for, or nil after Free. What was returned before
// must not be used after Free.
func (b *Buffer) Bytes() []byte { return b.m.bytes }

// Float32s returns the same memory as floats in the machine's byte order; a remainder of less than four bytes is left
// out.
func (b *Buffer) Float32s() []float32 { return Numbers[float32](b) }

// A Number is what an element of a value can be in Go. Half precision has no type there: its bits are uint16.
type Number interface {
	int8 | uint8 | int16 | uint16 | int32 | int64 | float32 | float64
}

// Numbers returns the memory of a buffer as numbers of type T in the machine's byte order; a remainder of less than
// one number is left out. It must not be used after Free.
func Numbers[T Number](b *Buffer) []T { return view[T](b.m) }

// Free gives the memory back. No runtime or subgraph may use it any more. Freeing twice is harmless.
func (b *Buffer) Free() {
	m := b.m
	b.m = cMemory{}
	m.free()
}
