package xpwc

/*
#cgo CFLAGS: -std=gnu11 -Wall -Wextra
#cgo !xpwc_host LDFLAGS: -lXNNPACK -lpthreadpool -lcpuinfo -lm
#include "callbacks.h"
*/
import "C"

import (
	"fmt"
	"runtime/cgo"
	"syscall"
	"unsafe"
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
