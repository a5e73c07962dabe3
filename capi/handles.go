package main

// #include "host.h"
import "C"

import (
	"fmt"
	"sync"
	"sync/atomic"
)

// handles has the caches and sessions that are open, by what the host holds of them: numbers. A number is never given
// twice, so that a stale one is always known from a valid one.
var (
	handles sync.Map
	issued  atomic.Uint64
)

// spread is odd, so that multiplying by it makes other numbers of other numbers, and far apart: one that the host never
// got, or counted up, is most unlikely to be a handle.
const spread = 0x9e3779b97f4a7c15

func newHandle(v opened) C.uint64_t {
	id := issued.Add(1) * spread
	handles.Store(id, v)
	return C.uint64_t(id)
}

// dropHandle makes a handle invalid.
func dropHandle(id C.uint64_t) { handles.Delete(uint64(id)) }

// An opened is what a handle stands for.
type opened interface{ ofCache() *cache }

// resolve returns what a handle stands for.
func resolve[T opened](kind string, id C.uint64_t) (v T, err error) {
	value, _ := handles.Load(uint64(id))
	v, ok := value.(T)
	if !ok {
		return v, fmt.Errorf("%s: %w: %#x", kind, errInvalidHandle, uint64(id))
	}
	return v, v.ofCache().checkCaller()
}

// withHandle calls do with what a handle stands for.
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
