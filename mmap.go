package xpwc

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"unsafe"
)

// addressOf returns where b starts in memory, which for mapped memory is also what XNNPACK knows it by.
func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// faultless calls do, which reads mapped memory, and returns an error if it cannot be read: the file was cut off, or
// the disk cannot give it. Otherwise that ends the process with a signal.
func faultless(do func()) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if fault := recover(); fault != nil {
			if _, isFault := fault.(runtime.Error); !isFault {
				panic(fault)
			}
			err = fmt.Errorf("mapped memory cannot be read: %v", fault)
		}
	}()
	do()
	return nil
}

// writeZeros is how space is reserved where the system has no call for it. Only bytes beyond the end of the file are
// written: what lies before it has its space.
func writeZeros(f *os.File, offset, size int64) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	end := offset + size
	zeros := make([]byte, 1<<20)
	for at := max(offset, info.Size()); at < end; {
		n, err := f.WriteAt(zeros[:min(int64(len(zeros)), end-at)], at)
		if err != nil {
			return err
		}
		at += int64(n)
	}
	return nil
}
