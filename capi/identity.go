package main

// #include "host.h"
import "C"

import (
	"encoding/binary"
	"fmt"
	"math"
	"unsafe"

	"xpwc"
	"xpwc/internal/mapped"
)

// hostBytes views memory of the host. No bytes are an empty slice, not nil.
func hostBytes(data unsafe.Pointer, size C.size_t) ([]byte, error) {
	switch {
	case size == 0:
		return []byte{}, nil
	case data == nil:
		return nil, invalid("its address is no address, its size %d", size)
	case size > math.MaxInt || uintptr(size) > math.MaxUint-uintptr(data):
		return nil, invalid("its size is %d", size)
	}
	return unsafe.Slice((*byte)(data), size), nil
}

//export xpwcDigest
func xpwcDigest(data unsafe.Pointer, size C.size_t, digest *C.uint8_t) C.xpwc_status {
	return call(nil, func() error {
		if digest == nil {
			return invalid("xpwc_digest: digest is NULL")
		}
		out := (*xpwc.Digest)(unsafe.Pointer(digest))
		content, err := hostBytes(data, size)
		if err != nil {
			return fmt.Errorf("xpwc_digest: data: %w", err)
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
		*state = C.struct_xpwc_file_state{opaque: [8]C.uint64_t{
			C.uint64_t(s.Device), C.uint64_t(s.Inode), C.uint64_t(s.Size),
			C.uint64_t(s.Modified), C.uint64_t(s.Changed), C.uint64_t(s.Links),
			C.uint64_t(binary.BigEndian.Uint64(s.Content[:8])), C.uint64_t(binary.BigEndian.Uint64(s.Content[8:])),
		}}
		return nil
	})
}

//export xpwcFileChanged
func xpwcFileChanged(descriptor C.int, before *C.struct_xpwc_file_state, changed *C.int) C.xpwc_status {
	return call(nil, func() error {
		if before == nil || changed == nil {
			return invalid("xpwc_file_changed: before or changed is NULL")
		}
		o := &before.opaque
		var content xpwc.Digest
		binary.BigEndian.PutUint64(content[:8], uint64(o[6]))
		binary.BigEndian.PutUint64(content[8:], uint64(o[7]))
		is, err := mapped.ChangedSince(uintptr(descriptor), mapped.State{
			Device: uint64(o[0]), Inode: uint64(o[1]), Size: int64(o[2]),
			Modified: int64(o[3]), Changed: int64(o[4]), Links: uint64(o[5]), Content: content,
		})
		if err != nil {
			return fmt.Errorf("xpwc_file_changed: %w", err)
		}
		*changed = C.int(flag(is))
		return nil
	})
}
