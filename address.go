package xpwc

import "unsafe"

// addressOf returns where b starts in memory, which for mapped memory is also what XNNPACK knows it by.
func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
