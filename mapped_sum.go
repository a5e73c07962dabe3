package xpwc

import (
	"fmt"
	"unsafe"

	"xpwc/internal/format"
)

// sumMapped returns the sum of a payload where it is mapped. Bytes that the disk cannot give are an error, and no
// signal: where the system does not report it by itself, the signal is Go's to handle, unless a C host has put a
// handler of its own in its place.
func sumMapped(b []byte) (sum format.Digest, err error) {
	if err := populate(wholePages(b)); err != nil {
		return format.Digest{}, fmt.Errorf("%d mapped bytes cannot be read: %w", len(b), err)
	}
	err = faultless(func() { sum = DigestOf(b) })
	return sum, err
}

// wholePages returns b with the rest of its first page before it, which is mapped with it.
func wholePages(b []byte) []byte {
	before := int(addressOf(b) % uintptr(mapGranularity()))
	return unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), -before)), len(b)+before)
}
