package main

// #include "host.h"
import "C"

import (
	"fmt"
	"sync"
	"sync/atomic"
)

// handles maps the host's numbers to open caches and sessions. Numbers are not reused, so that a stale one is always
// detected.
var (
	handles sync.Map
	issued  atomic.Uint64
)

// spread is odd, so that multiplication by it maps consecutive numbers to distinct and distant ones: a made-up or
// incremented number is hardly ever a handle.
const spread = 0x9e3779b97f4a7c15

func newHandle(v opened) C.uint64_t {
	id := issued.Add(1) * spread
	handles.Store(id, v)
	return C.uint64_t(id)
}

// dropHandle makes a handle invalid.
func dropHandle(id C.uint64_t) { handles.Delete(uint64(id)) }

// An opened is the object of a handle: a *cache or *session.
type opened interface{ ofCache() *cache }

// resolve returns the object of a handle.
func resolve[T opened](kind string, id C.uint64_t) (v T, err error) {
	value, _ := handles.Load(uint64(id))
	v, ok := value.(T)
	if !ok {
		return v, fmt.Errorf("%s: %w: %#x", kind, errInvalidHandle, uint64(id))
	}
	return v, v.ofCache().checkCaller()
}

// withHandle calls do with the object of a handle.
func withHandle[T opened](kind string, id C.uint64_t, do func(T) error) C.xpwc_status {
	v, err := resolve[T](kind, id)
	if err != nil {
		return call(nil, func() error { return err })
	}
	return call(v.ofCache().host, func() error { return do(v) })
}

func withCache(handle C.xpwc_cache, do func(*cache) error) C.xpwc_status {
	return withHandle("cache", handle.id, do)
}

func withSession(handle C.xpwc_session, do func(*session) error) C.xpwc_status {
	return withHandle("session", handle.id, do)
}
