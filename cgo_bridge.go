package xpwc

/*
#cgo CFLAGS: -std=gnu11 -Wall -Wextra
#cgo !xpwc_host LDFLAGS: -lXNNPACK -lpthreadpool -lcpuinfo -lm
#include "callbacks.h"
#include "verifier.h"
*/
import "C"

import (
	"fmt"
	"runtime/cgo"
	"syscall"
	"unsafe"

	"xpwc/internal/format"
	"xpwc/internal/store"
)

// A provider is a session's struct xnn_weights_cache_provider, in C memory.
type provider struct {
	c      *C.struct_xpwc_provider
	handle cgo.Handle
}

func newProvider(s *Session) (provider, error) {
	handle := cgo.NewHandle(s)
	c := C.xpwc_provider_new(C.uintptr_t(handle))
	if c == nil {
		handle.Delete()
		return provider{}, fmt.Errorf("new session: its provider: %w", syscall.ENOMEM)
	}
	return provider{c, handle}, nil
}

func (p provider) finalize() { C.xpwc_provider_finalize(p.c) }

func (p provider) free() {
	C.xpwc_provider_free(p.c)
	p.handle.Delete()
}

// Provider returns the session's struct xnn_weights_cache_provider, to be given to xnn_create_runtime_v4 (xnnpack.h).
// The session owns it: it is valid until Session.Close, which must come after the runtime is deleted.
func (s *Session) Provider() unsafe.Pointer { return unsafe.Pointer(s.provider.c) }

// Hash has a thread of the lowest priority hash payloads of a file, see verifier.c.
func (d descriptor) Hash(payloads []store.Payload, stop *int32) error {
	large := make([]C.struct_xpwc_payload, 0, len(payloads))
	for i := range payloads {
		p := &payloads[i]
		if p.Size < C.xpwc_least_hashed {
			p.HashWith(d, stop)
			continue
		}
		large = append(large, C.struct_xpwc_payload{offset: C.uint64_t(p.Offset), size: C.uint64_t(p.Size)})
	}
	if len(large) == 0 {
		return nil
	}
	// What C is given has no pointers, and stays where it is for as long as the call takes.
	status := C.xpwc_hash_payloads(C.uintptr_t(d.handle()), &large[0], C.size_t(len(large)),
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

// The callbacks. A panic must not unwind into C: the session keeps it as its error, and XNNPACK gets the answer that is
// safe to give when nothing is known.

func guard(s *Session) {
	if r := recover(); r != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.fail(fmt.Errorf("panic in a callback of XNNPACK: %v", r))
	}
}

//export xpwcLookUp
func xpwcLookUp(session C.uintptr_t, seed C.uint32_t, kernel, bias C.uintptr_t, fingerprintID C.uint32_t) (
	address C.size_t) {
	s := cgo.Handle(session).Value().(*Session)
	address = ^C.size_t(0)
	defer guard(s)
	return C.size_t(s.lookUp(lookUpKey{uint32(seed), uintptr(kernel), uintptr(bias), uint32(fingerprintID)}))
}

//export xpwcReserveSpace
func xpwcReserveSpace(session C.uintptr_t, n C.size_t) (space unsafe.Pointer) {
	s := cgo.Handle(session).Value().(*Session)
	defer guard(s)
	return unsafe.Pointer(unsafe.SliceData(s.reserve(uint64(n))))
}

//export xpwcLookUpOrInsert
func xpwcLookUpOrInsert(session C.uintptr_t, seed C.uint32_t, kernel, bias C.uintptr_t, fingerprintID C.uint32_t,
	packed C.uintptr_t, size C.size_t) (address C.size_t) {
	s := cgo.Handle(session).Value().(*Session)
	address = C.size_t(packed)
	defer guard(s)
	key := lookUpKey{uint32(seed), uintptr(kernel), uintptr(bias), uint32(fingerprintID)}
	return C.size_t(s.insert(key, uintptr(packed), uint64(size)))
}

//export xpwcAliasData
func xpwcAliasData(session C.uintptr_t, alias, original C.uintptr_t) {
	s := cgo.Handle(session).Value().(*Session)
	defer guard(s)
	s.alias(uintptr(alias), uintptr(original))
}
