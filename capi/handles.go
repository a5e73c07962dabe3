package main

// #include "host.h"
import "C"

import (
	"fmt"
	"sync"
)

// A handleTable gives numbers to what the host holds. A number is never given twice, so that a stale one is always
// known from a valid one.
type handleTable struct {
	mu     sync.RWMutex
	live   map[uint64]any
	issued uint64
}

// handles has the caches and sessions that are open. Its lock is held only to look something up.
var handles = handleTable{live: map[uint64]any{}}

// spread is odd, so that multiplying by it makes other numbers of other numbers, and far apart: one that the host never
// got, or counted up, is most unlikely to be a handle.
const spread = 0x9e3779b97f4a7c15

func (t *handleTable) add(v any) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.issued++
	id := t.issued * spread
	t.live[id] = v
	return id
}

func (t *handleTable) get(id uint64) any {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.live[id]
}

// remove makes a handle invalid.
func (t *handleTable) remove(id uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.live, id)
}

// An opened is what a handle stands for.
type opened interface{ ofCache() *cache }

// resolve returns what a handle stands for.
func resolve[T opened](what string, id C.uint64_t) (v T, err error) {
	v, known := handles.get(uint64(id)).(T)
	if !known {
		return v, fmt.Errorf("%s: %w: %#x", what, errInvalidHandle, uint64(id))
	}
	return v, v.ofCache().checkCaller()
}

// with calls do with what a handle stands for.
func with[T opened](what string, id C.uint64_t, do func(T) error) C.xpwc_status {
	v, err := resolve[T](what, id)
	if err != nil {
		return call(nil, func() error { return err })
	}
	return call(v.ofCache().host, func() error { return do(v) })
}

func withCache(handle C.xpwc_cache, do func(*cache) error) C.xpwc_status {
	return with("cache", handle.id, do)
}

func withSession(handle C.xpwc_session, do func(*session) error) C.xpwc_status {
	return with("session", handle.id, do)
}
