package xnnpack

import "fmt"

// Buffer is C memory for inputs, outputs and static tensors: aligned to 64 bytes, zeroed, with ExtraBytes of slack behind its end
// that XNNPACK may read. It never moves.
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

// Bytes returns the memory, nil after Free. It must not be used after Free.
func (b *Buffer) Bytes() []byte { return b.m.bytes }

// Float32s returns the same memory as floats; a remainder of less than four bytes is left out.
func (b *Buffer) Float32s() []float32 { return b.m.float32s() }

// Free gives the memory back. It must not be called while a runtime or a subgraph still uses it. Freeing twice is harmless.
func (b *Buffer) Free() {
	m := b.m
	b.m = cMemory{}
	m.free()
}
