// Package verify hashes what cache files have, beside everything else and slower than that.
package verify

/*
#cgo CFLAGS: -std=gnu11 -Wall -Wextra
#include "verifier.h"
*/
import "C"

import (
	"fmt"
	"io"
	"syscall"
	"unsafe"

	"xpwc/internal/format"
	"xpwc/internal/store"
)

// Hash has a thread of the lowest priority hash payloads of an open file: a descriptor, on Windows a handle, which r
// reads too. It fills in their sums and states, as [store.Reader] says.
func Hash(file uintptr, r io.ReaderAt, payloads []store.Payload, stop *int32) error {
	large := make([]C.struct_xpwc_payload, 0, len(payloads))
	for i := range payloads {
		p := &payloads[i]
		if p.Size < C.xpwc_least_hashed {
			p.HashWith(r, stop)
			continue
		}
		large = append(large, C.struct_xpwc_payload{offset: C.uint64_t(p.Offset), size: C.uint64_t(p.Size)})
	}
	if len(large) == 0 {
		return nil
	}
	// What C is given has no pointers, and stays where it is for as long as the call takes.
	status := C.xpwc_hash_payloads(C.uintptr_t(file), &large[0], C.size_t(len(large)),
		(*C.int32_t)(unsafe.Pointer(stop)))
	if status != 0 {
		return fmt.Errorf("verify payloads: %w", syscall.Errno(status))
	}
	for i := range payloads {
		p := &payloads[i]
		if p.Size < C.xpwc_least_hashed {
			continue
		}
		switch result := &large[0]; result.state {
		case C.xpwc_hashed:
			p.State, p.Sum = store.Hashed, *(*format.Digest)(unsafe.Pointer(&result.sum))
		case C.xpwc_unreadable:
			p.State = store.Unreadable
		}
		large = large[1:]
	}
	return nil
}
