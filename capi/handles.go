package main

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

// remove makes a handle invalid.
func (t *handleTable) remove(id uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.live, id)
}

// resolve returns what a handle stands for.
func resolve[T any](t *handleTable, id uint64) (T, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	v, ok := t.live[id].(T)
	if !ok {
		return v, fmt.Errorf("%w: %#x", errInvalidHandle, id)
	}
	return v, nil
}
