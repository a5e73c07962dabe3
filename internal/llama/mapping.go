package llama

import "unsafe"

// float32s is the same memory as floats. The scales of the file begin at multiples of four.
func float32s(b []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}
