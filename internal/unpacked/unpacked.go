// Package unpacked has the tensors of data maps where XNNPACK can read them, for runtimes without a cache.
package unpacked

import (
	"fmt"

	"xpwc"
	"xpwc/xnnpack"
)

// Tensor is an unpacked tensor in memory outside the Go heap.
type Tensor struct {
	// Bytes are the content, until Free.
	Bytes  []byte
	buffer *xnnpack.Buffer // nil if the bytes lie in the data map's memory
	evict  func()
}

// Load takes a tensor that a data map gave under a name: where it lies if its content is there, else computed into C memory. The
// error is Fill's or matches [xnnpack.OutOfMemory], and has the name.
func Load(name string, t xpwc.Tensor) (*Tensor, error) {
	got := &Tensor{Bytes: t.Data, evict: t.Evict}
	if got.Bytes != nil {
		return got, nil
	}
	buffer, err := xnnpack.NewBuffer(t.Size)
	if err != nil {
		return nil, fmt.Errorf("load tensor %q: %w", name, err)
	}
	got.buffer, got.Bytes = buffer, buffer.Bytes()
	if err := t.Fill(got.Bytes); err != nil {
		buffer.Free()
		return nil, fmt.Errorf("load tensor %q: %w", name, err)
	}
	return got, nil
}

// Free gives the memory back.
func (t *Tensor) Free() {
	if t.buffer != nil {
		t.buffer.Free()
	}
	if t.evict != nil {
		t.evict()
	}
}
