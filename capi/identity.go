package main

// #include "host.h"
import "C"

import (
	"fmt"
	"math"
	"unsafe"

	"xpwc"
	"xpwc/internal/mapped"
)

//export xpwcDigest
func xpwcDigest(data unsafe.Pointer, size C.size_t, digest *C.uint8_t) C.xpwc_status {
	return call(nil, func() error {
		if digest == nil {
			return invalid("xpwc_digest: digest is NULL")
		}
		out := (*xpwc.Digest)(unsafe.Pointer(digest))
		content, err := hostMemory[byte](data, size, math.MaxInt, "xpwc_digest: data")
		if err != nil {
			return err
		}
		*out = xpwc.DigestOf(content)
		return nil
	})
}

//export xpwcFileStamp
func xpwcFileStamp(descriptor C.int, stamp *C.char, capacity C.size_t) C.xpwc_status {
	return call(nil, func() error {
		if stamp == nil {
			return invalid("xpwc_file_stamp: stamp is NULL")
		}
		text, err := mapped.Stamp(uintptr(descriptor))
		if err != nil {
			return fmt.Errorf("xpwc_file_stamp: %w", err)
		}
		if capacity <= C.size_t(len(text)) {
			return invalid("xpwc_file_stamp: capacity is %d, %d are needed", capacity, len(text)+1)
		}
		out := unsafe.Slice((*byte)(unsafe.Pointer(stamp)), len(text)+1)
		out[copy(out, text)] = 0
		return nil
	})
}

// struct xpwc_file_state holds a mapped.State: their sizes are equal.
var _ [unsafe.Sizeof(C.struct_xpwc_file_state{})]byte = [unsafe.Sizeof(mapped.State{})]byte{}

//export xpwcFileLook
func xpwcFileLook(descriptor C.int, state *C.struct_xpwc_file_state) C.xpwc_status {
	return call(nil, func() error {
		if state == nil {
			return invalid("xpwc_file_look: state is NULL")
		}
		s, err := mapped.Look(uintptr(descriptor))
		if err != nil {
			return fmt.Errorf("xpwc_file_look: %w", err)
		}
		*state = *(*C.struct_xpwc_file_state)(unsafe.Pointer(&s))
		return nil
	})
}

//export xpwcFileChanged
func xpwcFileChanged(descriptor C.int, state *C.struct_xpwc_file_state, changed *C.int) C.xpwc_status {
	return call(nil, func() error {
		if state == nil || changed == nil {
			return invalid("xpwc_file_changed: before or changed is NULL")
		}
		differs, err := mapped.ChangedSince(uintptr(descriptor), *(*mapped.State)(unsafe.Pointer(state)))
		if err != nil {
			return fmt.Errorf("xpwc_file_changed: %w", err)
		}
		*changed = C.int(flag(differs))
		return nil
	})
}
