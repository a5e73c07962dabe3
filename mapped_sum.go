package xpwc

import (
	"fmt"
	"runtime/debug"
	"unsafe"

	"xpwc/internal/format"
)

// sumMapped returns the sum of a payload where it is mapped. Bytes that the disk cannot give are an error, and no signal.
func sumMapped(b []byte) (format.Digest, error) {
	if err := populate(wholePages(b)); err != nil {
		return format.Digest{}, fmt.Errorf("%d mapped bytes cannot be read: %w", len(b), err)
	}
	return sumWithoutSignals(b)
}

// sumWithoutSignals is for what populate does not find, on systems that do not tell. The signal is Go's to handle, unless a C
// host has put a handler of its own in the place of Go's.
func sumWithoutSignals(b []byte) (sum format.Digest, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%d mapped bytes cannot be read: %v", len(b), r)
		}
	}()
	return format.Sum(b), nil
}

// wholePages returns b with the rest of its first page before it, which is mapped with it.
func wholePages(b []byte) []byte {
	before := int(addressOf(b) % uintptr(mapGranularity()))
	return unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), -before)), len(b)+before)
}
